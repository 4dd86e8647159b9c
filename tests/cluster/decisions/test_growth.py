"""A change of one topic costs the same beside ten topics and beside three thousand."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio

from kwire.cluster.metadata.changes import Change, CreateTopic
from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.codecs.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kwire.codecs.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.codecs.primitives import Message
from tests.requests.handlers.node import Node, as_received

MANY = 3000
ELSEWHERE = PartitionImage(2, 0, 0, (2,), (2,))

REQUESTS: list[tuple[str, Callable[[str], Message], int]] = [
    (
        "create",
        lambda name: CreateTopicsRequest([CreatableTopic(name, 1, 1)], timeout_ms=1000),
        7,
    ),
    ("tell", lambda name: MetadataRequest([MetadataRequestTopic(name=name)]), 12),
    (
        "set",
        lambda name: AlterConfigsRequest(
            [AlterConfigsResource(2, name, [AlterableConfig("retention.ms", "1")])]
        ),
        2,
    ),
    (
        "grow",
        lambda name: CreatePartitionsRequest([CreatePartitionsTopic(name, 2)], timeout_ms=1000),
        3,
    ),
    ("tell again", lambda name: MetadataRequest([MetadataRequestTopic(name=name)]), 12),
    ("delete", lambda name: DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1000), 6),
    ("miss", lambda name: MetadataRequest([MetadataRequestTopic(name=name)]), 12),
]


async def counted(work: Callable[[], Awaitable[None]]) -> int:
    """The number of Python instructions that this thread needs for `work`."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401 - itself
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        await work()
    finally:
        sys.settrace(before)
    return count


async def costs(node: Node, name: str) -> dict[str, int]:
    """The cost of each request about a topic, without the first of its kind."""
    found = {}
    for what, request, version in REQUESTS:
        found[what] = await counted(partial(send, node, request(name), version))
    return found


async def send(node: Node, request: Message, version: int) -> None:
    reply = node.start(request, version)
    if isinstance(reply, Awaitable):
        reply = await reply
    as_received(reply, version)


@pytest.mark.slow
async def test_topic_changes_cost_the_same_among_many_topics(tmp_path: Path) -> None:
    node = Node(tmp_path, {"auto.create.topics.enable": "false"})
    async with trio.open_nursery() as nursery:
        await node.broker.start(nursery)
        await costs(node, "warm_up.1")
        few = await costs(node, "the_few.1")
        others: list[Change] = [
            CreateTopic(TopicImage(f"o.{number}", number.to_bytes(16), (ELSEWHERE,)))
            for number in range(1000, 1000 + MANY)
        ]
        await node.store.commit(others)
        many = await costs(node, "the_many.1")
        nursery.cancel_scope.cancel()
    node.close()
    assert min(few.values()) > 100, "the instructions were counted"
    grown = {what: (few[what], many[what]) for what in few if many[what] > 1.3 * few[what]}
    assert not grown, f"instructions beside none and beside {MANY}: {grown}"
