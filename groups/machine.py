"""The groups and offsets of one partition of `__consumer_offsets`.

Operations validate, decide and give Effects (see `effects`); `apply` is called for every record,
live and on load; `fetch_offsets` and `list_groups` only look.

What is here is common to all kinds of groups: their offsets, and their end.  The requests of a
kind are methods of the kind (`classic`, `consumer`, `share`, `streams`), which shares the groups of
the machine.  A group exists from its first record on: one of its kind, or, for a simple group, that
of an offset committed without a generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from kwire.codecs.primitives import ZERO_UUID
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups import offsets, txn_offsets
from kwire.groups.classic.kind import Classic
from kwire.groups.classic.records import GROUP_METADATA
from kwire.groups.effects import Effects, Ticket
from kwire.groups.group import Group
from kwire.groups.kind import Groups, Kind
from kwire.groups.limits import GroupLimits
from kwire.groups.offsets import Offsets
from kwire.groups.record_format import VERSION, KeyedRecord
from kwire.groups.records import (
    OFFSET_COMMIT,
    SHARE_GROUP,
    STREAMS_GROUP,
    OffsetCommit,
    decode,
    offset_tombstone,
)
from kwire.groups.surroundings import NOWHERE, Surroundings
from kwire.groups.timers import RetentionTimer, Timer

if TYPE_CHECKING:
    from kwire.groups.consumer.kind import Consumer
    from kwire.groups.share.kind import Share
    from kwire.groups.streams.kind import Streams

UNKNOWN_GROUP_IS_NOT_FOUND_SINCE = 9  # OffsetCommit
"""Before, a commit to a group that does not exist was told ILLEGAL_GENERATION (KIP-848)."""


class GroupMachine:
    """See the module."""

    replaced_keys: ClassVar[tuple[bytes, ...]] = (
        VERSION.pack(OFFSET_COMMIT),
        VERSION.pack(GROUP_METADATA),
    )
    """Of a committed offset, and of a classic group as it stands; other kinds' build on another."""

    def __init__(self, limits: GroupLimits, surroundings: Surroundings = NOWHERE) -> None:
        self.limits = limits
        self.surroundings = surroundings
        self.groups: Groups = {}
        self.offsets = Offsets()
        self.classic = Classic(self.groups, limits, self._kind)
        self._kinds: dict[str, Kind] = {}
        self._kind_of_record: dict[type[MachineRecord], Kind] = {}
        self._add(self.classic)

    def _add(self, kind: Kind) -> None:
        self._kinds[kind.type_name] = kind
        self._kind_of_record.update(dict.fromkeys(kind.record_types, kind))

    @cached_property
    def consumer(self) -> Consumer:
        """Groups of KIP-848; their code is imported with the first of their records or requests."""
        from kwire.groups.consumer.kind import Consumer

        kind = Consumer(self.groups, self.limits, self.surroundings)
        self._add(kind)
        return kind

    @cached_property
    def share(self) -> Share:
        """Groups of KIP-932, likewise."""
        from kwire.groups.share.kind import Share

        kind = Share(self.groups, self.limits, self.surroundings)
        self._add(kind)
        return kind

    @cached_property
    def streams(self) -> Streams:
        """Groups of KIP-1071, likewise."""
        from kwire.groups.streams.kind import Streams

        kind = Streams(self.groups, self.limits, self.surroundings)
        self._add(kind)
        return kind

    def _kind(self, group: Group) -> Kind:
        return self._kinds[group.type_name]

    def _kind_of(self, record: MachineRecord) -> Kind:
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
        """Make durable state follow one record."""
        if isinstance(record, OffsetCommit):
            self.offsets.apply(record)
            self._begin_simple_group(record)
        else:
            self._kind_of(record).apply(record)

    def apply_pending(self, record: MachineRecord, producer_id: int) -> None:
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
            self.classic.begin(group_id)

    def settle(self, effects: Effects) -> None:
        """Take over the session of a group whose records have been applied."""
        if effects.soft is not None:
            effects.soft.settle(self.groups)

    def loaded(self, now_ms: int) -> Iterable[Effects]:
        """All records have been applied: sessions and retention begin."""
        for group in list(self.groups.values()):
            yield self._kind(group).loaded(group, now_ms)
        yield self._await_retention(Effects())

    def unloaded(self, now_ms: int) -> Iterable[Effects]:
        """The partition is led elsewhere, or deleted: who waits shall look for its coordinator."""
        for group in list(self.groups.values()):
            yield self._kind(group).unloaded(group, now_ms)

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> Effects:
        """Topics are gone, and with them what was committed for them."""
        gone = list(topics)
        records: list[MachineRecord] = [*self.offsets.tombstones_of_topics(gone)]
        if "share" in self.__dict__:
            records += self.share.topics_deleted([topic_id for _, topic_id in gone])
        return Effects(records=records, atomic=False)

    # -- offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, api_version: int, ticket: Ticket, now_ms: int
    ) -> Effects:
        group = self.groups.get(request.group_id)
        if group is None:
            error = _check_commit_without_group(request, api_version)
        else:
            error = group.check_commit(request, api_version)
        if error is not ErrorCode.NONE:
            return Effects.reply(ticket, offsets.commit_error(request, error))
        records, response = offsets.commit(request, self.limits.offset_metadata_max_bytes, now_ms)
        effects = Effects(records=[*records], replies=[(ticket, response)])
        if group is not None:
            self._kind(group).committed(group, request.member_id, effects)
        return effects

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        group = self.groups.get(request.group_id)
        if group is not None:
            error = group.check_transactional_commit(request, self._topic_id)
        else:
            simple = request.generation_id < 0
            error = ErrorCode.NONE if simple else ErrorCode.ILLEGAL_GENERATION
        if error is not ErrorCode.NONE:
            return Effects.reply(ticket, txn_offsets.commit_error(request, error))
        limit = self.limits.offset_metadata_max_bytes
        records, response = txn_offsets.commit(request, limit, now_ms)
        producer = request.producer_id, request.producer_epoch
        return Effects(records=[*records], replies=[(ticket, response)], producer=producer)

    def fetch_offsets(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponseGroup:
        group = self.groups.get(request.group_id)
        error = ErrorCode.NONE if group is None else group.check_fetch(request)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
        return offsets.fetch(self.offsets, request, require_stable)

    def _topic_id(self, name: str) -> bytes:
        topic = self.surroundings.image.topics.get(name)
        return ZERO_UUID if topic is None else topic.id

    def delete_offsets(self, request: OffsetDeleteRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self.groups.get(request.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
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

    # -- groups

    def delete_group(self, group_id: str, ticket: Ticket, now_ms: int) -> Effects:
        """The reply is an error code."""
        group = self.groups.get(group_id)
        if group is None:
            return Effects.reply(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        error = group.check_delete()
        effects = Effects.reply(ticket, error)
        if error is ErrorCode.NONE:
            effects.records += self.offsets.tombstones(group_id)
            effects.records += self._kind(group).tombstones(group)
        return effects

    def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """Groups in one of `states` and of one of `types`, by name in any case; none named: all."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        return [
            group.listed()
            for group in self.groups.values()
            if (not wanted_types or group.type_name in wanted_types)
            and (not wanted_states or group.state_name.lower() in wanted_states)
        ]

    # -- time

    def timer(self, timer: Timer, now_ms: int) -> Effects:
        """A timer that was set has come due."""
        if isinstance(timer, RetentionTimer):
            return self._await_retention(self._expire(now_ms))
        group = self.groups.get(timer.group_id)
        return Effects() if group is None else self._kind(group).due(group, timer, now_ms)

    def _await_retention(self, effects: Effects) -> Effects:
        timer = RetentionTimer()
        delay_ms = self.limits.offsets_retention_check_interval_ms
        again = (timer.key, timer, delay_ms)
        effects.timers.append(again)
        effects.refused = lambda _: Effects(timers=[again])
        return effects

    def _expire(self, now_ms: int) -> Effects:
        """Forget offsets that are out of time, and groups that have none left."""
        effects = Effects(atomic=False)
        for group in self.groups.values():
            kept = sum(1 for _ in self.offsets.all_of(group.group_id))
            if kept and group.offsets_may_expire:
                for topic, partition in self._expired(group, now_ms):
                    effects.records.append(offset_tombstone(group.group_id, topic, partition))
                    kept -= 1
            if kept or any(self.offsets.pending.of_group(group.group_id)):
                continue
            if group.goes_with_its_offsets:
                effects.records += self._kind(group).tombstones(group)
        return effects

    def _expired(self, group: Group, now_ms: int) -> list[tuple[str, int]]:
        """KIP-211: a group that has lost its members keeps its offsets from then on."""
        retention_ms = self.limits.offsets_retention_ms
        expired = self.offsets.expired(
            group.group_id,
            now_ms,
            retention_ms,
            lambda committed: group.unused_since_ms(committed.commit_timestamp_ms),
        )
        return [(topic, p) for topic, p in expired if not group.is_subscribed_to(topic)]


def _check_commit_without_group(request: OffsetCommitRequest, api_version: int) -> ErrorCode:
    if request.generation_id_or_member_epoch < 0:  # a simple group begins with its first commit
        return ErrorCode.NONE
    if api_version >= UNKNOWN_GROUP_IS_NOT_FOUND_SINCE:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION
