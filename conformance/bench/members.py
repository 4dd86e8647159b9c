"""Hundreds of group members in one process that send on raw sockets what stock clients send.

There are three protocols. In the classic one, a rebalance revokes all partitions. With cooperative
members, they keep theirs, and join again for those that they give up. With KIP-848, the broker
assigns partitions, and members send only heartbeats. The leader of a classic group assigns
partitions evenly and lets members keep theirs as far as possible.
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
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.load import Address
from kwire.conformance.bench.transactions import REPLY_HEADER_BYTES, request

HEARTBEAT_S: Final = 1.0
"""The interval of classic members; for KIP-848 the broker determines it."""
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
    """The members of a group on a topic, and whether each has its partitions."""

    def __init__(self, group_id: str, topic: str, topic_id: bytes, partitions: int) -> None:
        """Prepare a group without members that reads one topic of this many partitions."""
        self.group_id = group_id
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.members: list[SimulatedMember] = []
        self.phases = random.Random(partitions)
        """The random phase of each member's heartbeats.

        A rebalance ends for all members at once. If they counted from there, they would send
        together, and the duration of the next rebalance would depend on its moment within the
        interval.
        """
        self.settled = trio.Event()
        self.rushing: type[Message] | None = None
        """The request that members send without pause, or None for occasional heartbeats."""
        self.wake_up = trio.Event()
        """Set to wake members that sleep between heartbeats."""
        self.begin_to_count()

    def begin_to_count(self) -> None:
        self.answered = 0
        self.counting = trio.Event()
        """Set by the first response."""

    def count_response(self) -> None:
        self.answered += 1
        self.counting.set()

    def check_assignment(self) -> None:
        """Set `settled` if each partition has one owner and the members' shares differ by at
        most one."""
        counts = [len(member.has) for member in self.members]
        if sum(counts) == self.partitions and max(counts) - min(counts) <= 1:
            owned = {partition for member in self.members for partition in member.has}
            if len(owned) == self.partitions:
                self.settled.set()

    def rush(self, rushing: type[Message] | None) -> None:
        self.rushing = rushing
        self.wake_up.set()
        self.wake_up = trio.Event()

    async def remove(self, members: Sequence[SimulatedMember]) -> float:
        """Let members leave; return the seconds until the others have all partitions."""
        self.members = [member for member in self.members if member not in members]
        self.settled = trio.Event()
        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(member.leave)
        await self.settled.wait()
        return trio.current_time() - start


class SimulatedMember(ABC):
    """One member of a group, with its connection."""

    def __init__(self, crowd: Crowd, address: Address) -> None:
        """Prepare a member that is not connected and has no partitions yet."""
        self.crowd = crowd
        self.address = address
        self.member_id = ""
        self._phase = crowd.phases.random()
        self.epoch = 0
        """The member epoch, or the generation in the classic protocol."""
        self.has: frozenset[int] = frozenset()
        self._stream: trio.SocketStream | None = None
        self._turn = trio.Lock()
        self._life = trio.CancelScope()

    async def run(self) -> None:
        """Be a member until it leaves or is cancelled."""
        self._stream = await trio.open_tcp_stream(*self.address)
        self._stream.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
        try:
            with self._life:
                await self.live()
        finally:
            await trio.aclose_forcefully(self._stream)

    @abstractmethod
    async def live(self) -> None:
        """Join, and send heartbeats until cancelled."""

    @abstractmethod
    async def send_leave(self) -> None: ...

    async def leave(self) -> None:
        await self.send_leave()
        self._life.cancel()

    def hold(self, partitions: Iterable[int]) -> None:
        self.has = frozenset(partitions)
        self.crowd.check_assignment()

    async def ask(self, message: Message, version: int, kind: type[ReplyT]) -> ReplyT:
        """Return the response to a request; requests of a member are sent one after another."""
        stream = self._stream
        assert stream is not None
        async with self._turn:
            await stream.send_all(request(message, version))
            size = int.from_bytes(await _exactly(stream, 4))
            reply = await _exactly(stream, size)
        return kind.decode(reply, version, REPLY_HEADER_BYTES)

    async def pause(self, seconds: float) -> None:
        """Sleep until its next heartbeat, or send commits if the members rush."""
        crowd = self.crowd
        turns = trio.current_time() / seconds
        with trio.move_on_after(((self._phase - turns) % 1 or 1) * seconds):
            await crowd.wake_up.wait()
        while crowd.rushing is OffsetCommitRequest:
            await self._commit()
            crowd.count_response()

    async def _commit(self) -> None:
        """Commit offset 1 of each own partition; raise RequestFailed after an error."""
        crowd = self.crowd
        partitions = [OffsetCommitRequestPartition(index, 1) for index in self.has]
        topics = [OffsetCommitRequestTopic(crowd.topic, partitions=partitions)]
        commit = OffsetCommitRequest(crowd.group_id, self.epoch, self.member_id, topics=topics)
        reply = await self.ask(commit, COMMIT_VERSION, OffsetCommitResponse)
        error = reply.topics[0].partitions[0].error_code
        if error:
            raise RequestFailed(f"OffsetCommit gave error code {error}")

    async def find_coordinator(self) -> None:
        """Wait until the group has a coordinator; the first request creates the offsets topic."""
        while True:
            find = FindCoordinatorRequest(coordinator_keys=[self.crowd.group_id])
            reply = await self.ask(find, FIND_VERSION, FindCoordinatorResponse)
            if reply.coordinators[0].error_code == ErrorCode.NONE:
                return
            await trio.sleep(RETRY_S)


async def _exactly(stream: trio.SocketStream, size: int) -> bytes:
    """Return the next `size` bytes; raise RequestFailed if the broker closes the connection."""
    data = bytearray()
    while len(data) < size:
        more = await stream.receive_some(size - len(data))
        if not more:
            raise RequestFailed("the broker closed a member's connection")
        data += more
    return bytes(data)


class SimulatedClassicMember(SimulatedMember):
    """A member of the eager classic protocol, which gives up all partitions before it joins
    again."""

    protocol: ClassVar = "range"
    keeps: ClassVar = False

    async def live(self) -> None:
        """Join the group and send heartbeats until cancelled; after an error, join again."""
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
                crowd.count_response()

    async def send_leave(self) -> None:
        leaving = LeaveGroupRequest(self.crowd.group_id, members=[MemberIdentity(self.member_id)])
        await self.ask(leaving, LEAVE_VERSION, LeaveGroupResponse)

    async def _join(self) -> None:
        """Join until the member has an assignment that it need not give up."""
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
                    raise RequestFailed(f"JoinGroup gave error code {error}")

    def _joining(self) -> JoinGroupRequest:
        """Return the JoinGroup request with the subscription and the partitions that it owns."""
        owned = [OwnedTopic(self.crowd.topic, sorted(self.has))]
        subscription = ConsumerProtocolSubscription([self.crowd.topic], owned_partitions=owned)
        metadata = _encode_versioned(subscription)
        return JoinGroupRequest(
            self.crowd.group_id,
            SESSION_TIMEOUT_MS,
            REBALANCE_TIMEOUT_MS,
            self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(self.protocol, metadata)],
        )

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """Get the assignment; return whether the member need not join again at once."""
        leads = joined.leader == self.member_id and not joined.skip_assignment
        sync = SyncGroupRequest(
            self.crowd.group_id,
            self.epoch,
            self.member_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=self._assignments(joined.members) if leads else [],
        )
        reply = await self.ask(sync, SYNC_VERSION, SyncGroupResponse)
        if reply.error_code:
            return False
        assignment = ConsumerProtocolAssignment.decode(reply.assignment, SUBSCRIPTION_VERSION, 2)
        mine = {index for topic in assignment.assigned_partitions for index in topic.partitions}
        gives_up = self.keeps and not self.has <= mine
        self.hold(mine)
        return not gives_up

    def _assignments(
        self, members: Sequence[JoinGroupResponseMember]
    ) -> list[SyncGroupRequestAssignment]:
        """Return the leader's assignments, as even as possible.

        With cooperative members a partition that another member still owns is left out.
        """
        owned = {member.member_id: _decode_owned(member.metadata) for member in members}
        if not self.keeps:
            owned = dict.fromkeys(owned, frozenset())
        assigned = assign_evenly(owned, self.crowd.partitions)
        if self.keeps:  # a partition of another member is assigned after that has given it up
            owners = {index: name for name, indexes in owned.items() for index in indexes}
            assigned = {
                name: frozenset(index for index in indexes if owners.get(index, name) == name)
                for name, indexes in assigned.items()
            }
        return [
            SyncGroupRequestAssignment(name, _assignment(self.crowd.topic, indexes))
            for name, indexes in assigned.items()
        ]


class SimulatedCooperativeMember(SimulatedClassicMember):
    """A classic member that keeps partitions, and joins again after it gave some up (KIP-429)."""

    protocol: ClassVar = "cooperative-sticky"
    keeps: ClassVar = True


class SimulatedConsumerMember(SimulatedMember):
    """A member of KIP-848."""

    async def live(self) -> None:
        """Send heartbeats of KIP-848 until cancelled, and follow the assignments in the responses.

        After an error the member joins again in epoch 0. `reports` says that the next heartbeat has
        the owned partitions; it is then sent at once.
        """
        await self.find_coordinator()
        self.member_id = str(uuid.uuid4())
        crowd, reports = self.crowd, True
        while True:
            reply = await self._beat(reports=reports)
            if reply.error_code in NOT_YET:
                await trio.sleep(RETRY_S)
                continue
            if reply.error_code:
                self.epoch, self.has, reports = 0, frozenset(), True
                continue
            self.epoch = reply.member_epoch
            reports = self._apply(reply)
            if crowd.rushing is ConsumerGroupHeartbeatRequest:
                crowd.count_response()
            elif not reports:
                await self.pause(reply.heartbeat_interval_ms / 1000)

    async def send_leave(self) -> None:
        leaving = ConsumerGroupHeartbeatRequest(self.crowd.group_id, self.member_id, -1)
        await self.ask(leaving, CONSUMER_VERSION, ConsumerGroupHeartbeatResponse)

    async def _beat(self, *, reports: bool) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat: all fields when the member joins, later only what has changed."""
        crowd, joins = self.crowd, self.epoch == 0
        owned = [TopicPartitions(crowd.topic_id, sorted(self.has))] if self.has else []
        heartbeat = ConsumerGroupHeartbeatRequest(
            crowd.group_id,
            self.member_id,
            self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=[crowd.topic] if joins else None,
            topic_partitions=owned if reports else None,
        )
        return await self.ask(heartbeat, CONSUMER_VERSION, ConsumerGroupHeartbeatResponse)

    def _apply(self, reply: ConsumerGroupHeartbeatResponse) -> bool:
        """Apply the assignment in a response; return whether it has changed."""
        if reply.assignment is None:
            return False
        topics = reply.assignment.topic_partitions
        assigned = frozenset(index for topic in topics for index in topic.partitions)
        changed = assigned != self.has
        self.hold(assigned)
        return changed


