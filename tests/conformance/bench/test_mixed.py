"""Tests the watch of a loop and the causes of its stalls, and runs the mixed load shortly."""

from __future__ import annotations

import gc
import json
import time
from pathlib import Path

import pytest
import trio

from kwire.conformance.bench.brokers import running
from kwire.conformance.bench.mixed import stalls
from kwire.conformance.bench.mixed.clients import KINDS
from kwire.conformance.bench.mixed.driving import (
    MixedBlock,
    WatchedKwire,
    measure,
    prepare,
    together,
)
from kwire.conformance.bench.mixed.report import markdown
from kwire.conformance.bench.mixed.stalls import LongPass
from kwire.conformance.bench.mixed.waits import Histogram, rounded
from kwire.conformance.bench.mixed.watched import LIMIT_MS, LoopWatch


def a_pass(wall_ms: float, cpu_ms: float, queue_ms: float = 0.0, gc_ms: float = 0.0) -> LongPass:
    stacks = [(["log/segment.py:123 create", "log/log.py:4 roll"], 3)]
    return LongPass(1.0, wall_ms, cpu_ms, queue_ms, gc_ms, stacks)


def test_watch_writes_a_pass_that_holds_the_loop_with_its_function(tmp_path: Path) -> None:
    path = tmp_path / "passes"

    def hold_the_loop() -> None:
        began = time.monotonic()
        while time.monotonic() - began < LIMIT_MS / 1000 or not watch.has_seen_pass:
            time.sleep(0.001)

    async def hold() -> None:
        await trio.lowlevel.checkpoint()
        hold_the_loop()

    with open(path, "w", buffering=1) as file, LoopWatch(file) as watch:
        trio.run(hold, instruments=[watch])
    held = [each for each in stalls.read(path) if any("hold_the" in str(s) for s in each.stacks)]
    assert len(held) == 1
    assert held[0].wall_ms >= LIMIT_MS


def test_watch_measures_the_collector_in_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "passes"

    async def collect() -> None:
        await trio.lowlevel.checkpoint()
        began = time.monotonic()
        while time.monotonic() - began < LIMIT_MS / 1000:
            gc.collect()

    with open(path, "w", buffering=1) as file, LoopWatch(file) as watch:
        trio.run(collect, instruments=[watch])
    assert max(each.gc_ms for each in stalls.read(path)) > 0
    assert watch._collecting not in gc.callbacks


def test_incomplete_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "passes"
    line = '{"at_s": 1, "wall_ms": 30, "cpu_ms": 29, "queue_ms": 0, "gc_ms": 0, "stacks": []}\n'
    path.write_text(line + line[:20])
    (only,) = stalls.read(path)
    assert (only.wall_ms, only.place) == (30, "(not seen)")


@pytest.mark.parametrize(
    ("long_pass", "cause"),
    [
        pytest.param(a_pass(30.0, 29.0), "log/segment.py create", id="code"),
        pytest.param(a_pass(30.0, 29.0, gc_ms=20.0), "garbage collection", id="collector"),
        pytest.param(a_pass(30.0, 5.0), "waiting in log/segment.py create", id="disk"),
        pytest.param(a_pass(90.0, 29.0, queue_ms=60.0), "log/segment.py create", id="queue"),
    ],
)
def test_cause_is_what_took_most_of_the_pass(long_pass: LongPass, cause: str) -> None:
    assert long_pass.cause == cause


def test_place_of_an_import_is_the_function_of_the_import_system() -> None:
    """Its file name has a space."""
    stacks = [(["<frozen importlib._bootstrap>:147 _find_spec"], 1)]
    assert LongPass(1.0, 30, 30, 0, 0, stacks).place == "<frozen importlib._bootstrap> _find_spec"


def test_causes_come_in_the_order_of_their_longest_pass() -> None:
    passes = [a_pass(40.0, 2.0), a_pass(50.0, 50.0), a_pass(30.0, 30.0)]
    first, second = stalls.by_cause(passes)
    assert (first.name, first.passes, first.total_ms) == ("log/segment.py create", 2, 80.0)
    assert second.longest.own_ms == 40.0


def test_report_leaves_out_passes_that_only_waited_for_a_processor() -> None:
    passes = [a_pass(90.0, 10.0, queue_ms=80.0), a_pass(25.0, 24.0)]
    block = MixedBlock({KINDS[0].name: Histogram.of([1_000_000] * 10)}, passes)
    text = markdown(block, 4.0, 2.0, [("measured", "in 2 runs")])
    assert "4 minutes of all kinds of clients on one broker, in blocks of 2," in text
    assert "| measured | in 2 runs |" in text
    assert "1 passes of the loop took 20 ms or more" in text.replace("\n", " ")
    assert "| produce one record | 10 | 1.00 | 1.00 | 1.00 | 1.00 |" in text
    assert "| log/segment.py create | 1 | 25.0 | 25.0 | 24.0 | 0.00 |" in text


def test_percentiles_are_over_the_requests_of_all_blocks() -> None:
    """The mean of the blocks' percentiles would be 500 ms."""
    name, ms = KINDS[0].name, 1_000_000
    slow = MixedBlock({name: Histogram.of([999 * ms] * 10)}, [a_pass(25.0, 24.0)])
    fast = MixedBlock({name: Histogram.of([ms] * 990)}, [a_pass(30.0, 29.0)])
    kept = [MixedBlock.read(json.loads(json.dumps(each.as_json()))) for each in (slow, fast)]
    both = together(kept)
    assert both.waits[name].percentiles() == (1000, 1.0, 999.0, 999.0, 999.0)
    assert [each.wall_ms for each in both.passes] == [25.0, 30.0]


@pytest.mark.parametrize(
    ("time_ns", "kept_ns"), [(7, 7), (999, 999), (1_234, 1_230), (98_765_432, 98_800_000)]
)
def test_histogram_keeps_three_digits_of_a_time(time_ns: int, kept_ns: int) -> None:
    assert rounded(time_ns) == kept_ns


@pytest.mark.long
@pytest.mark.slow
def test_mixed_load_has_requests_of_each_kind(tmp_path: Path) -> None:
    broker = WatchedKwire(tmp_path / "kwire")
    with running(broker):
        prepare(broker)
        blocks = [measure(broker, 2.0) for _ in range(2)]
    assert set(together(blocks).waits) == {kind.name for kind in KINDS}
