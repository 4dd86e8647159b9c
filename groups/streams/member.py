"""A member of a streams group, a thread of the application: what it said, and which tasks it has.

state              what the member does
-----------------  -------------------------------------------------------------------------
STABLE             it has all that its epoch's target gives it
UNREVOKED_TASKS    it must give up tasks before it gets to the next epoch; it is known to have done
                   so once it does not own them any longer, by its own word
UNRELEASED_TASKS   it is in the new epoch, and waits for tasks that others still hold, or another
                   member of its process
UNKNOWN            a newer broker wrote a state that is not known here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from kwire.codecs.messages.coordinator import streams_group_member_metadata as metadata
from kwire.codecs.messages.coordinator.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from kwire.codecs.messages.coordinator.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kwire.codecs.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kwire.groups.streams.records import CurrentAssignment, MemberMetadata
from kwire.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    TasksSince,
    listed,
    tasks_of,
)

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_FOR_A_WHILE_EPOCH = -2
NO_REBALANCE_TIMEOUT = -1


class MemberState(IntEnum):
    """See the module; the numbers are those of the record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Endpoint(NamedTuple):
    """Where other processes ask this one for its state (`application.server`)."""

    host: str
    port: int


@dataclass(frozen=True)
class StreamsMember:
    """See the module.  It is never changed, only replaced."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    """As it is printed, with Java's leading slash."""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD
    """What it must give up."""

    def reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, subtopology: str, partition: int) -> int | None:
        """In which epoch it was given an active task that it has or is to give up."""
        epoch = self.assigned.active.get(subtopology, {}).get(partition)
        return self.revoking.active.get(subtopology, {}).get(partition) if epoch is None else epoch

    # -- what it says of itself

    def told(
        self, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> StreamsMember:
        """As a heartbeat has it: what is left out stays as it was."""
        timeout_ms, topology = request.rebalance_timeout_ms, request.topology
        said, tags = request.user_endpoint, request.client_tags
        return replace(
            self,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms
            if timeout_ms == NO_REBALANCE_TIMEOUT
            else timeout_ms,
            topology_epoch=self.topology_epoch if topology is None else topology.epoch,
            process_id=self.process_id if request.process_id is None else request.process_id,
            endpoint=self.endpoint if said is None else Endpoint(said.host, said.port),
            client_tags=self.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        )

    def to_metadata(self, group_id: str) -> MemberMetadata:
        tags = sorted(self.client_tags.items())
        return MemberMetadata(
            StreamsGroupMemberMetadataKey(group_id, self.member_id),
            StreamsGroupMemberMetadataValue(
                instance_id=self.instance_id,
                rack_id=self.rack_id,
                client_id=self.client_id,
                client_host=self.client_host,
                rebalance_timeout_ms=self.rebalance_timeout_ms,
                topology_epoch=self.topology_epoch,
                process_id=self.process_id,
                user_endpoint=None if self.endpoint is None else metadata.Endpoint(*self.endpoint),
                client_tags=[metadata.KeyValue(key, value) for key, value in tags],
            ),
        )

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        said = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if said is None else Endpoint(said.host, said.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    # -- what it has

    def to_assignment(self, group_id: str) -> CurrentAssignment:
        assigned, revoking = self.assigned, self.revoking
        return CurrentAssignment(
            StreamsGroupCurrentMemberAssignmentKey(group_id, self.member_id),
            StreamsGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state,
                active_tasks=_listed_since(assigned.active),
                standby_tasks=listed(assigned.standby, TaskIds),
                warmup_tasks=listed(assigned.warmup, TaskIds),
                active_tasks_pending_revocation=_listed_since(revoking.active),
                standby_tasks_pending_revocation=listed(revoking.standby, TaskIds),
                warmup_tasks_pending_revocation=listed(revoking.warmup, TaskIds),
            ),
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        epoch = value.member_epoch
        known = value.state in MemberState.__members__.values()
        return replace(
            self,
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=HeldTasks(
                _since(value.active_tasks, epoch),
                tasks_of(value.standby_tasks),
                tasks_of(value.warmup_tasks),
            ),
            revoking=HeldTasks(
                _since(value.active_tasks_pending_revocation, epoch),
                tasks_of(value.standby_tasks_pending_revocation),
                tasks_of(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_assignment(self) -> StreamsMember:
        """Its record was deleted, as that of who leaves is."""
        return replace(
            self, epoch=-1, previous_epoch=-1, assigned=NOTHING_HELD, revoking=NOTHING_HELD
        )


def _listed_since(tasks: TasksSince) -> list[TaskIds]:
    return [
        TaskIds(each.subtopology_id, each.partitions, [epochs[p] for p in each.partitions])
        for each in listed(tasks, TaskIds)
        for epochs in (tasks[each.subtopology_id],)
    ]


def _since(listed: Iterable[TaskIds], member_epoch: int) -> TasksSince:
    """Brokers before 4.3 did not write in which epoch a task was given."""
    held: dict[str, Mapping[int, int]] = {}
    for each in listed:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        held[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return held
