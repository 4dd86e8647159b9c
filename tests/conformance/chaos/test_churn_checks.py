"""What the checks of share groups and of counts find, and that they find nothing in sound ones."""

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
    asked = {"group": GROUP, "limit": LIMIT}
    script.do("judge", "share_end", asked, partitions=[(TP, lag)])
    return {violation.kind for violation in violations(script.history, SHARE_CHECKS)}


def deliver(script: Script, *records: tuple[int, int], to: str = "m") -> None:
    """(offset, count) each."""
    script.do(to, "deliver", {"group": GROUP}, records=[(TP, *each) for each in records])


def say(
    script: Script, *records: tuple[int, int, str], type_: Type = OK, member: str = "m"
) -> None:
    """(offset, count, what) each."""
    asked = {"group": GROUP, "partition": TP, "records": list(records)}
    script.do(member, "acknowledge", asked, type_)


def one_record() -> Script:
    script = Script()
    script.log((0, "p", 0))
    return script


def test_a_sound_history() -> None:
    script = Script()
    script.log((0, "p", 0), (1, "p", 1), (2, None, None), (3, "p", 2))
    deliver(script, (0, 1), (1, 1), (3, 1))
    say(script, (0, 1, "accept"), (1, 1, "reject"), (3, 1, "release"))
    for count in (2, 3):
        deliver(script, (3, count))
        say(script, (3, count, "release"))
    assert kinds(script) == set(), "done with, done with, a marker, at its limit"


def test_what_is_done_with_twice() -> None:
    script = one_record()
    deliver(script, (0, 1))
    deliver(script, (0, 2), to="n")
    say(script, (0, 2, "accept"), member="n")
    say(script, (0, 1, "accept"))
    assert kinds(script) == set(), "who was paused speaks of a record before the start offset"
    say(script, (0, 2, "reject"), member="o")
    assert kinds(script) == {"done twice"}


def test_what_is_delivered_once_it_is_done_with() -> None:
    script = one_record()
    deliver(script, (0, 1))
    say(script, (0, 1, "accept"))
    deliver(script, (0, 1), to="paused")
    assert kinds(script) == set(), "it had it from before"
    deliver(script, (0, 2), to="n")
    assert kinds(script) == {"delivered again"}


@pytest.mark.parametrize("count", [0, LIMIT + 1])
def test_a_delivery_that_may_not_be(count: int) -> None:
    script = one_record()
    deliver(script, (0, count))
    say(script, (0, count, "accept"))
    assert kinds(script) == {"delivery count"}


def test_a_record_that_nobody_is_done_with() -> None:
    script = one_record()
    deliver(script, (0, 1))
    say(script, (0, 1, "release"))
    assert kinds(script) == {"lost to all"}


def test_a_record_that_somebody_may_be_done_with() -> None:
    script = one_record()
    deliver(script, (0, 1))
    say(script, (0, 1, "accept"), type_=INFO)
    assert kinds(script) == set()


def test_who_was_refused_is_not_done_with_it() -> None:
    script = one_record()
    deliver(script, (0, 1))
    say(script, (0, 1, "accept"), type_=FAIL)
    assert kinds(script) == {"lost to all"}


def test_what_the_broker_still_has() -> None:
    script = one_record()
    deliver(script, (0, 1))
    say(script, (0, 1, "accept"))
    assert kinds(script, lag=1) == {"left"}


@pytest.mark.parametrize(
    ("updates", "found"),
    [
        ({"a": [1, 2], "b": [1]}, 0),
        ({"a": [1], "b": [1]}, 1),
        ({"a": [1, 2]}, 1),
        ({"a": [1, 1, 2], "b": [1]}, 1),
        ({"a": [2, 1], "b": [1], "c": [1]}, 2),
    ],
)
def test_counts(updates: dict[str, list[int]], found: int) -> None:
    script = Script()
    script.do("judge", "words", {}, counts={"a": 2, "b": 1})
    script.do("judge", "counted", {}, updates=updates)
    assert len(violations(script.history, COUNT_CHECKS)) == found


def test_a_broker_that_starts_may_be_silent_for_long() -> None:
    script = Script()
    fault = script.begin("nemesis", "fault", kind="kill")
    script.do("o", "committed", {"group": GROUP}, INFO, error="SILENT")
    script.end(fault)
    assert violations(script.history, [errors_are_kafkas]) == []
    script.do("o", "committed", {"group": GROUP}, INFO, error="SILENT")
    assert len(violations(script.history, [errors_are_kafkas])) == 1


def test_nobody_waits_for_who_was_killed() -> None:
    script = Script()
    script.begin("m-1", "commit")
    script.begin("m-2", "commit")
    script.do("nemesis", "kill_member", {"member": "m-2"})
    [found] = violations(script.history, [everybody_is_answered])
    assert found.kind == "no answer"
    assert "m-1" in found.text
