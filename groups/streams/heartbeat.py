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

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
)
from kwire.groups.assigned.heartbeat import HeartbeatCaller
from kwire.groups.assigned.member import JOIN_EPOCH
from kwire.groups.assigned.static_members import StaticHeartbeat
from kwire.groups.assigned.target import MemberTarget
from kwire.groups.streams.configuring import ConfiguredTopology, StatusCode
from kwire.groups.streams.decision import (
    StreamsDecision,
    StreamsHeartbeatReply,
    StreamsPlan,
)
from kwire.groups.streams.endpoints import partitions_by_endpoint
from kwire.groups.streams.group import StreamsGroup, StreamsSession
from kwire.groups.streams.member import StreamsMember
from kwire.groups.streams.reconciliation import StreamsReconciliation
from kwire.groups.streams.target import STANDBY_REPLICAS, TAGS
from kwire.groups.streams.tasks import (
    NO_OFFSETS,
    TaskOffsets,
    TaskSets,
    TaskSums,
    listed,
    tasks_of,
)
from kwire.groups.streams.timers import InitialDelayTimer
from kwire.groups.streams.topology import InvalidTopology, Topology, topology_of

TAGS_SINCE = 1
"""The version of StreamsGroupHeartbeat since which clients know MISSING_CLIENT_TAGS."""
NO_TOPOLOGY_EPOCH = -1
"""Validated topology epoch of a group whose topology has a problem."""


