"""A group machine without a broker: a clock in the test's hand, a list for the log.

For tests and experiments.  Does with effects what the broker's runtime does, and what that cannot:
refuse appends, and replay the log into a second machine at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.coordinator_errors import client_error
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
from kwire.groups.classic import join as classic_join
from kwire.groups.classic.decision import Caller
from kwire.groups.effects import Effects
from kwire.groups.limits import GroupLimits
from kwire.groups.offsets import commit_error
from kwire.groups.records import Record
from kwire.groups.shard import GroupShard
from kwire.groups.timers import Timer, TimerKey

AnyMessage = Any
"""A request or response of any kind."""

START_MS = 1_000_000
NAMED_GROUP_ONLY: dict[ApiKey, Callable[..., object]] = {
    ApiKey.SYNC_GROUP: SyncGroupResponse,
    ApiKey.HEARTBEAT: HeartbeatResponse,
    ApiKey.LEAVE_GROUP: LeaveGroupResponse,
    ApiKey.OFFSET_DELETE: OffsetDeleteResponse,
}
"""What does not know the empty group id."""


class Waiting(NamedTuple):
    """A request without a reply."""

    name: str
    version: int
    request: AnyMessage


class GroupMachine:
    """Drives one GroupShard; a `conformance.group_script.Target`."""

    def __init__(self, limits: GroupLimits, kind: type[GroupShard] = GroupShard) -> None:
        self.limits = limits
        self.shard = kind(limits)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.records: list[Record] = []
        """What was appended, not encoded."""
        self.append_error: ErrorCode | None = None
        """Appends fail with it as long as it is set."""
        self.timers: dict[TimerKey, tuple[int, int, Timer]] = {}
        self.waiting: dict[object, Waiting] = {}
        """Requests without a reply, by ticket."""
        self._answered: list[tuple[str, AnyMessage]] = []
        self._tickets = 0
        self._settings = 0
        for effects in self.shard.loaded(self.now_ms):
            self.happen(effects)

    # -- what a runtime does

    def happen(self, effects: Effects, ticket: object = None) -> None:
        if effects.records and self.append_error is not None:
            error = client_error(self.append_error)
            if effects.refused is None:
                if ticket is not None:
                    self._answer(ticket, refused(error, self.waiting[ticket].request))
                return
            effects = effects.refused(error)
            assert not effects.records, "what happens instead of an append appends nothing"
        for record in effects.records:
            key, value = record.encode()
            self.log.append((key, value))
            self.records.append(record)
            decoded = self.shard.decode(key, value)
            assert decoded is not None, "what is written can be read"
            self.shard.apply(decoded)
        self.shard.settle(effects)
        for timer_key, timer, delay_ms in effects.timers:
            self.timers.pop(timer_key, None)
            if timer is not None:
                self._settings += 1
                self.timers[timer_key] = (self.now_ms + delay_ms, self._settings, timer)
        for ticket, response in effects.replies:
            self._answer(ticket, response)

    def wait(self, time_ms: int) -> None:
        """Let time pass and timers fire in order."""
        until_ms = self.now_ms + time_ms
        while self.timers:
            key = min(self.timers, key=lambda k: self.timers[k][:2])
            due_ms, _, timer = self.timers[key]
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            del self.timers[key]
            self.happen(self.shard.timer(timer, self.now_ms))
        self.now_ms = until_ms

    def reloaded(self) -> GroupShard:
        """A second machine that has read the log."""
        shard = GroupShard(self.limits)
        for key, value in self.log:
            record = shard.decode(key, value)
            assert record is not None
            shard.apply(record)
        return shard

    # -- requests

    def ticket(self, name: str, version: int, request: AnyMessage) -> object:
        self._tickets += 1
        self.waiting[self._tickets] = Waiting(name, version, request)
        return self._tickets

    def replies(self) -> list[tuple[str, AnyMessage]]:
        answered, self._answered = self._answered, []
        return answered

    def send(self, name: str, api: ApiKey, version: int, request: AnyMessage) -> None:
        """One request, with what its handler does around it."""
        invalid = self._invalid(api, request)
        if invalid is not None:
            self._answered.append((name, invalid))
            return
        ticket = self.ticket(name, version, request)
        shard, now_ms = self.shard, self.now_ms
        match api:
            case ApiKey.JOIN_GROUP:
                self._join(name, version, request, ticket)
            case ApiKey.SYNC_GROUP:
                self.happen(shard.sync(request, ticket, now_ms), ticket)
            case ApiKey.HEARTBEAT:
                self.happen(shard.heartbeat(request, ticket, now_ms), ticket)
            case ApiKey.LEAVE_GROUP:
                if version < 3:
                    request.members = [MemberIdentity(request.member_id)]
                self.happen(shard.leave(request, ticket, now_ms), ticket)
            case ApiKey.OFFSET_COMMIT:
                self.happen(shard.commit_offsets(request, version, ticket, now_ms), ticket)
            case ApiKey.OFFSET_DELETE:
                self.happen(shard.delete_offsets(request, ticket, now_ms), ticket)
            case ApiKey.DELETE_GROUPS:
                self.happen(shard.delete_group(request.groups_names[0], ticket, now_ms), ticket)
            case _:
                self._look(api, version, request, ticket)

    def _join(self, name: str, version: int, request: JoinGroupRequest, ticket: object) -> None:
        if version == 0:
            request.rebalance_timeout_ms = request.session_timeout_ms
        caller = Caller(name, "/127.0.0.1", version)
        effects = self.shard.join(request, caller, f"{name}-{ticket}", ticket, self.now_ms)
        self.happen(effects, ticket)

    def _invalid(self, api: ApiKey, request: AnyMessage) -> object | None:
        """What kwire.coordinators.groups refuses before it looks for the group."""
        if api is ApiKey.JOIN_GROUP:
            return classic_join.invalid(request, self.limits)
        if api not in NAMED_GROUP_ONLY or request.group_id:
            return None
        return NAMED_GROUP_ONLY[api](error_code=ErrorCode.INVALID_GROUP_ID)

    def _answer(self, ticket: object, response: AnyMessage) -> None:
        """Answer as the request's version can say it."""
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

    def _look(self, api: ApiKey, version: int, request: AnyMessage, ticket: object) -> None:
        shard = self.shard
        response: object
        match api:
            case ApiKey.OFFSET_FETCH:
                response = OffsetFetchResponse(groups=[shard.fetch_offsets(request.groups[0])])
            case ApiKey.DESCRIBE_GROUPS:
                group = shard.describe(request.groups[0], version)
                response = DescribeGroupsResponse(groups=[group])
            case _:
                groups = shard.list_groups(request.states_filter, request.types_filter)
                response = ListGroupsResponse(groups=groups)
        self._answer(ticket, response)


def refused(error: ErrorCode, request: AnyMessage) -> object:
    """The response that tells a failed append."""
    if isinstance(request, OffsetCommitRequest):
        return commit_error(request, error)
    if isinstance(request, DeleteGroupsRequest):
        return error
    failed: AnyMessage = response_class(request.API_KEY)()
    failed.error_code = error
    return failed
