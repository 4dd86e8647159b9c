"""StreamsGroupHeartbeat: a member joins with its topology, reports its tasks, and gets new ones.

- A heartbeat with epoch 0 joins, one with epoch -1 leaves.  Any other must have the member's epoch,
  or the previous epoch if the last response was lost.
- A heartbeat may begin the group's next epoch; the first one after that computes the target.
- Each heartbeat moves its member one step towards the target.
- A problem with the topology's topics is reported as a status; no tasks are assigned until it is
  solved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from kwire.groups.effects import GroupEffects, Ticket
from kwire.groups.streams.configuring import ConfiguredTopology, StatusCode
from kwire.groups.streams.decision import (
    StreamsDecision,
    StreamsHeartbeatReply,
    StreamsPlan,
    StreamsRefusal,
)
from kwire.groups.streams.endpoints import partitions_by_endpoint
from kwire.groups.streams.group import StreamsGroup, StreamsSession
from kwire.groups.streams.member import JOIN_EPOCH, StreamsMember, StreamsMemberState
from kwire.groups.streams.reconciliation import StreamsReconciliation, StreamsTarget
from kwire.groups.streams.target import STANDBY_REPLICAS
from kwire.groups.streams.tasks import TaskSets, listed, tasks_of
from kwire.groups.streams.timers import InitialDelayTimer
from kwire.groups.streams.topology import InvalidTopology, Topology, topology_of

REJOIN = "The member must abandon all its partitions and rejoin."

NO_TOPOLOGY_EPOCH = -1
"""Validated topology epoch of a group whose topology has a problem."""


class _Refused(Exception):
    """The heartbeat is refused with `refusal`."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.refusal = StreamsRefusal(error, message)


