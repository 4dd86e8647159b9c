"""The shortcut for a producer's next batch in sequence has the result of the full check."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kwire.codecs.batches import BatchHeader, ControlType, Record, build, control_batch, read_header
from kwire.log import Log, LogError, Origin, Verification
from kwire.log.producers.entry import ProducerEntry
from kwire.log.producers.state import ProducerState
from tests.log.configs import DEFAULTS
from tests.log.conftest import NOW_MS, OpenLog

PRODUCERS = (7, 8)


@pytest.fixture
def logs(open_log: OpenLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Log, Log]:
    """Two logs; the second one never takes the shortcut."""
    found = []
    for name in ("short", "long"):
        directory = tmp_path / name / "t-0"
        directory.mkdir(parents=True)
        found.append(open_log(DEFAULTS, directory=directory))
    short, long = found
    entry_in_sequence = ProducerState.entry_in_sequence

    def unless_long(
        producers: ProducerState, header: BatchHeader, origin: Origin, proof: Verification | None
    ) -> ProducerEntry | None:
        if producers is long.producers:
            return None
        return entry_in_sequence(producers, header, origin, proof)

    monkeypatch.setattr(ProducerState, "entry_in_sequence", unless_long)
    return short, long


def attempt(log: Log, batch: bytearray, origin: Origin, vouched: bool) -> object:
    """Append a batch, after the coordinator has verified it if `vouched`."""
    header = read_header(batch)
    proof = None
    if vouched and header.is_transactional and not header.is_control:
        proof = log.producers.start_verification(
            header.producer_id,
            header.base_sequence,
            header.producer_epoch,
            supports_epoch_bump=True,
            now_ms=NOW_MS,
        )
    try:
        return log.append(
            bytearray(batch), leader_epoch=0, now_ms=NOW_MS, origin=origin, verification=proof
        )
    except LogError as refused:
        return refused.error


def state(log: Log) -> object:
    producers = log.producers
    entries = [
        (e.producer_id, e.epoch, e.txn_first_offset, e.next_sequence, e.coordinator_epoch)
        for e in producers.entries.values()
    ]
    open_txns, vouched = list(producers.ongoing.items()), list(producers.verifications)
    return entries, open_txns, vouched, log.first_unstable_offset, log.log_end_offset


def draw(rng: random.Random, log: Log) -> tuple[bytearray, Origin]:
    """Mostly the next batch of a producer, in its transaction or not; sometimes a marker."""
    producer_id = rng.choice(PRODUCERS)
    entry = log.producers.entries.get(producer_id)
    epoch, sequence, inside = 0, 0, rng.random() < 0.5
    if entry is not None:
        epoch, sequence = entry.epoch, entry.next_sequence
        inside = inside or entry.txn_first_offset >= 0
    if rng.random() < 0.15:
        kind = rng.choice((ControlType.COMMIT, ControlType.ABORT))
        marker = control_batch(
            kind, 0, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS
        )
        return marker, Origin.COORDINATOR
    match rng.randrange(20):
        case 0:
            sequence += rng.choice((-1, 1))
        case 1:
            epoch += 1
        case 2:
            epoch, sequence = epoch + 1, 0
        case 3:
            inside = not inside
    batch = build(
        [Record(0, NOW_MS, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=max(sequence, 0),
        transactional=inside,
    )
    return batch, Origin.CLIENT


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("round_number", range(6))
def test_shortcut_for_the_next_batch_has_the_result_of_the_full_check(
    logs: tuple[Log, Log], rng: random.Random, round_number: int, verified: bool
) -> None:
    refused = 0
    for log in logs:
        log.producers.verify_transactions = verified
    for _ in range(100):
        batch, origin = draw(rng, logs[0])
        vouched = verified and rng.random() < 0.9
        answers = [attempt(log, batch, origin, vouched) for log in logs]
        assert answers[0] == answers[1]
        assert state(logs[0]) == state(logs[1])
        refused += isinstance(answers[0], int)
    assert 0 < refused < 50, "most drawn batches are accepted"
