"""Streams groups without a broker: members that behave like an application's threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import (
    Endpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.streams.decision import StreamsHeartbeatReply
from kwire.groups.streams.group import StreamsGroup
from kwire.groups.streams.tasks import Task
from kwire.groups.surroundings import FixedSurroundings, StreamsSettings
from tests.coordinators.contract.simulation import Simulation
from tests.groups.images import deleted, put

GROUP_ID = "g"
CALLER = HeartbeatCaller("client", "/host")
AT_ONCE = StreamsSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
CHANGELOG, REPARTITION = "g-store-changelog", "g-count-repartition"

Kinds = tuple[frozenset[Task], frozenset[Task]]
"""Active tasks and standbys."""


class Waiting:
    """A request without a reply."""

    reply: Any = None

    def __deepcopy__(self, _: object) -> Waiting:
        return self

    def resolve(self, reply: Any) -> None:  # noqa: ANN401 - of any kind
        assert self.reply is None, "one reply each"
        self.reply = reply

    def refuse(self, error: ErrorCode) -> StreamsHeartbeatReply:
        return StreamsHeartbeatReply(StreamsGroupHeartbeatResponse(error_code=error))


def counting(epoch: int = 0) -> Topology:
    """Reads `t`, repartitions, and keeps counts."""
    return Topology(
        epoch,
        [
            Subtopology("0", source_topics=["t"], repartition_sink_topics=[REPARTITION]),
            Subtopology(
                "1",
                repartition_source_topics=[TopicInfo(REPARTITION)],
                state_changelog_topics=[TopicInfo(CHANGELOG)],
            ),
        ],
    )


def copying(epoch: int = 0) -> Topology:
    """Reads `t`, and keeps nothing."""
    return Topology(epoch, [Subtopology("0", source_topics=["t"])])


class StreamsSimulation(Simulation[GroupMachine, MachineRecord]):
    """Drives one machine with one group."""

    def __init__(
        self,
        limits: GroupLimits | None = None,
        settings: StreamsSettings = AT_ONCE,
        kind: type[GroupMachine] = GroupMachine,
    ) -> None:
        self.surroundings = FixedSurroundings(ClusterImage(cluster_id="c"), streams=settings)
        self.limits = limits or GroupLimits()
        self._kind = kind
        super().__init__(kind(self.limits, self.surroundings))
        self.load()

    @property
    def group(self) -> StreamsGroup | None:
        return group_of(self.machine)

    @property
    def there(self) -> StreamsGroup:
        group = self.group
        assert group is not None
        return group

    @property
    def image(self) -> ClusterImage:
        return self.surroundings.image

    def reloaded(self) -> GroupMachine:
        return self.replay_into(GroupMachine(self.limits, self.surroundings))

    def restart(self) -> None:
        """The broker is killed and reads the log."""
        self.timers.clear()
        self.machine = self.replay_into(self._kind(self.limits, self.surroundings))
        self.load()

    def put_topic(self, name: str, partitions: int) -> None:
        """A topic that is new, or grows."""
        self.surroundings.image, _ = put(self.image, name, partitions)

    def delete_topic(self, name: str) -> None:
        topic_id = self.image.topics[name].id
        self.surroundings.image = deleted(self.image, name)
        self.carry_out(self.machine.topics_deleted([(name, topic_id)], self.now_ms))

    def heartbeat(
        self,
        api_version: int = 1,
        **fields: Any,  # noqa: ANN401 - its
    ) -> StreamsHeartbeatReply:
        request = StreamsGroupHeartbeatRequest(**{"group_id": GROUP_ID, **fields})
        ticket = Waiting()
        caller = CALLER._replace(api_version=api_version)
        effects = self.machine.streams.heartbeat(request, caller, ticket, self.now_ms)
        self.carry_out(effects, ticket)
        reply: StreamsHeartbeatReply = ticket.reply
        assert reply is not None
        return reply

    def create(self, reply: StreamsHeartbeatReply) -> None:
        """The broker makes the topics that are to be made."""
        for topic in reply.to_create.values():
            if topic.name not in self.image.topics:
                self.put_topic(topic.name, topic.partitions)

    def delete_group(self) -> ErrorCode:
        ticket = Waiting()
        self.carry_out(self.machine.delete_group(GROUP_ID, ticket, self.now_ms), ticket)
        error: ErrorCode = ticket.reply
        return error


def group_of(machine: GroupMachine) -> StreamsGroup | None:
    group = machine.groups.get(GROUP_ID)
    return group if isinstance(group, StreamsGroup) else None


def _tasks(listed: list[TaskIds] | None) -> frozenset[Task]:
    return frozenset((each.subtopology_id, p) for each in listed or () for p in each.partitions)


def _listed(tasks: frozenset[Task]) -> list[TaskIds]:
    names = sorted({name for name, _ in tasks})
    return [TaskIds(name, sorted(p for other, p in tasks if other == name)) for name in names]


@dataclass(slots=True)
class Client:
    """A member as a thread of an application has it."""

    simulation: StreamsSimulation
    name: str
    process: str = ""
    topology: Topology = field(default_factory=counting)
    endpoint: Endpoint | None = None
    lives: int = 0
    epoch: int = 0
    endpoint_epoch: int = -1
    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    last: StreamsGroupHeartbeatResponse = field(default_factory=StreamsGroupHeartbeatResponse)

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"

    @property
    def is_in(self) -> bool:
        return self.epoch > 0

    @property
    def statuses(self) -> list[int]:
        """What it was told last beside its tasks."""
        return [status.status_code for status in self.last.status or ()]

    def beat(self, *, lose_reply: bool = False, mute: bool = False) -> StreamsHeartbeatReply:
        """Join, or say that it lives and, unless it is `mute`, what it owns."""
        fields: dict[str, Any] = {}
        if not self.is_in:
            fields = {
                "topology": self.topology,
                "rebalance_timeout_ms": 60_000,
                "process_id": self.process or self.name,
                "user_endpoint": self.endpoint,
            }
        if not mute or not self.is_in:
            fields["active_tasks"] = _listed(self.active)
            fields["standby_tasks"] = _listed(self.standby)
            fields["warmup_tasks"] = []
        reply = self.simulation.heartbeat(
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=self.endpoint_epoch,
            **fields,
        )
        if not lose_reply:
            self._hear(reply.response)
        return reply

    def _hear(self, response: StreamsGroupHeartbeatResponse) -> None:
        self.last = response
        if response.error_code != ErrorCode.NONE:
            if response.error_code != ErrorCode.NOT_ENOUGH_REPLICAS:
                self.forget()
            return
        self.epoch = response.member_epoch
        self.endpoint_epoch = response.endpoint_information_epoch
        if response.active_tasks is not None:
            self.active = _tasks(response.active_tasks)
            self.standby = _tasks(response.standby_tasks)

    def forget(self) -> None:
        self.epoch = 0
        self.active = self.standby = frozenset()

    def leave(self, *, shutdown: bool = False) -> StreamsHeartbeatReply:
        reply = self.simulation.heartbeat(
            member_id=self.member_id, member_epoch=-1, shutdown_application=shutdown
        )
        if reply.response.error_code == ErrorCode.NONE:
            self.die()
        return reply

    def die(self) -> None:
        """It comes back as somebody else."""
        self.forget()
        self.lives += 1
