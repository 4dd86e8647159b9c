"""A round follows from its seed, and what is recorded of it is what is read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.chaos import plan
from kwire.conformance.chaos.history import History, Recorder, Type
from kwire.conformance.chaos.plan import FaultKind

ALL = list(FaultKind)


def test_a_seed_is_a_round() -> None:
    again = [plan.draw(seed, ALL, ["plain"]) for seed in range(50)]
    assert again == [plan.draw(seed, ALL, ["plain"]) for seed in range(50)]
    assert len({str(each.faults) for each in again}) == 50


def test_a_workload_more_leaves_the_faults_as_they_were() -> None:
    for seed in range(20):
        one, two = (plan.draw(seed, ALL, names) for names in (["plain"], ["plain", "bank"]))
        assert (one.faults, one.broker_settings) == (two.faults, two.broker_settings)


@pytest.mark.parametrize("kind", ALL)
def test_faults_of_one_kind(kind: FaultKind) -> None:
    drawn = [plan.draw(seed, [kind], ["plain"]) for seed in range(20)]
    assert {fault.kind for each in drawn for fault in each.faults} == {kind}


def test_all_kinds_come_up() -> None:
    drawn = [plan.draw(seed, ALL, ["plain"]) for seed in range(50)]
    assert {fault.kind for each in drawn for fault in each.faults} == set(ALL)
    assert max(each.partitions for each in drawn) > 1


def test_a_history_is_read_as_it_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path)
    first = recorder.invoke("p", "produce", partition="t-0", number=1)
    recorder.end(recorder.invoke("o", "ends"), Type.INFO, error="CLOSED")
    recorder.end(first, Type.OK, offset=7)
    recorder.invoke("q", "produce", partition="t-0", number=2)
    recorded, read = recorder.close(), History.read(path)
    assert read.events == recorded.events
    done, open_ = read.operations("produce")
    assert (done.ok, done.asked["number"], done.answered) == (True, 1, {"offset": 7})
    assert (open_.type, open_.ended_ns) == (Type.INFO, None)
    assert [each.type for each in read.operations("ends")] == [Type.INFO]
