"""The share coordinator as a machine: one partition of `__share_group_state`.

For each share partition it stores the start offset and the delivery state of the records after it.
The partition's leader reads this state once and then writes each change.  Two epochs fence requests
that come too late: the leader epoch fences an earlier leader, and the state epoch fences writes
from before the group's state was initialized again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract import effects as coordinator
from kwire.coordinators.contract.effects import Ticket
from kwire.coordinators.share.records import (
    ShareKey,
    ShareStateSnapshot,
    ShareStateUpdate,
    decode,
    key_of,
    state_tombstone,
)
from kwire.coordinators.share.state import ShareState, ShareStateWrite

ShareStateRecord = ShareStateSnapshot | ShareStateUpdate

ERROR_MESSAGES = {
    ErrorCode.FENCED_STATE_EPOCH: "The coordinator rejected the request because the state epoch "
    "did not match.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch in the request is older than the epoch on "
    "the broker.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


class ShareStateEffects(coordinator.Effects[ShareStateRecord, None, None]):
    """The effects of a decision about a share partition; there is no state outside records."""

    __slots__ = ()


class ShareStateAnswer(NamedTuple):
    """The answer to a request about one share partition; `state` if the request reads it."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: ShareState | None = None

    @classmethod
    def refused(cls, error: ErrorCode) -> ShareStateAnswer:
        return cls(error, ERROR_MESSAGES.get(error))


DONE = ShareStateAnswer()

EMPTY_STATE = ShareState(snapshot_epoch=0, state_epoch=0)
"""The state of a share partition that was never initialized."""


@dataclass(slots=True)
class _StoredState:
    """A share partition's state with its highest epochs, which can be above those in `state`."""

    state: ShareState
    leader_epoch: int
    state_epoch: int
    updates: int = 0
    """Update records since the last snapshot."""


