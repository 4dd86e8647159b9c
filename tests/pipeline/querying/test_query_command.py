"""`kwire pipeline query`: its options, and its output as lines or as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from click.testing import CliRunner

from kwire import pipeline
from kwire.cli.app import app
from kwire.cli.pipeline import query
from kwire.cli.pipeline.job import NO_EXTENSIONS, SparkJob, settings_of_spark
from kwire.cli.pipeline.rows import Rows, apart, cell
from kwire.pipeline import Form, Kafka, PipelineError, SparkOptions, View
from kwire.testing import BrokerProcess
from tests.pipeline.querying.queries import as_json, consumed, produce, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def options(*words: str) -> dict[str, object]:
    """The options that click parses from a command line."""
    context = query.command.make_context("query", ["SELECT 1", *words])
    return context.params


def views(*words: str) -> dict[str, View]:
    return query._views(options(*words))


def test_options_apply_to_all_topics_or_to_one(tmp_path: Path) -> None:
    (tmp_path / "w.avsc").write_text('"double"')
    found = views(
        "--format", "weather=avro", "--schema", f"weather=@{tmp_path}/w.avsc",
        "--schema", "id INT, at TIMESTAMP", "--key-format", "log=binary", "-f", "log=text",
        "--table", "planes", "-w", "my.orders.ts='10 minutes'",
    )  # fmt: skip
    everything = Form("json", "id INT, at TIMESTAMP")
    assert found == {
        "": View(everything),
        "weather": View(Form("avro", '"double"')),
        "log": View(Form("text"), key=Form("binary")),
        "planes": View(everything, table=True),
        "my.orders": View(everything, watermark=("ts", "10 minutes")),
    }


def test_query_ends_unless_it_is_continuous() -> None:
    for words, once in ((), True), (("--once",), True), (("--continuous",), False):
        job = SparkJob("query", Kafka("b:9092"), SparkOptions(), as_json=False, quiet=True)
        assert query._query(job, options(*words), rows=Rows(as_lines=True)).once is once


def test_spark_looks_for_extensions_only_if_the_user_adds_jars_or_asks_for_it() -> None:
    assert settings_of_spark({"spark.x": "1"}) == NO_EXTENSIONS | {"spark.x": "1"}
    asked = dict.fromkeys(NO_EXTENSIONS, "true")
    for given in (asked, {"spark.jars": "a.jar"}, {"spark.jars.packages": "a:b:1"}):
        assert settings_of_spark(given) == given


def test_start_of_a_stream_is_parsed() -> None:
    assert query.starting("latest") == "latest"
    assert query.starting("2026-03-01T12:00") == 1_772_366_400_000
    assert query.starting('{"orders": {"0": 12, "1": -2}}') == {"orders": {0: 12, 1: -2}}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--to", "t"], "needs a checkpoint directory"),
        (["--to", "t", "--to-parquet", "d"], "give one of --to and --to-parquet"),
        (["-f", "t=xml"], "'xml' is none of json, avro"),
        (["-f", "t=avro"], "give the Avro schema"),
        (["-s", "t=@/no/such"], "cannot be read"),
        (["-w", "ts=1 day"], "is not like orders.ts='10 minutes'"),
        (["--from", "yesterday"], "is not a time like"),
        (["--from", "{]"], "is not like {"),
        (["--dead-letter", "d"], "dead letters need a checkpoint"),
        (["--every", "10s"], "--every goes with --continuous"),
        (["--once", "--continuous"], "two different things"),
    ],
)
def test_invalid_command_line_is_refused_with_a_reason(words: list[str], complaint: str) -> None:
    done = CliRunner().invoke(app, ["pipeline", "query", "SELECT * FROM t", *words])
    assert done.exit_code == 2, done.output
    assert complaint in " ".join(done.output.split())


def test_missing_broker_is_reported_before_java_starts(nobody: str) -> None:
    words = ["pipeline", "query", "SELECT * FROM t", "-b", nobody]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert f"nothing answers on {nobody}" in done.output
    assert "starting Spark" not in done.output


@pytest.mark.slow  # a client asks the broker, and Java its version: 0.3 s
def test_command_starts_spark_with_the_number_of_records_that_it_reads(
    shared_broker: BrokerProcess, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = shared_broker.bootstrap
    produce(at, unique, [(None, "{}")] * 7)
    started: list[SparkOptions] = []

    def session(name: str, options: SparkOptions) -> NoReturn:
        started.append(options)
        raise PipelineError("no Spark here")

    monkeypatch.setattr(pipeline, "session", session)
    for more in ([], ["--continuous"]):
        words = ["pipeline", "query", f"SELECT * FROM `{unique}`", "-b", at, *more]
        assert "no Spark here" in CliRunner().invoke(app, words).output
    assert [options.records for options in started] == [7, None]


def test_equal_column_names_of_a_join_are_numbered() -> None:
    assert apart(["year", "_key", "Year", "_key", "_key"]) == [
        *("year", "_key", "Year_2", "_key_2", "_key_3")
    ]


def test_table_cells_are_formatted() -> None:
    day = {"start": "2013-01-01T00:00:00.000Z", "end": "2013-01-02T06:30:00.000Z"}
    assert cell(day) == "2013-01-01 00:00 - 2013-01-02 06:30"
    assert [cell(v) for v in (None, 3, 2.5, "text", True)] == [None, 3, "2.5", "text", "true"]
    assert cell([{"key": "é"}]) == '[{"key": "é"}]'


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # PySpark's own
def test_query_command_writes_a_topic_and_a_json_summary(
    spark: SparkSession, bootstrap: str, unique: str, tmp_path: Path
) -> None:
    flights = table("flights", 3_000)
    produce(bootstrap, unique, as_json(flights, "carrier"))
    sql = f"SELECT carrier, dest, arr_delay FROM `{unique}` WHERE arr_delay > 60"
    words = ["pipeline", "query", sql, "-b", bootstrap]
    words += ["--to", f"{unique}-late", "--checkpoint", str(tmp_path), "--json"]
    words += ["--steps", str(tmp_path / "steps.jsonl")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    late = [row for row in flights if (row["arr_delay"] or 0) > 60]
    summary = json.loads(done.stdout)
    assert (summary["job"], summary["mode"], summary["records"]) == (
        "query",
        "append",
        len(flights),
    )
    assert summary["schemas"][unique].startswith("struct<air_time:bigint,")
    found = [json.loads(m.value() or b"") for m in consumed(bootstrap, f"{unique}-late", len(late))]
    steps = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert sum(step["records"] for step in steps) == len(flights)
    assert [step["lag"] for step in steps] == [0]
    assert found == [{k: row[k] for k in ("carrier", "dest", "arr_delay")} for row in late]