class StreamsHeartbeat:
    """The decision about one heartbeat of a member that does not leave."""

    def __init__(
        self,
        decision: StreamsDecision,
        request: StreamsGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        *,
        is_new: bool,
    ) -> None:
        """`is_new`: this heartbeat creates the group."""
        self._decision = decision
        self._group = decision.group
        self._request = request
        self._client = client_id, client_host
        self._is_new = is_new
        self._session = decision.group.session
        self._statuses: list[Status] = []

    def decide(self, ticket: Ticket) -> GroupEffects:
        """The effects of the heartbeat.  The reply is a StreamsHeartbeatReply."""
        try:
            reply = self._beat(self._find_or_create())
        except _Refused as refused:
            return GroupEffects.reply(ticket, StreamsHeartbeatReply(refused.refusal.response()))
        except InvalidTopology as invalid:
            refusal = StreamsRefusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(invalid))
            return GroupEffects.reply(ticket, StreamsHeartbeatReply(refusal.response()))
        self._decision.effects.replies.append((ticket, reply))
        return self._decision.effects

    def _add_status(self, code: StatusCode, detail: str) -> None:
        self._statuses.append(Status(code, detail))

    # -- identify the member

    def _find_or_create(self) -> StreamsMember:
        group, member_id = self._group, self._request.member_id
        if self._request.member_epoch == JOIN_EPOCH:
            self._check_room()
            member = group.members.get(member_id)
            if member is None:
                self._decision.note(f"member {member_id} joins")
            return member or StreamsMember(member_id)
        member = group.members.get(member_id)
        if member is None:
            refusal = unknown_member(member_id, group)
            raise _Refused(refusal.error, refusal.message)
        self._check_epoch(member)
        return member

    def _check_room(self) -> None:
        """Raise _Refused if the group is full; a rejoining member counts as a new one."""
        size_max = self._decision.limits.group_streams_max_size
        if len(self._group.members) >= size_max:
            raise _Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {size_max} members.",
            )

    def _check_epoch(self, member: StreamsMember) -> None:
        """Raise _Refused if the request's epoch is not the member's."""
        received, epoch = self._request.member_epoch, member.epoch
        if received == epoch:
            return
        if received < epoch and received == member.previous_epoch and self._owns_no_more(member):
            return  # the response with the new epoch was lost
        than = "greater" if received > epoch else "smaller"
        raise _Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {than} member epoch ({received}) than the one known "
            f"by the group coordinator ({epoch}). {REJOIN}",
        )

    def _owns_no_more(self, member: StreamsMember) -> bool:
        """Whether the request lists owned tasks, and all of them are assigned to the member."""
        owned = self._owned()
        return owned is not None and member.assigned.has_all(owned)

    def _owned(self) -> TaskSets | None:
        """The owned tasks in the request, or None if it has no list."""
        request = self._request
        if request.active_tasks is None:
            return None
        return TaskSets(
            tasks_of(request.active_tasks),
            tasks_of(request.standby_tasks or ()),
            tasks_of(request.warmup_tasks or ()),
        )

    # -- decide

    def _beat(self, member: StreamsMember) -> StreamsHeartbeatReply:
        group, decision = self._group, self._decision
        updated = member.updated_by(self._request, *self._client)
        if updated != member:
            decision.append(updated.to_metadata(group.group_id))
        topology = self._topology()
        self._report_stale_topology(updated)
        configured = decision.configure(topology)
        if configured.is_ready:
            self._check_tasks(configured)
        plan = self._plan(topology, configured, begin=updated != member)
        reconciled = self._reconcile(updated, self._target(updated, plan))
        decision.expect_heartbeat(updated.member_id)
        response = self._response(member, reconciled, configured)
        if self._is_new:
            session = StreamsSession(is_delayed=self._session.is_delayed)
        else:
            session = replace(self._session, is_configured=configured.is_ready)
        decision.set_session(session)
        return StreamsHeartbeatReply(response, configured.to_create)

    def _topology(self) -> Topology:
        """The group's topology, which the first member that joins sets."""
        current, sent = self._group.topology, self._request.topology
        if sent is None:
            assert current is not None, "a group with members has a topology"
            return current
        new = topology_of(sent)
        if current is None:
            self._decision.append(new.to_record(self._group.group_id))
            return new
        if current.epoch <= new.epoch and not current.is_same_as(new):
            raise _Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return current

    def _report_stale_topology(self, member: StreamsMember) -> None:
        current = self._group.topology
        if current is not None and member.topology_epoch < current.epoch:
            self._add_status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's "
                f"topology epoch {current.epoch}.",
            )

    def _check_tasks(self, configured: ConfiguredTopology) -> None:
        """Raise _Refused if an owned task does not exist in the topology."""
        owned = self._owned() or TaskSets()
        for tasks in (owned.active, owned.standby, owned.warmup):
            for subtopology_id, partitions in tasks.items():
                subtopology = configured.subtopologies.get(subtopology_id)
                if subtopology is None:
                    detail = f"Subtopology {subtopology_id} does not exist in the topology."
                    raise _Refused(ErrorCode.INVALID_REQUEST, detail)
                _check_partitions(subtopology_id, partitions, subtopology.task_count)

    # -- the group

    def _plan(
        self, topology: Topology, configured: ConfiguredTopology, *, begin: bool
    ) -> StreamsPlan:
        """The input of the assignment; the next epoch begins if it differs from the last one."""
        group, decision = self._group, self._decision
        metadata_hash = decision.metadata_hash(topology.required_topics)
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        settings = decision.surroundings.streams_settings(group.group_id)
        configs = {STANDBY_REPLICAS: str(settings.num_standby_replicas)}
        new = metadata_hash, validated, configs
        last = group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        epoch = group.epoch
        if begin or group.topology is None or new != last:
            epoch = decision.next_epoch_of(metadata_hash, validated, configs)
        if not group.members and settings.initial_rebalance_delay_ms > 0:
            self._delay(settings.initial_rebalance_delay_ms)
        return StreamsPlan(epoch, configured, configs)

    def _delay(self, delay_ms: int) -> None:
        """Start the delay of the first assignment, unless it has started already."""
        if not self._session.is_delayed:
            self._decision.set_timer(InitialDelayTimer(self._group.group_id), delay_ms)
            self._session = replace(self._session, is_delayed=True)

    def _target(self, updated: StreamsMember, plan: StreamsPlan) -> StreamsTarget:
        """The member's target; a new target assignment of the group is computed if it is due."""
        group, decision = self._group, self._decision
        if self._session.is_delayed:
            why = "Assignment delayed due to the configured initial rebalance delay."
            self._add_status(StatusCode.ASSIGNMENT_DELAYED, why)
            return decision.no_target()
        if group.target_epoch >= plan.epoch:
            return decision.last_target(updated.member_id)
        if decision.is_put_off():
            why = "Assignment delayed due to the configured assignment interval."
            self._add_status(StatusCode.ASSIGNMENT_DELAYED, why)
            return decision.last_target(updated.member_id)
        members = {**group.members, updated.member_id: updated}
        tasks = decision.compute_target(members, plan)
        return StreamsTarget(plan.epoch, tasks[updated.member_id])

    def _reconcile(self, updated: StreamsMember, goal: StreamsTarget) -> StreamsMember:
        if updated.reconciled_to(goal.epoch):
            return updated
        decision = self._decision
        reconciled = StreamsReconciliation(updated, goal, self._owned(), self._group).step()
        if reconciled is None:
            raise _Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its "
                "tasks and rejoin.",
            )
        if reconciled != updated:
            decision.append(reconciled.to_assignment(self._group.group_id))
            if reconciled.state is StreamsMemberState.UNREVOKED_TASKS:
                decision.expect_revocation(reconciled)
            else:
                decision.end_revocation(reconciled.member_id)
        return reconciled

    # -- the response

    def _response(
        self, before: StreamsMember, now: StreamsMember, configured: ConfiguredTopology
    ) -> StreamsGroupHeartbeatResponse:
        group, decision = self._group, self._decision
        settings = decision.surroundings.streams_settings(group.group_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=now.member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            status=self._statuses,
        )
        if self._request.member_epoch == JOIN_EPOCH or before.assigned != now.assigned:
            self._add_tasks(response, now)
        self._add_endpoints(response, now, configured)
        if configured.problem is not None:
            self._add_status(*configured.problem)
        self._report_shutdown()
        return response

    def _add_tasks(self, response: StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
        """Add the member's tasks to the response: for a member that joins or has other tasks."""
        assigned, session = member.assigned, self._session
        response.active_tasks = listed(assigned.active, TaskIds, told=True)
        response.standby_tasks = listed(assigned.standby, TaskIds, told=True)
        response.warmup_tasks = listed(assigned.warmup, TaskIds, told=True)
        if member.endpoint is not None:
            self._session = replace(session, endpoint_epoch=session.endpoint_epoch + 1)

    def _add_endpoints(
        self,
        response: StreamsGroupHeartbeatResponse,
        member: StreamsMember,
        configured: ConfiguredTopology,
    ) -> None:
        """Add the endpoints to the response if the member does not have their latest epoch.

        The response of a group's first heartbeat has no endpoint epoch.
        """
        epoch = self._session.endpoint_epoch
        if epoch != self._request.endpoint_information_epoch:
            image = self._decision.surroundings.image
            others = {k: v for k, v in self._group.members.items() if k != member.member_id}
            members = (*others.values(), member)
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                members, configured, image
            )
        if not self._is_new:
            response.endpoint_information_epoch = epoch

    def _report_shutdown(self) -> None:
        """Add the status of a requested shutdown; the first request is recorded."""
        if self._request.shutdown_application and self._session.shutdown_by is None:
            self._session = replace(self._session, shutdown_by=self._request.member_id)
        who = self._session.shutdown_by
        if who is not None:
            self._add_status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {who} encountered a fatal error and requested a shutdown "
                "for the entire application.",
            )


def _check_partitions(subtopology: str, partitions: Iterable[int], task_count: int) -> None:
    for partition in sorted(partitions):
        if not 0 <= partition < task_count:
            raise _Refused(
                ErrorCode.INVALID_REQUEST,
                f"Task {partition} for subtopology {subtopology} is invalid. Number of tasks for "
                f"this subtopology: {task_count}",
            )


def leave(
    decision: StreamsDecision, request: StreamsGroupHeartbeatRequest, ticket: Ticket
) -> GroupEffects:
    group, member_id = decision.group, request.member_id
    if member_id not in group.members:
        refusal = unknown_member(member_id, group)
        return GroupEffects.reply(ticket, StreamsHeartbeatReply(refusal.response()))
    decision.note(f"member {member_id} leaves")
    if request.shutdown_application and group.session.shutdown_by is None:
        decision.set_session(replace(group.session, shutdown_by=member_id))
    decision.fence(member_id)
    response = StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    decision.effects.replies.append((ticket, StreamsHeartbeatReply(response)))
    return decision.effects


def unknown_member(member_id: str, group: StreamsGroup) -> StreamsRefusal:
    message = f"Member {member_id} is not a member of group {group.group_id}."
    return StreamsRefusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
