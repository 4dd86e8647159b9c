"""Members of one group, hundreds in one process, that do on raw sockets what stock clients do.

Three protocols: the classic one, where a rebalance takes all partitions from everybody; the same
with cooperative members, who keep what they have and join again for what they give up; and KIP-848,
where the broker deals out and a heartbeat says all.  The member that leads a classic group deals
out evenly, and has everybody keep what they may.
"""

from __future__ import annotations

import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final, TypeVar

import trio

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.codecs.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
)
from kwire.codecs.messages.consumer_protocol_assignment import (
    TopicPartition as AssignedTopic,
)
from kwire.codecs.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kwire.codecs.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedTopic,
)
from kwire.codecs.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.codecs.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kwire.codecs.primitives import Message
from kwire.conformance.bench.frames import BrokerRefused
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.transactions import REPLY_HEADER_BYTES, request

HEARTBEAT_S: Final = 1.0
"""Of classic members; the broker says it to those of KIP-848."""
SESSION_TIMEOUT_MS: Final = 45_000
REBALANCE_TIMEOUT_MS: Final = 60_000
RETRY_S: Final = 0.05
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
COMMIT_VERSION, CONSUMER_VERSION, FIND_VERSION = 9, 1, 4
SUBSCRIPTION_VERSION: Final = 1
NOT_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

ReplyT = TypeVar("ReplyT", bound=Message)


class Crowd:
    """The members of a group on a topic, and whether each has its share."""

    def __init__(self, group_id: str, topic: str, topic_id: bytes, partitions: int) -> None:
        self.group_id = group_id
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.members: list[Member] = []
        self.phases = random.Random(partitions)
        """When in the time between two heartbeats each member sends its own.

        A rebalance is over for all at once.  Members that counted from there would go on together,
        and how long the next one takes would follow from when in their beat it begins.
        """
        self.settled = trio.Event()
        self.rushing: type[Message] | None = None
        """The request that members send one after another, rather than a heartbeat now and then."""
        self.stirred = trio.Event()
        """Set where members shall not sleep on."""
        self.begin_to_count()

    def begin_to_count(self) -> None:
        self.answered = 0
        self.counting = trio.Event()
        """Set by the first request that is answered."""

    def count(self) -> None:
        self.answered += 1
        self.counting.set()

    def look(self) -> None:
        """Whether each partition has one owner, and all members have as many, or one more."""
        counts = [len(member.has) for member in self.members]
        if sum(counts) == self.partitions and max(counts) - min(counts) <= 1:
            owned = {partition for member in self.members for partition in member.has}
            if len(owned) == self.partitions:
                self.settled.set()

    def stir(self, rushing: type[Message] | None) -> None:
        self.rushing = rushing
        self.stirred.set()
        self.stirred = trio.Event()

    async def take_out(self, members: Sequence[Member]) -> float:
        """Have them leave; seconds until the others have everything."""
        self.members = [each for each in self.members if each not in members]
        self.settled = trio.Event()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(member.leave)
        await self.settled.wait()
        return trio.current_time() - began


