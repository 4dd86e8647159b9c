"""The group machine: the groups and offsets of one partition of `__consumer_offsets`.

Operations validate and decide a request, and return GroupEffects.  `apply` gets every record, live
and on load.  `fetch_offsets` and `list_groups` only read.

This module has the operations that all kinds of groups share: those on offsets, and the deletion of
groups.  Other requests are methods of a kind (`classic`, `consumer`, `share`, `streams`); the kinds
and the machine share one dict of groups.  A group exists from its first record on.  That is a
record of its kind or, for a simple group, an offset committed without a generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_groups import ListedGroup
from kwire.codecs.messages.offset_commit import OffsetCommitRequest
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups import offsets, txn_offsets
from kwire.groups.classic.kind import ClassicKind
from kwire.groups.classic.records import GROUP_METADATA
from kwire.groups.effects import GroupEffects, Rebalance, Ticket
from kwire.groups.group import Group
from kwire.groups.kind import GroupKind, Groups
from kwire.groups.limits import GroupLimits
from kwire.groups.offset_record import OFFSET_COMMIT, OffsetCommit, offset_tombstone
from kwire.groups.offsets import Offsets
from kwire.groups.record_format import VERSION, KeyedRecord
from kwire.groups.records import SHARE_GROUP, STREAMS_GROUP, decode
from kwire.groups.surroundings import NOWHERE, Surroundings
from kwire.groups.timers import RetentionTimer, Timer

if TYPE_CHECKING:
    from kwire.groups.consumer.kind import ConsumerKind
    from kwire.groups.share.kind import ShareKind
    from kwire.groups.streams.kind import StreamsKind

UNKNOWN_GROUP_IS_NOT_FOUND_SINCE = 9  # OffsetCommit
"""In earlier versions a commit to a missing group gets ILLEGAL_GENERATION (KIP-848)."""


class GroupMachine:
    """See the module."""

    replaced_keys: ClassVar[tuple[bytes, ...]] = (
        VERSION.pack(OFFSET_COMMIT),
        VERSION.pack(GROUP_METADATA),
    )
    """Committed offsets and classic groups: each record is complete.  The other kinds store a group
    in several records, which must all be applied."""

    def __init__(self, limits: GroupLimits, surroundings: Surroundings = NOWHERE) -> None:
        """Begin without groups and offsets; `apply` adds them, record by record.

        Only the classic kind exists from the start: most brokers never need the other kinds.
        """
        self.limits = limits
        self.surroundings = surroundings
        self.on_rebalance: Callable[[Rebalance], None] | None = None
        """Called when a rebalance of a group begins."""
        self.groups: Groups = {}
        self.offsets = Offsets()
        self.classic = ClassicKind(self.groups, limits, self._kind)
        self._kinds: dict[str, GroupKind] = {}
        self._kind_of_record: dict[type[MachineRecord], GroupKind] = {}
        self._add(self.classic)

    def _add(self, kind: GroupKind) -> None:
        self._kinds[kind.type_name] = kind
        self._kind_of_record.update(dict.fromkeys(kind.record_types, kind))

    @cached_property
    def consumer(self) -> ConsumerKind:
        """Consumer groups (KIP-848); imported with their first record or request."""
        from kwire.groups.consumer.kind import ConsumerKind

        kind = ConsumerKind(self.groups, self.limits, self.surroundings)
        self._add(kind)
        return kind

    @cached_property
    def share(self) -> ShareKind:
        """Share groups (KIP-932); imported with their first record or request."""
        from kwire.groups.share.kind import ShareKind

        kind = ShareKind(self.groups, self.limits, self.surroundings)
        self._add(kind)
        return kind

    @cached_property
    def streams(self) -> StreamsKind:
        """Streams groups (KIP-1071); imported with their first record or request."""
        from kwire.groups.streams.kind import StreamsKind

        kind = StreamsKind(self.groups, self.limits, self.surroundings)
        self._add(kind)
        return kind

    def _kind(self, group: Group) -> GroupKind:
        return self._kinds[group.type_name]

    def _kind_of(self, record: MachineRecord) -> GroupKind:
        """Return the kind of groups that a record belongs to; import the kind if it is the first.

        The caller handles records of offsets, which belong to no kind.
        """
        kind = self._kind_of_record.get(type(record))
        if kind is None:
            assert isinstance(record, KeyedRecord), record
            if record.TYPE in STREAMS_GROUP:
                kind = self.streams
            else:
                kind = self.share if record.TYPE in SHARE_GROUP else self.consumer
        return kind

    # -- the log

    decode = staticmethod(decode)

    def apply(self, record: MachineRecord) -> None:
        """Change durable state by one record."""
        if isinstance(record, OffsetCommit):
            self.offsets.apply(record)
            self._begin_simple_group(record)
        else:
            self._kind_of(record).apply(record)

    def apply_pending(self, record: MachineRecord, producer_id: int) -> None:
        """Apply a record of an open transaction.  Only offsets can be pending."""
        if not isinstance(record, OffsetCommit):
            self.apply(record)
            return
        self.offsets.apply_pending(record, producer_id)
        self._begin_simple_group(record)

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """Apply the producer's pending offsets, or drop them."""
        self.offsets.end_transaction(producer_id, commit)

    def _begin_simple_group(self, record: OffsetCommit) -> None:
        """Create a group for a committed offset whose group does not exist."""
        group_id = record.key.group_id
        if record.value is not None and group_id not in self.groups:
            self.classic.begin(group_id)

    def install_soft_state(self, effects: GroupEffects) -> None:
        """Set the state that is not in the log of a group whose records have been applied."""
        if effects.soft is not None:
            effects.soft.install(self.groups)
        if effects.rebalance is not None and self.on_rebalance is not None:
            self.on_rebalance(effects.rebalance)

    def loaded(self, now_ms: int) -> Iterable[GroupEffects]:
        """Effects after the last record was applied: sessions and the retention check start."""
        for group in list(self.groups.values()):
            yield self._kind(group).loaded(group, now_ms)
        yield self._with_retention_timer(GroupEffects())

    def unloaded(self, now_ms: int) -> Iterable[GroupEffects]:
        """Effects when this broker stops leading the partition: parked requests get an error."""
        for group in list(self.groups.values()):
            yield self._kind(group).unloaded(group, now_ms)

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> GroupEffects:
        """Delete the offsets and the share state of topics that were deleted."""
        deleted = list(topics)
        records: list[MachineRecord] = [*self.offsets.tombstones_of_topics(deleted)]
        if "share" in self.__dict__:  # do not import the kind for groups that do not exist
            records += self.share.topics_deleted([topic_id for _, topic_id in deleted])
        return GroupEffects(records=records, atomic=False)

    # -- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        """Decide OffsetCommit: write one record per partition, or answer with one error for all.

        A commit to a group that does not exist is decided as one of a simple group.
        """
        group = self.groups.get(request.group_id)
        if group is None:
            error = _check_commit_without_group(request, api_version)
        else:
            error = group.check_commit(request, api_version)
        if error is not ErrorCode.NONE:
            return GroupEffects.reply(ticket, offsets.commit_error(request, error))
        records, response = offsets.commit(request, self.limits.offset_metadata_max_bytes, now_ms)
        effects = GroupEffects(records=[*records], replies=[(ticket, response)])
        if group is not None:
            self._kind(group).member_committed(group, request.member_id, effects)
        return effects

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, api_version: int, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        """Decide TxnOffsetCommit: write the offsets as pending records of the transaction.

        Without a group only a producer that names no generation may commit.
        """
        group = self.groups.get(request.group_id)
        if group is not None:
            error = group.check_transactional_commit(request, api_version)
        else:
            error = _check_transactional_commit_without_group(request, api_version)
        if error is not ErrorCode.NONE:
            return GroupEffects.reply(ticket, txn_offsets.commit_error(request, error))
        limit = self.limits.offset_metadata_max_bytes
        records, response = txn_offsets.commit(request, limit, now_ms)
        producer = request.producer_id, request.producer_epoch
        return GroupEffects(records=[*records], replies=[(ticket, response)], producer=producer)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        """Return the committed offsets that the request names, or the error of the whole group."""
        group = self.groups.get(request.group_id)
        error = ErrorCode.NONE if group is None else group.check_fetch(request)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
        return offsets.fetch(self.offsets, request, require_stable)

    def delete_offsets(
        self, request: OffsetDeleteRequest, ticket: Ticket, now_ms: int
    ) -> GroupEffects:
        """Decide OffsetDelete: delete offsets, except those of topics that the group subscribes to.

        A partition without a committed offset is no error.
        """
        group = self.groups.get(request.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        if group is None or error is not ErrorCode.NONE:
            return GroupEffects.reply(ticket, OffsetDeleteResponse(error_code=error))
        effects = GroupEffects()
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

    # -- groups

    def delete_group(self, group_id: str, ticket: Ticket, now_ms: int) -> GroupEffects:
        """Delete a group with its offsets.  The reply is an error code."""
        group = self.groups.get(group_id)
        if group is None:
            return GroupEffects.reply(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        error = group.check_delete()
        effects = GroupEffects.reply(ticket, error)
        if error is ErrorCode.NONE:
            effects.records += self.offsets.tombstones(group_id)
            effects.records += self._kind(group).tombstones(group)
        return effects

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Groups in one of `states` and of one of `types`; an empty list means all.

        Names match in any case.
        """
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        return [
            group.listed()
            for group in self.groups.values()
            if (not wanted_types or group.type_name in wanted_types)
            and (not wanted_states or group.state_name.lower() in wanted_states)
        ]

    # -- time

    def timer_fired(self, timer: Timer, now_ms: int) -> GroupEffects:
        """Effects of a timer that fires."""
        if isinstance(timer, RetentionTimer):
            return self._with_retention_timer(self._expire(now_ms))
        group = self.groups.get(timer.group_id)
        return (
            GroupEffects() if group is None else self._kind(group).timer_fired(group, timer, now_ms)
        )

    def _with_retention_timer(self, effects: GroupEffects) -> GroupEffects:
        """Add the timer of the next retention check, also for the case that the append fails."""
        timer = RetentionTimer()
        delay_ms = self.limits.offsets_retention_check_interval_ms
        again = (timer.key, timer, delay_ms)
        effects.timers.append(again)
        effects.refused = lambda _: GroupEffects(timers=[again])
        return effects

    def _expire(self, now_ms: int) -> GroupEffects:
        """Delete expired offsets, and groups that have no offsets left and need none."""
        effects = GroupEffects(atomic=False)
        for group in self.groups.values():
            remaining = sum(1 for _ in self.offsets.all_of(group.group_id))
            if remaining and group.offsets_may_expire:
                for topic, partition in self._expired(group, now_ms):
                    effects.records.append(offset_tombstone(group.group_id, topic, partition))
                    remaining -= 1
            if remaining or any(self.offsets.pending.of_group(group.group_id)):
                continue
            if group.is_deleted_without_offsets and not self._waits_for_plugin(group):
                effects.records += self._kind(group).tombstones(group)
        return effects

    def _waits_for_plugin(self, group: Group) -> bool:
        """Whether the plug-in of topology descriptions must delete its data of the group first."""
        return self.limits.keeps_topology_descriptions and group.has_description

    def groups_to_clean(self) -> list[str]:
        """The ids of groups without members and offsets of which the plug-in may have data."""
        return [
            group.group_id
            for group in self.groups.values()
            if group.has_description
            and group.check_delete() is ErrorCode.NONE
            and not any(self.offsets.all_of(group.group_id))
            and not any(self.offsets.pending.of_group(group.group_id))
        ]

    def _expired(self, group: Group, now_ms: int) -> list[tuple[str, int]]:
        """(topic, partition) of expired offsets; those of subscribed topics stay (KIP-211)."""
        retention_ms = self.limits.offsets_retention_ms
        expired = self.offsets.expired(
            group.group_id,
            now_ms,
            retention_ms,
            lambda committed: group.retention_start_ms(committed.commit_timestamp_ms),
        )
        return [(topic, p) for topic, p in expired if not group.is_subscribed_to(topic)]


def _check_transactional_commit_without_group(
    request: TxnOffsetCommitRequest, api_version: int
) -> ErrorCode:
    """Return the error of a TxnOffsetCommit to a group that does not exist."""
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    if api_version >= txn_offsets.NEW_ERRORS_SINCE:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def _check_commit_without_group(request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    """Return the error of an OffsetCommit to a group that does not exist."""
    if request.generation_id_or_member_epoch < 0:  # the first commit creates a simple group
        return ErrorCode.NONE
    if api_version >= UNKNOWN_GROUP_IS_NOT_FOUND_SINCE:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION
