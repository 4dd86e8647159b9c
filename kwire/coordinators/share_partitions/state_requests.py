"""Handles a client's request to the share coordinator: many partitions of one group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from kwire.coordinators.runtime.promise import then_all
from kwire.coordinators.runtime.share import Reply
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.records import ShareKey


class RequestedPartition(Protocol):
    """A partition in a request; each request type has its own class."""

    partition: int


PartitionT = TypeVar("PartitionT", bound=RequestedPartition)
PartitionT_co = TypeVar("PartitionT_co", bound=RequestedPartition, covariant=True)
ResultT = TypeVar("ResultT")
ResponseT = TypeVar("ResponseT")


class RequestedTopic(Protocol[PartitionT_co]):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[PartitionT_co]: ...


def is_empty_request(group_id: str, topics: Sequence[RequestedTopic[RequestedPartition]]) -> bool:
    """Whether the response is empty: no group, no topics, or a topic without partitions."""
    return not (group_id and topics and all(topic.partitions for topic in topics))


def submit_each(
    group_id: str,
    topics: Sequence[RequestedTopic[PartitionT]],
    ask: Callable[[ShareKey, PartitionT], Reply],
    to_result: Callable[[int, ShareStateAnswer], ResultT],
    respond: Callable[[dict[bytes, list[ResultT]]], ResponseT],
) -> ResponseT | Awaitable[ResponseT]:
    """Asks the coordinator about each partition; returns a response with the results by topic.

    If a partition is named twice, both are carried out and the response has the last result.
    """
    replies: dict[ShareKey, Reply] = {}
    for topic in topics:
        for partition in topic.partitions:
            key = ShareKey(group_id, topic.topic_id, partition.partition)
            replies[key] = ask(key, partition)

    def by_topic(answers: list[ShareStateAnswer]) -> ResponseT:
        """Return the response, with the answers by topic in the order of partitions."""
        results: dict[bytes, list[ResultT]] = {}
        ordered = sorted(zip(replies, answers, strict=True), key=lambda pair: pair[0].partition)
        for key, answer in ordered:
            results.setdefault(key.topic_id, []).append(to_result(key.partition, answer))
        return respond(results)

    return then_all(list(replies.values()), by_topic)