class Member(ABC):
    """See the module."""

    def __init__(self, crowd: Crowd, address: Address) -> None:
        self.crowd = crowd
        self.address = address
        self.member_id = ""
        self._phase = crowd.phases.random()
        self.epoch = 0
        """Its generation, in the classic protocol."""
        self.has: frozenset[int] = frozenset()
        self._stream: trio.SocketStream | None = None
        self._turn = trio.Lock()
        self._life = trio.CancelScope()

    async def run(self) -> None:
        """Be a member until it leaves, or is cancelled."""
        self._stream = await trio.open_tcp_stream(*self.address)
        self._stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        try:
            with self._life:
                await self.live()
        finally:
            await trio.aclose_forcefully(self._stream)

    @abstractmethod
    async def live(self) -> None:
        """Join, and send heartbeats for ever."""

    @abstractmethod
    async def say_goodbye(self) -> None: ...

    async def leave(self) -> None:
        await self.say_goodbye()
        self._life.cancel()

    def hold(self, partitions: Iterable[int]) -> None:
        self.has = frozenset(partitions)
        self.crowd.look()

    async def ask(self, message: Message, version: int, kind: type[ReplyT]) -> ReplyT:
        """One request after another: the reply to this one."""
        stream = self._stream
        assert stream is not None
        async with self._turn:
            await stream.send_all(request(message, version))
            size = int.from_bytes(await _exactly(stream, 4))
            reply = await _exactly(stream, size)
        return kind.decode(reply, version, REPLY_HEADER_BYTES)

    async def pause(self, seconds: float) -> None:
        """Sleep until its turn; or, where the members rush, send what they are to send."""
        crowd = self.crowd
        turns = trio.current_time() / seconds
        with trio.move_on_after(((self._phase - turns) % 1 or 1) * seconds):
            await crowd.stirred.wait()
        while crowd.rushing is OffsetCommitRequest:
            await self._commit()
            crowd.count()

    async def _commit(self) -> None:
        crowd = self.crowd
        partitions = [OffsetCommitRequestPartition(each, 1) for each in self.has]
        topics = [OffsetCommitRequestTopic(crowd.topic, partitions=partitions)]
        commit = OffsetCommitRequest(crowd.group_id, self.epoch, self.member_id, topics=topics)
        reply = await self.ask(commit, COMMIT_VERSION, OffsetCommitResponse)
        error = reply.topics[0].partitions[0].error_code
        if error:
            raise BrokerRefused(f"OffsetCommit gave error code {error}")

    async def find_coordinator(self) -> None:
        """Once there is one: the topic of offsets is made by the first who asks."""
        while True:
            find = FindCoordinatorRequest(coordinator_keys=[self.crowd.group_id])
            reply = await self.ask(find, FIND_VERSION, FindCoordinatorResponse)
            if reply.coordinators[0].error_code == ErrorCode.NONE:
                return
            await trio.sleep(RETRY_S)


async def _exactly(stream: trio.SocketStream, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = await stream.receive_some(size - len(found))
        if not more:
            raise BrokerRefused("the broker closed a member's connection")
        found += more
    return bytes(found)


class Classic(Member):
    """Of the classic protocol, eager: whoever joins again gives everything up first."""

    protocol: ClassVar = "range"
    keeps: ClassVar = False

    async def live(self) -> None:
        await self.find_coordinator()
        await self._join()
        crowd = self.crowd
        while True:
            if crowd.rushing is not HeartbeatRequest:
                await self.pause(HEARTBEAT_S)
            heartbeat = HeartbeatRequest(crowd.group_id, self.epoch, self.member_id)
            reply = await self.ask(heartbeat, HEARTBEAT_VERSION, HeartbeatResponse)
            if reply.error_code:
                await self._join()
            elif crowd.rushing is HeartbeatRequest:
                crowd.count()

    async def say_goodbye(self) -> None:
        leaving = LeaveGroupRequest(self.crowd.group_id, members=[MemberIdentity(self.member_id)])
        await self.ask(leaving, LEAVE_VERSION, LeaveGroupResponse)

    async def _join(self) -> None:
        """Until it has an assignment with which everybody is content."""
        if not self.keeps:
            self.has = frozenset()
        while True:
            joined = await self.ask(self._joining(), JOIN_VERSION, JoinGroupResponse)
            match joined.error_code:
                case ErrorCode.NONE:
                    self.epoch = joined.generation_id
                    if await self._sync(joined):
                        return
                case ErrorCode.MEMBER_ID_REQUIRED:
                    self.member_id = joined.member_id
                case ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
                case error if error in NOT_YET or error == ErrorCode.REBALANCE_IN_PROGRESS:
                    await trio.sleep(RETRY_S)
                case error:
                    raise BrokerRefused(f"JoinGroup gave error code {error}")

    def _joining(self) -> JoinGroupRequest:
        owned = [OwnedTopic(self.crowd.topic, sorted(self.has))]
        subscription = ConsumerProtocolSubscription([self.crowd.topic], owned_partitions=owned)
        metadata = _versioned(subscription)
        return JoinGroupRequest(
            self.crowd.group_id,
            SESSION_TIMEOUT_MS,
            REBALANCE_TIMEOUT_MS,
            self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(self.protocol, metadata)],
        )

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """Whether it need not join again at once."""
        leads = joined.leader == self.member_id and not joined.skip_assignment
        sync = SyncGroupRequest(
            self.crowd.group_id,
            self.epoch,
            self.member_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=self._dealt_out(joined.members) if leads else [],
        )
        reply = await self.ask(sync, SYNC_VERSION, SyncGroupResponse)
        if reply.error_code:
            return False
        told = ConsumerProtocolAssignment.decode(reply.assignment, SUBSCRIPTION_VERSION, 2)
        mine = {each for topic in told.assigned_partitions for each in topic.partitions}
        gives_up = self.keeps and not self.has <= mine
        self.hold(mine)
        return not gives_up

    def _dealt_out(
        self, members: Sequence[JoinGroupResponseMember]
    ) -> list[SyncGroupRequestAssignment]:
        owned = {each.member_id: _owned(each.metadata) for each in members}
        if not self.keeps:
            owned = dict.fromkeys(owned, frozenset())
        dealt = balanced(owned, self.crowd.partitions)
        if self.keeps:  # what somebody else has is dealt out once it was given up
            had = {each: name for name, these in owned.items() for each in these}
            dealt = {
                name: frozenset(each for each in these if had.get(each, name) == name)
                for name, these in dealt.items()
            }
        return [
            SyncGroupRequestAssignment(name, _assignment(self.crowd.topic, these))
            for name, these in dealt.items()
        ]


