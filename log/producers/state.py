"""The producers of one partition: idempotence, transactions, and which offsets are undecided.

A batch with a producer id is checked before it is written and noted after:

    check(header, origin, …)      raises, or gives the batch that this one repeats, or None
    note(header, first_offset, …) the only mutator, live and when a log is replayed

Rules (Kafka's ProducerAppendInfo, KIP-98, KIP-360, KIP-890):

    situation                                   answer
    one of the last five batches comes again    its first offsets; nothing is written
    producer not known                          any first sequence is taken: its state may have
                                                expired (there is no UNKNOWN_PRODUCER_ID any more)
    epoch lower than the last                   INVALID_PRODUCER_EPOCH
    epoch higher, first sequence not 0          OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, not the next sequence           OUT_OF_ORDER_SEQUENCE_NUMBER
    no transactional batch in a transaction     INVALID_TXN_STATE
    transactional, unverified, none open        INVALID_TXN_STATE
    behind one that there was no room for       KAFKA_STORAGE_ERROR (kwire.log.producers.refused)

Coordinators write without sequence numbers, so only their epochs are checked; replication and
replay check nothing, as the leader has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batch_layout import CODEC_MASK, TRANSACTIONAL_FLAG
from kwire.codecs.control import ControlType, EndTxnMarker
from kwire.codecs.errors import ErrorCode
from kwire.log.error import LogError
from kwire.log.index.txn_index import AbortedTxn
from kwire.log.origin import Origin
from kwire.log.producers.entry import NO_EPOCH, ProducerEntry, WrittenBatch
from kwire.log.producers.refused import RefusedBatch
from kwire.log.producers.verification import Verification

if TYPE_CHECKING:
    from kwire.codecs.batches import BatchHeader

PRODUCER_ID_EXPIRATION_MS = 86_400_000
"""Default of `producer.id.expiration.ms`."""

LATE_TXN_BUFFER_MS = 5 * 60 * 1000
"""How much longer than the largest transaction timeout a transaction may be open unsuspected."""


class CompletedTxn(NamedTuple):
    """A transaction that a marker at `last_offset` ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """All producers of one partition.

    `end_offset` is the offset up to which the state has been built.  `ongoing` maps a
    transaction's first offset to its producer; offsets only grow, so it stays in their order.
    `unreplicated` holds the ended transactions whose marker (last offset) is not yet below the
    high watermark: read_committed consumers must not see beyond them either.  `refused` has the
    batches, by producer, that were refused for want of room: one that has come since is no matter.
    """

    __slots__ = (
        "end_offset",
        "entries",
        "expiration_ms",
        "ongoing",
        "refused",
        "unreplicated",
        "verifications",
        "verify_transactions",
    )

    def __init__(
        self,
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        *,
        verify_transactions: bool = True,
    ) -> None:
        self.expiration_ms = expiration_ms
        self.verify_transactions = verify_transactions
        self.entries: dict[int, ProducerEntry] = {}
        self.ongoing: dict[int, int] = {}
        self.unreplicated: dict[int, CompletedTxn] = {}
        self.refused: dict[int, RefusedBatch] = {}
        self.verifications: dict[int, Verification] = {}
        self.end_offset = 0

    # Before a batch is written

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> Verification | None:
        """What to pass to `Log.append` once the transaction coordinator has said yes (KIP-890).

        None if none is needed, as the producer's transaction is already known here.
        """
        if self.has_ongoing_txn(producer_id, epoch):
            return None
        known = self.verifications.get(producer_id)
        if known is None:
            known = self.verifications[producer_id] = Verification(
                now_ms, sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )
        else:
            known.join(sequence, epoch)
        return known

    def entry_in_sequence(
        self, header: BatchHeader, origin: Origin, verification: Verification | None
    ) -> ProducerEntry | None:
        """The producer's entry, if this is plainly its next batch: `check` would find nothing.

        Outside of transactions, of the transaction that is open, or the first of one that its
        coordinator has just vouched for.
        """
        producer_id, sequence = header.producer_id, header.base_sequence
        entry = self.entries.get(producer_id)
        if (
            entry is None
            or entry.next_sequence != sequence
            or entry.epoch != header.producer_epoch
            or origin is not Origin.CLIENT
        ):
            return None
        flags, is_open = header.attributes & ~CODEC_MASK, entry.txn_first_offset >= 0
        known = self.verifications.get(producer_id)
        if known is None:
            return entry if flags == (TRANSACTIONAL_FLAG if is_open else 0) else None
        begins = flags == TRANSACTIONAL_FLAG and not is_open and known is verification
        return entry if begins and sequence <= known.lowest_sequence else None

    def check(
        self,
        header: BatchHeader,
        origin: Origin,
        marker: EndTxnMarker | None = None,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> WrittenBatch | None:
        """Whether the batch may be written; gives the earlier batch that it repeats, if any.

        `marker` is the content of a control batch.  LogError if it may not.
        """
        entry = self.entries.get(header.producer_id)
        if origin is Origin.CLIENT and entry is not None:
            sequence = header.base_sequence
            repeated = entry.find(header.producer_epoch, sequence, header.last_sequence)
            if repeated is not None:
                return repeated
        if header.is_transactional and not self.has_ongoing_txn(
            header.producer_id, header.producer_epoch
        ):
            self._check_verified(header, entry, verification)
        if marker is not None:
            self.check_marker(header, marker, transaction_version)
            return None
        last_epoch = NO_EPOCH if entry is None else entry.epoch
        if header.producer_epoch < last_epoch:
            raise _refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                header,
                f"epoch {header.producer_epoch} is older than the last seen, {last_epoch}",
            )
        if origin is Origin.CLIENT:
            self._check_sequence(header, entry)
        if entry is not None and entry.txn_first_offset >= 0 and not header.is_transactional:
            raise _refused(ErrorCode.INVALID_TXN_STATE, header, "its transaction is still open")
        return None

    def _check_verified(
        self, header: BatchHeader, entry: ProducerEntry | None, verification: Verification | None
    ) -> None:
        """Its coordinator must know of a transaction before its first batch is here (KIP-890)."""
        if entry is not None and header.producer_epoch < entry.epoch:
            raise _refused(ErrorCode.INVALID_PRODUCER_EPOCH, header, "its epoch is stale")
        if header.is_control or not self.verify_transactions:
            return
        known = self.verifications.get(header.producer_id)
        if known is None or known is not verification:
            raise _refused(
                ErrorCode.INVALID_TXN_STATE, header, "it is not part of an ongoing transaction"
            )

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry | None) -> None:
        sequence = header.base_sequence
        refused = self.refused.get(header.producer_id)
        if refused is not None and refused.is_awaited_before(header, entry):
            why = f"there was no room for sequence {refused.sequence}, which comes first"
            raise _refused(ErrorCode.KAFKA_STORAGE_ERROR, header, why)
        known = self.verifications.get(header.producer_id)
        if known is not None:
            if known.supports_epoch_bump and sequence != 0 and entry is None:
                raise _out_of_order(header, "a producer without state here must begin with 0")
            if sequence > known.lowest_sequence:
                raise _out_of_order(header, f"{known.lowest_sequence} was seen before")
        if entry is None or entry.epoch == NO_EPOCH:
            return
        if header.producer_epoch != entry.epoch:
            if sequence != 0:
                raise _out_of_order(header, "a new epoch must begin with 0")
        elif sequence != entry.next_sequence:
            raise _out_of_order(header, f"{entry.next_sequence} was expected")

    def check_marker(
        self, header: BatchHeader, marker: EndTxnMarker, transaction_version: int
    ) -> None:
        """A marker must not come from an older producer epoch or a deposed coordinator.

        With transaction version 2 the coordinator raises the epoch before it ends a transaction
        (KIP-890), so the same epoch is a late marker (KIP-1228), unless nothing is open: then it
        is the same marker once more, which is harmless (KAFKA-19999).
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id)
        epoch = header.producer_epoch
        late = transaction_version >= 2 and epoch == entry.epoch and entry.txn_first_offset >= 0
        if epoch < entry.epoch or late:
            raise _refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                header,
                f"the marker's epoch {epoch} is too old, {entry.epoch} was seen",
            )
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise _refused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                header,
                f"coordinator epoch {marker.coordinator_epoch} after {entry.coordinator_epoch}",
            )

    def has_ongoing_txn(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer, in this epoch, has written to a transaction that is not ended."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    # After it was written, or was not

    def note_refused(
        self, header: BatchHeader, origin: Origin, error: ErrorCode, now_ms: int
    ) -> None:
        """A batch was not written: remember it if there was no room for it."""
        producer_id = header.producer_id
        is_for_room = error is ErrorCode.KAFKA_STORAGE_ERROR
        if not is_for_room or producer_id < 0 or origin is not Origin.CLIENT:
            return
        known = self.refused.get(producer_id)
        if known is None or not known.is_awaited_before(header, self.entries.get(producer_id)):
            refused = RefusedBatch(header.producer_epoch, header.base_sequence, now_ms)
            self.refused[producer_id] = refused

    def begin_transaction(self, entry: ProducerEntry, first_offset: int) -> None:
        """The first batch of a verified transaction of a producer that is known was written."""
        del self.verifications[entry.producer_id]
        entry.txn_first_offset = first_offset
        self.ongoing[first_offset] = entry.producer_id

    def note(
        self, header: BatchHeader, first_offset: int, marker: EndTxnMarker | None = None
    ) -> CompletedTxn | None:
        """A batch was written from `first_offset` on; gives the transaction that it ended."""
        producer_id = header.producer_id
        if header.is_transactional:
            self._clear_verification(header)
        entry = self.entries.get(producer_id)
        if entry is None:
            if header.is_control and marker is None:
                return None
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        if header.is_control:
            return (
                None if marker is None else self._note_marker(header, first_offset, marker, entry)
            )
        delta = header.last_offset_delta
        batch = WrittenBatch(
            header.last_sequence, first_offset + delta, delta, header.max_timestamp
        )
        entry.add(header.producer_epoch, batch)
        if header.is_transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = first_offset
            self.ongoing[first_offset] = producer_id
        return None

    def _note_marker(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker, entry: ProducerEntry
    ) -> CompletedTxn | None:
        first_offset = entry.txn_first_offset
        entry.set_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.txn_first_offset = -1
        if first_offset < 0:
            return None  # a marker without data changes nothing for consumers
        return CompletedTxn(
            entry.producer_id, first_offset, offset, marker.kind is ControlType.ABORT
        )

    def complete(self, txn: CompletedTxn) -> AbortedTxn | None:
        """A transaction is no longer open; gives its entry for the transaction index."""
        del self.ongoing[txn.first_offset]
        stable = next(iter(self.ongoing), txn.last_offset + 1)
        self.unreplicated[txn.first_offset] = txn
        if not txn.aborted:
            return None
        return AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable)

    def _clear_verification(self, header: BatchHeader) -> None:
        known = self.verifications.get(header.producer_id)
        if known is None:
            return
        next_started = (
            known.supports_epoch_bump and header.is_control and header.producer_epoch == known.epoch
        )
        if not next_started:
            del self.verifications[header.producer_id]

    # Offsets

    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or ended but not yet replicated."""
        first = next(iter(self.ongoing), None)
        if self.unreplicated:
            unreplicated = min(self.unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    def replicated_to(self, offset: int) -> None:
        """The high watermark (or the log start offset) has got to `offset`."""
        done = [first for first, txn in self.unreplicated.items() if txn.last_offset < offset]
        for first in done:
            del self.unreplicated[first]

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers idle for `producer.id.expiration.ms`, and what is stale of others."""
        limit = now_ms - self.expiration_ms
        self.entries = {
            producer_id: entry
            for producer_id, entry in self.entries.items()
            if entry.txn_first_offset >= 0 or entry.last_timestamp > limit
        }
        self.verifications = {
            producer_id: known
            for producer_id, known in self.verifications.items()
            if known.created_ms > limit
        }
        self.refused = {
            producer_id: batch
            for producer_id, batch in self.refused.items()
            if batch.refused_ms > limit
        }

    def has_late_txn(self, now_ms: int, transaction_max_timeout_ms: int) -> bool:
        """Whether the oldest open transaction has been silent for longer than any may last."""
        producer_id = next(iter(self.ongoing.values()), None)
        if producer_id is None:
            return False
        limit = transaction_max_timeout_ms + LATE_TXN_BUFFER_MS
        return 0 < self.entries[producer_id].last_timestamp < now_ms - limit

    # Starting over

    def clear(self, offset: int) -> None:
        """Forget everything; the state now stands at `offset`."""
        self.entries.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.end_offset = offset

    def restore(self, entries: list[ProducerEntry], offset: int, now_ms: int) -> None:
        """Start from a snapshot taken at `offset`, less what has expired."""
        self.clear(offset)
        limit = now_ms - self.expiration_ms
        for entry in entries:
            if entry.txn_first_offset >= 0 or entry.last_timestamp > limit:
                self.entries[entry.producer_id] = entry
        open_txns = [
            (entry.txn_first_offset, entry.producer_id)
            for entry in self.entries.values()
            if entry.txn_first_offset >= 0
        ]
        self.ongoing.update(sorted(open_txns))


def _refused(error: ErrorCode, header: BatchHeader, why: str) -> LogError:
    return LogError(error, f"producer {header.producer_id}: {why}")


def _out_of_order(header: BatchHeader, why: str) -> LogError:
    return _refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        header,
        f"sequence {header.base_sequence} of epoch {header.producer_epoch}: {why}",
    )
