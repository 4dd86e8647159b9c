"""Members of the classic protocol in the simulation of consumer groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import Any

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from kwire.codecs.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codecs.messages.consumer_protocol_subscription import TopicPartition as Owned
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.codecs.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kwire.groups.classic.decision import ClassicCaller
from kwire.groups.consumer import embedded
from tests.groups.consumer.simulation import (
    GROUP_ID,
    REBALANCE_TIMEOUT_MS,
    ConsumerSimulation,
    Place,
    Waiting,
)

SESSION_TIMEOUT_MS = 30_000
PROTOCOL = "cooperative-sticky"


def subscription(topics: list[str], owned: dict[str, list[int]] | None = None) -> bytes:
    places = [Owned(topic, partitions) for topic, partitions in (owned or {}).items()]
    return pack(">h", 3) + ConsumerProtocolSubscription(topics, None, places).encode(3)


def assignment(partitions: dict[str, list[int]], user_data: bytes | None = None) -> bytes:
    told = [TopicPartition(topic, these) for topic, these in partitions.items()]
    return pack(">h", 1) + ConsumerProtocolAssignment(told, user_data).encode(1)


@dataclass(slots=True)
class ClassicClient:
    """A member of the classic protocol with a cooperative assignor; it never blocks."""

    simulation: ConsumerSimulation
    name: str
    instance_id: str | None = None
    topics: list[str] = field(default_factory=lambda: ["t"])
    protocols: tuple[str, ...] = (PROTOCOL,)
    version: int = 9
    """Version of JoinGroup."""
    member_id: str = ""
    generation: int = -1
    wants_to_join: bool = True
    waits: Waiting[Any] | None = None
    """The JoinGroup or SyncGroup whose response has not arrived."""
    owned: frozenset[Place] = frozenset()
    joins: int = 0
    syncs: bool = True
    """False: the member never sends SyncGroup."""

    @property
    def is_in(self) -> bool:
        return self.generation >= 0 and not self.wants_to_join

    def waiting(self) -> bool:
        return self.waits is not None

    # -- a round

    def step(self) -> None:
        """Do the next step of a client."""
        if self.waits is not None:
            self.hear()
        elif self.wants_to_join:
            self.join()
        else:
            self.beat()

    def hear(self) -> None:
        """The awaited response, if it has arrived."""
        assert self.waits is not None
        response = self.waits.response
        if response is None:
            return
        self.waits = None
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
        else:
            assert isinstance(response, SyncGroupResponse)
            self._synced(response)

    # -- joining

    def join(self) -> None:
        self.joins += 1
        request = JoinGroupRequest(
            group_id=GROUP_ID,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name, self._said()) for name in self.protocols],
        )
        ticket: Waiting[JoinGroupResponse] = Waiting(
            lambda error: JoinGroupResponse(error_code=error, protocol_name=None)
        )
        self.waits = ticket
        simulation = self.simulation
        effects = simulation.machine.classic.join(
            request,
            ClassicCaller("client", "/127.0.0.1", self.version),
            f"{self.name}-{self.joins}",
            ticket,
            simulation.now_ms,
        )
        simulation.carry_out(effects, ticket)
        self.hear()

    def _said(self) -> bytes:
        names = self.simulation.surroundings.image.names_by_id
        owned: dict[str, list[int]] = {}
        for topic_id, partition in sorted(self.owned):
            if topic_id in names:
                owned.setdefault(names[topic_id], []).append(partition)
        return subscription(self.topics, owned)

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif response.error_code == ErrorCode.NONE:
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.wants_to_join = False
            if self.syncs:
                self.sync(response)
        else:
            self.refused(response.error_code)

    def refused(self, error: int) -> None:
        """React to an error of the coordinator like Java's consumer."""
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.forget()
        elif error == ErrorCode.ILLEGAL_GENERATION:
            self.owned = frozenset()
        self.wants_to_join = True

    def forget(self) -> None:
        self.member_id, self.generation = "", -1
        self.owned = frozenset()
        self.wants_to_join = True
        self.waits = None

    # -- syncing

    def sync(self, joined: JoinGroupResponse | None = None) -> None:
        request = SyncGroupRequest(
            group_id=GROUP_ID,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            assignments=[] if joined is None else self._assignments(joined),
        )
        ticket: Waiting[SyncGroupResponse] = Waiting(
            lambda error: SyncGroupResponse(error_code=error)
        )
        self.waits = ticket
        simulation = self.simulation
        effects = simulation.machine.classic.sync(request, ticket, simulation.now_ms)
        simulation.carry_out(effects, ticket)
        self.hear()

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader's: partitions go around among those who are subscribed to their topics.

        A partition that another member says it owns is nobody's in this generation.
        """
        topics = self.simulation.surroundings.image.topics
        wants = {m.member_id: embedded.subscription(m.metadata) for m in joined.members}
        dealt: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in wants}
        for name in sorted({topic for said in wants.values() for topic in said.topics}):
            takers = sorted(member_id for member_id, said in wants.items() if name in said.topics)
            for partition in range(len(topics[name].partitions) if name in topics else 0):
                taker = takers[partition % len(takers)]
                holders = {m for m, said in wants.items() if _owns(said, name, partition)}
                if not holders - {taker}:
                    dealt[taker].setdefault(name, []).append(partition)
        return [SyncGroupRequestAssignment(m, assignment(what)) for m, what in dealt.items()]

    def _synced(self, response: SyncGroupResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            self.refused(response.error_code)
            return
        image = self.simulation.surroundings.image
        before = self.owned
        told = embedded.assignment(response.assignment) if response.assignment else None
        partitions = {} if told is None else embedded.assigned(told, image)
        self.owned = frozenset(
            (topic_id, p) for topic_id, these in partitions.items() for p in these
        )
        if before - self.owned:
            self.wants_to_join = True  # a cooperative member joins again once it has given up

    # -- heartbeats and the end

    def beat(self) -> ErrorCode:
        request = HeartbeatRequest(GROUP_ID, self.generation, self.member_id, self.instance_id)
        ticket: Waiting[HeartbeatResponse] = Waiting(lambda e: HeartbeatResponse(error_code=e))
        simulation = self.simulation
        effects = simulation.machine.classic.heartbeat(request, ticket, simulation.now_ms)
        simulation.carry_out(effects, ticket)
        assert ticket.response is not None
        error = ErrorCode(ticket.response.error_code)
        if error is not ErrorCode.NONE:
            self.refused(error)
        return error

    def leave(self, member_id: str | None = None) -> LeaveGroupResponse:
        """Leave; an administrator removes a static member with `member_id` ""."""
        told = self.member_id if member_id is None else member_id
        request = LeaveGroupRequest(GROUP_ID, members=[MemberIdentity(told, self.instance_id)])
        ticket: Waiting[LeaveGroupResponse] = Waiting(lambda e: LeaveGroupResponse(error_code=e))
        simulation = self.simulation
        effects = simulation.machine.classic.leave(request, ticket, simulation.now_ms)
        simulation.carry_out(effects, ticket)
        assert ticket.response is not None
        self.forget()
        return ticket.response


def _owns(said: ConsumerProtocolSubscription, name: str, partition: int) -> bool:
    return any(
        topic.topic == name and partition in topic.partitions for topic in said.owned_partitions
    )
