"""The answers of the producer state equal a plain list of the rules, in all combinations."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kwire.codecs.batches import read_header
from kwire.codecs.control import ControlType, EndTxnMarker
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError, Origin, Verification
from kwire.log.producers.entry import ProducerEntry, WrittenBatch
from kwire.log.producers.state import ProducerState

if TYPE_CHECKING:
    from kwire.codecs.batches import BatchHeader
    from tests.log.conftest import MakeBatch

NAME = 7
STALE, OUT_OF_ORDER = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
NOT_OPEN = ErrorCode.INVALID_TXN_STATE
LAST = WrittenBatch(9, 109, 1, 1000)
"""The sequences 8 and 9, at the offsets 108 and 109."""
KNOWN = {
    "nothing": None,
    "a batch": (3, [LAST], -1),
    "a batch, a transaction since the first offset": (3, [LAST], 0),
    "a marker": (3, [], -1),
    "another coordinator's marker": (-1, [], -1),
}


class Sent(NamedTuple):
    epoch: int
    sequence: int
    size: int
    transactional: bool
    origin: Origin


SENT = [
    Sent(*each)
    for each in itertools.product(
        (2, 3, 4), (0, 1, 8, 9, 10, 11), (1, 2), (False, True), (Origin.CLIENT, Origin.COORDINATOR)
    )
]
PROOFS = [
    (None, False),
    *itertools.product(itertools.product((0, 8, 10), (False, True)), (False, True)),
]
"""(lowest sequence, whether its coordinator bumps epochs) of what is asked; whether it is shown."""


def answer(
    entry: ProducerEntry | None,
    sent: Sent,
    asked: tuple[int, bool] | None,
    *,
    shown: bool,
    verify: bool,
) -> ErrorCode | WrittenBatch | None:
    """The answer by the rules of Apache Kafka's ProducerAppendInfo and UnifiedLog."""
    is_client, epoch, sequence = sent.origin is Origin.CLIENT, sent.epoch, sent.sequence
    last_epoch = -1 if entry is None else entry.epoch
    is_open = entry is not None and entry.txn_first_offset == 0
    has_batch = entry is not None and entry.batches == [LAST]
    rules: list[tuple[bool, ErrorCode | WrittenBatch]] = [
        (is_client and has_batch and (epoch, sequence, sent.size) == (3, 8, 2), LAST),
        (epoch < last_epoch, STALE),
        (
            sent.transactional and verify and not (is_open and epoch == 3) and not shown,
            NOT_OPEN,
        ),
        (
            is_client and asked is not None and asked[1] and sequence > 0 and entry is None,
            OUT_OF_ORDER,
        ),
        (is_client and asked is not None and sequence > asked[0], OUT_OF_ORDER),
        (is_client and epoch > last_epoch >= 0 and sequence > 0, OUT_OF_ORDER),
        (
            is_client and epoch == last_epoch and sequence != (10 if has_batch else 0),
            OUT_OF_ORDER,
        ),
        (is_open and not sent.transactional, NOT_OPEN),
    ]
    return next((found for applies, found in rules if applies), None)


def header_of(make_batch: MakeBatch) -> BatchHeader:
    return read_header(make_batch(2, producer_id=NAME, producer_epoch=0, base_sequence=0))


def with_entry(known: tuple[int, list[WrittenBatch], int] | None) -> ProducerState:
    producers = ProducerState()
    if known is not None:
        epoch, batches, first = known
        producers.entries[NAME] = ProducerEntry(NAME, epoch, 1, 1000, first, list(batches))
    return producers


@pytest.mark.parametrize("known", KNOWN)
def test_check_of_a_batch_follows_the_plain_rules(make_batch: MakeBatch, known: str) -> None:
    plain = header_of(make_batch)
    producers = with_entry(KNOWN[known])
    entry = producers.entries.get(NAME)
    for sent, (asked, shown), verify in itertools.product(SENT, PROOFS, (False, True)):
        producers.verify_transactions = verify
        proof = None
        if asked is not None:
            proof = Verification(1000, asked[0], sent.epoch, supports_epoch_bump=asked[1])
        producers.verifications = {} if proof is None else {NAME: proof}
        header = plain._replace(
            producer_epoch=sent.epoch,
            base_sequence=sent.sequence,
            last_offset_delta=sent.size - 1,
            attributes=0x10 if sent.transactional else 0,
        )
        other = Verification(1000, 0, sent.epoch, supports_epoch_bump=False)
        found: ErrorCode | WrittenBatch | None
        try:
            found = producers.check(header, sent.origin, None, proof if shown else other)
        except LogError as error:
            found = error.error
        wanted = answer(entry, sent, asked, shown=shown and proof is not None, verify=verify)
        assert found == wanted, (sent, asked, shown, verify)