class Cooperative(Classic):
    """Who keeps what it has through a rebalance, and joins again for what it gave up (KIP-429)."""

    protocol: ClassVar = "cooperative-sticky"
    keeps: ClassVar = True


class Consumer(Member):
    """Of KIP-848."""

    async def live(self) -> None:
        await self.find_coordinator()
        self.member_id = str(uuid.uuid4())
        crowd, tells = self.crowd, True
        while True:
            reply = await self._beat(tells=tells)
            if reply.error_code in NOT_YET:
                await trio.sleep(RETRY_S)
                continue
            if reply.error_code:
                self.epoch, self.has, tells = 0, frozenset(), True
                continue
            self.epoch = reply.member_epoch
            tells = self._take(reply)
            if crowd.rushing is ConsumerGroupHeartbeatRequest:
                crowd.count()
            elif not tells:
                await self.pause(reply.heartbeat_interval_ms / 1000)

    async def say_goodbye(self) -> None:
        leaving = ConsumerGroupHeartbeatRequest(self.crowd.group_id, self.member_id, -1)
        await self.ask(leaving, CONSUMER_VERSION, ConsumerGroupHeartbeatResponse)

    async def _beat(self, *, tells: bool) -> ConsumerGroupHeartbeatResponse:
        """All of itself when it joins, then what has changed."""
        crowd, joins = self.crowd, self.epoch == 0
        owned = [TopicPartitions(crowd.topic_id, sorted(self.has))] if self.has else []
        heartbeat = ConsumerGroupHeartbeatRequest(
            crowd.group_id,
            self.member_id,
            self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=[crowd.topic] if joins else None,
            topic_partitions=owned if tells else None,
        )
        return await self.ask(heartbeat, CONSUMER_VERSION, ConsumerGroupHeartbeatResponse)

    def _take(self, reply: ConsumerGroupHeartbeatResponse) -> bool:
        """What it is told to have; whether that is something else."""
        if reply.assignment is None:
            return False
        topics = reply.assignment.topic_partitions
        told = frozenset(each for topic in topics for each in topic.partitions)
        changed = told != self.has
        self.hold(told)
        return changed


def balanced(owned: Mapping[str, frozenset[int]], partitions: int) -> dict[str, frozenset[int]]:
    """All partitions, as many for each or one more; everybody keeps what they may."""
    least, more = divmod(partitions, len(owned))
    dealt: dict[str, list[int]] = {}
    for name in sorted(owned, key=lambda each: -len(owned[each])):
        limit = least + (1 if more > 0 and len(owned[name]) > least else 0)
        more -= limit - least
        dealt[name] = sorted(owned[name])[:limit]
    kept = {each for these in dealt.values() for each in these}
    free = iter([each for each in range(partitions) if each not in kept])
    for these in dealt.values():
        limit = max(least, len(these))
        if more > 0 and limit == least:
            limit, more = least + 1, more - 1
        these += islice(free, limit - len(these))
    return {name: frozenset(these) for name, these in dealt.items()}


def _versioned(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    return SUBSCRIPTION_VERSION.to_bytes(2) + message.encode(SUBSCRIPTION_VERSION)


def _assignment(topic: str, partitions: Iterable[int]) -> bytes:
    return _versioned(ConsumerProtocolAssignment([AssignedTopic(topic, sorted(partitions))]))


def _owned(metadata: bytes) -> frozenset[int]:
    subscription = ConsumerProtocolSubscription.decode(metadata, SUBSCRIPTION_VERSION, 2)
    return frozenset(each for topic in subscription.owned_partitions for each in topic.partitions)
