"""Tests that the seed determines the plan of a round, and that a history is read unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.chaos import plan
from kwire.conformance.chaos.history import History, Recorder, Type
from kwire.conformance.chaos.plan import BrokerFaultKind

ALL = list(BrokerFaultKind)


def test_same_seed_draws_the_same_plan() -> None:
    plans = [plan.draw(seed, ALL, ["plain"]) for seed in range(50)]
    assert plans == [plan.draw(seed, ALL, ["plain"]) for seed in range(50)]
    assert len({str(drawn.faults) for drawn in plans}) == 50


def test_additional_workload_does_not_change_the_faults_of_a_seed() -> None:
    for seed in range(20):
        one, two = (plan.draw(seed, ALL, names) for names in (["plain"], ["plain", "bank"]))
        assert (one.faults, one.broker_settings) == (two.faults, two.broker_settings)


@pytest.mark.parametrize("kind", ALL)
def test_plan_has_only_faults_of_the_selected_kind(kind: BrokerFaultKind) -> None:
    plans = [plan.draw(seed, [kind], ["plain"]) for seed in range(20)]
    assert {fault.kind for drawn in plans for fault in drawn.faults} == {kind}


def test_plans_of_many_seeds_have_faults_of_all_kinds() -> None:
    plans = [plan.draw(seed, ALL, ["plain"]) for seed in range(50)]
    assert {fault.kind for drawn in plans for fault in drawn.faults} == set(ALL)
    assert max(drawn.partitions for drawn in plans) > 1


def test_history_is_read_as_it_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path)
    first = recorder.invoke("p", "produce", partition="t-0", number=1)
    recorder.end(recorder.invoke("o", "ends"), Type.INFO, error="CLOSED")
    recorder.end(first, Type.OK, offset=7)
    recorder.invoke("q", "produce", partition="t-0", number=2)
    recorded, read = recorder.close(), History.read(path)
    assert read.events == recorded.events
    done, open_ = read.operations("produce")
    assert (done.ok, done.arguments["number"], done.result) == (True, 1, {"offset": 7})
    assert (open_.type, open_.ended_ns) == (Type.INFO, None)
    assert [operation.type for operation in read.operations("ends")] == [Type.INFO]