@pytest.mark.parametrize("known", KNOWN)
def test_check_of_a_marker_follows_the_plain_rules(make_batch: MakeBatch, known: str) -> None:
    """A marker is stale with an older epoch, or at version 2 with that of an open transaction."""
    producers = with_entry(KNOWN[known])
    entry = producers.entries.get(NAME)
    last_epoch, coordinator = (-1, -1) if entry is None else (entry.epoch, 1)
    is_open = entry is not None and entry.txn_first_offset == 0
    for epoch, version, by in itertools.product((2, 3, 4), (0, 1, 2, 3), (-1, 0, 1, 2)):
        header = header_of(make_batch)._replace(producer_epoch=epoch, attributes=0x30)
        wanted = ErrorCode.NONE
        if epoch < last_epoch or (version >= 2 and epoch == last_epoch and is_open):
            wanted = STALE
        elif by < coordinator:
            wanted = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        found = ErrorCode.NONE
        try:
            producers.check_marker(header, EndTxnMarker(ControlType.ABORT, by), version)
        except LogError as error:
            found = error.error
        assert found is wanted, (epoch, version, by)


@pytest.mark.parametrize(
    ("asked", "lowest", "epoch"),
    [
        ([(5, 1), (3, 1), (4, 1)], 3, 1),
        ([(5, 1), (3, 0)], 5, 1),
        ([(5, 1), (8, 2)], 8, 2),
        ([(5, 1), (8, 2), (7, 2), (0, 1)], 7, 2),
    ],
)
def test_requests_of_one_producer_share_a_verification(
    asked: list[tuple[int, int]], lowest: int, epoch: int
) -> None:
    producers = ProducerState()
    proofs = [
        producers.start_verification(
            NAME, sequence, each, supports_epoch_bump=True, now_ms=1000 + number
        )
        for number, (sequence, each) in enumerate(asked)
    ]
    (proof,) = {id(each): each for each in proofs}.values()
    assert proof is not None
    assert producers.verifications == {NAME: proof}
    assert (proof.lowest_sequence, proof.epoch, proof.created_ms) == (lowest, epoch, 1000)
    assert proof.supports_epoch_bump


NOW_MS = 10_000
LIMIT_MS = NOW_MS - 1_000


@pytest.mark.parametrize("first", [-1, 0, 5])
@pytest.mark.parametrize("idle_since", [LIMIT_MS - 1, LIMIT_MS, LIMIT_MS + 1])
def test_restored_state_keeps_active_producers_and_open_transactions(
    first: int, idle_since: int
) -> None:
    """Producers stay that were active lately or have an open transaction, even from offset 0 on."""
    entries = [
        ProducerEntry(NAME, 0, 1, idle_since, first, [LAST]),
        ProducerEntry(8, 0, 1, NOW_MS, 3, [LAST]),
    ]
    producers = ProducerState(1_000)
    producers.restore(entries, 77, NOW_MS)
    kept = [NAME, 8] if first >= 0 or idle_since > LIMIT_MS else [8]
    assert list(producers.entries) == kept
    assert list(producers.ongoing.items()) == sorted(
        each for each in [(first, NAME), (3, 8)] if each[0] >= 0
    )
    assert (producers.end_offset, producers.unreplicated) == (77, {})
    assert producers.first_unstable_offset() == min(each for each in (first, 3) if each >= 0)
    running = ProducerState(1_000)
    running.entries = {entry.producer_id: entry for entry in entries}
    running.remove_expired(NOW_MS)
    assert list(running.entries) == kept
    producers.restore([], 78, NOW_MS)
    assert (producers.entries, producers.ongoing, producers.end_offset) == ({}, {}, 78)
