"""Random schedules of a share group on one broker: requests, lost connections, time, restarts.

The requests go to the handlers of a broker with real logs and a real share coordinator; the test
moves the clock.

- No record is acquired by two members, and none is delivered after it was accepted or rejected.
- No record is delivered more often than the limit, and each delivery is counted.
- A successful acknowledgement survives a restart and the loss of the coordinator.
- In the end every record is accepted, rejected or at its delivery limit; none is lost.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kwire.cluster.metadata.changes import CreateTopic
from kwire.cluster.metadata.image import PartitionImage, TopicImage
from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import Message
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.share_group import acknowledge, fetch
from kwire.coordinators.share.partition import AcknowledgeType
from kwire.coordinators.share.records import ShareKey
from kwire.requests.context import Context
from kwire.requests.handlers import share_acknowledge, share_fetch
from tests.requests.handlers.node import NODE_ID, Node, as_received

GROUP, TOPIC = "group", CaseTopic("read", b"read" * 4, 1)
BATCHES, PER_BATCH = 12, 5
RECORDS = BATCHES * PER_BATCH
LOCK_MS, DELIVERIES = 15_000, 3
SETTINGS = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.delivery.count.limit": str(DELIVERIES),
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}
MEMBERS = "abc"
VERSION = 2
HANDLERS: dict[int, Callable[..., Any]] = {
    ApiKey.SHARE_FETCH: share_fetch.handle,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge.handle,
}


@dataclass
class Member:
    epoch: int = 0
    context: Context | None = None
    """Of the connection on which its session began."""
    holds: dict[int, float] = field(default_factory=dict)
    """By offset, until when."""


class World:
    """A broker, members that talk to it, and what they know."""

    def __init__(self, directory: Path, clock: trio.testing.MockClock) -> None:
        self._directory = directory
        self._clock = clock
        self.members = {name: Member() for name in MEMBERS}
        self.accepted: set[int] = set()
        """Or rejected; and that was answered well."""
        self.deliveries = [0] * RECORDS

    # -- the broker

    async def start(self, nursery: trio.Nursery) -> None:
        self._node = Node(self._directory, SETTINGS)
        self._scope = trio.CancelScope()
        self._node.broker.node.begin(await nursery.start(self._run))
        for name, topic_id in ((TOPIC.name, TOPIC.id), (SHARE_GROUP_STATE_TOPIC, b"kept" * 4)):
            state = PartitionImage(NODE_ID, 0, 0, (NODE_ID,), (NODE_ID,))
            self._node.show(CreateTopic(TopicImage(name, topic_id, (state,)), {}))
        await trio.testing.wait_all_tasks_blocked()

    async def _run(self, task_status: trio.TaskStatus[trio.Nursery]) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                task_status.started(nursery)
                await trio.sleep_forever()

    async def lead(self) -> None:
        """It is here, and reads anew what was written."""
        self._node.broker.coordinators.share.resign(0)
        coordinator = self._node.broker.coordinators.share
        coordinator.lead(self._node.partition(SHARE_GROUP_STATE_TOPIC))
        await trio.testing.wait_all_tasks_blocked()

    async def fill(self) -> None:
        key = ShareKey(GROUP, TOPIC.id, 0)
        begun = self._node.broker.coordinators.share.initialize(key, 1, 0)
        assert not isinstance(begun, Awaitable)
        for _ in range(BATCHES):
            self._node.append(TOPIC.name)

    def stop(self) -> None:
        self._scope.cancel()
        self._node.close()

    async def restart(self, nursery: trio.Nursery) -> None:
        self.stop()
        self.members = {name: Member() for name in MEMBERS}
        await self.start(nursery)

    async def resign(self) -> None:
        """The share coordinator is another broker's, which nobody reaches."""
        self._node.broker.coordinators.share.resign(0)

    async def pass_time(self, time_ms: int) -> None:
        self._clock.jump(time_ms / 1000)
        await trio.testing.wait_all_tasks_blocked()
        for member in self.members.values():
            member.holds = {o: until for o, until in member.holds.items() if until > self._now_ms()}

    def _now_ms(self) -> float:
        return trio.current_time() * 1000

    # -- members

    async def _ask(self, name: str, request: Message) -> Any:  # noqa: ANN401 - by request
        assert request.API_KEY is not None
        received = type(request).decode(request.encode(VERSION), VERSION)
        context = Context("PLAINTEXT", "127.0.0.1", f"{name}-1", api_version=VERSION)
        reply = HANDLERS[request.API_KEY](self._node.broker, received, context)
        if context.on_end is not None:
            self.members[name].context = context
        self._clock.autojump_threshold = 0  # a coordinator that is lost is asked again by and by
        told = await reply if isinstance(reply, Awaitable) else reply
        self._clock.autojump_threshold = math.inf
        return as_received(told, VERSION)

    async def read(self, name: str, most: int, strict: bool) -> None:
        member = self.members[name]
        topic = None if member.epoch else TOPIC
        limits = {"max_records": most, "share_acquire_mode": int(strict), "max_wait_ms": 0}
        told = await self._ask(name, fetch(GROUP, name, member.epoch, topic, **limits))
        assert told.error_code == ErrorCode.NONE
        member.epoch += 1
        for run in self._acquired(told):
            for offset in range(run.first_offset, run.last_offset + 1):
                self._given(name, offset, run.delivery_count)

    @staticmethod
    def _acquired(told: Any) -> list[Any]:  # noqa: ANN401 - of a response
        return [
            run
            for topic in told.responses
            for partition in topic.partitions
            for run in partition.acquired_records
        ]

    def _given(self, name: str, offset: int, times: int) -> None:
        assert offset not in self.accepted, "delivered after it was done with"
        for other in self.members.values():
            assert offset not in other.holds, "in two hands"
        self.deliveries[offset] += 1
        assert times <= min(DELIVERIES, self.deliveries[offset])
        self.members[name].holds[offset] = self._now_ms() + LOCK_MS

    async def say(self, name: str, at: int, length: int, kind: AcknowledgeType) -> None:
        """Something of records that it has: from the `at`-th on, as far as they follow."""
        held = sorted(self.members[name].holds)
        if held:
            first = held[at % len(held)]
            follow = [each for each in held if first <= each < first + length]
            follow = [each for n, each in enumerate(follow) if each == first + n]
            await self.claim(name, first, len(follow), kind)

    async def claim(self, name: str, first: int, length: int, kind: AcknowledgeType) -> None:
        """Something of any records."""
        member = self.members[name]
        if not member.epoch:
            return
        last = min(first + length, RECORDS) - 1
        renews = kind is AcknowledgeType.RENEW
        said = acknowledge(
            GROUP, name, member.epoch, TOPIC, (first, last, [kind.value]), renews=renews
        )
        told = await self._ask(name, said)
        assert told.error_code == ErrorCode.NONE
        member.epoch += 1
        if told.responses[0].partitions[0].error_code == ErrorCode.NONE:
            self._acknowledged(member, range(first, last + 1), kind)

    def _acknowledged(self, member: Member, offsets: range, kind: AcknowledgeType) -> None:
        for offset in offsets:
            if offset not in member.holds:  # it is behind the start offset already
                archived = self.deliveries[offset] >= DELIVERIES
                assert offset in self.accepted or archived, "another's, or nobody's"
            elif kind is AcknowledgeType.RENEW:
                member.holds[offset] = self._now_ms() + LOCK_MS
            else:
                del member.holds[offset]
                if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
                    self.accepted.add(offset)

    async def leave(self, name: str) -> None:
        """By a last request."""
        if self.members[name].epoch:
            told = await self._ask(name, acknowledge(GROUP, name, -1, None))
            assert told.error_code == ErrorCode.NONE
        self.members[name] = Member(context=self.members[name].context)

    async def cut_off(self, name: str) -> None:
        """Its connection ends; nobody knows of anything that it may have been told."""
        context = self.members[name].context
        self.members[name] = Member()
        if context is not None:
            assert context.on_end is not None
            context.on_end()
            await trio.testing.wait_all_tasks_blocked()

    async def finish(self) -> None:
        """One member accepts all that is left."""
        await self.lead()
        for name in MEMBERS:
            await self.leave(name)
        await self.pass_time(LOCK_MS + 1)
        for _ in range(RECORDS):
            await self.read("a", RECORDS, strict=False)
            held = sorted(self.members["a"].holds)
            if not held:
                break
            for offset in held:
                await self.claim("a", offset, 1, AcknowledgeType.ACCEPT)
        for offset in range(RECORDS):
            archived = self.deliveries[offset] >= DELIVERIES
            assert offset in self.accepted or archived, f"{offset} is lost"


