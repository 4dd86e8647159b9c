"""Batches that follow one which was refused for lack of disk space.

The producer sends all of them again, in order.  If one were refused as out of order, the producer
would take a new epoch, and its batches for other partitions would no longer be recognized.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import read_header
from kwire.codecs.errors import ErrorCode
from kwire.log import Log, LogError, Verification
from kwire.log.producers.entry import ProducerEntry, WrittenBatch
from kwire.log.producers.refused import RefusedBatch
from tests.log.configs import DEFAULTS
from tests.log.failing_disk import FailingDisk

if TYPE_CHECKING:
    from tests.log.conftest import MakeBatch, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000
EXPIRATION_MS = 86_400_000
LAST = 2**31 - 1
NO_ROOM, OUT_OF_ORDER = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Producer:
    """One that sends batches of one record each to a log whose disk may be full."""

    def __init__(self, log: Log, disk: FailingDisk, make_batch: MakeBatch) -> None:
        self.log = log
        self.disk = disk
        self.make_batch = make_batch
        self.transactional = False
        self.proof: Verification | None = None

    def send(self, sequence: int, *, epoch: int = 0, room: bool = True) -> ErrorCode:
        self.disk.calls, self.disk.error = ("pwrite",), OSError(errno.ENOSPC, "made up")
        self.disk.broken = not room
        batch = self.make_batch(
            producer_id=7,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=self.transactional,
        )
        try:
            self.log.append(batch, leader_epoch=0, now_ms=NOW_MS, verification=self.proof)
        except LogError as error:
            return error.error
        finally:
            self.disk.broken = False
        return ErrorCode.NONE

    def written(self, read_all: ReadAll) -> int:
        return len(read_all(self.log))


@pytest.fixture
def producer(open_log: OpenLog, make_batch: MakeBatch) -> Producer:
    disk = FailingDisk("/")
    return Producer(open_log(DEFAULTS, files=disk), disk, make_batch)


@pytest.mark.parametrize("begun", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("room", [True, False], ids=["room again", "no room yet"])
def test_batch_after_a_refused_one_is_refused_until_that_is_written(
    producer: Producer, read_all: ReadAll, begun: bool, room: bool
) -> None:
    """An unknown producer may begin with any sequence, so it would skip the refused batch."""
    assert not begun or not producer.send(0)
    first = 1 if begun else 0
    assert producer.send(first, room=False) is NO_ROOM
    assert producer.send(first + 1, room=room) is NO_ROOM
    assert producer.send(first + 2, room=room) is NO_ROOM
    for sequence in range(first, first + 3):
        assert producer.send(sequence) is ErrorCode.NONE
    assert producer.written(read_all) == first + 3
    assert producer.send(first + 4) is OUT_OF_ORDER


def test_batch_after_a_refused_first_batch_of_an_epoch_is_refused(producer: Producer) -> None:
    producer.send(0)
    assert producer.send(0, epoch=1, room=False) is NO_ROOM
    assert producer.send(1, epoch=1) is NO_ROOM
    assert producer.send(1) is ErrorCode.NONE, "the earlier epoch is not affected"
    assert producer.send(0, epoch=1) is ErrorCode.NONE
    assert producer.send(1, epoch=1) is ErrorCode.NONE


def test_batch_after_a_refused_one_is_refused_across_the_wrap(producer: Producer) -> None:
    producer.send(LAST - 1)
    assert producer.send(LAST, room=False) is NO_ROOM
    assert producer.send(0) is NO_ROOM
    assert producer.send(LAST) is ErrorCode.NONE
    assert producer.send(0) is ErrorCode.NONE


def test_batch_after_a_refused_transactional_batch_is_refused(producer: Producer) -> None:
    """The batch that the coordinator verified has to be the first."""
    producers = producer.log.producers
    producers.verify_transactions = producer.transactional = True
    producer.proof = producers.start_verification(7, 0, 0, supports_epoch_bump=True, now_ms=NOW_MS)
    assert producer.send(0, room=False) is NO_ROOM
    assert producer.send(1) is NO_ROOM
    assert producer.send(0) is ErrorCode.NONE
    assert producer.send(1) is ErrorCode.NONE


def test_new_epoch_ends_the_wait_for_a_refused_batch(producer: Producer) -> None:
    producer.send(0)
    assert producer.send(1, room=False) is NO_ROOM
    assert producer.send(0, epoch=1) is ErrorCode.NONE
    assert producer.send(2, epoch=1) is OUT_OF_ORDER


def test_duplicate_before_a_refused_batch_is_recognized(producer: Producer) -> None:
    producer.send(0)
    producer.send(1)
    assert producer.send(2, room=False) is NO_ROOM
    assert producer.send(1) is ErrorCode.NONE, "a repetition"
    assert producer.log.log_end_offset == 2


def test_refused_batch_expires_with_its_producer(producer: Producer) -> None:
    assert producer.send(0, room=False) is NO_ROOM
    producer.log.producers.remove_expired(NOW_MS + EXPIRATION_MS - 1)
    assert producer.send(1) is NO_ROOM
    producer.log.producers.remove_expired(NOW_MS + EXPIRATION_MS)
    assert producer.log.producers.refused == {}
    assert producer.send(1) is ErrorCode.NONE


def test_refused_batch_without_producer_id_is_not_remembered(producer: Producer) -> None:
    producer.disk.calls, producer.disk.error = ("pwrite",), OSError(errno.ENOSPC, "made up")
    producer.disk.broken = True
    with pytest.raises(LogError):
        producer.log.append(producer.make_batch(), leader_epoch=0, now_ms=NOW_MS)
    assert producer.log.producers.refused == {}


HALF = 2**30
EPOCH = 5


@pytest.mark.parametrize("sequence", [0, 1, HALF, LAST - 1, LAST])
@pytest.mark.parametrize(
    ("ahead", "behind"),
    [(0, False), (1, True), (2, True), (HALF - 1, True), (HALF, False), (-2, False), (-1, False)],
)
def test_batch_follows_a_refused_one_by_its_sequence_number(
    make_batch: MakeBatch, sequence: int, ahead: int, behind: bool
) -> None:
    """Sequence numbers wrap: a batch follows if it is ahead by up to half of the range."""
    refused = RefusedBatch(EPOCH, sequence, NOW_MS)
    sent = read_header(make_batch(producer_id=7, producer_epoch=EPOCH, base_sequence=0))
    header = sent._replace(base_sequence=(sequence + ahead) % 2**31)
    before = WrittenBatch((sequence - 1) % 2**31, 10, 0, NOW_MS)
    for epoch, last, awaited in [
        (EPOCH, before, True),
        (EPOCH, before._replace(last_sequence=sequence), False),
        (EPOCH, before._replace(last_sequence=(sequence - 2) % 2**31), False),
        (EPOCH - 1, before._replace(last_sequence=9), True),
        (EPOCH + 1, before, False),
    ]:
        entry = ProducerEntry(7, epoch, batches=[last])
        assert refused.is_awaited_before(header, entry) == (behind and awaited)
        assert not refused.is_awaited_before(header._replace(producer_epoch=EPOCH + 1), entry)
        assert not refused.is_awaited_before(header._replace(producer_epoch=EPOCH - 1), entry)
    assert refused.is_awaited_before(header, None) == behind


def test_first_of_several_refused_batches_is_remembered(producer: Producer) -> None:
    """The first batch that had no room is remembered, with the time of its refusal."""
    producer.send(0)
    for sequence in (3, 2, 4):
        producer.send(sequence, room=False)
        known = producer.log.producers.refused.get(7)
        assert known is None, "it is out of order, whatever room there is"
    producer.send(1, room=False)
    producer.send(2, room=False)
    assert producer.log.producers.refused == {7: RefusedBatch(0, 1, NOW_MS)}
    producer.send(1)
    producer.send(2, room=False)
    assert producer.log.producers.refused == {7: RefusedBatch(0, 2, NOW_MS)}
    producer.send(0, epoch=1, room=False)
    assert producer.log.producers.refused == {7: RefusedBatch(1, 0, NOW_MS)}
