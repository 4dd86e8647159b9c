"""Tests that each check finds its violation in a short history, and none in a correct one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.conformance.chaos.checks import SHOWN_MAX, violations
from kwire.conformance.chaos.history import Type
from kwire.conformance.chaos.workloads.stream import Stream
from tests.conformance.chaos.script import Script

OK, FAIL, INFO = Type.OK, Type.FAIL, Type.INFO


def kinds(script: Script) -> set[str]:
    return {violation.kind for violation in violations(script.history, Stream.checks)}


def correct_history() -> Script:
    """A correct history: two members read and commit one record each, and both records remain."""
    script = Script()
    script.produce(0, 0)
    script.ends(1)
    script.produce(1, 1)
    script.assign()
    script.poll((0, "p", 0))
    script.commit(1)
    script.committed(1)
    script.revoke()
    script.assign("r2")
    script.poll((1, "p", 1), process="r2")
    script.commit(2, process="r2")
    script.committed(2)
    script.ends(2)
    script.log((0, "p", 0), (1, "p", 1))
    return script


def test_checks_find_nothing_in_a_correct_history() -> None:
    assert kinds(correct_history()) == set()


def nothing_read_at_the_end(script: Script) -> None:
    script.produce(0, 0)


def a_lost_record(script: Script) -> None:
    script.produce(0, 0)
    script.produce(1, 1)
    script.log((0, "p", 0))


def a_lost_record_of_unknown_offset(script: Script) -> None:
    script.produce(0, -1)
    script.log()


def another_place(script: Script) -> None:
    script.produce(0, 1)
    script.produce(1, 0)
    script.log((0, "p", 0), (1, "p", 1))


def a_refused_record(script: Script) -> None:
    script.produce(0, -1, type_=FAIL, error="NOT_ENOUGH_REPLICAS", idempotent=False)
    script.log((0, "p", 0))


def the_same_twice(script: Script) -> None:
    script.produce(0, 0)
    script.log((0, "p", 0), (1, "p", 0))


def an_unknown_outcome_twice(script: Script) -> None:
    script.produce(0, -1, type_=INFO, error="CLOSED", idempotent=False)
    script.log((0, "p", 0), (1, "p", 0))


def another_order(script: Script) -> None:
    script.produce(0, 1)
    script.produce(1, 0)
    script.log((0, "p", 1), (1, "p", 0))


def a_record_of_nobody(script: Script) -> None:
    script.produce(0, 0)
    script.log((0, "p", 0), (1, "p", 1))


def a_hole(script: Script) -> None:
    script.produce(0, 0)
    script.produce(1, 2)
    script.log((0, "p", 0), (2, "p", 1), end=3)


def an_end_that_cannot_be_read(script: Script) -> None:
    script.produce(0, 0)
    script.log((0, "p", 0), end=2)


def an_end_that_goes_back(script: Script) -> None:
    script.ends(5)
    script.ends(4)


def an_end_below_an_acknowledgement(script: Script) -> None:
    script.produce(0, 0)
    script.ends(0)
    script.log((0, "p", 0))


def a_gap_in_reading(script: Script) -> None:
    numbers = range(3)
    for number in numbers:
        script.produce(number, number)
    script.assign()
    script.poll((0, "p", 0), (2, "p", 2))
    script.poll((1, "p", 1), process="other")
    script.log(*((number, "p", number) for number in numbers))


def the_same_read_again(script: Script) -> None:
    script.produce(0, 0)
    script.assign()
    script.poll((0, "p", 0))
    script.poll((0, "p", 0))
    script.log((0, "p", 0))


def something_else_read(script: Script) -> None:
    script.produce(0, 0)
    script.produce(1, 1)
    script.assign()
    script.poll((0, "p", 1), (1, "p", 1))
    script.log((0, "p", 0), (1, "p", 1))


def something_read_that_is_gone(script: Script) -> None:
    script.produce(0, -1, type_=INFO, error="CLOSED", idempotent=False)
    script.assign()
    script.poll((0, "p", 0))
    script.log()


def a_record_that_nobody_read(script: Script) -> None:
    script.produce(0, 0)
    script.assign()
    script.log((0, "p", 0))


def a_commit_that_went_back(script: Script) -> None:
    script.poll((0, "p", 0), (1, "p", 1))
    script.commit(1)
    script.commit(2)
    script.committed(1)


def a_look_that_went_back(script: Script) -> None:
    script.poll((0, "p", 0), (1, "p", 1))
    script.commit(1)
    script.commit(2, INFO)
    script.committed(2)
    script.committed(1)


def a_member_that_begins_too_early(script: Script) -> None:
    script.assign()
    script.poll((0, "p", 0))
    script.commit(1)
    script.revoke()
    script.assign("r2")
    script.poll((0, "p", 0), process="r2")


def a_commit_ahead(script: Script) -> None:
    script.poll((0, "p", 0))
    script.commit(2, INFO)
    script.committed(2)


def a_refused_commit(script: Script) -> None:
    script.poll((0, "p", 0))
    script.commit(1, FAIL)
    script.committed(1)


def an_inner_error(script: Script) -> None:
    script.do("o", "ends", {}, INFO, error="UNKNOWN_SERVER_ERROR")


def a_silent_broker(script: Script) -> None:
    script.do("o", "ends", {}, INFO, error="SILENT")


def a_storage_error_without_a_reason(script: Script) -> None:
    script.do("nemesis", "fault", {"kind": "kill"})
    script.do("o", "ends", {}, INFO, error="KAFKA_STORAGE_ERROR")


def no_answer(script: Script) -> None:
    script.begin("o", "ends")


def no_recovery(script: Script) -> None:
    script.do("judge", "stuck", {"what": "catch_up", "error": "never succeeded"})


def a_client_that_gives_up(script: Script) -> None:
    script.do("p", "client_fatal", {"error": "fenced"})


def a_record_that_is_given_up(script: Script) -> None:
    script.produce(0, -1, type_=INFO, error="INVALID_RECORD")
    script.log()


def a_broker_that_ends(script: Script) -> None:
    script.do("nemesis", "fault", {"kind": "disk"}, ended=1, may_end=False)


def an_exception(script: Script) -> None:
    script.do("nemesis", "broker_log", {}, unhandled=["Traceback"])


def a_stop_with_an_error(script: Script) -> None:
    script.do("nemesis", "stop", {}, status=1, clean=False)


def a_producer_id_twice(script: Script) -> None:
    script.do("o", "init_producer_id", {}, producer_id=7)
    script.do("o", "init_producer_id", {}, producer_id=7)


def a_topic_that_is_gone(script: Script) -> None:
    script.do("o", "create_topic", {"topic": "made"})
    script.do("judge", "topics", {}, topics=["other"])


PLANTED: list[tuple[Callable[[Script], None], set[str]]] = [
    (nothing_read_at_the_end, {"no end"}),
    (a_lost_record, {"lost"}),
    (a_lost_record_of_unknown_offset, {"lost"}),
    (another_place, {"moved"}),
    (a_refused_record, {"ghost"}),
    (the_same_twice, {"twice"}),
    (an_unknown_outcome_twice, {"twice"}),
    (another_order, {"order"}),
    (a_record_of_nobody, {"never sent"}),
    (a_hole, {"hole"}),
    (an_end_that_cannot_be_read, {"hole"}),
    (an_end_that_goes_back, {"end went back"}),
    (an_end_below_an_acknowledgement, {"end went back"}),
    (a_gap_in_reading, {"not contiguous"}),
    (the_same_read_again, {"not contiguous"}),
    (something_else_read, {"read differs"}),
    (something_read_that_is_gone, {"read differs"}),
    (a_record_that_nobody_read, {"unread"}),
    (a_commit_that_went_back, {"commit went back"}),
    (a_look_that_went_back, {"commit went back"}),
    (a_member_that_begins_too_early, {"commit went back"}),
    (a_commit_ahead, {"commit ahead"}),
    (a_refused_commit, {"commit from nowhere"}),
    (an_inner_error, {"answer"}),
    (a_silent_broker, {"answer"}),
    (a_storage_error_without_a_reason, {"answer"}),
    (no_answer, {"no answer"}),
    (no_recovery, {"stuck"}),
    (a_client_that_gives_up, {"client"}),
    (a_record_that_is_given_up, {"given up"}),
    (a_broker_that_ends, {"died"}),
    (an_exception, {"unhandled"}),
    (a_stop_with_an_error, {"stop"}),
    (a_producer_id_twice, {"producer id"}),
    (a_topic_that_is_gone, {"topic lost"}),
]


@pytest.mark.parametrize(
    ("plant", "expected"), PLANTED, ids=lambda value: getattr(value, "__name__", "")
)
def test_checks_find_the_planted_violation(
    plant: Callable[[Script], None], expected: set[str]
) -> None:
    script = Script()
    plant(script)
    assert kinds(script) == expected


class TestAllowedHistories:
    def test_record_of_unknown_outcome_may_be_in_the_log_or_not(self) -> None:
        """The record may be in the log or not."""
        for records in ((), ((0, "prober", 0),)):
            script = Script()
            script.produce(0, -1, process="prober", type_=INFO, error="CLOSED", idempotent=False)
            script.log(*records)
            assert kinds(script) == set()

    def test_readers_may_skip_control_records(self) -> None:
        script = Script()
        script.produce(0, 0)
        script.produce(1, 2)
        script.assign()
        script.poll((0, "p", 0), (2, "p", 1))
        script.log((0, "p", 0), (1, None, None), (2, "p", 1))
        assert kinds(script) == set()

    def test_concurrent_requests_need_not_see_each_other(self) -> None:
        """A request that began before an acknowledgement need not see the record."""
        script = Script()
        look, end = script.begin("o", "committed", group="g"), script.begin("o2", "ends")
        script.produce(0, 0)
        script.poll((0, "p", 0))
        script.commit(1)
        script.end(end, offsets=[("t-0", 0)])
        script.end(look, offsets=[])
        script.log((0, "p", 0))
        assert kinds(script) == set()

    def test_full_disk_explains_a_storage_error(self) -> None:
        script = Script()
        script.do("nemesis", "fault", {"kind": "disk"}, ended=1, may_end=True)
        script.do("o", "ends", {}, INFO, error="KAFKA_STORAGE_ERROR")
        assert kinds(script) == set()


def test_many_violations_of_one_kind_are_shortened() -> None:
    script = Script()
    for number in range(20):
        script.produce(number, number)
    script.log()
    shown = violations(script.history, Stream.checks)
    assert len(shown) == SHOWN_MAX + 1
    assert str(shown[-1]) == "lost: and 15 more"
