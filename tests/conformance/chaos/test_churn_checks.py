"""Tests the checks of share groups and of word counts."""

from __future__ import annotations

import pytest

from kwire.conformance.chaos.checks import violations
from kwire.conformance.chaos.checks.answers import errors_are_kafkas, everybody_is_answered
from kwire.conformance.chaos.checks.counts import COUNT_CHECKS
from kwire.conformance.chaos.checks.shares import SHARE_CHECKS
from kwire.conformance.chaos.history import Type
from tests.conformance.chaos.script import GROUP, TP, Script

OK, INFO, FAIL = Type.OK, Type.INFO, Type.FAIL
LIMIT = 3


def kinds(script: Script, lag: int = 0) -> set[str]:
    arguments = {"group": GROUP, "limit": LIMIT}
    script.do("judge", "share_end", arguments, partitions=[(TP, lag)])
    return {violation.kind for violation in violations(script.history, SHARE_CHECKS)}


def deliver(script: Script, *records: tuple[int, int], to: str = "m") -> None:
    """Add a delivery of records, each (offset, count)."""
    script.do(to, "deliver", {"group": GROUP}, records=[(TP, *each) for each in records])


def acknowledge(
    script: Script, *records: tuple[int, int, str], type_: Type = OK, member: str = "m"
) -> None:
    """Add an acknowledgement of records, each (offset, count, what)."""
    arguments = {"group": GROUP, "partition": TP, "records": list(records)}
    script.do(member, "acknowledge", arguments, type_)


def one_record() -> Script:
    script = Script()
    script.log((0, "p", 0))
    return script


def test_checks_find_nothing_in_a_correct_history() -> None:
    script = Script()
    script.log((0, "p", 0), (1, "p", 1), (2, None, None), (3, "p", 2))
    deliver(script, (0, 1), (1, 1), (3, 1))
    acknowledge(script, (0, 1, "accept"), (1, 1, "reject"), (3, 1, "release"))
    for count in (2, 3):
        deliver(script, (3, count))
        acknowledge(script, (3, count, "release"))
    assert kinds(script) == set(), "two accepted, a marker, one at its delivery limit"


def test_record_that_ends_twice_is_a_violation() -> None:
    script = one_record()
    deliver(script, (0, 1))
    deliver(script, (0, 2), to="n")
    acknowledge(script, (0, 2, "accept"), member="n")
    acknowledge(script, (0, 1, "accept"))
    assert kinds(script) == set(), "a late acknowledgement before the start offset is allowed"
    acknowledge(script, (0, 2, "reject"), member="o")
    assert kinds(script) == {"done twice"}


def test_delivery_after_the_end_of_a_record_is_a_violation() -> None:
    script = one_record()
    deliver(script, (0, 1))
    acknowledge(script, (0, 1, "accept"))
    deliver(script, (0, 1), to="paused")
    assert kinds(script) == set(), "the record was delivered before its end"
    deliver(script, (0, 2), to="n")
    assert kinds(script) == {"delivered again"}


@pytest.mark.parametrize("count", [0, LIMIT + 1])
def test_delivery_count_outside_the_limit_is_a_violation(count: int) -> None:
    script = one_record()
    deliver(script, (0, count))
    acknowledge(script, (0, count, "accept"))
    assert kinds(script) == {"delivery count"}


def test_record_without_an_end_is_a_violation() -> None:
    script = one_record()
    deliver(script, (0, 1))
    acknowledge(script, (0, 1, "release"))
    assert kinds(script) == {"lost to all"}


def test_record_with_an_unknown_acknowledgement_may_have_ended() -> None:
    script = one_record()
    deliver(script, (0, 1))
    acknowledge(script, (0, 1, "accept"), type_=INFO)
    assert kinds(script) == set()


def test_refused_acknowledgement_does_not_end_a_record() -> None:
    script = one_record()
    deliver(script, (0, 1))
    acknowledge(script, (0, 1, "accept"), type_=FAIL)
    assert kinds(script) == {"lost to all"}


def test_lag_at_the_end_is_a_violation() -> None:
    script = one_record()
    deliver(script, (0, 1))
    acknowledge(script, (0, 1, "accept"))
    assert kinds(script, lag=1) == {"left"}


@pytest.mark.parametrize(
    ("updates", "count"),
    [
        ({"a": [1, 2], "b": [1]}, 0),
        ({"a": [1], "b": [1]}, 1),
        ({"a": [1, 2]}, 1),
        ({"a": [1, 1, 2], "b": [1]}, 1),
        ({"a": [2, 1], "b": [1], "c": [1]}, 2),
    ],
)
def test_word_counts_must_be_updated_one_by_one(updates: dict[str, list[int]], count: int) -> None:
    script = Script()
    script.do("judge", "words", {}, counts={"a": 2, "b": 1})
    script.do("judge", "counted", {}, updates=updates)
    assert len(violations(script.history, COUNT_CHECKS)) == count


def test_silence_during_a_start_is_no_violation() -> None:
    script = Script()
    fault = script.begin("nemesis", "fault", kind="kill")
    script.do("o", "committed", {"group": GROUP}, INFO, error="SILENT")
    script.end(fault)
    assert violations(script.history, [errors_are_kafkas]) == []
    script.do("o", "committed", {"group": GROUP}, INFO, error="SILENT")
    assert len(violations(script.history, [errors_are_kafkas])) == 1


def test_operation_of_a_killed_member_may_have_no_end() -> None:
    script = Script()
    script.begin("m-1", "commit")
    script.begin("m-2", "commit")
    script.do("nemesis", "kill_member", {"member": "m-2"})
    [violation] = violations(script.history, [everybody_is_answered])
    assert violation.kind == "no answer"
    assert "m-1" in violation.text
