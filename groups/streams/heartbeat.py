"""StreamsGroupHeartbeat: a member joins with its topology, owns tasks, and is told which to have.

A heartbeat with epoch 0 joins, one with -1 leaves.  Any other must be of the member's epoch, or of
the one before where the reply was lost.  It may begin the group's next epoch; whoever comes first
afterwards has the target computed; each heartbeat brings its member one step nearer to it.  What is
the matter with the topology's topics is told as a status; tasks are dealt out once it is mended.
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
from kwire.groups.effects import Effects, Ticket
from kwire.groups.streams.configuring import Configured, StatusCode
from kwire.groups.streams.decision import Decision, HeartbeatReply, Plan, Refusal
from kwire.groups.streams.endpoints import partitions_by_endpoint
from kwire.groups.streams.group import Session, StreamsGroup
from kwire.groups.streams.member import JOIN_EPOCH, MemberState, StreamsMember
from kwire.groups.streams.reconciliation import Reconciliation, Target
from kwire.groups.streams.target import STANDBY_REPLICAS
from kwire.groups.streams.tasks import TaskSets, listed, tasks_of
from kwire.groups.streams.timers import InitialDelayTimer
from kwire.groups.streams.topology import InvalidTopology, Topology, topology_of

REJOIN = "The member must abandon all its partitions and rejoin."

NO_TOPOLOGY_EPOCH = -1
"""Of a group whose topology's topics are not as they must be."""


