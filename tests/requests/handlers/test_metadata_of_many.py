"""Metadata of thousands of topics does not block other tasks."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import pytest
import trio
import trio.testing

from kwire.cluster.metadata import views
from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import CreateTopic, DeleteTopic
from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.codecs.primitives import Frame
from kwire.requests.context import Context
from kwire.requests.guards.base import Access
from kwire.requests.handlers import metadata
from kwire.requests.in_steps import WrittenInSteps
from kwire.security.authority import Authority
from kwire.security.authorizer import AclAuthorizer
from kwire.security.operations import NOT_ASKED, TOPIC_OPERATIONS
from tests.requests.handlers.node import NODE_ID, Node

STATE = PartitionImage(NODE_ID, 0, 0, (), ())
"""A partition without a live replica, so that no log is created."""
COUNT = 4 * metadata.TOPICS_AT_ONCE
VERSION = 12


def topic(number: int) -> TopicImage:
    return TopicImage(f"t{number:05}", number.to_bytes(16), (replace(STATE),))


@pytest.fixture
def large(node: Node) -> Node:
    """A broker with COUNT topics."""
    node.show(*(CreateTopic(topic(number), {}) for number in range(COUNT)))
    return node


def context_of(version: int = VERSION, principal: str = "User:ANONYMOUS") -> Context:
    made = Context("PLAINTEXT", "127.0.0.1", "test", api_key=ApiKey.METADATA, api_version=version)
    made.principal = principal
    return made


def ask(node: Node, version: int = VERSION) -> MetadataResponse | Awaitable[MetadataResponse]:
    return metadata.handle(node.broker, MetadataRequest(None), context_of(version))


async def written(
    pending: MetadataResponse | Awaitable[MetadataResponse], version: int = VERSION
) -> bytes:
    """Return a response as it is sent."""
    assert not isinstance(pending, MetadataResponse)
    response, frame = await pending, Frame()
    assert isinstance(response, WrittenInSteps)
    await response.write_in_steps(frame, version)
    return frame.tobytes()


def names_in(data: bytes, version: int = VERSION) -> list[str | None]:
    return [each.name for each in MetadataResponse.decode(data, version).topics]


def names_of(numbers: range) -> list[str]:
    return [topic(number).name for number in numbers]


async def test_first_metadata_of_many_topics_lets_other_tasks_run(large: Node) -> None:
    """The response has the last state of topics that change while other tasks run."""
    answers: list[bytes] = []

    async def wait() -> None:
        answers.append(await written(ask(large)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for number in range(6):  # the first steps make topics, the others write them
            await trio.lowlevel.checkpoint()
            assert not answers
            old, new = topic(number), topic(COUNT + number)
            large.show(DeleteTopic(old.name, old.id), CreateTopic(new, {}))
    assert names_in(answers[0]) == names_of(range(6, COUNT + 6))


async def test_next_metadata_of_many_topics_has_the_bytes_of_the_first(large: Node) -> None:
    """A later change makes only the block of the changed topic new."""
    first, again = Frame(), Frame()
    for frame in (first, again):
        pending = ask(large)
        assert not isinstance(pending, MetadataResponse)
        response = await pending
        assert isinstance(response, WrittenInSteps)
        await response.write_in_steps(frame, VERSION)
    assert first == again
    shared = [one is two for (_, one), (_, two) in zip(first.regions, again.regions, strict=True)]
    assert len(shared) > 2
    assert all(shared)
    large.show(DeleteTopic(topic(1).name, topic(1).id))
    assert names_in(await written(ask(large))) == names_of(range(1)) + names_of(range(2, COUNT))


@pytest.mark.parametrize("version", [*MetadataResponse.WRITERS])
async def test_metadata_written_in_steps_is_the_same_as_at_once(large: Node, version: int) -> None:
    pending = (
        ask(large, version)
        if version
        else metadata.handle(large.broker, MetadataRequest([]), context_of(0))
    )
    assert not isinstance(pending, MetadataResponse)
    response, frame = await pending, Frame()
    assert isinstance(response, WrittenInSteps)
    await response.write_in_steps(frame, version)
    assert frame.tobytes() == response.encode(version)


async def test_operations_of_many_topics_are_those_of_the_request(large: Node) -> None:
    request = MetadataRequest(None, include_topic_authorized_operations=True)
    with_operations = await written(metadata.handle(large.broker, request, context_of()))
    operations = {
        each.topic_authorized_operations
        for each in MetadataResponse.decode(with_operations, VERSION).topics
    }
    assert operations == {TOPIC_OPERATIONS}
    without = MetadataResponse.decode(await written(ask(large)), VERSION).topics
    assert {each.topic_authorized_operations for each in without} == {NOT_ASKED}


def guarded(node: Node, principal: str) -> Awaitable[MetadataResponse]:
    """Ask for all topics as a principal that may describe those whose name begins with `t0`."""
    rules = AclAuthorizer(["User:admin"])
    entry = AccessControlEntry("User:some", "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    pattern = ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, "t000")
    rules.follow({pattern: frozenset([entry])})
    context = context_of(principal=principal)
    answer: Awaitable[MetadataResponse] = metadata.guard(
        Access(node.broker, Authority(rules), context),
        MetadataRequest(None),
        lambda request: metadata.handle(node.broker, request, context),
    )
    return answer


async def test_metadata_of_many_topics_has_only_those_that_the_sender_may_see(large: Node) -> None:
    for principal, numbers in (("User:some", range(100)), ("User:admin", range(COUNT))):
        assert names_in(await written(guarded(large, principal))) == names_of(numbers)


async def test_topic_created_while_rights_are_checked_is_left_out(large: Node) -> None:
    """Nobody has checked whether the sender may see it."""
    response, frame = await guarded(large, "User:admin"), Frame()
    large.show(CreateTopic(topic(COUNT), {}))
    assert isinstance(response, WrittenInSteps)
    await response.write_in_steps(frame, VERSION)
    assert names_in(frame.tobytes()) == names_of(range(COUNT))


async def test_bytes_above_the_limit_are_not_kept(
    large: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = large.broker.metadata_views.of(large.broker.image, "PLAINTEXT", True)
    await written(ask(large))
    assert view.encoded(VERSION).is_complete
    monkeypatch.setattr(views, "KEPT_BYTES_MAX", 1000)
    assert names_in(await written(ask(large))) == names_of(range(COUNT))
    assert not view.encoded(VERSION).is_complete


async def test_only_the_versions_used_last_are_kept(large: Node) -> None:
    view = large.broker.metadata_views.of(large.broker.image, "PLAINTEXT", True)
    versions = range(8, 9 + views.KEPT_VERSIONS_MAX)
    for version in versions:
        await written(ask(large, version), version)
    assert [view.encoded(version).is_complete for version in reversed(versions)] == [
        True
    ] * views.KEPT_VERSIONS_MAX + [False]


async def test_metadata_of_few_topics_does_not_wait(node: Node) -> None:
    node.show(*(CreateTopic(topic(number), {}) for number in range(metadata.TOPICS_AT_ONCE)))
    assert isinstance(ask(node), MetadataResponse)
    wide = TopicImage("wide", bytes(15) + b"\1", (replace(STATE),) * 2)
    node.show(DeleteTopic(topic(1).name, topic(1).id), CreateTopic(wide, {}))
    pending = ask(node)
    assert not isinstance(pending, MetadataResponse)
    assert len(names_in(await written(pending))) == metadata.TOPICS_AT_ONCE