names = st.sampled_from(MEMBERS)
kinds = st.sampled_from([kind for kind in AcknowledgeType if kind is not AcknowledgeType.GAP])
steps = st.one_of(
    st.tuples(st.just("read"), names, st.integers(1, 14), st.booleans()),
    st.tuples(st.just("say"), names, st.integers(0, RECORDS - 1), st.integers(1, 12), kinds),
    st.tuples(st.just("read"), names, st.integers(1, 14), st.booleans()),
    st.tuples(st.just("claim"), names, st.integers(0, 20), st.integers(1, 12), kinds),
    st.tuples(st.just("leave"), names),
    st.tuples(st.just("cut_off"), names),
    st.tuples(st.just("pass_time"), st.sampled_from([10, LOCK_MS // 2, LOCK_MS + 1])),
    st.tuples(st.just("resign")),
    st.tuples(st.just("lead")),
    st.tuples(st.just("restart")),
)


async def play(drawn: list[tuple[Any, ...]], clock: trio.testing.MockClock) -> None:
    with TemporaryDirectory() as directory:
        async with trio.open_nursery() as nursery:
            world = World(Path(directory), clock)
            await world.start(nursery)
            await world.fill()
            for what, *arguments in drawn:
                given = [nursery] if what == "restart" else arguments
                await getattr(world, what)(*given)
            await world.finish()
            world.stop()


def run(drawn: list[tuple[Any, ...]]) -> None:
    clock = trio.testing.MockClock()
    trio.run(play, drawn, clock, clock=clock)


@settings(max_examples=10)
@given(st.lists(steps, max_size=30))
@example(
    [
        ("read", "a", 14, False),
        ("say", "a", 4, 3, AcknowledgeType.ACCEPT),
        ("cut_off", "a"),
        ("restart",),
        ("read", "b", 14, True),
        ("resign",),
        ("say", "b", 1, 3, AcknowledgeType.ACCEPT),
        ("lead",),
        ("pass_time", LOCK_MS + 1),
    ]
)
def test_random_member_schedules_deliver_each_record_once(drawn: list[tuple[Any, ...]]) -> None:
    run(drawn)


@pytest.mark.long
@settings(max_examples=80)
@given(st.lists(steps, max_size=80))
def test_long_member_schedules_deliver_each_record_once(drawn: list[tuple[Any, ...]]) -> None:
    run(drawn)