class ShareStateMachine:
    """See the module.

    After `updates_per_snapshot` update records (only the change) it writes a snapshot (the whole
    state).
    """

    replaced_keys: ClassVar[tuple[bytes, ...]] = ()
    """None: an update record needs the records before it."""

    def __init__(self, image: Callable[[], ClusterImage], updates_per_snapshot: int) -> None:
        self._image = image
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[ShareKey, _StoredState] = {}

    def states(self) -> Iterator[tuple[ShareKey, ShareState]]:
        """Yield the state of each share partition that is stored here."""
        return ((key, stored.state) for key, stored in self._states.items())

    # -- the log

    decode = staticmethod(decode)

    def apply(self, record: ShareStateRecord) -> None:
        """Applies a record of the log to the state."""
        if isinstance(record, ShareStateSnapshot):
            self._apply_snapshot(record)
        elif record.value is not None:
            self._apply_update(record)

    def _apply_snapshot(self, record: ShareStateSnapshot) -> None:
        """Replaces the state of a share partition; a record without value removes it.

        Epochs never go back: a later update may have raised them.
        """
        key, value = key_of(record), record.value
        if value is None:
            self._states.pop(key, None)
            return
        stored = self._states.get(key)
        state = ShareState.of_snapshot(value)
        if stored is None:
            self._states[key] = _StoredState(state, value.leader_epoch, value.state_epoch)
            return
        stored.state = state
        stored.leader_epoch = max(stored.leader_epoch, value.leader_epoch)
        stored.state_epoch = max(stored.state_epoch, value.state_epoch)
        if stored.updates >= self._updates_per_snapshot:
            stored.updates = 0

    def _apply_update(self, record: ShareStateUpdate) -> None:
        """Applies an update record.

        An update without a snapshot before it is ignored: the segment with the snapshot was
        deleted.
        """
        stored, value = self._states.get(key_of(record)), record.value
        if stored is None or value is None:
            return
        stored.state = stored.state.updated(value)
        stored.leader_epoch = max(stored.leader_epoch, value.leader_epoch)
        stored.updates += 1

    def install_soft_state(self, effects: ShareStateEffects) -> None:
        """All state is in the log."""

    def loaded(self, now_ms: int) -> Iterable[ShareStateEffects]:
        return ()

    def unloaded(self, now_ms: int) -> Iterable[ShareStateEffects]:
        """No request waits in this machine."""
        return ()

    def timer_fired(self, timer: None, now_ms: int) -> ShareStateEffects:
        raise AssertionError("this machine sets no timers")

    def topics_deleted(
        self, topics: Iterable[tuple[str, bytes]], now_ms: int
    ) -> ShareStateEffects | None:
        """Return effects that remove the state of deleted topics; None if none."""
        deleted = {topic_id for _, topic_id in topics}
        records = [state_tombstone(key) for key in self._states if key.topic_id in deleted]
        return ShareStateEffects(records=[*records], atomic=False) if records else None

    # -- requests: each reply is a ShareStateAnswer

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, ticket: Ticket, now_ms: int
    ) -> ShareStateEffects:
        """InitializeShareGroupState: a group begins to read the partition, or starts over."""
        if (negative := _negative(key, state_epoch=state_epoch)) is not None:
            return ShareStateEffects.reply(ticket, negative)
        stored = self._states.get(key)
        if stored is not None and state_epoch < stored.state_epoch:
            return _refused(ticket, ErrorCode.FENCED_STATE_EPOCH)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        before = None if stored is None else stored.state
        state = ShareState.begun(before, state_epoch, start_offset, now_ms)
        return ShareStateEffects(records=[state.to_snapshot(key)], replies=[(ticket, DONE)])

    def read(
        self, key: ShareKey, leader_epoch: int, ticket: Ticket, now_ms: int
    ) -> ShareStateEffects:
        """ReadShareGroupState: returns the state to a new leader of the partition.

        This fences the leaders before it.
        """
        if (negative := _negative(key, leader_epoch=leader_epoch)) is not None:
            return ShareStateEffects.reply(ticket, negative)
        stored = self._states.get(key)
        if stored is None:
            return _uninitialized("Read", ticket)
        if leader_epoch < stored.leader_epoch:
            return _refused(ticket, ErrorCode.FENCED_LEADER_EPOCH)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = stored.state
        effects = ShareStateEffects.reply(ticket, ShareStateAnswer(state=state))
        if leader_epoch != stored.leader_epoch:
            epoch_only = ShareStateWrite(
                state.state_epoch,
                leader_epoch,
                state.start_offset,
                state.delivery_complete_count,
                (),
            )
            effects.records.append(self._record(key, stored, epoch_only, leader_epoch, now_ms))
        return effects

    def write(
        self, key: ShareKey, written: ShareStateWrite, ticket: Ticket, now_ms: int
    ) -> ShareStateEffects:
        """WriteShareGroupState: stores a change of a share partition's state.

        Refuses a leader or a state epoch that is older than the known one.
        """
        negative = _negative(
            key, leader_epoch=written.leader_epoch, state_epoch=written.state_epoch
        )
        if negative is not None:
            return ShareStateEffects.reply(ticket, negative)
        stored = self._states.get(key)
        if stored is None:
            return _uninitialized("Write", ticket)
        if written.leader_epoch < stored.leader_epoch:
            return _refused(ticket, ErrorCode.FENCED_LEADER_EPOCH)
        if written.state_epoch < stored.state_epoch:
            return _refused(ticket, ErrorCode.FENCED_STATE_EPOCH)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        record = self._record(key, stored, written, stored.state.leader_epoch, now_ms)
        return ShareStateEffects(records=[record], replies=[(ticket, DONE)])

    def summary(self, key: ShareKey, ticket: Ticket) -> ShareStateEffects:
        """ReadShareGroupStateSummary: returns a share partition's state, for lag and offsets.

        One that was never initialized has an empty state.  Unlike `read` it fences nobody.
        """
        if (negative := _negative(key)) is not None:
            return ShareStateEffects.reply(ticket, negative)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        stored = self._states.get(key)
        return ShareStateEffects.reply(
            ticket, ShareStateAnswer(state=EMPTY_STATE if stored is None else stored.state)
        )

    def delete(self, key: ShareKey, ticket: Ticket) -> ShareStateEffects:
        """DeleteShareGroupState: removes the state of a partition that the group reads no more."""
        if (negative := _negative(key)) is not None:
            return ShareStateEffects.reply(ticket, negative)
        if not self._exists(key):
            return _refused(ticket, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        effects = ShareStateEffects.reply(ticket, DONE)
        if key in self._states:
            effects.records.append(state_tombstone(key))
        return effects

    def _exists(self, key: ShareKey) -> bool:
        image = self._image()
        name = image.names_by_id.get(key.topic_id)
        return name is not None and key.partition < len(image.topics[name].partitions)

    def _record(
        self,
        key: ShareKey,
        stored: _StoredState,
        written: ShareStateWrite,
        leader_epoch: int,
        now_ms: int,
    ) -> ShareStateRecord:
        """Return the record of a change: the change only, or the whole state.

        The whole state is written after `updates_per_snapshot` changes, so that a load reads few
        records.
        """
        if stored.updates >= self._updates_per_snapshot:
            return stored.state.snapshot_with(written, leader_epoch, now_ms).to_snapshot(key)
        return stored.state.to_update(key, written, leader_epoch)


def _negative(
    key: ShareKey, *, leader_epoch: int = 0, state_epoch: int = 0
) -> ShareStateAnswer | None:
    """The answer to a request with a negative number; None if there is none.

    Apache Kafka 4.4 checks the partition first, then the leader epoch, then the state epoch.
    """
    numbers = {
        "partition id": key.partition,
        "leader epoch": leader_epoch,
        "state epoch": state_epoch,
    }
    for name, number in numbers.items():
        if number < 0:
            message = f"The {name} cannot be a negative number."
            return ShareStateAnswer(ErrorCode.INVALID_REQUEST, message)
    return None


def _refused(ticket: Ticket, error: ErrorCode) -> ShareStateEffects:
    return ShareStateEffects.reply(ticket, ShareStateAnswer.refused(error))


def _uninitialized(operation: str, ticket: Ticket) -> ShareStateEffects:
    """Refuses an operation on a share partition that was not initialized."""
    message = f"{operation} operation on uninitialized share partition not allowed."
    return ShareStateEffects.reply(ticket, ShareStateAnswer(ErrorCode.INVALID_REQUEST, message))
