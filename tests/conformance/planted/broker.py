"""`python broker.py FAULT serve ...` runs kwire with one fault planted in it.

The faults are like those that a change elsewhere may cause; apart from the named one the broker is
the shipped one.  `tests/conformance/test_planted.py` checks that the suite finds each fault.
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
    """Replace `owner.name` by a function that calls `around(original, *arguments)`."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
        return around(original, *args, **kwargs)

    setattr(owner, name, wrapped)


def replacing(error: ErrorCode, instead: ErrorCode) -> Callable[..., Any]:
    """Return a wrapper for `wrap` that returns `instead` in place of `error`."""

    def around(original: Callable[..., ErrorCode], *args: object) -> ErrorCode:
        result = original(*args)
        return instead if result is error else result

    return around


@fault
def nothing() -> None:
    """No fault, for comparison."""


@fault
def wrong_error_code() -> None:
    """An unknown member gets ILLEGAL_GENERATION."""
    from kwire.groups.classic.group import ClassicGroup

    wrap(
        ClassicGroup,
        "check_member",
        replacing(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION),
    )


@fault
def wrong_generation_accepted() -> None:
    """A heartbeat with an older generation keeps the session alive."""
    from kwire.groups.classic import members as classic_members

    wrap(
        classic_members,
        "heartbeat_error",
        replacing(ErrorCode.ILLEGAL_GENERATION, ErrorCode.NONE),
    )


@fault
def high_watermark_one_too_high() -> None:
    from kwire.requests.handlers.fetching.fetch import Fetch

    def around(original: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - a partition's data
        data = original(*args)
        data.high_watermark += 1
        return data

    wrap(Fetch, "_read", around)


@fault
def field_missing_in_one_version() -> None:
    """Fetch version 5, which added the log start offset, does not return it."""
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
    """Heartbeat version 1 is encoded as version 0, which lacks only the throttle time."""
    from kwire.codecs.messages.heartbeat import HeartbeatResponse

    HeartbeatResponse.WRITERS[1] = HeartbeatResponse.WRITERS[0]


@fault
def wrong_timestamp_of_the_earliest_offset() -> None:
    """The special timestamp -2 is treated as a time."""
    from kwire.requests.handlers import list_offsets

    list_offsets.EARLIEST = -99


@fault
def sequence_not_checked() -> None:
    """A gap in an idempotent producer's sequence is accepted."""
    from kwire.log.producers.state import ProducerState

    wrap(ProducerState, "_check_sequence", lambda original, *args: None)


@fault
def large_first_batch_not_returned() -> None:
    """A consumer whose limit is smaller than a batch gets nothing (KIP-74)."""
    from kwire.log import Log

    def around(original: Callable[..., R], *args: object, **kwargs: object) -> R:
        return original(*args, **kwargs | {"min_one_batch": False})

    wrap(Log, "read", around)


@fault
def session_epoch_not_checked() -> None:
    """Every epoch of a fetch session is accepted as the next one."""
    from kwire.storage.partitions.fetch_sessions import FetchSessions

    def around(
        original: Callable[..., R],
        self: FetchSessions,
        request: Any,  # noqa: ANN401 - a Fetch request
        **more: object,
    ) -> R:
        session = self._sessions.get(request.session_id)
        if session is not None and request.session_epoch > 0:
            request.session_epoch = session.epoch
        return original(self, request, **more)

    wrap(FetchSessions, "plan", around)


@fault
def wrong_default() -> None:
    """The default of max.compaction.lag.ms is an hour instead of unlimited."""
    from kwire.settings.broker import BrokerConfig

    definition = BrokerConfig.DEFINITIONS["log.cleaner.max.compaction.lag.ms"]
    object.__setattr__(definition, "default", 3_600_000)
    BrokerConfig._DEFAULTS[definition.attribute] = 3_600_000


@fault
def long_poll_returns_immediately() -> None:
    from kwire.requests.handlers.fetching.fetch import Fetch

    async def respond(fetch: Fetch) -> Any:  # noqa: ANN401 - the response
        return fetch.response()

    def around(original: object, fetch: Fetch, max_wait_ms: int) -> Awaitable[Any]:
        return respond(fetch)

    wrap(Fetch, "wait", around)


@fault
def deleted_records_remain() -> None:
    """DeleteRecords succeeds without moving the start of the log."""
    from kwire.log import Log

    wrap(Log, "increment_log_start_offset", lambda original, *args: None)


@fault
def append_time_from_the_client() -> None:
    """message.timestamp.type is ignored."""
    from kwire.log import LogConfig

    setattr(LogConfig, "log_append_time", False)  # noqa: B010 - a property, says its type


@fault
def checksum_not_checked() -> None:
    from kwire.log import log, validator

    class AlwaysRight:
        """A CRC that equals every other CRC."""

        def __ne__(self, other: object) -> bool:
            return False

    class Library:
        @staticmethod
        def crc32c(data: object) -> AlwaysRight:
            return AlwaysRight()

    log.crc32c = Library  # type: ignore[assignment, attr-defined]  # replaces a module
    wrap(validator, "check_crc", lambda original, *args: None)


@fault
def record_count_not_checked() -> None:
    """A batch may have fewer records than its header says."""
    from kwire.log import plain, validator

    wrap(plain, "is_plausible", lambda original, *args: True)
    wrap(validator, "is_plausible", lambda original, *args: True)


if __name__ == "__main__":
    FAULTS[sys.argv.pop(1)]()
    from kwire.cli import main

    main()
