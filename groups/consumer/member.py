"""A member of a consumer group: what it has said of itself, and which partitions it holds.

state                  what the member does
---------------------  ---------------------------------------------------------------------
STABLE                 it has all that its epoch's target gives it
UNREVOKED_PARTITIONS   it must give up partitions before it gets to the next epoch; it is known to
                       have done so once it does not own them any longer, by its own word
UNRELEASED_PARTITIONS  it is in the new epoch, and waits for partitions that others still hold
UNKNOWN                a newer broker wrote a state that is not known here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

from kwire.codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.codecs.messages.coordinator.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.codecs.messages.coordinator.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kwire.groups.consumer.records import CurrentAssignment, MemberMetadata

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2
"""A static member goes and keeps its partitions; who comes with its instance id gets them."""

NO_REBALANCE_TIMEOUT = -1

Held = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the member was given it."""

NOTHING_HELD: Held = {}


class MemberState(IntEnum):
    """See the module; the numbers are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True)
class ConsumerMember:
    """See the module.  It is never changed, only replaced."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """As it is printed, with Java's leading slash."""
    topic_names: frozenset[str] = frozenset()
    pattern: str | None = ""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Of a member that speaks the classic protocol."""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    """What it must give up."""

    @property
    def protocol(self) -> ClassicProtocol:
        """The one that a member of the classic protocol was told is the group's: its first."""
        assert self.classic is not None, "a member of the consumer protocol"
        return self.classic.supported_protocols[0]

    def reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    @cached_property
    def held(self) -> frozenset[tuple[bytes, int]]:
        """The partitions that nobody else may have yet."""
        return frozenset(
            (topic_id, partition)
            for held in (self.assigned, self.revoking)
            for topic_id, partitions in held.items()
            for partition in partitions
        )

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """In which epoch it was given a partition that it has or is to give up."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    # -- what it says of itself

    def told(
        self, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> ConsumerMember:
        """As a heartbeat has it: what is left out stays as it was."""
        names = request.subscribed_topic_names
        pattern = request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return replace(
            self,
            instance_id=self.instance_id if request.instance_id is None else request.instance_id,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms
            if timeout_ms == NO_REBALANCE_TIMEOUT
            else timeout_ms,
            server_assignor=self.server_assignor
            if request.server_assignor is None
            else request.server_assignor,
            topic_names=self.topic_names if names is None else frozenset(names),
            pattern=self.pattern if pattern is None else pattern,
            client_id=client_id,
            client_host=client_host,
            classic=None,
        )

    def to_metadata(self, group_id: str) -> MemberMetadata:
        return MemberMetadata(
            ConsumerGroupMemberMetadataKey(group_id, self.member_id),
            ConsumerGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                subscribed_topic_names=sorted(self.topic_names),
                subscribed_topic_regex=self.pattern,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                server_assignor=self.server_assignor,
                classic_member_metadata=self.classic,
            ),
        )

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    # -- what it holds

    def to_assignment(self, group_id: str) -> CurrentAssignment:
        return CurrentAssignment(
            ConsumerGroupCurrentMemberAssignmentKey(group_id, self.member_id),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state,
                assigned_partitions=_listed(self.assigned),
                partitions_pending_revocation=_listed(self.revoking),
            ),
        )

    def without_assignment(self) -> ConsumerMember:
        """Its record was deleted, as that of who leaves is."""
        return replace(
            self, epoch=-1, previous_epoch=-1, assigned=NOTHING_HELD, revoking=NOTHING_HELD
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        known = value.state in MemberState.__members__.values()
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_held(value.assigned_partitions, value.member_epoch),
            revoking=_held(value.partitions_pending_revocation, value.member_epoch),
        )


def _listed(held: Held) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id, sorted(partitions), [partitions[p] for p in sorted(partitions)])
        for topic_id, partitions in held.items()
    ]


def _held(listed: Iterable[TopicPartitions], member_epoch: int) -> Held:
    """Brokers before 4.3 did not write in which epoch a partition was given."""
    held: dict[bytes, dict[int, int]] = {}
    for topic in listed:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held
