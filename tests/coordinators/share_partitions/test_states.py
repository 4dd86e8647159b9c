"""Requests to share coordinators: sent in order, and retried while a coordinator moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import trio

from kwire.broker.node import Node
from kwire.cluster.membership.contract import ClusterMembership
from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import Promise, answered
from kwire.coordinators.runtime.share import Reply
from kwire.coordinators.share.machine import DONE, ShareStateAnswer
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareStateWrite
from kwire.coordinators.share_partitions.states import RETRY_PAUSES_S, ShareStates

KEY, OTHER = ShareKey("g", bytes(16), 0), ShareKey("g", bytes(16), 1)


class Coordinator:
    """Answers as it is told to, and keeps what was asked, in order."""

    def __init__(self) -> None:
        self.answers: list[Reply] = []
        self.offsets: list[int] = []

    def write(self, key: ShareKey, written: ShareStateWrite) -> Reply:
        self.offsets.append(written.start_offset)
        return self.answers.pop(0) if self.answers else DONE


class Host:
    """A node and a membership, as far as the states ask them."""

    peers = None
    running_nursery: trio.Nursery

    def __init__(self, *topics: str) -> None:
        self.share_coordinator: Any = Coordinator()
        self.image: Any = SimpleNamespace(topics=set(topics))
        self.made: list[str] = []

    async def create_internal_topic(self, name: str) -> None:
        self.made.append(name)


@asynccontextmanager
async def serving(host: Host) -> AsyncIterator[ShareStates]:
    async with trio.open_nursery() as nursery:
        host.running_nursery = nursery
        yield ShareStates(
            cast("Node", host), cast("ClusterMembership", host), lambda: host.share_coordinator
        )


def at(offset: int) -> ShareStateWrite:
    return ShareStateWrite(1, 1, offset, 0, ())


def away() -> ShareStateAnswer:
    return ShareStateAnswer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_available_coordinator_answers_at_once() -> None:
    host = Host()
    async with serving(host) as states:
        assert states.write(KEY, at(1)) == DONE


async def test_request_waits_for_the_one_before_it(autojump_clock: object) -> None:
    host = Host()
    first = Promise[ShareStateAnswer]()
    host.share_coordinator.answers = [first]
    async with serving(host) as states:
        replies = [states.write(KEY, at(offset)) for offset in (1, 2, 3)]
        assert states.write(OTHER, at(9)) == DONE, "another partition is not held up"
        await trio.sleep(1)
        assert host.share_coordinator.offsets == [1, 9]
        first.resolve(DONE)
        assert [await answered(reply) for reply in replies] == [DONE] * 3
        assert host.share_coordinator.offsets == [1, 9, 2, 3]
    async with serving(host) as states:
        assert states.write(KEY, at(4)) == DONE, "nobody waits any longer"


async def test_requests_are_retried_in_order_while_the_coordinator_moves(
    autojump_clock: object,
) -> None:
    host = Host(SHARE_GROUP_STATE_TOPIC)
    host.share_coordinator.answers = [away(), ShareStateAnswer(ErrorCode.NOT_COORDINATOR), away()]
    async with serving(host) as states:
        replies = [states.write(KEY, at(offset)) for offset in (1, 2)]
        assert [await answered(reply) for reply in replies] == [DONE] * 2
    assert host.share_coordinator.offsets == [1, 1, 1, 1, 2]
    assert host.made == [], "the topic is there"


async def test_missing_state_topic_is_created_once(autojump_clock: object) -> None:
    """Whoever asks: a member's fetch may be the first to, with no heartbeat before it."""
    host = Host()
    host.share_coordinator.answers = [away(), away()]
    async with serving(host) as states:
        assert await answered(states.write(KEY, at(1))) == DONE
    assert host.made == [SHARE_GROUP_STATE_TOPIC]


async def test_request_fails_if_the_coordinator_stays_unavailable(autojump_clock: object) -> None:
    host = Host()
    tries = len(RETRY_PAUSES_S) + 1
    host.share_coordinator.answers = [away()] * tries
    async with serving(host) as states:
        answer = await answered(states.write(KEY, at(1)))
        assert answer.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(host.share_coordinator.offsets) == tries


async def test_fencing_error_is_returned_at_once() -> None:
    host = Host()
    fenced = ShareStateAnswer(ErrorCode.FENCED_LEADER_EPOCH)
    host.share_coordinator.answers = [fenced]
    async with serving(host) as states:
        assert states.write(KEY, at(1)) == fenced
