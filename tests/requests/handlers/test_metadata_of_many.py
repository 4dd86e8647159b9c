"""Metadata of thousands of topics does not block other tasks."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import trio
import trio.testing

from kwire.cluster.metadata.changes import CreateTopic, DeleteTopic
from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.requests.context import Context
from kwire.requests.handlers import metadata
from tests.requests.handlers.node import NODE_ID, Node

STATE = PartitionImage(NODE_ID, 0, 0, (), ())
"""A partition without a live replica, so that no log is created."""
COUNT = 4 * metadata.TOPICS_AT_ONCE


def topic(number: int) -> TopicImage:
    return TopicImage(f"t{number:05}", number.to_bytes(16), (replace(STATE),))


def ask(node: Node) -> MetadataResponse | Awaitable[MetadataResponse]:
    context = Context("PLAINTEXT", "127.0.0.1", "test", api_version=12)
    return metadata.handle(node.broker, MetadataRequest(None), context)


async def test_first_metadata_of_many_topics_lets_other_tasks_run(node: Node) -> None:
    """The response has the last state of topics that change while other tasks run."""
    node.show(*(CreateTopic(topic(number), {}) for number in range(COUNT)))
    pending = ask(node)
    assert not isinstance(pending, MetadataResponse)
    answers: list[MetadataResponse] = []

    async def wait() -> None:
        answers.append(await pending)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.lowlevel.checkpoint()
        assert not answers
        node.show(DeleteTopic("t00000", topic(0).id), CreateTopic(topic(COUNT), {}))
    assert [each.name for each in answers[0].topics] == [topic(n + 1).name for n in range(COUNT)]
    assert isinstance(ask(node), MetadataResponse)  # from here on they are known
