"""Tests the benchmark's frames, checks and figures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.codecs.messages.fetch import FetchRequest, FetchResponse
from kwire.codecs.messages.produce import ProduceRequest, ProduceResponse
from kwire.conformance.bench import crowd, frames, load, metered, report
from kwire.conformance.bench.against import PROCESSOR, EarlierKwire, turn
from kwire.conformance.bench.brokers import Floor, Kwire, running
from kwire.conformance.bench.measure import Series, figures_from_the_start
from kwire.conformance.bench.rows import ROWS, Figure

HEADER_BYTES = 4 + 2 + 2 + 4 + 2 + len(b"bench") + 1


def test_prepared_produce_decodes_as_a_produce_request() -> None:
    batch = frames.batch(3, 100)
    frame = frames.produce("flights", 7, batch)
    request = ProduceRequest.decode(frame.data, 12, HEADER_BYTES)
    assert int.from_bytes(frame.data[:4]) == len(frame.data) - 4
    assert (request.acks, request.topic_data[0].name) == (1, "flights")
    partition = request.topic_data[0].partition_data[0]
    assert partition.index == 7
    assert partition.records == batch


def test_prepared_fetch_has_its_offset_at_the_given_position() -> None:
    prepared = frames.fetch("flights", 3, max_wait_ms=500, max_bytes=1000)
    data = bytearray(prepared.data)
    frames.OFFSET.pack_into(data, prepared.offset_pos, 1234567)
    request = FetchRequest.decode(data, 12, HEADER_BYTES)
    partition = request.topics[0].partitions[0]
    assert (request.topics[0].topic, partition.partition) == ("flights", 3)
    assert (partition.fetch_offset, partition.partition_max_bytes) == (1234567, 1000)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1000)


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    broker = Floor(tmp_path / "floor")
    with running(broker):
        yield broker


@pytest.mark.slow
def test_floor_answers_produce_and_fetch(floor: Floor) -> None:
    batch = frames.batch(2, 50)
    produced = load.ask(floor.address, frames.produce("any", 0, batch))
    reply = ProduceResponse.decode(produced, 12, 4 + 4 + 1)
    assert reply.responses[0].partition_responses[0].base_offset == 0
    load.ask(floor.address, frames.produce("any", 0, batch))
    fetched = load.ask(floor.address, frames.fetch("any", 0, max_wait_ms=0, max_bytes=1000))
    partition = FetchResponse.decode(fetched, 12, 4 + 4 + 1).responses[0].partitions[0]
    assert partition.high_watermark == 4
    assert isinstance(partition.records, memoryview)
    assert len(partition.records) == 2 * len(batch)


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 5])
def test_load_generator_counts_answered_requests(floor: Floor, in_flight: int) -> None:
    batch = frames.batch(3, 50)
    sample = load.produce(floor.address, "any", batch, 0.1, in_flight=in_flight, records_count=3)
    assert sample.requests > 0
    assert sample.size_bytes == sample.requests * len(batch)
    assert (sample.p50_us is not None) == (in_flight == 1)


@pytest.mark.slow
def test_load_generator_refuses_an_unexpected_offset(floor: Floor) -> None:
    with pytest.raises(frames.RequestFailed, match="offset"):
        load.produce(floor.address, "any", frames.batch(3, 50), 0.1, records_count=2)


def test_load_generator_refuses_an_error_code() -> None:
    reply = bytes.fromhex("00000034 00000000 00 02 0274 02 00000000 0006") + bytes(40)
    with pytest.raises(frames.RequestFailed, match="error code 6"):
        frames.ProduceReply("t", reply)


def series(target: float | None = None, limit: float | None = None) -> Series:
    latency = Figure("p50", "µs", more_is_better=False)
    latencies = Series("latency", "latency", latency, target, limit)
    for ours, theirs in [(50.0, 100.0), (100.0, 100.0), (40.0, 120.0)]:
        latencies.add("kwire", ours)
        latencies.add("peer", theirs)
    return latencies


def test_ratio_is_computed_for_each_round() -> None:
    assert series().ratios("kwire", "peer") == [2.0, 1.0, 3.0]


@pytest.mark.parametrize(
    ("target", "limit", "met"),
    [(2.0, None, True), (2.1, None, False), (None, 50.0, True), (None, 49.0, False)],
)
def test_series_meets_its_target_or_limit(
    target: float | None, limit: float | None, met: bool
) -> None:
    assert series(target, limit).met("kwire", "peer") is met


def test_report_has_median_spread_and_result() -> None:
    sections = [report.Section("Warm", "note", [series(target=2.0)])]
    text = report.markdown(sections, [("cores", "2")], "how", "peer")
    assert "| latency | p50, µs | 50.0 (40.0-100) | 100 (100-120) | 2.00 (1.00-3.00)" in text
    assert "| ≥ 2 x | yes |" in text


def test_first_seconds_have_rates_with_and_without_the_start() -> None:
    (row,) = [row for row in ROWS if row.key == "tiny1"]
    figures = {figure.name: figure.target for figure in figures_from_the_start(row)}
    assert figures == {"requests": 2.0, "p50": None, "p99": None, "requests while up": None}


@pytest.mark.slow
def test_crowd_measures_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"OPENED": 10, "IDLE": 20, "TURNS": 1, "TURN_S": 0.05, "SILENT_S": 0.0}
    for name, value in short.items():
        monkeypatch.setattr(crowd, name, value)
    broker = Kwire(tmp_path / "kwire")
    with running(broker):
        figures = crowd.crowd(broker)
    assert figures.keys() == {figure.name for figure in crowd.CROWD_FIGURES}
    assert all(figures[name] > 0 for name in figures if name != crowd.MEMORY.name)
    assert figures[crowd.OPEN.name] <= figures[crowd.SERVED.name]


@pytest.mark.slow
def test_earlier_commit_runs_from_its_own_sources(tmp_path: Path) -> None:
    broker = EarlierKwire("HEAD", tmp_path / "before")
    ask = "import kwire.cli, kwire.log, kwire.codecs as c; print(kwire.log.__file__, c.__file__)"
    paths = subprocess.run(
        [sys.executable, "-c", ask],
        env=broker.environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert paths == [f"{tmp_path}/packages/kwire/{name}/__init__.py" for name in ("log", "codecs")]
    with running(broker):
        figures = turn(ROWS[0], broker, 0.05)
    assert figures.keys() >= {figure.name for figure in ROWS[0].figures}
    assert (PROCESSOR.name in figures) == (sys.platform == "linux")


@pytest.mark.slow
def test_metered_broker_is_scraped_and_measured_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metered, "WARM_S", 0.02)
    off, on = Kwire(tmp_path / "off"), metered.MeteredKwire(tmp_path / "on")
    with running(off, on):
        scraper = metered.ScrapingProcess(on.metrics_port)
        try:
            brokers = {"before": off, "off": off, "on": on}
            series = metered.measure_row(ROWS[0], brokers, scraper, 0.05, 1, lambda text: None)
        finally:
            scraper.end()
    titles = {each.title.rpartition("; ")[2] for each in series}
    assert titles == {"metrics off", "metrics on"}
    for each in series:
        assert [len(values) for values in each.values.values()] == [1, 1]
