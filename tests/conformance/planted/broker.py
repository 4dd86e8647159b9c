"""`python broker.py FAULT serve ...`: kwire with one fault planted in it.

The faults are what a mend elsewhere may break, put in by name into a broker that is otherwise the
shipped one. What they are for is `tests/conformance/test_planted.py`: the suite must find each.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kwire.codecs.errors import ErrorCode

Plant = Callable[[], None]
R = TypeVar("R")

FAULTS: dict[str, Plant] = {}


def fault(plant: Plant) -> Plant:
    FAULTS[plant.__name__] = plant
    return plant


def wrap(owner: object, name: str, around: Callable[..., Any]) -> None:
    """`owner.name` becomes a call of `around(what it was, its arguments...)`."""
    was = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
        return around(was, *args, **kwargs)

    setattr(owner, name, wrapped)


def told_as(error: ErrorCode, instead: ErrorCode) -> Callable[..., Any]:
    """One error code for another, whatever the arguments are."""

    def around(was: Callable[..., ErrorCode], *args: object) -> ErrorCode:
        found = was(*args)
        return instead if found is error else found

    return around


@fault
def nothing() -> None:
    """No fault: the broker that the others are compared with."""


@fault
def another_error_code() -> None:
    """Members that are unknown are told that their generation is."""
    from kwire.groups.classic.group import ClassicGroup

    wrap(
        ClassicGroup,
        "check_member",
        told_as(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION),
    )


@fault
def wrong_generation_accepted() -> None:
    """A heartbeat of an older generation keeps its session."""
    from kwire.groups.classic import members as classic_members

    wrap(
        classic_members,
        "check_heartbeat",
        told_as(ErrorCode.ILLEGAL_GENERATION, ErrorCode.NONE),
    )


@fault
def high_watermark_one_too_high() -> None:
    from kwire.requests.handlers.fetching.fetch import Fetch

    def around(was: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - a partition's data
        data = was(*args)
        data.high_watermark += 1
        return data

    wrap(Fetch, "_read", around)


@fault
def field_dropped_at_one_version() -> None:
    """Fetch version 5 was the first to tell where the log starts."""
    from kwire.codecs.messages.fetch import FetchResponse

    write = FetchResponse.WRITERS[5]

    def without(out: Any, response: Any) -> None:  # noqa: ANN401 - a frame and a message
        for topic in response.responses:
            for partition in topic.partitions:
                partition.log_start_offset = -1
        write(out, response)

    FetchResponse.WRITERS[5] = without


@fault
def throttle_time_missing() -> None:
    """Heartbeat version 1 differs from version 0 in nothing else."""
    from kwire.codecs.messages.heartbeat import HeartbeatResponse

    HeartbeatResponse.WRITERS[1] = HeartbeatResponse.WRITERS[0]


@fault
def earliest_offset_by_another_number() -> None:
    """-2 is looked up as a time."""
    from kwire.requests.handlers import list_offsets

    list_offsets.EARLIEST = -99


@fault
def sequence_not_checked() -> None:
    """A gap in an idempotent producer's sequence is overlooked."""
    from kwire.log.producers.state import ProducerState

    wrap(ProducerState, "_check_sequence", lambda was, *args: None)


@fault
def large_first_batch_not_given() -> None:
    """A consumer whose limit is below a batch is stuck (KIP-74)."""
    from kwire.log import Log

    def around(was: Callable[..., R], *args: object, **kwargs: object) -> R:
        return was(*args, **kwargs | {"min_one_batch": False})

    wrap(Log, "read", around)


@fault
def session_epoch_not_checked() -> None:
    """Any epoch of a fetch session is taken for the next one."""
    from kwire.storage.partitions.fetch_sessions import FetchSessions

    def around(
        was: Callable[..., R],
        self: FetchSessions,
        request: Any,  # noqa: ANN401 - a Fetch request
        **more: object,
    ) -> R:
        session = self._sessions.get(request.session_id)
        if session is not None and request.session_epoch > 0:
            request.session_epoch = session.epoch
        return was(self, request, **more)

    wrap(FetchSessions, "plan", around)


@fault
def another_default() -> None:
    """A topic's max.compaction.lag.ms is an hour, not for ever."""
    from kwire.settings.broker import BrokerConfig

    definition = BrokerConfig.DEFINITIONS["log.cleaner.max.compaction.lag.ms"]
    object.__setattr__(definition, "default", 3_600_000)
    BrokerConfig._DEFAULTS[definition.attribute] = 3_600_000


@fault
def long_poll_answers_at_once() -> None:
    from kwire.requests.handlers.fetching.fetch import Fetch

    async def respond(fetch: Fetch) -> Any:  # noqa: ANN401 - the response
        return fetch.response()

    def around(was: object, fetch: Fetch, max_wait_ms: int) -> Awaitable[Any]:
        return respond(fetch)

    wrap(Fetch, "wait", around)


@fault
def records_deleted_are_still_there() -> None:
    """DeleteRecords is answered, and the log starts where it did."""
    from kwire.log import Log

    wrap(Log, "increment_log_start_offset", lambda was, *args: None)


@fault
def append_time_is_the_clients() -> None:
    """message.timestamp.type is not looked at."""
    from kwire.log import LogConfig

    setattr(LogConfig, "log_append_time", False)  # noqa: B010 - a property, says its type


@fault
def checksum_not_looked_at() -> None:
    from kwire.log import log, validator

    class AlwaysRight:
        """A CRC that equals any other."""

        def __ne__(self, other: object) -> bool:
            return False

    class Library:
        @staticmethod
        def crc32c(data: object) -> AlwaysRight:
            return AlwaysRight()

    log.crc32c = Library  # type: ignore[assignment, attr-defined]  # stands for a module
    wrap(validator, "check_crc", lambda was, *args: None)


@fault
def counts_of_records_believed() -> None:
    """A batch may hold fewer records than its header says."""
    from kwire.log import plain, validator

    wrap(plain, "is_plausible", lambda was, *args: True)
    wrap(validator, "is_plausible", lambda was, *args: True)


if __name__ == "__main__":
    FAULTS[sys.argv.pop(1)]()
    from kwire.cli import main

    main()
