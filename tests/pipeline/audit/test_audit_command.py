"""`kwire pipeline audit` and `compare`: their output, files and exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from kwire.cli.app import app
from kwire.cli.grammar.statuses import EXIT_FOUND, EXIT_NOT_CHECKED
from kwire.cli.pipeline.findings import duration_ms, finish
from kwire.cli.pipeline.job import SparkJob
from kwire.pipeline import Kafka, SparkOptions
from kwire.pipeline.audit.report import Finding, Report
from kwire.pipeline.demo import flights
from kwire.testing import BrokerProcess
from tests.pipeline.audit.planted import Planter, at, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 1500
EVERY = 100
"""Of the flights every hundredth."""

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's own
]


def produce_flights(bootstrap: str, topic: str) -> int:
    """Produce the flights, keyed by carrier; their number."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    made = [flights.encode(row) for row in flights.rows(EVERY)]
    for key, value in made:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0
    return len(made)


Run = Callable[..., Result]


def runner(bootstrap: str) -> Run:
    """Runs commands in this process, on its Spark session: run("audit", "t", status=1)."""

    def run(*words: str, status: int = 0) -> Result:
        environment = {"KWIRE_BOOTSTRAP_SERVERS": bootstrap}
        done = CliRunner().invoke(app, ["pipeline", *words], prog_name="kwire", env=environment)
        assert done.exit_code == status, done.output
        return done

    return run


@pytest.fixture
def kwire(spark: SparkSession, bootstrap: str) -> Run:
    return runner(bootstrap)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_examples_of_the_help_work(
    broker: BrokerProcess, spark: SparkSession, tmp_path: Path
) -> None:
    """The first example runs in a separate process; it prints a table and writes a page."""
    count = produce_flights(broker.bootstrap, "orders")
    produce_flights(broker.bootstrap, "payments")
    produce_flights(broker.bootstrap, "orders-copy")
    kwire = runner(broker.bootstrap)
    first, second = examples(kwire("audit", "--help").output)
    done = subprocess.run(
        [sys.executable, "-m", "kwire.cli", *first.split()[1:], "--master", "local[2]"],
        capture_output=True,
        text=True,
        env=os.environ | {"KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap},
        cwd=tmp_path,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert lines["orders"][2] == lines["payments"][2] == str(count)
    assert lines["orders"][-1] == "lz4"
    assert "nothing was found; audit.html has the report" in done.stderr
    page = (tmp_path / "audit.html").read_text()
    assert page.count("<svg") >= 2 * 3
    words = second.split()[2 : second.split().index(">")]
    report = json.loads(kwire(*words, status=EXIT_FOUND).stdout)
    assert [finding["kind"] for finding in report["findings"]] == ["no-identity"]
    copy, _ = examples(kwire("compare", "--help").output)
    errors = kwire(*copy.split()[2:], "--ignore", "timestamp").stderr
    assert "nothing was found" in errors


def examples(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("    kwire pipeline")]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_json_report_has_the_figures_of_the_flights(
    kwire: Run, bootstrap: str, unique: str
) -> None:
    count = produce_flights(bootstrap, unique)
    words = ("--json", "--identity", "json:$.flight", "--batches", "all")
    report = json.loads(kwire("audit", unique, *words, status=EXIT_FOUND).stdout)
    [topic] = report["topics"]
    made = [flights.encode(row) for row in flights.rows(EVERY)]
    assert sum(p["records"] for p in topic["partitions"]) == count == len(made)
    assert topic["keys"]["distinct"] == len({key for key, _ in made})
    assert dict(topic["keys"]["top"])["UA"] == sum(key == b"UA" for key, _ in made)
    numbers = [json.loads(value)["flight"] for _, value in made]
    assert topic["identities"]["extra"] == len(numbers) - len(set(numbers))
    [codec] = topic["batches"]["codecs"]
    assert (codec["name"], codec["records"]) == ("lz4", count)
    assert codec["ratio"] > 1
    assert [finding["kind"] for finding in report["findings"]] == ["duplicate-identity"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_exit_status_follows_the_worst_finding(kwire: Run, bootstrap: str, tmp_path: Path) -> None:
    to = Planter(bootstrap)
    to.create("back", 1)
    made = records(to.now_ms, 50, partitions=1)
    made = at(made, 20, timestamp_ms=made[0].timestamp_ms - 180_000)
    to.put("back", at(made, 40, timestamp_ms=made[0].timestamp_ms - 600_000))
    name = to.name("back")
    found = kwire("audit", name, "--back", "5m", status=EXIT_FOUND)
    assert "disorder" in found.stdout
    assert "key-40" in found.stdout
    assert "key-20" not in found.stdout
    page = tmp_path / "compare.html"
    to.create("same", 1)
    to.put("same", records(to.now_ms, 50, partitions=1))
    differs = kwire("compare", name, to.name("same"), "--html", str(page), status=EXIT_FOUND)
    assert "changed" in differs.stdout
    assert "key-40" in page.read_text()


@pytest.mark.parametrize(
    ("worst", "fail_on", "status"),
    [
        ("info", "info", EXIT_FOUND),
        ("info", "warning", 0),
        ("warning", "warning", EXIT_FOUND),
        ("warning", "error", 0),
        ("error", "warning", EXIT_FOUND),
        ("error", "never", 0),
        (None, "info", 0),
    ],
)
def test_fail_on_selects_the_severity_that_fails(
    worst: str | None, fail_on: str, status: int
) -> None:
    found = [Finding("gap", worst, "t", 1, "offsets are missing")] if worst else []
    report = Report("localhost:9092", 0, 0.1, [], found)
    job = SparkJob("audit", Kafka("localhost:9092"), SparkOptions(), as_json=False, quiet=True)
    ended = CliRunner().invoke(
        click.Command("audit", callback=partial(finish, job, report, None, fail_on))
    )
    assert ended.exit_code == status


@pytest.mark.spark
@pytest.mark.slow
def test_failed_audit_has_its_own_exit_status(kwire: Run, unique: str, nobody: str) -> None:
    errors = kwire("audit", unique, status=EXIT_NOT_CHECKED).stderr
    assert f"has no topic {unique}" in errors
    soon = ("--kafka", "default.api.timeout.ms=1500", "--kafka", "request.timeout.ms=1000")
    for words in (("audit", unique), ("compare", unique, "other")):
        errors = kwire(*words, "-b", nobody, *soon, status=EXIT_NOT_CHECKED).stderr
        assert nobody in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["audit"], "name topics, or give a pattern"),
        (["audit", "t", "--identity", "id"], "not like header:NAME or json:$.path"),
        (["audit", "t", "--back", "soon"], "not a duration like"),
        (["audit", "t", "--fail-on", "bad"], "'bad' is not one of"),
        (["audit", "t", "--steps", "steps.jsonl"], "No such option"),
        (["compare"], "Missing argument 'TOPIC'"),
        (["compare", "t"], "would be compared with itself"),
        (["compare", "a", "b", "--ignore", "size"], "'size' is not one of"),
    ],
)
def test_invalid_command_line_is_refused_with_a_reason(words: list[str], complaint: str) -> None:
    assert complaint in runner("localhost:1")(*words, status=2).stderr


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("1.5h", 5_400_000), ("7d", 604_800_000), ("10ms", 10)]
)
def test_durations_are_parsed_to_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
