"""The producers of one partition: sequence numbers, transactions, and the first unstable offset.

A batch with a producer id is checked before it is written, and noted afterwards:

    check(header, origin, …)      raises LogError; returns the written batch that this one
                                  duplicates, or None
    note(header, first_offset, …) the only function that changes the state, both after an append
                                  and when a log is replayed

Rules (Kafka's ProducerAppendInfo, KIP-98, KIP-360, KIP-890):

    situation                                   result
    duplicate of one of the last five batches   the offsets of the first append; nothing is written
    unknown producer                            any first sequence is accepted: its state may have
                                                expired (Kafka has dropped UNKNOWN_PRODUCER_ID)
    epoch lower than the last                   INVALID_PRODUCER_EPOCH
    epoch higher, first sequence not 0          OUT_OF_ORDER_SEQUENCE_NUMBER
    same epoch, not the next sequence           OUT_OF_ORDER_SEQUENCE_NUMBER
    plain batch while a transaction is open     INVALID_TXN_STATE
    first batch of an unverified transaction    INVALID_TXN_STATE
    follows a batch that the disk refused       KAFKA_STORAGE_ERROR (kwire.log.producers.refused)

Coordinators write without sequence numbers, so only their epochs are checked.  Replication and
replay check nothing, as the leader has checked.
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


class CompletedTxn(NamedTuple):
    """A transaction that ended; its marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """All producers of one partition.

    end_offset      the state includes all batches before this offset
    entries         the producers by id
    ongoing         the producer id of each open transaction by its first offset; offsets only
                    grow, so the dict is in their order
    unreplicated    ended transactions whose marker is not below the high watermark yet:
                    read_committed consumers must not read beyond their first offset
    refused         by producer id, the batch that was refused because the disk had no room.  It
                    stays here after the producer has written it: it has no effect then
    verifications   by producer id, the verification of a transaction that has no batch yet
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
        """Begin without producers; `verify_transactions` asks for KIP-890's verification.

        Producers that wrote nothing for `expiration_ms` are forgotten.
        """
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
        """Return the argument for `Log.append` once the transaction coordinator has agreed
        (KIP-890).

        None if the producer's transaction has batches here already: it needs no verification.
        `supports_epoch_bump` says that the client uses transaction version 2.
        """
        entry = self.entries.get(producer_id)
        if entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch:
            return None  # as `has_ongoing_txn`
        verification = self.verifications.get(producer_id)
        if verification is None:
            verification = self.verifications[producer_id] = Verification(
                now_ms, sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )
        else:
            verification.join(sequence, epoch)
        return verification

    def entry_in_sequence(
        self, header: BatchHeader, origin: Origin, verification: Verification | None
    ) -> ProducerEntry | None:
        """Return the producer's entry if this is its next batch, which `check` would accept; else
        None.

        The batch is outside of transactions, in the open transaction, or the first of a transaction
        that its coordinator has just verified.  None does not mean that `check` refuses the batch.
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
        expected = self.verifications.get(producer_id)
        if expected is None:
            return entry if flags == (TRANSACTIONAL_FLAG if is_open else 0) else None
        begins = flags == TRANSACTIONAL_FLAG and not is_open and expected is verification
        return entry if begins and sequence <= expected.lowest_sequence else None

    def check(
        self,
        header: BatchHeader,
        origin: Origin,
        marker: EndTxnMarker | None = None,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> WrittenBatch | None:
        """Return the written batch that this one duplicates, or None if this one may be written.

        `marker` is the content of a control batch.  Raises LogError if the batch is refused.
        """
        entry = self.entries.get(header.producer_id)
        if origin is Origin.CLIENT and entry is not None:
            sequence = header.base_sequence
            written = entry.find(header.producer_epoch, sequence, header.last_sequence)
            if written is not None:
                return written
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
        """Check that the coordinator has verified the transaction of this batch (KIP-890)."""
        if entry is not None and header.producer_epoch < entry.epoch:
            raise _refused(ErrorCode.INVALID_PRODUCER_EPOCH, header, "its epoch is stale")
        if header.is_control or not self.verify_transactions:
            return
        expected = self.verifications.get(header.producer_id)
        if expected is None or expected is not verification:
            raise _refused(
                ErrorCode.INVALID_TXN_STATE, header, "it is not part of an ongoing transaction"
            )

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry | None) -> None:
        """Raise LogError unless the batch has the sequence number that is expected next."""
        sequence = header.base_sequence
        refused = self.refused.get(header.producer_id)
        if refused is not None and refused.is_awaited_before(header, entry):
            why = f"there was no room for sequence {refused.sequence}, which comes first"
            raise _refused(ErrorCode.KAFKA_STORAGE_ERROR, header, why)
        verification = self.verifications.get(header.producer_id)
        if verification is not None:
            if verification.supports_epoch_bump and sequence != 0 and entry is None:
                raise _out_of_order(header, "a producer without state here must begin with 0")
            if sequence > verification.lowest_sequence:
                raise _out_of_order(header, f"{verification.lowest_sequence} was seen before")
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
        """Raise LogError for a marker of an older producer epoch or an older coordinator epoch.

        With transaction version 2 the coordinator raises the producer epoch before it ends a
        transaction (KIP-890), so a marker with the current epoch is late (KIP-1228).  Without an
        open transaction it is a duplicate of the last marker, which does no harm (KAFKA-19999).
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
        """Whether a transaction of the producer in this epoch has batches here and is open."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    # After a batch was written or refused

    def note_refused(
        self, header: BatchHeader, origin: Origin, error: ErrorCode, now_ms: int
    ) -> None:
        """Remember a refused batch if the disk was the reason; see kwire.log.producers.refused."""
        producer_id = header.producer_id
        is_disk_error = error is ErrorCode.KAFKA_STORAGE_ERROR
        if not is_disk_error or producer_id < 0 or origin is not Origin.CLIENT:
            return
        earlier = self.refused.get(producer_id)
        if earlier is None or not earlier.is_awaited_before(header, self.entries.get(producer_id)):
            refused = RefusedBatch(header.producer_epoch, header.base_sequence, now_ms)
            self.refused[producer_id] = refused

    def begin_transaction(self, entry: ProducerEntry, first_offset: int) -> None:
        """Note that the first batch of a verified transaction was written at `first_offset`."""
        del self.verifications[entry.producer_id]
        entry.begin_transaction(first_offset)
        self.ongoing[first_offset] = entry.producer_id

    def note(
        self, header: BatchHeader, first_offset: int, marker: EndTxnMarker | None = None
    ) -> CompletedTxn | None:
        """Update the state by a batch that was written at `first_offset`.

        Returns the transaction that the batch (a marker) ended, or None.
        """
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
            entry.begin_transaction(first_offset)
            self.ongoing[first_offset] = producer_id
        return None

    def note_marker(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker
    ) -> CompletedTxn | None:
        """Update the state by the marker of a transaction, as `note` does, with fewer checks."""
        producer_id = header.producer_id
        if producer_id in self.verifications:
            self._clear_verification(header)
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
        return self._note_marker(header, offset, marker, entry)

    def _note_marker(
        self, header: BatchHeader, offset: int, marker: EndTxnMarker, entry: ProducerEntry
    ) -> CompletedTxn | None:
        """End the producer's transaction at its marker; return it, None if it has no records
        here."""
        first_offset = entry.txn_first_offset
        entry.end_transaction(header.producer_epoch, marker.coordinator_epoch, header.max_timestamp)
        if first_offset < 0:
            return None  # the transaction has no records here, so consumers see no difference
        return CompletedTxn(
            entry.producer_id, first_offset, offset, marker.kind is ControlType.ABORT
        )

    def complete(self, txn: CompletedTxn) -> AbortedTxn | None:
        """Move a transaction from `ongoing` to `unreplicated`.

        Returns its entry for the transaction index if it was aborted, else None.
        """
        del self.ongoing[txn.first_offset]
        self.unreplicated[txn.first_offset] = txn
        if not txn.aborted:
            return None
        stable = next(iter(self.ongoing), txn.last_offset + 1)
        return AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable)

    def _clear_verification(self, header: BatchHeader) -> None:
        """Drop the producer's verification, unless it belongs to the transaction after this one.

        With epoch bumps a marker has the epoch of the next transaction, whose verification may have
        begun already.
        """
        verification = self.verifications.get(header.producer_id)
        if verification is None:
            return
        is_of_next = (
            verification.supports_epoch_bump
            and header.is_control
            and header.producer_epoch == verification.epoch
        )
        if not is_of_next:
            del self.verifications[header.producer_id]

    # Offsets

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of all transactions that are open or whose marker is not
        replicated.
        """
        first = next(iter(self.ongoing), None)
        if self.unreplicated:
            unreplicated = min(self.unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    def replicated_to(self, offset: int) -> None:
        """Drop transactions whose marker is before `offset`: high watermark or log start offset."""
        done = [first for first, txn in self.unreplicated.items() if txn.last_offset < offset]
        for first in done:
            del self.unreplicated[first]

    def remove_expired(self, now_ms: int) -> None:
        """Drop producers, verifications and refused batches that are too old.

        The limit is `producer.id.expiration.ms`; a producer with an open transaction stays.
        """
        limit = now_ms - self.expiration_ms
        self.entries = {
            producer_id: entry
            for producer_id, entry in self.entries.items()
            if entry.txn_first_offset >= 0 or entry.last_timestamp > limit
        }
        self.verifications = {
            producer_id: verification
            for producer_id, verification in self.verifications.items()
            if verification.created_ms > limit
        }
        self.refused = {
            producer_id: batch
            for producer_id, batch in self.refused.items()
            if batch.refused_ms > limit
        }

    # Starting over

    def clear(self, offset: int) -> None:
        """Drop all state; the replay continues at `offset`."""
        self.entries.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.end_offset = offset

    def restore(self, entries: list[ProducerEntry], offset: int, now_ms: int) -> None:
        """Load the entries of a snapshot that was taken at `offset`, without expired producers."""
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
