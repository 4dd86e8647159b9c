"""What the requests to the share coordinator have in common: many partitions of one group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from kwire.coordinators.runtime.promise import then_all
from kwire.coordinators.runtime.share import Reply
from kwire.coordinators.share.machine import Answer
from kwire.coordinators.share.records import ShareKey


class AskedPartition(Protocol):
    """As each request has it."""

    partition: int


PartitionT = TypeVar("PartitionT", bound=AskedPartition)
PartitionT_co = TypeVar("PartitionT_co", bound=AskedPartition, covariant=True)
ResultT = TypeVar("ResultT")
ResponseT = TypeVar("ResponseT")


class AskedTopic(Protocol[PartitionT_co]):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[PartitionT_co]: ...


def names_nothing(group_id: str, topics: Sequence[AskedTopic[AskedPartition]]) -> bool:
    """Whether nothing is answered: no group, no topic, or a topic without partitions."""
    return not (group_id and topics and all(topic.partitions for topic in topics))


def ask_of_each(
    group_id: str,
    topics: Sequence[AskedTopic[PartitionT]],
    ask: Callable[[ShareKey, PartitionT], Reply],
    tell: Callable[[int, Answer], ResultT],
    respond: Callable[[dict[bytes, list[ResultT]]], ResponseT],
) -> ResponseT | Awaitable[ResponseT]:
    """Ask the coordinator about each partition, and answer in their order.

    All are done of a partition that is named twice, and the last one is told.
    """
    asked: dict[ShareKey, Reply] = {}
    for topic in topics:
        for each in topic.partitions:
            key = ShareKey(group_id, topic.topic_id, each.partition)
            asked[key] = ask(key, each)

    def by_topic(answers: list[Answer]) -> ResponseT:
        told: dict[bytes, list[ResultT]] = {}
        for key, answer in sorted(zip(asked, answers, strict=True), key=lambda each: each[0][2]):
            told.setdefault(key.topic_id, []).append(tell(key.partition, answer))
        return respond(told)

    return then_all(list(asked.values()), by_topic)
