"""Tests blocks of benchmarks: the file that keeps them, interrupted runs, and their sections."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from kwire.conformance.bench.blocks import sections
from kwire.conformance.bench.blocks.file import BlockFile, DamagedBlocks
from kwire.conformance.bench.blocks.sections import BenchPlan, MeasuredBrokers, RawSockets, Start
from kwire.conformance.bench.brokers import Kwire
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import Series
from kwire.conformance.bench.rows import Figure

FACTS = {"cores": "2"}
PLAN = BenchPlan(frozenset({"tiny1", "latency"}), 1.0, 3, 1.0, quick=False, floor=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "blocks.jsonl"


def opened(path: Path, commit: str = "abc", options: str = "{}") -> BlockFile:
    return BlockFile(path, commit, FACTS, options)


def test_kept_block_is_found_only_with_its_commit_machine_and_options(path: Path) -> None:
    opened(path).add("tiny1", [1.5])
    again = opened(path)
    assert "tiny1" in again
    assert again.outcome("tiny1") == [1.5]
    for other in (
        opened(path, commit="def"),
        opened(path, options='{"rounds": 1}'),
        BlockFile(path, "abc", {"cores": "4"}, "{}"),
    ):
        assert "tiny1" not in other
        assert other.others == 1


def test_line_that_a_kill_cut_off_is_measured_again(path: Path) -> None:
    file = opened(path)
    file.add("tiny1", 1)
    file.add("tiny5", 2)
    path.write_bytes(path.read_bytes()[:-20])
    again = opened(path)
    assert "tiny5" not in again
    again.add("latency", 3)
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == [
        "tiny1",
        "latency",
    ]


def test_damaged_line_is_refused_with_its_number(path: Path) -> None:
    opened(path).add("tiny1", 1)
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(DamagedBlocks, match=r"line 1 of .* remove it"):
        opened(path)


def test_forgotten_blocks_leave_those_of_other_commits(path: Path) -> None:
    opened(path, commit="def").add("tiny1", 1)
    file = opened(path)
    file.add("tiny1", 2)
    file.add("latency", 3)
    file.forget(["tiny1", "none"])
    again = opened(path)
    assert "tiny1" not in again
    assert "latency" in again
    assert opened(path, commit="def").outcome("tiny1") == 1


def test_head_of_a_report_says_in_how_many_runs_its_blocks_were_measured(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, key in enumerate(("a", "b", "c")):
        monkeypatch.setattr(
            "kwire.conformance.bench.blocks.file.now_utc", lambda at=number: f"2026-01-01T00:0{at}"
        )
        opened(path).add(key, 0)
    facts = dict(opened(path).facts(["a", "b", "missing"]))
    assert facts["kwire's sources"] == "abc"
    assert facts["measured"] == "2026-01-01 00:00 to 2026-01-01 00:01 UTC, in 2 runs"


def a_series(key: str) -> Series:
    series = Series(key, f"row {key}", Figure("requests", "req/s", target=1.2), 1.2)
    series.add("kwire", 10.0)
    return series


def test_interrupted_run_continues_with_the_rows_that_are_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    failing = {"latency"}

    def measure(self: object, key: str, *_: object) -> list[Series]:
        if key in failing:
            raise RequestFailed("interrupted")
        measured.append(key)
        return [a_series(key)]

    monkeypatch.setattr(RawSockets, "measure", measure)
    contest = MeasuredBrokers([], path)
    with pytest.raises(RequestFailed):
        sections.measure(PLAN, contest, opened(path), print)
    assert [each.series for each in sections.sections(PLAN, contest, opened(path))] == [
        [a_series("tiny1")]
    ]
    failing.clear()
    sections.measure(PLAN, contest, opened(path), print)
    assert measured == ["tiny1", "latency"]
    (section,) = sections.sections(PLAN, contest, opened(path))
    assert section.series == [a_series("tiny1"), a_series("latency")]
    assert section.heading == RawSockets.heading


def test_memory_after_load_is_the_largest_at_the_end_of_a_row(path: Path, tmp_path: Path) -> None:
    plan = BenchPlan(PLAN.only | {"start"}, 1.0, 3, 1.0, quick=False, floor=False)
    file = opened(path)
    for key, size in (("start", None), ("tiny1", 60.0), ("latency", 50.0)):
        memory = {} if size is None else {"kwire": size}
        file.add(key, {"series": [asdict(a_series(key))], "memory_mb": memory})
    found = sections.sections(plan, MeasuredBrokers([Kwire(tmp_path / "kwire")], tmp_path), file)
    assert found[0].heading == Start.heading
    assert [series.values for series in found[0].series] == [{"kwire": [10.0]}, {"kwire": [60.0]}]


def test_each_block_of_a_whole_run_has_a_key_of_its_own() -> None:
    whole = BenchPlan(frozenset(), 1.0, 7, 1.0, quick=False, floor=True)
    quick = BenchPlan(frozenset(), 1.0, 7, 1.0, quick=True, floor=True)
    contest = MeasuredBrokers([], Path())
    keys = sections.keys_of(whole, contest)
    assert len(keys) == len(set(keys))
    assert set(sections.keys_of(quick, contest)) == set(RawSockets.parts)
