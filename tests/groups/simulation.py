"""A group machine without a broker, and the work of the handlers around its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import response_class
from kwire.codecs.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kwire.codecs.messages.describe_groups import DescribeGroupsResponse
from kwire.codecs.messages.heartbeat import HeartbeatResponse
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.codecs.messages.leave_group import LeaveGroupResponse, MemberIdentity
from kwire.codecs.messages.list_groups import ListGroupsResponse
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_delete import OffsetDeleteResponse
from kwire.codecs.messages.offset_fetch import OffsetFetchResponse
from kwire.codecs.messages.sync_group import SyncGroupResponse
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.coordinators.contract.driver import AnyEffects
from kwire.coordinators.contract.effects import TimerKey
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups import txn_offsets
from kwire.groups.classic import join as classic_join
from kwire.groups.classic.decision import ClassicCaller
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.state import ClassicState
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.offsets import commit_error
from kwire.groups.surroundings import NOWHERE, Surroundings
from kwire.groups.timers import RetentionTimer
from tests.coordinators.contract.simulation import Simulation

AnyMessage = Any
"""A request or response of any kind."""

NAMED_GROUP_ONLY: dict[ApiKey, Callable[..., object]] = {
    ApiKey.SYNC_GROUP: SyncGroupResponse,
    ApiKey.HEARTBEAT: HeartbeatResponse,
    ApiKey.LEAVE_GROUP: LeaveGroupResponse,
    ApiKey.OFFSET_DELETE: OffsetDeleteResponse,
}
"""Requests that refuse the empty group id."""


class Parked:
    """The ticket of a request."""

    def __init__(self, simulation: GroupSimulation, number: int) -> None:
        self.number = number
        self._simulation = simulation

    def __deepcopy__(self, _: object) -> Parked:
        return self

    def resolve(self, response: AnyMessage) -> None:
        self._simulation.answer(self, response)

    def refuse(self, error: ErrorCode) -> object:
        return refused(error, self._simulation.waiting[self].request)


class Waiting(NamedTuple):
    """A request without a reply."""

    name: str
    version: int
    request: AnyMessage


class GroupSimulation(Simulation[GroupMachine, MachineRecord]):
    """Drives one GroupMachine; a `conformance.group_script.Target`."""

    def __init__(
        self,
        limits: GroupLimits,
        kind: type[GroupMachine] = GroupMachine,
        surroundings: Surroundings = NOWHERE,
    ) -> None:
        super().__init__(kind(limits, surroundings))
        self.limits = limits
        self.surroundings = surroundings
        self.waiting: dict[Parked, Waiting] = {}
        """Requests without a reply."""
        self._answered: list[tuple[str, AnyMessage]] = []
        self._has_resigned = False
        self._timers_left: set[TimerKey] = set()
        self._in_transaction: dict[int, list[MachineRecord]] = {}
        self._parked = 0
        self.load()

    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        if effects.producer is None or self.append_error is not None:
            return super().append(effects, proof)
        producer_id, _ = effects.producer
        for record in effects.records:
            self.apply(record, producer_id)
            self._in_transaction.setdefault(producer_id, []).append(record)
        return ErrorCode.NONE

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Write a marker, and apply or drop the producer's pending offsets."""
        self.follow_marker(producer_id, commit=commit)
        for record in self._in_transaction.pop(producer_id) if commit else ():
            self.log.append(record.encode())
            self.records.append(record)

    def restart(self, limits: GroupLimits) -> None:
        """Kill the broker and replay the log; parked requests lose their connection."""
        self.limits = limits
        self.waiting.clear()
        self.timers.clear()
        self.machine = self._transactional = self.reloaded()
        self._has_resigned = False
        self.load()

    def resign(self) -> None:
        """Let another broker lead the partition: parked requests get an error."""
        for effects in list(self.machine.unloaded(self.now_ms)):
            self.reply(effects.replies)
            self.machine.install_soft_state(effects)
        self.timers.clear()
        self._has_resigned = True

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        return classic_groups(self.machine)

    def reloaded(self) -> GroupMachine:
        """A second machine that has replayed the log."""
        return self.replay_into(GroupMachine(self.limits, self.surroundings))

    def check_timers(self) -> None:
        """Assert that exactly the members that could vanish have a timer, in existing groups."""
        if self._has_resigned:
            return
        wanted: set[TimerKey] = {RetentionTimer().key}
        allowed: set[TimerKey] = set()
        for group_id, group in self.groups.items():
            parked = (group.awaiting_join.keys() | group.awaiting_sync.keys()) - group.newcomers
            allowed |= {("session", group_id, member_id) for member_id in parked}
            heard = group.pending_joins.keys() | group.members.keys() - parked
            wanted |= {("session", group_id, member_id) for member_id in heard}
            if group.state is ClassicState.PREPARING_REBALANCE:
                wanted.add(("join", group_id))
            if group.pending_syncs:
                wanted.add(("sync", group_id))
        # Those of groups that were deleted come to nothing, as do their ids.
        self._timers_left |= {key for key in self.timers if key[1:2] and key[1] not in self.groups}
        assert not wanted - self.timers.keys(), "nobody would notice if they never came"
        assert not self.timers.keys() - wanted - allowed - self._timers_left, "nobody waits for it"

    # -- requests

    def parked(self, name: str, version: int, request: AnyMessage) -> Parked:
        self._parked += 1
        ticket = Parked(self, self._parked)
        self.waiting[ticket] = Waiting(name, version, request)
        return ticket

    def replies(self) -> list[tuple[str, AnyMessage]]:
        answered, self._answered = self._answered, []
        return answered

    def send(self, name: str, api: ApiKey, version: int, request: AnyMessage) -> None:
        """Run one request, with the work of its handler."""
        invalid = self._invalid(api, request)
        if invalid is not None:
            self._answered.append((name, invalid))
            return
        ticket = self.parked(name, version, request)
        machine, now_ms = self.machine, self.now_ms
        match api:
            case ApiKey.JOIN_GROUP:
                self._join(name, version, request, ticket)
            case ApiKey.SYNC_GROUP:
                self.carry_out(machine.classic.sync(request, ticket, now_ms), ticket)
            case ApiKey.HEARTBEAT:
                self.carry_out(machine.classic.heartbeat(request, ticket, now_ms), ticket)
            case ApiKey.LEAVE_GROUP:
                if version < 3:
                    request.members = [MemberIdentity(request.member_id)]
                self.carry_out(machine.classic.leave(request, ticket, now_ms), ticket)
            case ApiKey.OFFSET_COMMIT | ApiKey.TXN_OFFSET_COMMIT:
                self._commit(version, request, ticket)
            case ApiKey.OFFSET_DELETE:
                self.carry_out(machine.delete_offsets(request, ticket, now_ms), ticket)
            case ApiKey.DELETE_GROUPS:
                self.carry_out(
                    machine.delete_group(request.groups_names[0], ticket, now_ms), ticket
                )
            case _:
                self._look(api, version, request, ticket)

    def _join(self, name: str, version: int, request: JoinGroupRequest, ticket: Parked) -> None:
        if version == 0:
            request.rebalance_timeout_ms = request.session_timeout_ms
        caller = ClassicCaller(name, "/127.0.0.1", version)
        new_member_id = f"{name}-{ticket.number}"
        effects = self.machine.classic.join(request, caller, new_member_id, ticket, self.now_ms)
        self.carry_out(effects, ticket)

    def _commit(self, version: int, request: AnyMessage, ticket: Parked) -> None:
        machine, now_ms = self.machine, self.now_ms
        if isinstance(request, OffsetCommitRequest):
            effects = machine.commit_offsets(request, version, ticket, now_ms)
        else:
            effects = machine.commit_transactional_offsets(request, version, ticket, now_ms)
        self.carry_out(effects, ticket)

    def _invalid(self, api: ApiKey, request: AnyMessage) -> object | None:
        """The requests that kwire.coordinators.runtime.groups refuses before it finds the group."""
        if api is ApiKey.JOIN_GROUP:
            return classic_join.invalid(request, self.limits)
        if api not in NAMED_GROUP_ONLY or request.group_id:
            return None
        return NAMED_GROUP_ONLY[api](error_code=ErrorCode.INVALID_GROUP_ID)

    def answer(self, ticket: Parked, response: AnyMessage) -> None:
        """Answer in the request's version."""
        name, version, _ = self.waiting.pop(ticket)
        if isinstance(response, LeaveGroupResponse) and version < 3 and response.members:
            response = LeaveGroupResponse(error_code=response.members[0].error_code)
        elif isinstance(response, JoinGroupResponse) and version < 7:
            response.protocol_type = None
        elif isinstance(response, SyncGroupResponse) and version < 5:
            response.protocol_type = response.protocol_name = None
        elif isinstance(response, ErrorCode):
            response = DeleteGroupsResponse(results=[DeletableGroupResult(error_code=response)])
        self._answered.append((name, response))

    def _look(self, api: ApiKey, version: int, request: AnyMessage, ticket: Parked) -> None:
        machine = self.machine
        response: object
        match api:
            case ApiKey.OFFSET_FETCH:
                asked, stable = request.groups[0], request.require_stable
                found = machine.fetch_offsets(asked, require_stable=stable)
                response = OffsetFetchResponse(groups=[found])
            case ApiKey.DESCRIBE_GROUPS:
                group = machine.classic.describe(request.groups[0], version)
                response = DescribeGroupsResponse(groups=[group])
            case _:
                groups = machine.list_groups(request.states_filter, request.types_filter)
                response = ListGroupsResponse(groups=groups)
        self.answer(ticket, response)


def refused(error: ErrorCode, request: AnyMessage) -> object:
    """The response to a failed append."""
    if isinstance(request, OffsetCommitRequest):
        return commit_error(request, error)
    if isinstance(request, TxnOffsetCommitRequest):
        return txn_offsets.commit_error(request, error)
    if isinstance(request, DeleteGroupsRequest):
        return error
    failed: AnyMessage = response_class(request.API_KEY)()
    failed.error_code = error
    return failed


def classic_groups(machine: GroupMachine) -> dict[str, ClassicGroup]:
    """The groups of a machine that has only classic groups."""
    return {
        group_id: group
        for group_id, group in machine.groups.items()
        if isinstance(group, ClassicGroup)
    }
