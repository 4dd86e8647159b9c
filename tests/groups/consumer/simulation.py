"""Consumer groups without a broker: members that behave like clients, and a cluster of topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.surroundings import ConsumerSettings, FixedSurroundings
from tests.coordinators.contract.simulation import Simulation

GROUP_ID = "g"
REBALANCE_TIMEOUT_MS = 60_000
CALLER = HeartbeatCaller("client", "/127.0.0.1")

Place = tuple[bytes, int]


T = TypeVar("T")


class Waiting(Generic[T]):
    """A request and its response, once there is one."""

    def __init__(self, refuse: Callable[[ErrorCode], T] | None = None) -> None:
        self.response: T | None = None
        self._refuse = refuse

    def __deepcopy__(self, _: object) -> Waiting[T]:
        return self

    def resolve(self, response: T) -> None:
        assert self.response is None, "one reply each"
        self.response = response

    def refuse(self, error: ErrorCode) -> T:
        assert self._refuse is not None, "its request writes nothing"
        return self._refuse(error)


class ConsumerSimulation(Simulation[GroupMachine, MachineRecord]):
    """Drives one machine with one group."""

    def __init__(
        self,
        limits: GroupLimits | None = None,
        settings: ConsumerSettings | None = None,
        kind: type[GroupMachine] = GroupMachine,
    ) -> None:
        image = ClusterImage(cluster_id="c")
        self.surroundings = FixedSurroundings(image, settings or ConsumerSettings())
        self.limits = limits or GroupLimits()
        self._kind = kind
        super().__init__(kind(self.limits, self.surroundings))
        self._topics_made = 0
        self.load()

    @property
    def group(self) -> ConsumerGroup | None:
        return group_of(self.machine)

    def reloaded(self) -> GroupMachine:
        return self.replay_into(GroupMachine(self.limits, self.surroundings))

    def restart(self) -> None:
        """Kill the broker and replay the log."""
        self.timers.clear()
        self.machine = self.replay_into(self._kind(self.limits, self.surroundings))
        self.load()

    # -- the cluster

    def put_topic(self, name: str, partitions: int) -> bytes:
        """Create a topic, or add partitions to it."""
        image = self.surroundings.image
        known = image.topics.get(name)
        if known is None:
            self._topics_made += 1
        topic_id = self._topics_made.to_bytes(16) if known is None else known.id
        one = PartitionImage(leader=0, leader_epoch=0, partition_epoch=0, replicas=(0,), isr=(0,))
        topic = TopicImage(name, topic_id, (one,) * partitions)
        self.surroundings.image = replace(
            image,
            topics=image.topics.having([(name, topic)]),
            names_by_id=image.names_by_id.having([(topic_id, name)]),
            version=image.version + 1,
        )
        return topic_id

    def delete_topic(self, name: str) -> None:
        image = self.surroundings.image
        topic_id = image.topics[name].id
        self.surroundings.image = replace(
            image,
            topics=image.topics.without([name]),
            names_by_id=image.names_by_id.without([topic_id]),
            version=image.version + 1,
        )

    # -- requests

    def heartbeat(
        self,
        new_member_id: str = "new",
        **fields: Any,  # noqa: ANN401 - of the request
    ) -> ConsumerGroupHeartbeatResponse:
        fields["member_id"] = fields.get("member_id") or new_member_id
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP_ID, **fields)
        ticket: Waiting[ConsumerGroupHeartbeatResponse] = Waiting(
            lambda error: ConsumerGroupHeartbeatResponse(error_code=error)
        )
        effects = self.machine.consumer.heartbeat(request, CALLER, ticket, self.now_ms)
        self.carry_out(effects, ticket)
        assert ticket.response is not None
        return ticket.response


def group_of(machine: GroupMachine) -> ConsumerGroup | None:
    group = machine.groups.get(GROUP_ID)
    return group if isinstance(group, ConsumerGroup) else None


@dataclass(slots=True)
class Client:
    """A member, as its client sees it."""

    simulation: ConsumerSimulation
    name: str
    instance_id: str | None = None
    topics: list[str] = field(default_factory=lambda: ["t"])
    pattern: str | None = None
    lives: int = 0
    epoch: int = 0
    told: frozenset[Place] = frozenset()
    """The partitions that the last response assigned to it."""
    owned: frozenset[Place] = frozenset()

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"

    @property
    def is_in(self) -> bool:
        return self.epoch > 0

    def beat(self, *, lose_reply: bool = False) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat: a join, or the owned partitions."""
        joining = self.epoch <= 0
        response = self.simulation.heartbeat(
            member_id=self.member_id,
            member_epoch=max(self.epoch, 0),
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=self.topics,
            subscribed_topic_regex=self.pattern,
            topic_partitions=[] if joining else self.listed(),
        )
        if not lose_reply:
            self.hear(response)
        return response

    def hear(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code in (
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        ):
            self.forget()
        elif response.error_code == ErrorCode.NONE:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.told = frozenset(
                    (topic.topic_id, partition)
                    for topic in response.assignment.topic_partitions
                    for partition in topic.partitions
                )

    def move(self) -> None:
        """Give up and take partitions, as the last response says."""
        self.owned = self.told

    def forget(self) -> None:
        self.epoch = 0
        self.told = self.owned = frozenset()

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        response = self.simulation.heartbeat(
            member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        if response.error_code != ErrorCode.NOT_ENOUGH_REPLICAS:
            self.forget()
            self.lives += 1
        return response

    def die(self) -> None:
        """Rejoin with another member id."""
        self.forget()
        self.lives += 1

    def listed(self) -> list[TopicPartitions]:
        topics: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(self.owned):
            topics.setdefault(topic_id, []).append(partition)
        return [TopicPartitions(topic_id, these) for topic_id, these in topics.items()]