class _Refused(Exception):
    """The heartbeat comes to nothing."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message)
        self.refusal = Refusal(error, message)


class Heartbeat:
    """One heartbeat, of a member that does not leave."""

    def __init__(
        self,
        decision: Decision,
        request: StreamsGroupHeartbeatRequest,
        client_id: str,
        client_host: str,
        *,
        is_new: bool,
    ) -> None:
        """`is_new`: the group begins with this heartbeat."""
        self._decision = decision
        self._group = decision.group
        self._request = request
        self._client = client_id, client_host
        self._is_new = is_new
        self._session = decision.group.session
        self._statuses: list[Status] = []

    def decide(self, ticket: Ticket) -> Effects:
        """The reply is a HeartbeatReply."""
        try:
            reply = self._beat(self._known())
        except _Refused as refused:
            return Effects.reply(ticket, HeartbeatReply(refused.refusal.response()))
        except InvalidTopology as invalid:
            refusal = Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(invalid))
            return Effects.reply(ticket, HeartbeatReply(refusal.response()))
        self._decision.effects.replies.append((ticket, reply))
        return self._decision.effects

    def _tell(self, code: StatusCode, detail: str) -> None:
        self._statuses.append(Status(code, detail))

    # -- who is it?

    def _known(self) -> StreamsMember:
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
        """Who joins anew counts as one more."""
        most = self._decision.limits.group_streams_max_size
        if len(self._group.members) >= most:
            raise _Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {most} members.",
            )

    def _check_epoch(self, member: StreamsMember) -> None:
        """Whether the member's word is of its epoch."""
        received, epoch = self._request.member_epoch, member.epoch
        if received == epoch:
            return
        if received < epoch and received == member.previous_epoch and self._owns_no_more(member):
            return  # the reply that told it of its epoch was lost
        than = "greater" if received > epoch else "smaller"
        raise _Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The streams group member has a {than} member epoch ({received}) than the one known "
            f"by the group coordinator ({epoch}). {REJOIN}",
        )

    def _owns_no_more(self, member: StreamsMember) -> bool:
        """Whether it says what it owns, and has been given all of that."""
        owned = self._owned()
        return owned is not None and member.assigned.has_all(owned)

    def _owned(self) -> TaskSets | None:
        """None: it does not say."""
        request = self._request
        if request.active_tasks is None:
            return None
        return TaskSets(
            tasks_of(request.active_tasks),
            tasks_of(request.standby_tasks or ()),
            tasks_of(request.warmup_tasks or ()),
        )

    # -- what does it say?

    def _beat(self, member: StreamsMember) -> HeartbeatReply:
        group, decision = self._group, self._decision
        updated = member.told(self._request, *self._client)
        if updated != member:
            decision.append(updated.to_metadata(group.group_id))
        topology = self._topology()
        self._tell_of_staleness(updated)
        configured = decision.configure(topology)
        if configured.is_ready:
            self._check_tasks(configured)
        plan = self._plan(topology, configured, begin=updated != member)
        reconciled = self._reconcile(updated, self._target(updated, plan))
        decision.expect_heartbeat(updated.member_id)
        response = self._response(member, reconciled, configured)
        if self._is_new:
            session = Session(is_delayed=self._session.is_delayed)
        else:
            session = replace(self._session, is_configured=configured.is_ready)
        decision.settle(session)
        return HeartbeatReply(response, configured.to_create)

    def _topology(self) -> Topology:
        """The group's, which is that of the first who joins."""
        known, told = self._group.topology, self._request.topology
        if told is None:
            assert known is not None, "there is no member without a topology"
            return known
        new = topology_of(told)
        if known is None:
            self._decision.append(new.to_record(self._group.group_id))
            return new
        if known.epoch <= new.epoch and not known.is_same_as(new):
            raise _Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _tell_of_staleness(self, member: StreamsMember) -> None:
        known = self._group.topology
        if known is not None and member.topology_epoch < known.epoch:
            self._tell(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's "
                f"topology epoch {known.epoch}.",
            )

    def _check_tasks(self, configured: Configured) -> None:
        """Whether the tasks that it says it owns can be."""
        owned = self._owned() or TaskSets()
        for tasks in (owned.active, owned.standby, owned.warmup):
            for subtopology, these in tasks.items():
                known = configured.subtopologies.get(subtopology)
                if known is None:
                    detail = f"Subtopology {subtopology} does not exist in the topology."
                    raise _Refused(ErrorCode.INVALID_REQUEST, detail)
                _check_partitions(subtopology, these, known.task_count)

    # -- the group

    def _plan(self, topology: Topology, configured: Configured, *, begin: bool) -> Plan:
        """What tasks are dealt out by, as of the group's epoch: the next one if it is another."""
        group, decision = self._group, self._decision
        metadata_hash = decision.metadata_hash(topology.required_topics)
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        settings = decision.surroundings.streams_settings(group.group_id)
        configs = {STANDBY_REPLICAS: str(settings.num_standby_replicas)}
        goes_by = metadata_hash, validated, configs
        went_by = group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        epoch = group.epoch
        if begin or group.topology is None or goes_by != went_by:
            epoch = decision.next_epoch_of(metadata_hash, validated, configs)
        if not group.members and settings.initial_rebalance_delay_ms > 0:
            self._delay(settings.initial_rebalance_delay_ms)
        return Plan(epoch, configured, configs)

    def _delay(self, delay_ms: int) -> None:
        """Wait for others to join, unless somebody does already."""
        if not self._session.is_delayed:
            self._decision.set_timer(InitialDelayTimer(self._group.group_id), delay_ms)
            self._session = replace(self._session, is_delayed=True)

    def _target(self, updated: StreamsMember, plan: Plan) -> Target:
        """What the member is to have, computed for everybody if it is time."""
        group, decision = self._group, self._decision
        if self._session.is_delayed:
            why = "Assignment delayed due to the configured initial rebalance delay."
            self._tell(StatusCode.ASSIGNMENT_DELAYED, why)
            return decision.no_target()
        if group.target_epoch >= plan.epoch:
            return decision.last_target(updated.member_id)
        if decision.is_put_off():
            why = "Assignment delayed due to the configured assignment interval."
            self._tell(StatusCode.ASSIGNMENT_DELAYED, why)
            return decision.last_target(updated.member_id)
        members = {**group.members, updated.member_id: updated}
        tasks = decision.compute_target(members, plan)
        return Target(plan.epoch, tasks[updated.member_id])

    def _reconcile(self, updated: StreamsMember, goal: Target) -> StreamsMember:
        if updated.reconciled_to(goal.epoch):
            return updated
        decision = self._decision
        reconciled = Reconciliation(updated, goal, self._owned(), self._group).step()
        if reconciled is None:
            raise _Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its "
                "tasks and rejoin.",
            )
        if reconciled != updated:
            decision.append(reconciled.to_assignment(self._group.group_id))
            if reconciled.state is MemberState.UNREVOKED_TASKS:
                decision.expect_revocation(reconciled)
            else:
                decision.end_revocation(reconciled.member_id)
        return reconciled

    # -- what it is told

    def _response(
        self, before: StreamsMember, now: StreamsMember, configured: Configured
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
            self._tell_tasks(response, now)
        self._tell_endpoints(response, now, configured)
        if configured.problem is not None:
            self._tell(*configured.problem)
        self._tell_of_shutdown()
        return response

    def _tell_tasks(self, response: StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
        """Who joins is told them, and who has other ones than before."""
        assigned, session = member.assigned, self._session
        response.active_tasks = listed(assigned.active, TaskIds, told=True)
        response.standby_tasks = listed(assigned.standby, TaskIds, told=True)
        response.warmup_tasks = listed(assigned.warmup, TaskIds, told=True)
        if member.endpoint is not None:
            self._session = replace(session, endpoint_epoch=session.endpoint_epoch + 1)

    def _tell_endpoints(
        self, response: StreamsGroupHeartbeatResponse, member: StreamsMember, configured: Configured
    ) -> None:
        """Whoever has not heard of the latest epoch of the endpoints; a new group has none yet."""
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

    def _tell_of_shutdown(self) -> None:
        if self._request.shutdown_application and self._session.shutdown_by is None:
            self._session = replace(self._session, shutdown_by=self._request.member_id)
        who = self._session.shutdown_by
        if who is not None:
            self._tell(
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


def leave(decision: Decision, request: StreamsGroupHeartbeatRequest, ticket: Ticket) -> Effects:
    group, member_id = decision.group, request.member_id
    if member_id not in group.members:
        refusal = unknown_member(member_id, group)
        return Effects.reply(ticket, HeartbeatReply(refusal.response()))
    decision.note(f"member {member_id} leaves")
    if request.shutdown_application and group.session.shutdown_by is None:
        decision.settle(replace(group.session, shutdown_by=member_id))
    decision.fence(member_id)
    response = StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
    decision.effects.replies.append((ticket, HeartbeatReply(response)))
    return decision.effects


def unknown_member(member_id: str, group: StreamsGroup) -> Refusal:
    sentence = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, sentence)
