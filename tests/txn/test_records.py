"""The records of `__transaction_state`, byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs import batches
from kwire.txn import records
from kwire.txn.records import TransactionRecord, UnreadableTransactionRecord, decode
from kwire.txn.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    NO_PARTITIONS,
    ONGOING,
    PREPARE_COMMIT,
    Transaction,
    TransactionState,
)

JavaClass = Callable[..., CompletedProcess[str]]

epochs = st.integers(-1, 32_767)
ids = st.integers(-1, 2**63 - 1)
times_ms = st.integers(-1, 2**63 - 1)
indexes = st.frozensets(st.integers(0, 2**31 - 1), min_size=1, max_size=9)
logged_states = [state for state in TransactionState if state <= COMPLETE_ABORT]


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from(logged_states))
    partitions = st.dictionaries(st.text(max_size=9), indexes, max_size=5)
    return Transaction(
        producer_id=draw(ids),
        producer_epoch=draw(epochs),
        timeout_ms=draw(st.integers(1, 2**31 - 1)),
        state=state,
        last_update_timestamp_ms=draw(times_ms),
        partitions=NO_PARTITIONS if state is EMPTY else draw(partitions),
        start_timestamp_ms=draw(times_ms),
        client_transaction_version=draw(st.sampled_from([0, 1, 2])),
        previous_producer_id=draw(ids),
        next_producer_id=draw(ids),
    )


@given(transactions(), st.booleans())
def test_fast_encoding_equals_the_general_encoding(given: Transaction, plain: bool) -> None:
    if plain:
        given = given._replace(
            next_producer_id=-1,
            previous_producer_id=max(given.previous_producer_id, 0),
            client_transaction_version=max(given.client_transaction_version, 1),
        )
    _, value = TransactionRecord("id", given).encode()
    assert value == b"\0\1" + records._to_value(given).encode(records.VALUE_VERSION)
    assert (records._plain_value(given) is not None) >= plain


@pytest.mark.parametrize(
    "partitions",
    [{"a" * size: frozenset(range(3))} for size in (126, 127, 128, 249)]
    + [{"t": frozenset(range(count))} for count in (126, 127, 128, 300)]
    + [{f"t{number}": frozenset({7}) for number in range(count)} for count in (126, 127, 128)],
)
def test_fast_encoding_is_right_around_one_byte_lengths(
    partitions: dict[str, frozenset[int]],
) -> None:
    transaction = Transaction(
        5,
        1,
        60_000,
        ONGOING,
        7,
        partitions,
        6,
        client_transaction_version=2,
        previous_producer_id=5,
    )
    record = TransactionRecord("id", transaction)
    _, value = record.encode()
    assert value == b"\0\1" + records._to_value(transaction).encode(records.VALUE_VERSION)
    assert decode(*record.encode()) == record


@given(st.text(max_size=20), st.none() | transactions())
def test_transaction_record_round_trips(
    transactional_id: str, transaction: Transaction | None
) -> None:
    record = TransactionRecord(transactional_id, transaction)
    assert decode(*record.encode()) == record


def transaction(state: TransactionState, epoch: int, version: int, **more: Any) -> Transaction:  # noqa: ANN401 - fields
    return Transaction(
        producer_id=2,
        producer_epoch=epoch,
        timeout_ms=60_000,
        state=state,
        client_transaction_version=version,
        previous_producer_id=2,
        **more,
    )


KEY = bytes.fromhex("0000 0002 6964")
VECTORS = {
    "0001 0000000000000002 0000 0000ea60 00 00 000001a1fe2e1244 ffffffffffffffff"
    " 01 00 08 0000000000000002": transaction(EMPTY, 0, 0, last_update_timestamp_ms=1795265794628),
    "0001 0000000000000002 0000 0000ea60 01 02 02 74 02 00000000 00 000001a1fe2e1250"
    " 000001a1fe2e1250 01 00 08 0000000000000002": transaction(
        ONGOING,
        0,
        0,
        partitions={"t": frozenset({0})},
        start_timestamp_ms=1795265794640,
        last_update_timestamp_ms=1795265794640,
    ),
    "0001 0000000000000002 0001 0000ea60 02 02 02 74 02 00000001 00 000001a1fe2e1275"
    " 000001a1fe2e1271 02 00 08 0000000000000002 02 02 0002": transaction(
        PREPARE_COMMIT,
        1,
        2,
        partitions={"t": frozenset({1})},
        start_timestamp_ms=1795265794673,
        last_update_timestamp_ms=1795265794677,
    ),
    "0001 0000000000000002 0001 0000ea60 04 01 000001a1fe2e1277 000001a1fe2e1271"
    " 02 00 08 0000000000000002 02 02 0002": transaction(
        COMPLETE_COMMIT,
        1,
        2,
        start_timestamp_ms=1795265794673,
        last_update_timestamp_ms=1795265794679,
    ),
}
"""What Apache Kafka 4.3.1 wrote: it has no list of partitions where there can be none."""


@pytest.mark.parametrize("value", VECTORS)
def test_record_bytes_equal_those_of_apache_kafka(value: str) -> None:
    record = TransactionRecord("id", VECTORS[value])
    assert record.encode() == (KEY, bytes.fromhex(value))


def test_deleted_id_is_a_tombstone() -> None:
    assert TransactionRecord("id", None).encode() == (KEY, None)


def test_records_of_other_types_decode_to_none() -> None:
    assert decode(b"\0\1...", b"...") is None
    assert decode(b"\0\1", None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0", b""),
        (KEY[:-1], None),
        (KEY, b""),
        (KEY, b"\0\2"),
        (KEY, b"\0\1..."),
        (KEY, struct.pack(">hqhibBqqB", 1, 7, 3, 60_000, 9, 0, 20, 10, 0)),
    ],
)
def test_unreadable_record_raises_an_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UnreadableTransactionRecord):
        decode(key, value)


def test_version_0_of_old_brokers_is_read() -> None:
    value = struct.pack(">hqhibi", 0, 7, 3, 60_000, ONGOING, 1)
    value += struct.pack(">h1sii", 1, b"t", 1, 4) + struct.pack(">qq", 20, 10)
    record = decode(KEY, value)
    expected = Transaction(7, 3, 60_000, ONGOING, 20, {"t": frozenset({4})}, 10)
    assert record == TransactionRecord("id", expected)


def test_apache_kafka_reads_the_records(tmp_path: Path, java_class: JavaClass) -> None:
    records = [TransactionRecord("id", stated) for stated in VECTORS.values()]
    records.append(TransactionRecord("id", None))
    batch = batches.build([batches.Record(0, 1_000, *record.encode()) for record in records])
    segment = tmp_path / "__transaction_state-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(batch)
    arguments = ["--transaction-log-decoder", "--files", str(segment)]
    done = java_class("org.apache.kafka.tools.DumpLogSegments", arguments)
    lines = [line for line in done.stdout.splitlines() if "payload" in line]
    assert len(lines) == len(records), done.stdout + done.stderr
    for line, stated in zip(lines, VECTORS.values(), strict=False):
        assert '"transactionalId":"id"' in line
        assert f'"transactionStatus":{int(stated.state)}' in line
        assert f'"producerEpoch":{stated.producer_epoch}' in line
    assert "payload: <DELETE>" in lines[-1] or '"data":null' in lines[-1], lines[-1]
