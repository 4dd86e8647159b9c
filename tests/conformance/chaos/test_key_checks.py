"""Tests the checks of a compacted log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.conformance.chaos.checks import violations
from kwire.conformance.chaos.checks.keys import KEY_CHECKS
from kwire.conformance.chaos.history import Type
from tests.conformance.chaos.script import TP, Script

OK, INFO = Type.OK, Type.INFO


def kinds(script: Script) -> set[str]:
    return {violation.kind for violation in violations(script.history, KEY_CHECKS)}


def put(script: Script, number: int, offset: int, *, tombstone: bool = False, key: str = "k",
        type_: Type = OK) -> None:  # fmt: skip
    arguments = {"partition": TP, "key": key, "number": number, "tombstone": tombstone}
    result = {"offset": offset} if type_ is OK else {"error": "_MSG_TIMED_OUT"}
    script.do("p", "put", arguments, type_, **result)


def read(script: Script, *records: tuple[int, str, int | None]) -> Script:
    script.do("judge", "read_keys", {"partition": TP}, start=0, end=9, records=list(records))
    return script


def written() -> Script:
    """A history of two values of key k, and a value and a tombstone of key x."""
    script = Script()
    put(script, 0, 0)
    put(script, 1, 1)
    put(script, 0, 2, key="x")
    put(script, 1, 3, key="x", tombstone=True)
    return script


@pytest.mark.parametrize(
    "records",
    [
        [(0, "k", 0), (1, "k", 1), (2, "x", 0), (3, "x", None)],
        [(1, "k", 1), (3, "x", None)],
        [(1, "k", 1)],
    ],
    ids=["as written", "cleaned", "the tombstone is gone too"],
)
def test_checks_find_nothing_in_a_correct_history(
    records: list[tuple[int, str, int | None]],
) -> None:
    assert kinds(read(written(), *records)) == set()


def test_unacknowledged_record_may_be_in_the_compacted_log_or_not() -> None:
    for records in [[(1, "k", 1)], [(1, "k", 1), (7, "k", 2)], [(7, "k", 2)]]:
        script = written()
        put(script, 2, -1, type_=INFO)
        assert kinds(read(script, *records)) == set()
    script = written()
    put(script, 2, -1, type_=INFO, tombstone=True)
    assert kinds(read(script)) == set(), (
        "the last record may have been a tombstone that was removed"
    )


def lost(script: Script) -> None:
    read(script)


def an_older_value(script: Script) -> None:
    read(script, (0, "k", 0))


def come_back(script: Script) -> None:
    read(script, (1, "k", 1), (2, "x", 0))


def come_back_behind(script: Script) -> None:
    read(script, (1, "k", 1), (5, "x", 0))


def turned_round(script: Script) -> None:
    put(script, 2, 5)
    read(script, (1, "k", 1), (4, "k", 0), (5, "k", 2))


def not_read(script: Script) -> None:
    """Adds no end state."""


def invented(script: Script) -> None:
    read(script, (1, "k", 1), (5, "k", 7))


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (lost, "lost"),
        (an_older_value, "lost"),
        (come_back, "resurrected"),
        (come_back_behind, "resurrected"),
        (turned_round, "order"),
        (not_read, "no end"),
        (invented, "never sent"),
    ],
)
def test_key_checks_find_the_planted_violation(spoil: Callable[[Script], None], kind: str) -> None:
    script = written()
    spoil(script)
    assert kind in kinds(script)
