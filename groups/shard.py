"""The groups and offsets of one partition of `__consumer_offsets`.

Operations validate, decide and give Effects (see `effects`); `apply` is called for every record,
live and on load; `fetch_offsets`, `describe` and `list_groups` only look.

A group exists from its first record on: a GroupMetadata record, or, for a simple group, that of
an offset committed without a generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kwire.codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.codecs.messages.join_group import JoinGroupRequest
from kwire.codecs.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kwire.codecs.messages.sync_group import SyncGroupRequest
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.groups import offsets, txn_offsets
from kwire.groups.classic import members as classic_members
from kwire.groups.classic import rebalance as classic_rebalance
from kwire.groups.classic.decision import Caller, Decision, join_error, sync_error
from kwire.groups.classic.group import ClassicGroup, Member
from kwire.groups.classic.join import Join
from kwire.groups.classic.state import ClassicState
from kwire.groups.effects import Effects, Ticket
from kwire.groups.limits import GroupLimits
from kwire.groups.offsets import CommittedOffset, Offsets
from kwire.groups.records import (
    OffsetCommit,
    Record,
    decode,
    group_tombstone,
    offset_tombstone,
)
from kwire.groups.timers import (
    InitialJoinTimer,
    JoinTimer,
    RetentionTimer,
    SessionTimer,
    SyncTimer,
    Timer,
)

CLASSIC_TYPE = "classic"
UNKNOWN_GROUP_IS_NOT_FOUND_SINCE = 9  # OffsetCommit
"""Before, a commit to a group that does not exist was told ILLEGAL_GENERATION (KIP-848)."""
NOT_FOUND_IS_AN_ERROR_SINCE = 6  # DescribeGroups
"""Before, a group that does not exist was described as Dead, without an error (KIP-1043)."""


class GroupShard:
    """See the module."""

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()

    # -- the log

    decode = staticmethod(decode)

    def apply(self, record: Record) -> None:
        """Make durable state follow one record."""
        if isinstance(record, OffsetCommit):
            self.offsets.apply(record)
            self._begin_simple_group(record)
        elif record.value is None:
            self.groups.pop(record.key.group, None)
        else:
            group_id = record.key.group
            self.groups[group_id] = ClassicGroup.from_record(group_id, record.value)

    def apply_pending(self, record: Record, producer_id: int) -> None:
        """The same for a record of a transaction that is not ended yet: an offset."""
        if not isinstance(record, OffsetCommit):
            self.apply(record)
            return
        self.offsets.apply_pending(record, producer_id)
        self._begin_simple_group(record)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """The producer's offsets count from now on, or never."""
        self.offsets.end_transaction(producer_id, commit)

    def _begin_simple_group(self, record: OffsetCommit) -> None:
        group_id = record.key.group
        if record.value is not None and group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def settle(self, effects: Effects) -> None:
        """Take over the soft state of effects whose records have been applied."""
        if effects.group is not None:
            self.groups[effects.group.group_id] = effects.group

    def loaded(self, now_ms: int) -> Iterable[Effects]:
        """All records have been applied: sessions and retention begin."""
        for group in list(self.groups.values()):
            decision = Decision(group, self.limits, now_ms)
            for member in group.members.values():
                decision.expect_heartbeat(member)
            if len(group.members) > self.limits.group_max_size:
                # A chance to commit before the members that are too many are kept out.
                classic_rebalance.prepare(decision, "it is over group.max.size")
            yield decision.effects
        yield self._await_retention(Effects())

    def unloaded(self, now_ms: int) -> Iterable[Effects]:
        """The partition is led elsewhere, or deleted: who waits shall look for its coordinator."""
        for group in list(self.groups.values()):
            decision = Decision(group, self.limits, now_ms)
            for member_id in group.members:
                decision.answer_join(member_id, join_error(ErrorCode.NOT_COORDINATOR, member_id))
                decision.answer_sync(member_id, sync_error(ErrorCode.NOT_COORDINATOR))
            decision.group.transition_to(ClassicState.DEAD, now_ms)
            yield decision.effects

    # -- membership

    def join(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        new_member_id: str,
        ticket: Ticket,
        now_ms: int,
    ) -> Effects:
        """`new_member_id` is used where the member has none yet."""
        group = self.groups.get(request.group_id)
        if group is not None:
            decision = Decision(group, self.limits, now_ms)
            return Join(decision, request, caller, ticket, new_member_id).decide()
        if request.member_id:
            error = join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return Effects.reply(ticket, error)
        group = ClassicGroup(request.group_id, state_timestamp_ms=now_ms)
        decision = Decision(group, self.limits, now_ms)
        effects = Join(decision, request, caller, ticket, new_member_id).decide()
        effects.records.append(group.to_record({}))  # the group exists, whatever comes of the join
        return effects

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self.groups.get(request.group_id)
        if group is None:
            return Effects.reply(ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        return classic_members.sync(Decision(group, self.limits, now_ms), request, ticket)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self.groups.get(request.group_id)
        if group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
            return Effects.reply(ticket, HeartbeatResponse(error_code=error))
        return classic_members.heartbeat(group, request, ticket)

    def leave(self, request: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self.groups.get(request.group_id)
        if group is not None:
            return classic_members.leave(Decision(group, self.limits, now_ms), request, ticket)
        answers = [
            MemberResponse(m.member_id, m.group_instance_id, ErrorCode.UNKNOWN_MEMBER_ID)
            for m in request.members
        ]
        return Effects.reply(ticket, LeaveGroupResponse(members=answers))

    # -- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int, ticket: Ticket, now_ms: int
    ) -> Effects:
        group = self.groups.get(request.group_id)
        error = _check_commit(group, request, api_version)
        if error is not ErrorCode.NONE:
            return Effects.reply(ticket, offsets.commit_error(request, error))
        records, response = offsets.commit(request, self.limits.offset_metadata_max_bytes, now_ms)
        effects = Effects(records=[*records], replies=[(ticket, response)])
        if group is not None and group.state is not ClassicState.EMPTY:
            classic_members.keep_session(effects, group, request.member_id)
        return effects

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        group = self.groups.get(request.group_id)
        error = _check_transactional_commit(group, request)
        if error is not ErrorCode.NONE:
            return Effects.reply(ticket, txn_offsets.commit_error(request, error))
        limit = self.limits.offset_metadata_max_bytes
        records, response = txn_offsets.commit(request, limit, now_ms)
        producer = request.producer_id, request.producer_epoch
        return Effects(records=[*records], replies=[(ticket, response)], producer=producer)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        return offsets.fetch(self.offsets, request, require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self.groups.get(request.group_id)
        error = _check_offset_delete(group)
        if group is None or error is not ErrorCode.NONE:
            return Effects.reply(ticket, OffsetDeleteResponse(error_code=error))
        effects = Effects()
        topics = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
            answers = []
            for index in (partition.partition_index for partition in topic.partitions):
                answers.append(OffsetDeleteResponsePartition(index, code))
                if not subscribed and self.offsets.has_any(group.group_id, topic.name, index):
                    effects.records.append(offset_tombstone(group.group_id, topic.name, index))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        effects.replies.append((ticket, OffsetDeleteResponse(topics=topics)))
        return effects

    def delete_offsets_of_topics(self, deleted: Sequence[tuple[str, bytes]]) -> Effects:
        """Topics are gone, and with them what was committed for them."""
        return Effects(records=[*self.offsets.tombstones_of_topics(deleted)], atomic=False)

    # -- groups

    def delete_group(self, group_id: str, ticket: Ticket, now_ms: int) -> Effects:
        """The reply is an error code."""
        error = _check_delete(self.groups.get(group_id))
        effects = Effects.reply(ticket, error)
        if error is ErrorCode.NONE:
            effects.records += self.offsets.tombstones(group_id)
            effects.records.append(group_tombstone(group_id))
        return effects

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self.groups.get(group_id)
        if group is not None:
            return _described(group)
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
        if api_version >= NOT_FOUND_IS_AN_ERROR_SINCE:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        return described

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Groups in one of `states` and of one of `types`, by name in any case; none named: all."""
        wanted = {state.strip().lower() for state in states}
        if types and CLASSIC_TYPE not in {kind.strip().lower() for kind in types}:
            return []
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC_TYPE,
            )
            for group in self.groups.values()
            if not wanted or group.state.value.lower() in wanted
        ]

    # -- time

    def timer(self, timer: Timer, now_ms: int) -> Effects:
        """A timer that was set has come due."""
        if isinstance(timer, RetentionTimer):
            return self._await_retention(self._expire(now_ms))
        group = self.groups.get(timer.group_id)
        if group is None or group.state is ClassicState.DEAD:
            return Effects()
        decision = Decision(group, self.limits, now_ms)
        match timer:
            case SessionTimer(member_id=member_id):
                return classic_rebalance.session_due(decision, member_id)
            case InitialJoinTimer():
                return classic_rebalance.initial_join_due(decision, timer)
            case JoinTimer():
                return classic_rebalance.join_due(decision)
            case SyncTimer():
                return classic_rebalance.sync_due(decision, timer)

    def _await_retention(self, effects: Effects) -> Effects:
        timer = RetentionTimer()
        delay_ms = self.limits.offsets_retention_check_interval_ms
        again = (timer.key, timer, delay_ms)
        effects.timers.append(again)
        effects.refused = lambda _: Effects(timers=[again])
        return effects

    def _expire(self, now_ms: int) -> Effects:
        """Forget offsets that are out of time, and empty groups that have none left."""
        effects = Effects(atomic=False)
        for group in self.groups.values():
            kept = sum(1 for _ in self.offsets.all_of(group.group_id))
            if kept and _may_expire(group):
                for topic, partition in self._expired(group, now_ms):
                    effects.records.append(offset_tombstone(group.group_id, topic, partition))
                    kept -= 1
            if kept or any(self.offsets.pending.of_group(group.group_id)):
                continue
            if group.state is ClassicState.EMPTY:
                effects.records.append(group_tombstone(group.group_id))
        return effects

    def _expired(self, group: ClassicGroup, now_ms: int) -> list[tuple[str, int]]:
        """KIP-211: a group that has lost its members keeps its offsets from then on."""

        def base(committed: CommittedOffset) -> int:
            empty = group.protocol_type is not None and group.state is ClassicState.EMPTY
            if empty and group.state_timestamp_ms != -1:
                return group.state_timestamp_ms
            return committed.commit_timestamp_ms

        retention_ms = self.limits.offsets_retention_ms
        expired = self.offsets.expired(group.group_id, now_ms, retention_ms, base)
        return [(topic, p) for topic, p in expired if not group.is_subscribed_to(topic)]


def _may_expire(group: ClassicGroup) -> bool:
    """Whether it can be known that nobody in the group uses the offset."""
    if group.protocol_type is None or group.state is ClassicState.EMPTY:
        return True
    return group.state is ClassicState.STABLE and group.subscribed_topics is not None


def _check_commit(
    group: ClassicGroup | None, request: OffsetCommitRequest, api_version: int
) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id < 0:  # a simple group begins with its first commit
            return ErrorCode.NONE
        if api_version >= UNKNOWN_GROUP_IS_NOT_FOUND_SINCE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and group.state is ClassicState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID  # only an empty group lets anyone commit
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is ClassicState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check_transactional_commit(
    group: ClassicGroup | None, request: TxnOffsetCommitRequest
) -> ErrorCode:
    """KIP-447: a producer that names no member may commit to any group, as it could before v3."""
    generation_id = request.generation_id
    if group is None:
        return ErrorCode.NONE if generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and group.state is ClassicState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    same = generation_id == group.generation_id
    return ErrorCode.NONE if same else ErrorCode.ILLEGAL_GENERATION


def _check_offset_delete(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is ClassicState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not ClassicState.EMPTY and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _check_delete(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is ClassicState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is ClassicState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def _described(group: ClassicGroup) -> DescribedGroup:
    """The protocol and the members' metadata of it are known of a stable group only."""
    stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            _described_member(member, group.protocol_name if stable else None)
            for member in group.members.values()
        ],
    )


def _described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )
