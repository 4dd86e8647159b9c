"""Share groups without a broker: members that behave like clients, and a share coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.share.decision import ShareHeartbeatReply, ShareInitialization
from kwire.groups.share.group import ShareGroup
from kwire.groups.surroundings import FixedSurroundings, ShareSettings
from tests.coordinators.contract.simulation import Simulation
from tests.groups.images import deleted, put

GROUP_ID = "g"
CALLER = HeartbeatCaller("client", "/host")
AT_ONCE = ShareSettings(assignment_interval_ms=0)


class Waiting:
    """A request without a reply."""

    reply: Any = None

    def __deepcopy__(self, _: object) -> Waiting:
        return self

    def resolve(self, reply: Any) -> None:  # noqa: ANN401 - of any kind
        assert self.reply is None, "one reply each"
        self.reply = reply

    def refuse(self, error: ErrorCode) -> ShareHeartbeatReply:
        return ShareHeartbeatReply(ShareGroupHeartbeatResponse(error_code=error))


class ShareSimulation(Simulation[GroupMachine, MachineRecord]):
    """Drives one machine with one group."""

    def __init__(
        self,
        limits: GroupLimits | None = None,
        settings: ShareSettings = AT_ONCE,
        kind: type[GroupMachine] = GroupMachine,
    ) -> None:
        self.surroundings = FixedSurroundings(ClusterImage(cluster_id="c"), share=settings)
        self.limits = limits or GroupLimits()
        self._kind = kind
        super().__init__(kind(self.limits, self.surroundings))
        self.asked: list[ShareInitialization] = []
        """What the share coordinator has not answered yet."""
        self.load()

    @property
    def group(self) -> ShareGroup | None:
        return group_of(self.machine)

    @property
    def image(self) -> ClusterImage:
        return self.surroundings.image

    def reloaded(self) -> GroupMachine:
        return self.replay_into(GroupMachine(self.limits, self.surroundings))

    def restart(self) -> None:
        """The broker is killed and reads the log; what the share coordinator says is lost."""
        self.timers.clear()
        self.asked.clear()
        self.machine = self.replay_into(self._kind(self.limits, self.surroundings))
        self.load()

    def put_topic(self, name: str, partitions: int) -> bytes:
        """A topic that is new, or grows."""
        self.surroundings.image, topic_id = put(self.image, name, partitions)
        return topic_id

    def delete_topic(self, name: str) -> None:
        topic_id = self.image.topics[name].id
        self.surroundings.image = deleted(self.image, name)
        self.carry_out(self.machine.topics_deleted([(name, topic_id)], self.now_ms))

    def heartbeat(self, **fields: Any) -> ShareGroupHeartbeatResponse:  # noqa: ANN401 - its
        request = ShareGroupHeartbeatRequest(group_id=GROUP_ID, **fields)
        ticket = Waiting()
        effects = self.machine.share.heartbeat(request, CALLER, ticket, self.now_ms)
        self.carry_out(effects, ticket)
        assert ticket.reply is not None
        if ticket.reply.initialization is not None:
            self.asked.append(ticket.reply.initialization)
        response: ShareGroupHeartbeatResponse = ticket.reply.response
        return response

    def answer(self, *, succeeded: bool = True) -> None:
        """The share coordinator says something to the oldest question."""
        if self.asked:
            asked, ticket = self.asked.pop(0), Waiting()
            share = self.machine.share
            say = share.initialized if succeeded else share.not_initialized
            self.carry_out(say(asked.group_id, asked.topics, ticket), ticket)


def group_of(machine: GroupMachine) -> ShareGroup | None:
    group = machine.groups.get(GROUP_ID)
    return group if isinstance(group, ShareGroup) else None


@dataclass(slots=True)
class Client:
    """A member as a client has it."""

    simulation: ShareSimulation
    name: str
    topics: list[str] = field(default_factory=lambda: ["t"])
    lives: int = 0
    epoch: int = 0
    reads: frozenset[tuple[bytes, int]] = frozenset()

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"

    @property
    def is_in(self) -> bool:
        return self.epoch > 0

    def beat(self, *, lose_reply: bool = False, full: bool = False) -> ShareGroupHeartbeatResponse:
        """Join, or say that it lives."""
        names = self.topics if full or not self.is_in else None
        response = self.simulation.heartbeat(
            member_id=self.member_id, member_epoch=self.epoch, subscribed_topic_names=names
        )
        if not lose_reply:
            self._hear(response)
        return response

    def _hear(self, response: ShareGroupHeartbeatResponse) -> None:
        if response.error_code != ErrorCode.NONE:
            if response.error_code != ErrorCode.NOT_ENOUGH_REPLICAS:
                self.forget()
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.reads = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )

    def forget(self) -> None:
        self.epoch = 0
        self.reads = frozenset()

    def leave(self) -> ShareGroupHeartbeatResponse:
        response = self.simulation.heartbeat(member_id=self.member_id, member_epoch=-1)
        if response.error_code == ErrorCode.NONE:
            self.die()
        return response

    def die(self) -> None:
        """It comes back as somebody else."""
        self.forget()
        self.lives += 1