class StreamsHeartbeat(StaticHeartbeat[StreamsGroupHeartbeatRequest, StreamsMember]):
    """The decision about one heartbeat of a member that does not leave."""

    group: StreamsGroup
    decision: StreamsDecision

    def __init__(
        self,
        decision: StreamsDecision,
        request: StreamsGroupHeartbeatRequest,
        caller: HeartbeatCaller,
    ) -> None:
        """Prepare the decision; `_statuses` collects what the response reports."""
        super().__init__(decision, request, caller)
        self._session = decision.group.session
        self._statuses: list[Status] = []

    def _add_status(self, code: StatusCode, detail: str) -> None:
        self._statuses.append(Status(code, detail))

    # -- what the member owns

    def owns_no_more(self, member: StreamsMember) -> bool:
        """Whether the request lists owned tasks, and the member has all of them."""
        owned = self._owned()
        return owned is not None and member.assigned.has_all(owned)

    def _owned(self) -> TaskSets | None:
        """The owned tasks in the request, or None if it has no list."""
        request = self.request
        if request.active_tasks is None:
            return None
        return TaskSets(
            tasks_of(request.active_tasks),
            tasks_of(request.standby_tasks or ()),
            tasks_of(request.warmup_tasks or ()),
        )

    # -- decide

    def decide(self) -> StreamsHeartbeatReply:
        """Return the response, and the internal topics to create after it.  Raises Refusal."""
        request = self.request
        known = request.instance_id in self.group.static_members
        if request.member_epoch == JOIN_EPOCH and not known:
            self.check_room(self.decision.limits.group_streams_max_size, request.member_id)
        try:
            return self._beat(self.find_or_create_any(request.instance_id))
        except InvalidTopology as invalid:
            raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(invalid)) from None

    def _beat(self, member: StreamsMember) -> StreamsHeartbeatReply:
        """Update the member, compute the target if it is due, and move the member one step.

        Raises Refusal, InvalidTopology.
        """
        decision, group_id = self.decision, self.group.group_id
        updated = member.updated_by(self.request, self.caller)
        if updated != member:
            decision.append(updated.to_metadata(group_id))
        topology = self._topology()
        self._report_stale_topology(updated)
        image = decision.surroundings.image
        configured = decision.configurations.of_group(group_id, topology, image)
        if configured.is_ready:
            self._check_tasks(configured)
        self._note_task_offsets()
        epoch = self._epoch(topology, configured, begin=self._moves_tasks(member, updated))
        reconciled = self._reconcile(updated, self._target(updated, epoch))
        decision.expect_heartbeat(updated)
        response = self._response(member, reconciled, configured)
        if decision.is_new:
            session = StreamsSession(is_delayed=self._session.is_delayed)
        else:
            session = replace(self._session, is_configured=configured.is_ready)
        decision.set_session(session)
        # The request may bring the topology: the group does not have it yet.
        descriptions = self.group.description_epochs._replace(topology=topology.epoch)
        return StreamsHeartbeatReply(response, configured.to_create, descriptions)

    def _topology(self) -> Topology:
        """The group's topology, which the first member that joins sets."""
        current, sent = self.group.topology, self.request.topology
        if sent is None:
            assert current is not None, "a group with members has a topology"
            return current
        new = topology_of(sent)
        if current is None:
            self.decision.append(new.to_record(self.group.group_id))
            return new
        if current.epoch <= new.epoch and not current.is_same_as(new):
            raise Refusal(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return current

    def _report_stale_topology(self, member: StreamsMember) -> None:
        """Add a status if the group has a newer topology than the member."""
        current = self.group.topology
        if current is not None and member.topology_epoch < current.epoch:
            self._add_status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's "
                f"topology epoch {current.epoch}.",
            )

    def _check_tasks(self, configured: ConfiguredTopology) -> None:
        """Raise Refusal if an owned task does not exist in the topology."""
        owned = self._owned() or TaskSets()
        for tasks in (owned.active, owned.standby, owned.warmup):
            for subtopology_id, partitions in tasks.items():
                subtopology = configured.subtopologies.get(subtopology_id)
                if subtopology is None:
                    detail = f"Subtopology {subtopology_id} does not exist in the topology."
                    raise Refusal(ErrorCode.INVALID_REQUEST, detail)
                _check_partitions(subtopology_id, partitions, subtopology.task_count)

    def _note_task_offsets(self) -> None:
        """Remember the offsets that the request reports; what it leaves out stays.

        Raises Refusal.
        """
        request, known = self.request, self._session.task_offsets
        if request.task_offsets is None and request.task_end_offsets is None:
            return
        before = known.get(request.member_id, NO_OFFSETS)
        reported = TaskOffsets(
            _sums(request.task_offsets, before.offsets),
            _sums(request.task_end_offsets, before.end_offsets),
        )
        by_member = {**known, request.member_id: reported}
        self._session = replace(self._session, task_offsets=by_member)

    # -- the group

    def _moves_tasks(self, member: StreamsMember, updated: StreamsMember) -> bool:
        """Whether the member's new metadata begins an epoch.

        A static member that comes back has a new id, which alone moves no task.
        """
        if self.request.instance_id is None:
            return updated != member
        return updated.assignment_inputs != member.assignment_inputs

    def _epoch(self, topology: Topology, configured: ConfiguredTopology, *, begin: bool) -> int:
        """Return the group's epoch after the heartbeat.

        The next epoch begins if the member, the topics, the topology or the settings of the
        assignment changed.  The first member also starts the delay of the first assignment.
        """
        group, decision = self.group, self.decision
        metadata_hash = decision.metadata_hash(topology.required_topics)
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        configs = {STANDBY_REPLICAS: str(decision.settings.num_standby_replicas)}
        if decision.settings.rack_aware_assignment_tags:
            configs[TAGS] = ",".join(decision.settings.rack_aware_assignment_tags)
        decision.plan = StreamsPlan(configured, configs)
        new = metadata_hash, validated, configs
        last = group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        epoch = group.epoch
        if begin or group.topology is None or new != last:
            epoch = decision.next_epoch_of(metadata_hash, validated, configs)
        delay_ms = decision.settings.initial_rebalance_delay_ms
        if not group.members and delay_ms > 0:
            self._delay(delay_ms)
        return epoch

    def _delay(self, delay_ms: int) -> None:
        """Start the delay of the first assignment, unless it has started already."""
        if not self._session.is_delayed:
            self.decision.set_timer(InitialDelayTimer(self.group.group_id), delay_ms)
            self._session = replace(self._session, is_delayed=True)

    def _target(self, updated: StreamsMember, epoch: int) -> MemberTarget[TaskSets]:
        """The member's target; a new target assignment of the group is computed if it is due."""
        decision = self.decision
        if self._session.is_delayed:
            why = "Assignment delayed due to the configured initial rebalance delay."
            self._add_status(StatusCode.ASSIGNMENT_DELAYED, why)
            return decision.no_target()
        if self.group.target_epoch < epoch and decision.is_target_delayed():
            why = "Assignment delayed due to the configured assignment interval."
            self._add_status(StatusCode.ASSIGNMENT_DELAYED, why)
        return decision.target(updated, epoch)

    def _reconcile(self, updated: StreamsMember, goal: MemberTarget[TaskSets]) -> StreamsMember:
        """Return the member after one step towards its target.

        Raises Refusal if it must give up all its tasks and rejoin.
        """
        if updated.reconciled_to(goal.epoch):
            return updated
        reconciled = StreamsReconciliation(updated, goal, self._owned(), self.group).step()
        if reconciled is None:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its "
                "tasks and rejoin.",
            )
        if reconciled != updated:
            self.decision.append(reconciled.to_assignment(self.group.group_id))
            self.decision.await_revocation(reconciled)
        return reconciled

    # -- the response

    def _response(
        self, before: StreamsMember, now: StreamsMember, configured: ConfiguredTopology
    ) -> StreamsGroupHeartbeatResponse:
        """Return the response; it has the tasks if the member joins or its tasks have changed."""
        settings = self.decision.settings
        response = StreamsGroupHeartbeatResponse(
            member_id=now.member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            task_offset_interval_ms=settings.task_offset_interval_ms,
            acceptable_recovery_lag=settings.acceptable_recovery_lag,
            status=self._statuses,
        )
        has_other_tasks = before.assigned != now.assigned
        if self.request.member_epoch == JOIN_EPOCH or has_other_tasks:
            self._add_tasks(response, now)
        if before.endpoint != now.endpoint or (has_other_tasks and now.endpoint is not None):
            endpoint_epoch = self._session.endpoint_epoch + 1
            self._session = replace(self._session, endpoint_epoch=endpoint_epoch)
        self._add_endpoints(response, now, configured)
        if configured.problem is not None:
            self._add_status(*configured.problem)
        self._report_shutdown()
        self._report_missing_tags(now)
        return response

    def _add_tasks(self, response: StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
        """Add the member's tasks to the response: for a member that joins or has other tasks."""
        assigned = member.assigned
        response.active_tasks = listed(assigned.active, TaskIds, told=True)
        response.standby_tasks = listed(assigned.standby, TaskIds, told=True)
        response.warmup_tasks = listed(assigned.warmup, TaskIds, told=True)

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
        if epoch != self.request.endpoint_information_epoch:
            image = self.decision.surroundings.image
            gone = member.member_id, self.decision.replaced
            others = {k: v for k, v in self.group.members.items() if k not in gone}
            members = (*others.values(), member)
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                members, configured, image
            )
        if not self.decision.is_new:
            response.endpoint_information_epoch = epoch

    def _report_shutdown(self) -> None:
        """Add the status of a requested shutdown; the first request is recorded."""
        if self.request.shutdown_application and self._session.shutdown_by is None:
            self._session = replace(self._session, shutdown_by=self.request.member_id)
        who = self._session.shutdown_by
        if who is not None:
            self._add_status(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {who} encountered a fatal error and requested a shutdown "
                "for the entire application.",
            )

    def _report_missing_tags(self, member: StreamsMember) -> None:
        """Add a status if the member lacks client tags that the group is to be spread over.

        Clients know this status since version 1.
        """
        wanted = self.decision.settings.rack_aware_assignment_tags
        missing = [tag for tag in wanted if tag not in member.client_tags]
        if missing and self.caller.api_version >= TAGS_SINCE:
            self._add_status(
                StatusCode.MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: "
                f"[{', '.join(missing)}]. Configure them via 'client.tag.<tagKey>' in your Streams "
                "config.",
            )


def _sums(reported: Iterable[TaskOffset] | None, unchanged: TaskSums) -> TaskSums:
    """The reported offsets by task.  Raises Refusal if a task has two."""
    if reported is None:
        return unchanged
    sums: dict[str, dict[int, int]] = {}
    for task in reported:
        of_subtopology = sums.setdefault(task.subtopology_id, {})
        if task.partition in of_subtopology:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                "Task offsets contain a duplicate entry for subtopology "
                f"{task.subtopology_id} and partition {task.partition}.",
            )
        of_subtopology[task.partition] = task.offset
    return sums


def _check_partitions(subtopology: str, partitions: Iterable[int], task_count: int) -> None:
    """Raise Refusal if a task's partition is outside the subtopology's tasks."""
    for partition in sorted(partitions):
        if not 0 <= partition < task_count:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Task {partition} for subtopology {subtopology} is invalid. Number of tasks for "
                f"this subtopology: {task_count}",
            )
