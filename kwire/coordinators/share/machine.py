"""The share coordinator: one partition of `__share_group_state`.

It keeps, of each partition that a share group reads, from where and what was done with the records
behind that.  Whoever leads the partition reads it once and writes what changes.  Who is not the
last leader, or comes from a time before the group began anew, is fenced by its epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract import effects as coordinator
from kwire.coordinators.contract.effects import Ticket
from kwire.coordinators.share.records import ShareKey, Snapshot, Update, decode, forgotten, key_of
from kwire.coordinators.share.state import NO_EPOCH, ShareState, Written

ShareStateRecord = Snapshot | Update

SENTENCES = {
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator rejected the request because the "
    "share-group state epoch did not match.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on "
    "the broker.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}
NEGATIVE_PARTITION = "The partition id cannot be a negative number."


class Effects(coordinator.Effects[ShareStateRecord, None, None]):
    """A decision about a partition; nothing is known but what the records say."""

    __slots__ = ()


class Answer(NamedTuple):
    """What a request about one partition comes to; `state` where one was asked for."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: ShareState | None = None

    @classmethod
    def refused(cls, error: ErrorCode) -> Answer:
        return cls(error, SENTENCES.get(error))


DONE = Answer()

NOTHING = ShareState(snapshot_epoch=0, state_epoch=0)
"""What is kept of a partition that no group has begun to read."""


@dataclass(slots=True)
class _Kept:
    """A state, and how far its epochs have come, whatever it says itself."""

    state: ShareState
    leader_epoch: int
    state_epoch: int
    updates: int = 0
    """Since the last snapshot."""


