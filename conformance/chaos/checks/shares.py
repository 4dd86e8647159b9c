"""Records of share groups: each in one hand at a time, and done with once.

`deliver` {group} -> {records: [[partition, offset, count], ...]}: what a member was given; `count`
is the how manieth delivery the broker said it was.
`acknowledge` {group, partition, records: [[offset, count, what], ...]}: accept, release or reject;
`ok` where the broker said that it is so, `fail` where it refused.
`share_end` {group, limit} -> {partitions: [[partition, lag], ...]}: how many records the broker
says are not done with, at the end.
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


class Ended(NamedTuple):
    """That a record is done with was answered."""

    time_ns: int
    delivery: int
    what: str


def nothing_is_done_with_twice(history: History) -> Iterator[Violation]:
    """But for who was paused with a delivery, and speaks of it when others have had a later one.

    Where the record is before the start offset by then, as what is done with sooner or later is,
    Apache Kafka answers well whatever is said of it.
    """
    for place, ends in _ended(history).items():
        for end in ends[1:]:
            if end.delivery >= ends[0].delivery:
                said = f"{ends[0].what} of delivery {ends[0].delivery}"
                yield Violation("done twice", f"{place}: {said}, {end.what} of {end.delivery}")


def what_is_done_with_is_not_delivered(history: History) -> Iterator[Violation]:
    """In a later delivery.  A member that was paused may still hand out an earlier one."""
    ended = _ended(history)
    for deliver in history.operations("deliver"):
        for partition, offset, count in deliver.answered["records"]:
            place = deliver.asked["group"], partition, offset
            for end in ended.get(place, ()):
                if end.time_ns < deliver.invoked_ns and count > end.delivery:
                    yield Violation(
                        "delivered again", f"{place} to {deliver.process}, after {end.what}"
                    )


def deliveries_keep_their_limit(history: History) -> Iterator[Violation]:
    limits = {each.asked["group"]: each.asked["limit"] for each in history.operations("share_end")}
    for deliver in history.operations("deliver"):
        limit = limits.get(deliver.asked["group"])
        for partition, offset, count in deliver.answered["records"]:
            if limit is not None and not 1 <= count <= limit:
                yield Violation("delivery count", f"{partition} {offset}: {count} of {limit}")


def every_record_comes_to_its_end(history: History) -> Iterator[Violation]:
    """Accepted or rejected, as far as anybody may know, or delivered as often as it may be."""
    logs = final_logs(history)
    tried, counts = _tried(history), _deliveries(history)
    for end in history.operations("share_end"):
        group, limit = end.asked["group"], end.asked["limit"]
        for partition, lag in end.answered.get("partitions", ()):
            if lag:
                yield Violation("left", f"{group} {partition}: {lag} records")
        for partition, log in logs.items():
            for offset, who, _ in log:
                place = group, partition, offset
                if who is not None and place not in tried and counts.get(place, 0) < limit:
                    times = counts.get(place, 0)
                    yield Violation("lost to all", f"{place}: {times} deliveries, no end")


def _ended(history: History) -> dict[Place, list[Ended]]:
    found: dict[Place, list[Ended]] = defaultdict(list)
    for said in history.operations("acknowledge"):
        if said.ok and said.ended_ns is not None:
            for offset, count, what in said.asked["records"]:
                if what in ENDS:
                    place = said.asked["group"], said.asked["partition"], offset
                    found[place].append(Ended(said.ended_ns, count, what))
    return {place: sorted(ends) for place, ends in found.items()}


def _tried(history: History) -> set[Place]:
    """What somebody may have accepted or rejected: nobody lives to tell of some."""
    return {
        (said.asked["group"], said.asked["partition"], offset)
        for said in history.operations("acknowledge")
        if said.type is not Type.FAIL
        for offset, _, what in said.asked["records"]
        if what in ENDS
    }


def _deliveries(history: History) -> dict[Place, int]:
    """The highest count of each."""
    found: dict[Place, int] = {}
    for deliver in history.operations("deliver"):
        for partition, offset, count in deliver.answered["records"]:
            place = deliver.asked["group"], partition, offset
            found[place] = max(count, found.get(place, 0))
    return found


SHARE_CHECKS = (
    nothing_is_done_with_twice,
    what_is_done_with_is_not_delivered,
    deliveries_keep_their_limit,
    every_record_comes_to_its_end,
)
