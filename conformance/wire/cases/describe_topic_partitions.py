"""Cases of DescribeTopicPartitions: reading topics page by page."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kwire.conformance.access.requests import MISSING, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.DESCRIBE_TOPIC_PARTITIONS)


def access_request(version: int, topic_id: bytes) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest([TopicRequest(TOPIC), TopicRequest(MISSING)])


def ask(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    """Return a request for topics by name; `limit` is the partitions of one response."""
    return DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], limit, Cursor(*cursor) if cursor else None
    )


@case("some topics, one of them unknown, one twice")
def some(stage: Stage) -> None:
    a, b = stage.topic("a", 3), stage.topic("b")
    stage.send(ask(b.name, a.name))
    stage.send(ask(a.name, stage.name("nothing"), b.name, a.name))


@case("page by page")
def pages(stage: Stage) -> None:
    """Two partitions per response; `next_cursor` leads to the next page.

    Two topics have 5 partitions, so 3 pages are expected; the fourth request bounds the loop.
    """
    a, b = stage.topic("a", 3), stage.topic("b", 2)
    cursor = None
    for _ in range(4):
        reply = stage.send(ask(b.name, a.name, limit=2, cursor=cursor))
        following = reply.next_cursor
        if following is None:
            break
        cursor = (following.topic_name, following.partition_index)


@case("cursors that point nowhere")
def cursors(stage: Stage) -> None:
    """Cursors at a partition, beyond the last one, at other topics, between and after them."""
    a, b = stage.topic("a", 3), stage.topic("b", 2)
    for cursor in ((a.name, 1), (a.name, 9), (b.name, 0), (stage.name("aa"), 1), ("", 0)):
        stage.send(ask(a.name, b.name, cursor=cursor))
    stage.send(ask(a.name, cursor=(a.name, -1)))
    stage.send(ask(a.name, cursor=(stage.name("zz"), 0)))


@case("limits")
def limits(stage: Stage) -> None:
    a = stage.topic("a", 3)
    for limit in (1, 3, 0, -1, 2**31 - 1):
        stage.send(ask(a.name, limit=limit))


@case("names that no topic can have")
def invalid(stage: Stage) -> None:
    for name in ("", "a b", "n" * 250):
        stage.send(ask(name))


@case("the coordinators' topics")
def internal(stage: Stage) -> None:
    stage.send(ask("__consumer_offsets", limit=2))