def assign_evenly(
    owned: Mapping[str, frozenset[int]], partitions: int
) -> dict[str, frozenset[int]]:
    """Return an even assignment of all partitions in which members keep theirs as far as
    possible."""
    least, more = divmod(partitions, len(owned))
    assigned: dict[str, list[int]] = {}
    for name in sorted(owned, key=lambda member: -len(owned[member])):
        limit = least + (1 if more > 0 and len(owned[name]) > least else 0)
        more -= limit - least
        assigned[name] = sorted(owned[name])[:limit]
    kept = {index for indexes in assigned.values() for index in indexes}
    free = iter([index for index in range(partitions) if index not in kept])
    for indexes in assigned.values():
        limit = max(least, len(indexes))
        if more > 0 and limit == least:
            limit, more = least + 1, more - 1
        indexes += islice(free, limit - len(indexes))
    return {name: frozenset(indexes) for name, indexes in assigned.items()}


def _encode_versioned(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    return SUBSCRIPTION_VERSION.to_bytes(2) + message.encode(SUBSCRIPTION_VERSION)


def _assignment(topic: str, partitions: Iterable[int]) -> bytes:
    return _encode_versioned(ConsumerProtocolAssignment([AssignedTopic(topic, sorted(partitions))]))


def _decode_owned(metadata: bytes) -> frozenset[int]:
    subscription = ConsumerProtocolSubscription.decode(metadata, SUBSCRIPTION_VERSION, 2)
    return frozenset(index for topic in subscription.owned_partitions for index in topic.partitions)
