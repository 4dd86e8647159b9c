"""A member of a streams group (a thread of the application): its metadata and its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

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
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.assigned.member import (
    JOIN_EPOCH,
    NO_REBALANCE_TIMEOUT,
    AssignedMember,
    given,
    state_numbers,
    with_epochs,
)
from kwire.groups.streams.records import StreamsCurrentAssignment, StreamsMemberMetadata
from kwire.groups.streams.tasks import (
    NOTHING_HELD,
    HeldTasks,
    TasksSince,
    listed,
    tasks_of,
)


class StreamsEndpoint(NamedTuple):
    """The address for queries of a process's state (`application.server`)."""

    host: str
    port: int


@dataclass(frozen=True)
class StreamsMember(AssignedMember[HeldTasks]):
    """See the module."""

    topology_epoch: int = -1
    process_id: str = ""
    endpoint: StreamsEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    previous_epoch: int = 0
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD

    NOTHING: ClassVar[HeldTasks] = NOTHING_HELD
    STATE_NUMBERS = state_numbers(1)

    def assignment_epoch(self, subtopology: str, partition: int) -> int | None:
        """The epoch in which a held active task was assigned; None if it is not held."""
        epoch = self.assigned.active.get(subtopology, {}).get(partition)
        return self.revoking.active.get(subtopology, {}).get(partition) if epoch is None else epoch

    @property
    def assigned_in_no_epoch(self) -> HeldTasks:
        """See AssignedMember.  Only active tasks have epochs."""
        active = {name: dict.fromkeys(these, 0) for name, these in self.assigned.active.items()}
        return replace(self.assigned, active=active)

    @property
    def assignment_inputs(self) -> tuple[object, ...]:
        """The metadata that the assignment depends on, without ids.

        If a static member comes back with other metadata than these, the group begins an epoch.
        """
        return self.topology_epoch, self.rack_id, self.client_tags, self.process_id

    # -- metadata

    def updated_by(
        self, request: StreamsGroupHeartbeatRequest, caller: HeartbeatCaller
    ) -> StreamsMember:
        """The member after a heartbeat: fields that the request leaves out stay unchanged.

        A join without an endpoint removes it.
        """
        kept = None if request.member_epoch == JOIN_EPOCH else self.endpoint
        timeout_ms, topology = request.rebalance_timeout_ms, request.topology
        endpoint, tags = request.user_endpoint, request.client_tags
        return replace(
            self,
            instance_id=given(request.instance_id, self.instance_id),
            rack_id=given(request.rack_id, self.rack_id),
            client_id=caller.client_id,
            client_host=caller.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms
            if timeout_ms == NO_REBALANCE_TIMEOUT
            else timeout_ms,
            topology_epoch=self.topology_epoch if topology is None else topology.epoch,
            process_id=given(request.process_id, self.process_id),
            endpoint=kept if endpoint is None else StreamsEndpoint(endpoint.host, endpoint.port),
            client_tags=self.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        )

    def to_metadata(self, group_id: str) -> StreamsMemberMetadata:
        """Return the record of the member's metadata: client, process, endpoint and tags."""
        tags = sorted(self.client_tags.items())
        return StreamsMemberMetadata(
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
        """Return the member with the metadata of a record; epochs and tasks stay."""
        endpoint = value.user_endpoint
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if endpoint is None else StreamsEndpoint(endpoint.host, endpoint.port),
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    # -- tasks

    def to_assignment(self, group_id: str) -> StreamsCurrentAssignment:
        """Return the record of the member's epochs, state and tasks."""
        assigned, revoking = self.assigned, self.revoking
        return StreamsCurrentAssignment(
            StreamsGroupCurrentMemberAssignmentKey(group_id, self.member_id),
            StreamsGroupCurrentMemberAssignmentValue(
                member_epoch=self.epoch,
                previous_member_epoch=self.previous_epoch,
                state=self.state_number,
                active_tasks=_listed_since(assigned.active),
                standby_tasks=listed(assigned.standby, TaskIds),
                warmup_tasks=listed(assigned.warmup, TaskIds),
                active_tasks_pending_revocation=_listed_since(revoking.active),
                standby_tasks_pending_revocation=listed(revoking.standby, TaskIds),
                warmup_tasks_pending_revocation=listed(revoking.warmup, TaskIds),
            ),
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        """Return the member with the epochs, state and tasks of a record."""
        epoch = value.member_epoch
        return replace(
            self,
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=self.state_of(value.state),
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


def _listed_since(tasks: TasksSince) -> list[TaskIds]:
    """Return tasks as a record has them, each with the epoch in which it was assigned."""
    return [
        TaskIds(ids.subtopology_id, ids.partitions, [epochs[p] for p in ids.partitions])
        for ids in listed(tasks, TaskIds)
        for epochs in (tasks[ids.subtopology_id],)
    ]


def _since(listed: Iterable[TaskIds], member_epoch: int) -> TasksSince:
    """Return the tasks of a record, each with the epoch in which it was assigned."""
    return {
        ids.subtopology_id: with_epochs(ids.partitions, ids.assignment_epochs, member_epoch)
        for ids in listed
    }
