"""The records of `__transaction_state`: a transactional id and its state.

Layout (Apache Kafka's; its tools and other brokers read these bytes):

    key    int16 record type 0, then TransactionLogKey: the transactional id
    value  int16 version, then TransactionLogValue; null: the id has expired

Values are written as version 1, which transaction version 1 (KIP-890) introduced.  Version 0, which
older brokers write, can be read.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from kwire.codecs.messages.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from kwire.codecs.primitives import DecodeError
from kwire.txn.transaction import (
    EMPTY,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Partitions,
    Transaction,
    TransactionState,
)

TRANSACTION_LOG = 0
VALUE_VERSION = 1

_VERSION = struct.Struct(">h")
_HEAD = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, state
_TAIL = struct.Struct(">qqBBBqBBh")
"""Last update, start; two tagged fields: 0 (8 bytes) is the previous producer id, 2 (2 bytes) the
client's transaction version."""
_SHORT = 127
"""Lengths below this have a one-byte compact encoding (length + 1)."""
_BYTES = tuple(bytes((number,)) for number in range(256))
_KEY_HEAD = struct.Struct(">hh")  # record type, bytes of the transactional id
_NAME_BYTES_MAX = 2**15 - 1
KEY_PREFIX = _VERSION.pack(TRANSACTION_LOG)
_VALUE_PREFIX = _VERSION.pack(VALUE_VERSION)


class UnreadableTransactionRecord(ValueError):
    """A record of a known type that is damaged or in an unknown version."""


class TransactionRecord(NamedTuple):
    """The new state of a transactional id; transaction None deletes it."""

    transactional_id: str
    transaction: Transaction | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return key and value; the value is None, a tombstone, if the id was removed.

        Most values have only plain fields and take a faster way.
        """
        name = self.transactional_id
        key = _known_key(name) if len(name) < _SHORT else _key(name)
        if self.transaction is None:
            return key, None
        value = _plain_value(self.transaction)
        if value is None:
            value = _VALUE_PREFIX + _to_value(self.transaction).encode(VALUE_VERSION)
        return key, value


def _key(transactional_id: str) -> bytes:
    """Return the key; raises EncodeError if the transactional id is too long for it."""
    name = transactional_id.encode()
    if len(name) > _NAME_BYTES_MAX:
        return KEY_PREFIX + TransactionLogKey(transactional_id).encode(0)
    return _KEY_HEAD.pack(TRANSACTION_LOG, len(name)) + name


_known_key = lru_cache(maxsize=8192)(_key)
"""The keys of as many ids as a busy broker has active: each transaction needs its key three times.
Long ids are not kept, for the memory."""


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """Return the record, or None for a type that this broker does not know (a newer broker wrote
    it).

    Raises UnreadableTransactionRecord.
    """
    if key is None or len(key) < 2:
        raise UnreadableTransactionRecord("a record of __transaction_state without a key")
    if _VERSION.unpack_from(key)[0] != TRANSACTION_LOG:
        return None
    try:
        transactional_id = TransactionLogKey.decode(key, 0, 2).transactional_id
        transaction = None if value is None else _from_value(_decode_value(value))
    except DecodeError as error:
        raise UnreadableTransactionRecord(
            f"a record of __transaction_state cannot be read: {error}"
        ) from error
    return TransactionRecord(transactional_id, transaction)


def _decode_value(value: bytes) -> TransactionLogValue:
    """Return the value of a record; raises UnreadableTransactionRecord at an unknown version."""
    if len(value) < 2:
        raise UnreadableTransactionRecord(f"TransactionLogValue of {len(value)} bytes")
    version = _VERSION.unpack_from(value)[0]
    if not TransactionLogValue.MIN_VERSION <= version <= TransactionLogValue.MAX_VERSION:
        raise UnreadableTransactionRecord(f"TransactionLogValue of unknown version {version}")
    return TransactionLogValue.decode(value, version, 2)


def _plain_value(transaction: Transaction) -> bytes | None:
    """Return the value, encoded by a fast path; None if the fast path does not apply.

    It applies to nearly all values: transaction version 1 or 2, no change of producer id, few
    partitions.  `_to_value` handles all values; a test compares both.
    """
    previous, version = transaction.previous_producer_id, transaction.client_transaction_version
    if transaction.next_producer_id != NO_PRODUCER_ID or previous == NO_PRODUCER_ID or not version:
        return None
    if transaction.state is EMPTY:
        partitions = b"\0"  # null
    else:
        written = _few_partitions(transaction.partitions)
        if written is None:
            return None
        partitions = written
    head = _HEAD.pack(
        VALUE_VERSION,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        transaction.state,
    )
    updated_ms, started_ms = transaction.last_update_timestamp_ms, transaction.start_timestamp_ms
    # Two tagged fields: tag 0 of 8 bytes (previous producer id), tag 2 of 2 bytes (version).
    tail = _TAIL.pack(updated_ms, started_ms, 2, 0, 8, previous, 2, 2, version)
    return head + partitions + tail


def _few_partitions(partitions: Partitions) -> bytes | None:
    """Return the encoded partitions if each length fits into one byte, else None."""
    if len(partitions) >= _SHORT:
        return None
    out = _BYTES[len(partitions) + 1]
    for topic, indexes in partitions.items():
        written = _few_indexes(topic, indexes)
        if written is None:
            return None
        out += written
    return out


@lru_cache(maxsize=512)
def _few_indexes(topic: str, indexes: frozenset[int]) -> bytes | None:
    """Return the encoded partitions of one topic if each length fits into one byte, else None.

    They are cached: a producer often writes to the same partitions in each transaction, and each
    transaction has two records with them.
    """
    name, count = topic.encode(), len(indexes)
    if len(name) >= _SHORT or count >= _SHORT:
        return None
    numbers = struct.pack(f">{count}i", *sorted(indexes))
    # The topic's name, its partitions, no tagged fields.
    return b"%c%b%c%b\0" % (len(name) + 1, name, count + 1, numbers)


def _to_value(transaction: Transaction) -> TransactionLogValue:
    """Return the transaction in the form of the log; its partitions are null while it is Empty."""
    partitions = None
    if transaction.state is not EMPTY:
        partitions = [
            PartitionsSchema(topic, sorted(indexes))
            for topic, indexes in transaction.partitions.items()
        ]
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_timestamp_ms,
        transaction_start_timestamp_ms=transaction.start_timestamp_ms,
        client_transaction_version=transaction.client_transaction_version,
    )


def _from_value(value: TransactionLogValue) -> Transaction:
    """Return the transaction that the log has; raises UnreadableTransactionRecord at an unknown
    state.
    """
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        raise UnreadableTransactionRecord(
            f"unknown transaction status {value.transaction_status}"
        ) from error
    producer_id, previous = value.producer_id, value.previous_producer_id
    return Transaction(  # equal numbers share one object: there may be many transactional ids
        producer_id=producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        partitions=_partitions(value),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
        previous_producer_id=producer_id if previous == producer_id else previous,
        next_producer_id=value.next_producer_id,
    )


def _partitions(value: TransactionLogValue) -> Partitions:
    if not value.transaction_partitions:
        return NO_PARTITIONS
    return {part.topic: frozenset(part.partition_ids) for part in value.transaction_partitions}
