"""Checks of share groups: a record has one holder at a time, and ends once.

`deliver` {group} -> {records: [[partition, offset, count], ...]}: the records that a member got;
`count` is the delivery count that the broker reported. `acknowledge` {group, partition, records:
[[offset, count, what], ...]}: accept, release or reject; `ok` if the broker confirmed it, `fail` if
it refused. `share_end` {group, limit} -> {partitions: [[partition, lag], ...]}: the number of
records without an end, as the broker reports it at the end.

A record ends when it is accepted or rejected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.chaos.checks.logs import final_logs
from kwire.conformance.chaos.checks.violation import Violation
from kwire.conformance.chaos.history import History, Type

Place = tuple[str, str, int]
"""Group, partition, offset."""
ENDS = frozenset({"accept", "reject"})


class RecordEnd(NamedTuple):
    """A confirmed end of a record."""

    time_ns: int
    delivery: int
    what: str


def nothing_is_done_with_twice(history: History) -> Iterator[Violation]:
    """Check that no record ends twice, except by a late acknowledgement of an earlier delivery.

    A member that was paused may acknowledge a delivery after others have had a later one. If the
    record is before the start offset by then, Apache Kafka confirms every acknowledgement.
    """
    for place, ends in _ended_records(history).items():
        for end in ends[1:]:
            if end.delivery >= ends[0].delivery:
                first = f"{ends[0].what} of delivery {ends[0].delivery}"
                yield Violation("done twice", f"{place}: {first}, {end.what} of {end.delivery}")


def what_is_done_with_is_not_delivered(history: History) -> Iterator[Violation]:
    """Check that a record is not delivered again after its end; a paused member may show an earlier
    delivery."""
    ended = _ended_records(history)
    for deliver in history.operations("deliver"):
        for partition, offset, count in deliver.result["records"]:
            place = deliver.arguments["group"], partition, offset
            for end in ended.get(place, ()):
                if end.time_ns < deliver.invoked_ns and count > end.delivery:
                    yield Violation(
                        "delivered again", f"{place} to {deliver.process}, after {end.what}"
                    )


def deliveries_keep_their_limit(history: History) -> Iterator[Violation]:
    """Yield the deliveries whose count is not from 1 to the group's delivery limit."""
    limits = {
        each.arguments["group"]: each.arguments["limit"] for each in history.operations("share_end")
    }
    for deliver in history.operations("deliver"):
        limit = limits.get(deliver.arguments["group"])
        for partition, offset, count in deliver.result["records"]:
            if limit is not None and not 1 <= count <= limit:
                yield Violation("delivery count", f"{partition} {offset}: {count} of {limit}")


def every_record_comes_to_its_end(history: History) -> Iterator[Violation]:
    """Check that each record ends, may have ended, or was delivered as often as the limit
    allows."""
    logs = final_logs(history)
    tried, counts = _attempted_records(history), _deliveries(history)
    for end in history.operations("share_end"):
        group, limit = end.arguments["group"], end.arguments["limit"]
        for partition, lag in end.result.get("partitions", ()):
            if lag:
                yield Violation("left", f"{group} {partition}: {lag} records")
        for partition, log in logs.items():
            for offset, who, _ in log:
                place = group, partition, offset
                if who is not None and place not in tried and counts.get(place, 0) < limit:
                    times = counts.get(place, 0)
                    yield Violation("lost to all", f"{place}: {times} deliveries, no end")


def _ended_records(history: History) -> dict[Place, list[RecordEnd]]:
    """Return the confirmed ends of each record, in the order of time."""
    ends_of: dict[Place, list[RecordEnd]] = defaultdict(list)
    for acknowledge in history.operations("acknowledge"):
        if acknowledge.ok and acknowledge.ended_ns is not None:
            group, partition = acknowledge.arguments["group"], acknowledge.arguments["partition"]
            for offset, count, what in acknowledge.arguments["records"]:
                if what in ENDS:
                    end = RecordEnd(acknowledge.ended_ns, count, what)
                    ends_of[group, partition, offset].append(end)
    return {place: sorted(ends) for place, ends in ends_of.items()}


def _attempted_records(history: History) -> set[Place]:
    """Return the records that may have ended; the member that ended them may have been killed."""
    return {
        (acknowledge.arguments["group"], acknowledge.arguments["partition"], offset)
        for acknowledge in history.operations("acknowledge")
        if acknowledge.type is not Type.FAIL
        for offset, _, what in acknowledge.arguments["records"]
        if what in ENDS
    }


def _deliveries(history: History) -> dict[Place, int]:
    """Return the highest delivery count of each record."""
    counts: dict[Place, int] = {}
    for deliver in history.operations("deliver"):
        for partition, offset, count in deliver.result["records"]:
            place = deliver.arguments["group"], partition, offset
            counts[place] = max(count, counts.get(place, 0))
    return counts


SHARE_CHECKS = (
    nothing_is_done_with_twice,
    what_is_done_with_is_not_delivered,
    deliveries_keep_their_limit,
    every_record_comes_to_its_end,
)
