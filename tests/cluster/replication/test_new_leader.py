"""Producer state of a new leader: sequences and open transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.log import aborted_transactions
from tests.cluster.replication.cluster import Controller, cluster
from tests.inside import until

pytestmark = pytest.mark.slow

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Transactions are not verified, for there is no coordinator."""


def batch(sequence: int, *, producer_id: int = 7, transactional: bool = False) -> bytearray:
    """A batch of two records of a producer, dated today: older producers expire at a start."""
    now_ms = Broker.now_ms()
    records = [Record(at, now_ms, b"k", b"%d" % (sequence + at)) for at in (0, 1)]
    return build(
        records,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=transactional,
    )


async def end_transaction(controller: Controller, leader: int, *, commit: bool) -> None:
    topics = [WritableTxnMarkerTopic(controller.topic, [0])]
    request = WriteTxnMarkersRequest([WritableTxnMarker(7, 0, commit, topics, 0)])
    answer = await controller.ask(leader, request, 1, WriteTxnMarkersResponse)
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("restarted", [False, True])
async def test_idempotent_producer_continues_its_sequence_at_the_next_leader(
    tmp_path: Path, restarted: bool
) -> None:
    """The next leader may have rebuilt the producer state from its files."""
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        for sequence in (0, 2, 4):
            reply = await controller.produce_batch(1, batch(sequence))
            assert reply == (ErrorCode.NONE, sequence)
        await controller.until_equal(1, 2)
        if restarted:
            await controller.end(2)
            await controller.start(2)
        await controller.elect(2, [1, 2])
        assert await controller.produce_batch(2, batch(4)) == (ErrorCode.NONE, 4)  # sent again
        error, _ = await controller.produce_batch(2, batch(8))
        assert error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await controller.produce_batch(2, batch(6)) == (ErrorCode.NONE, 6)
        await controller.elect(1, [1, 2])
        assert await controller.produce_batch(1, batch(6)) == (ErrorCode.NONE, 6)
        assert await controller.produce_batch(1, batch(8)) == (ErrorCode.NONE, 8)
        await controller.until_equal(1, 2)


async def test_next_leader_accepts_a_batch_that_the_old_one_never_committed(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as controller:
        await controller.elect(1, [1, 2])
        await controller.produce_batch(1, batch(0))
        await controller.until_equal(1, 2)
        await controller.stop_replica(2, delete=False)
        assert await controller.produce_batch(1, batch(2), acks=1) == (ErrorCode.NONE, 2)
        await controller.elect(2, [2], only=[2])
        assert await controller.produce_batch(2, batch(2)) == (ErrorCode.NONE, 2)
        await controller.tell(1)
        await until(lambda: set(controller.state.isr) == {1, 2})
        await controller.elect(1, [1, 2])
        assert await controller.produce_batch(1, batch(2)) == (ErrorCode.NONE, 2)  # sent again
        assert await controller.produce_batch(1, batch(4)) == (ErrorCode.NONE, 4)
        await controller.until_equal(1, 2)
        assert controller.epochs_of(1) == [(1, 0), (2, 2), (3, 4)]


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
async def test_open_transaction_stays_open_at_the_next_leader(
    tmp_path: Path, commit: bool, restarted: bool
) -> None:
    async with cluster(tmp_path, 1, 2, settings=UNVERIFIED) as controller:
        await controller.elect(1, [1, 2])
        await controller.produce(1, b"before")
        open_batch = batch(0, transactional=True)
        assert await controller.produce_batch(1, open_batch, transactional_id="x") == (
            ErrorCode.NONE,
            1,
        )
        await controller.produce(1, b"beside")
        await controller.until_equal(1, 2)
        assert [controller.members[each].partition().last_stable_offset for each in (1, 2)] == [
            1,
            1,
        ]
        if restarted:
            await controller.end(2)
            await controller.start(2, settings=UNVERIFIED)
        await controller.elect(2, [1, 2])
        second = controller.members[2].partition()
        await until(lambda: second.high_watermark == 4)
        assert second.last_stable_offset == 1
        await end_transaction(controller, 2, commit=commit)
        await controller.until_equal(1, 2)
        for member in controller.members.values():
            partition = member.partition()
            assert partition.last_stable_offset == partition.log_end_offset == 5
            aborted = aborted_transactions(partition.log, 0, 5)
            assert aborted == ([] if commit else [(7, 1)])
        await controller.elect(1, [1, 2])
        again = batch(2, transactional=True)
        assert await controller.produce_batch(1, again, transactional_id="x") == (ErrorCode.NONE, 5)
        assert controller.members[1].partition().last_stable_offset == 5