class ShareStateMachine:
    """See the module.  `updates_per_snapshot`: how often only what changed is written."""

    replaced_keys: ClassVar[tuple[bytes, ...]] = ()
    """An update says what changed since the record before it."""

    def __init__(self, image: Callable[[], ClusterImage], updates_per_snapshot: int) -> None:
        self._image = image
        self._updates_per_snapshot = updates_per_snapshot
        self._kept: dict[ShareKey, _Kept] = {}

    # -- the log

    decode = staticmethod(decode)

    def apply(self, record: ShareStateRecord) -> None:
        if isinstance(record, Snapshot):
            self._apply_snapshot(record)
        elif record.value is not None:
            self._apply_update(record)

    def _apply_snapshot(self, record: Snapshot) -> None:
        key, value = key_of(record), record.value
        if value is None:
            self._kept.pop(key, None)
            return
        kept = self._kept.get(key)
        state = ShareState.of_snapshot(value)
        if kept is None:
            self._kept[key] = _Kept(state, value.leader_epoch, value.state_epoch)
            return
        kept.state = state
        kept.leader_epoch = max(kept.leader_epoch, value.leader_epoch)
        kept.state_epoch = max(kept.state_epoch, value.state_epoch)
        if kept.updates >= self._updates_per_snapshot:
            kept.updates = 0

    def _apply_update(self, record: Update) -> None:
        """Without a snapshot there is nothing to be updated: that went with an earlier segment."""
        kept, value = self._kept.get(key_of(record)), record.value
        if kept is None or value is None:
            return
        kept.state = kept.state.updated(value)
        kept.leader_epoch = max(kept.leader_epoch, value.leader_epoch)
        kept.updates += 1

    def settle(self, effects: Effects) -> None:
        """All that is known is in the log."""

    def loaded(self, now_ms: int) -> Iterable[Effects]:
        return ()

    def unloaded(self, now_ms: int) -> Iterable[Effects]:
        """Nobody waits here."""
        return ()

    def timer(self, timer: None, now_ms: int) -> Effects:
        raise AssertionError("there are none")

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> Effects | None:
        gone = {topic_id for _, topic_id in topics}
        records = [forgotten(key) for key in self._kept if key.topic_id in gone]
        return Effects(records=[*records], atomic=False) if records else None

    # -- requests: each reply is an Answer

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, ticket: Ticket, now_ms: int
    ) -> Effects:
        """A group begins to read the partition, or begins anew."""
        if key.partition < 0:
            return Effects.reply(ticket, Answer(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        kept = self._kept.get(key)
        if kept is not None and _is_older(state_epoch, kept.state_epoch):
            return _refused(ticket, ErrorCode.FENCED_STATE_EPOCH)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        before = None if kept is None else kept.state
        state = ShareState.begun(before, state_epoch, start_offset, now_ms)
        return Effects(records=[state.to_snapshot(key)], replies=[(ticket, DONE)])

    def read(self, key: ShareKey, leader_epoch: int, ticket: Ticket, now_ms: int) -> Effects:
        """The partition's leader begins; whoever led it before is fenced from now on."""
        kept = self._kept.get(key)
        if key.partition < 0 or kept is None:
            return _uninitialized(key, "Read", ticket)
        if _is_older(leader_epoch, kept.leader_epoch):
            return _refused(ticket, ErrorCode.FENCED_LEADER_EPOCH)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = kept.state
        effects = Effects.reply(ticket, Answer(state=state))
        if leader_epoch not in (NO_EPOCH, kept.leader_epoch):
            nothing = Written(
                state.state_epoch,
                leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
                (),
            )
            effects.records.append(self._record(key, kept, nothing, leader_epoch, now_ms))
        return effects

    def write(self, key: ShareKey, written: Written, ticket: Ticket, now_ms: int) -> Effects:
        kept = self._kept.get(key)
        if key.partition < 0 or kept is None:
            return _uninitialized(key, "Write", ticket)
        if _is_older(written.leader_epoch, kept.leader_epoch):
            return _refused(ticket, ErrorCode.FENCED_LEADER_EPOCH)
        if _is_older(written.state_epoch, kept.state_epoch):
            return _refused(ticket, ErrorCode.FENCED_STATE_EPOCH)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        record = self._record(key, kept, written, kept.state.leader_epoch, now_ms)
        return Effects(records=[record], replies=[(ticket, DONE)])

    def summary(self, key: ShareKey, ticket: Ticket) -> Effects:
        if key.partition < 0:
            return Effects.reply(ticket, Answer(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        kept = self._kept.get(key)
        return Effects.reply(ticket, Answer(state=NOTHING if kept is None else kept.state))

    def delete(self, key: ShareKey, ticket: Ticket) -> Effects:
        """The group reads the partition no longer."""
        if key.partition < 0:
            return Effects.reply(ticket, Answer(ErrorCode.INVALID_REQUEST, NEGATIVE_PARTITION))
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        effects = Effects.reply(ticket, DONE)
        if key in self._kept:
            effects.records.append(forgotten(key))
        return effects

    def _exists(self, key: ShareKey) -> bool:
        image = self._image()
        name = image.names_by_id.get(key.topic_id)
        return name is not None and key.partition < len(image.topics[name].partitions)

    def _record(
        self, key: ShareKey, kept: _Kept, written: Written, leader_epoch: int, now_ms: int
    ) -> ShareStateRecord:
        if kept.updates >= self._updates_per_snapshot:
            return kept.state.snapshot_with(written, leader_epoch, now_ms).to_snapshot(key)
        return kept.state.to_update(key, written, leader_epoch)


def _is_older(epoch: int, known: int) -> bool:
    return epoch != NO_EPOCH and epoch < known


def _refused(ticket: Ticket, error: ErrorCode) -> Effects:
    return Effects.reply(ticket, Answer.refused(error))


def _uninitialized(key: ShareKey, what: str, ticket: Ticket) -> Effects:
    sentence = f"{what} operation on uninitialized share partition not allowed."
    message = NEGATIVE_PARTITION if key.partition < 0 else sentence
    return Effects.reply(ticket, Answer(ErrorCode.INVALID_REQUEST, message))
