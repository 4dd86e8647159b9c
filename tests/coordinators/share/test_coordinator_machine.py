"""The share coordinator writes the same records as Apache Kafka 4.4.0 for the same requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.coordinator.share_snapshot import ShareSnapshotValue
from kwire.coordinators.share.batches import StateBatch
from kwire.coordinators.share.machine import ShareStateAnswer, ShareStateMachine
from kwire.coordinators.share.records import (
    ShareKey,
    ShareStateSnapshot,
    ShareStateUpdate,
    decode,
)
from kwire.coordinators.share.state import ShareState, ShareStateWrite
from tests.coordinators.contract.simulation import Simulation
from tests.groups.images import deleted, put

LINES = (Path(__file__).parent / "data" / "records-4.4.0.txt").read_text().splitlines()


class Asked:
    """A request without a reply."""

    answer: ShareStateAnswer | None = None

    def resolve(self, answer: Any) -> None:  # noqa: ANN401 - a reply of any kind
        assert self.answer is None, "one reply each"
        self.answer = answer

    def refuse(self, error: ErrorCode) -> ShareStateAnswer:
        return ShareStateAnswer.refused(error)


class Coordinator(Simulation[ShareStateMachine, Any]):
    """One machine, and a cluster with one topic of three partitions."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.image, self.topic_id = put(ClusterImage(cluster_id="c"), "t", 3)
        self.updates_per_snapshot = updates_per_snapshot
        super().__init__(self.new())
        self.key = ShareKey("g", self.topic_id, 0)

    def new(self) -> ShareStateMachine:
        return ShareStateMachine(lambda: self.image, self.updates_per_snapshot)

    def reload(self) -> None:
        self.machine = self.replay_into(self.new())

    def ask(self, decide: Callable[[Asked], Any]) -> ShareStateAnswer:
        asked = Asked()
        self.carry_out(decide(asked), asked)
        assert asked.answer is not None
        return asked.answer

    def initialize(self, state_epoch: int, start_offset: int) -> ShareStateAnswer:
        machine, key, now_ms = self.machine, self.key, self.now_ms
        return self.ask(lambda t: machine.initialize(key, state_epoch, start_offset, t, now_ms))

    def read(self, leader_epoch: int) -> ShareStateAnswer:
        return self.ask(lambda t: self.machine.read(self.key, leader_epoch, t, self.now_ms))

    @property
    def state(self) -> ShareState:
        """What is stored, asked in the way that fences nobody."""
        state = self.ask(lambda t: self.machine.summary(self.key, t)).state
        assert state is not None
        return state

    def write_state(
        self,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        *batches: StateBatch,
        count: int = -1,
    ) -> ShareStateAnswer:
        written = ShareStateWrite(state_epoch, leader_epoch, start_offset, count, batches)
        return self.ask(lambda t: self.machine.write(self.key, written, t, self.now_ms))

    def delete(self) -> ShareStateAnswer:
        return self.ask(lambda t: self.machine.delete(self.key, t))


def played() -> Coordinator:
    """What Apache Kafka was asked for the records that are kept."""
    coordinator = Coordinator()
    assert coordinator.read(0).error == ErrorCode.INVALID_REQUEST
    assert coordinator.write_state(0, 0, 0).error == ErrorCode.INVALID_REQUEST
    assert coordinator.delete().error == ErrorCode.NONE
    assert coordinator.initialize(2, -1).error == ErrorCode.NONE
    assert coordinator.initialize(1, 5).error == ErrorCode.FENCED_STATE_EPOCH
    assert coordinator.initialize(2, 10).error == ErrorCode.NONE
    assert coordinator.read(3).error == ErrorCode.NONE
    assert coordinator.read(2).error == ErrorCode.FENCED_LEADER_EPOCH
    batches = StateBatch(10, 14, 1, 2), StateBatch(15, 19, 1, 0)
    assert coordinator.write_state(2, 3, 10, *batches, count=5).error == ErrorCode.NONE
    assert coordinator.write_state(1, 3, -1).error == ErrorCode.FENCED_STATE_EPOCH
    assert coordinator.write_state(2, 2, -1).error == ErrorCode.FENCED_LEADER_EPOCH
    assert (
        coordinator.write_state(9, 9, -1, StateBatch(12, 30, 2, 4), count=7).error == ErrorCode.NONE
    )
    assert (
        coordinator.write_state(2, 3, 12, StateBatch(15, 19, 2, 2), count=3).error == ErrorCode.NONE
    )
    state = coordinator.read(4).state
    assert state is not None
    assert (state.start_offset, state.batches) == (12, (StateBatch(12, 30, 2, 4),))
    assert coordinator.write_state(2, 4, 40, count=0).error == ErrorCode.NONE
    late = StateBatch(38, 41, 1, 2)  # its start offset is below the stored one
    assert coordinator.write_state(2, 4, 30, late, count=9).error == ErrorCode.NONE
    assert coordinator.delete().error == ErrorCode.NONE
    assert coordinator.initialize(0, 0).error == ErrorCode.NONE
    return coordinator


def test_machine_writes_the_records_of_apache_kafka() -> None:
    coordinator = played()
    written = [decode(key, value) for key, value in coordinator.log]
    assert len(written) == len(LINES)
    for record, line in zip(written, LINES, strict=True):
        key, _, value = line.partition(" ")
        theirs = decode(bytes.fromhex(key), bytes.fromhex(value) if value != "-" else None)
        assert record is not None
        assert theirs is not None
        for each in (record, theirs):
            each.key.group_id, each.key.topic_id = "g", coordinator.topic_id
            if isinstance(each.value, ShareSnapshotValue):
                each.value.create_timestamp = each.value.write_timestamp = 0
        assert record == theirs


@pytest.mark.parametrize("line", LINES)
def test_records_of_apache_kafka_encode_to_the_same_bytes(line: str) -> None:
    key, _, text = line.partition(" ")
    value = bytes.fromhex(text) if text != "-" else None
    record = decode(bytes.fromhex(key), value)
    assert record is not None
    assert record.encode() == (bytes.fromhex(key), value)


def test_state_is_the_same_after_a_reload() -> None:
    coordinator = played()
    before = coordinator.state
    coordinator.reload()
    assert coordinator.state == before


def test_snapshot_is_written_after_updates_per_snapshot() -> None:
    coordinator = Coordinator(updates_per_snapshot=2)
    coordinator.initialize(1, 0)
    for number in range(5):
        coordinator.write_state(1, 0, -1, StateBatch(number, number, 1, 2), count=number)
    kinds = [type(record) for record in coordinator.records]
    assert kinds == [ShareStateSnapshot, ShareStateUpdate, ShareStateUpdate] * 2
    state = coordinator.state
    assert state.batches == (StateBatch(0, 4, 1, 2),)
    coordinator.reload()
    assert coordinator.state == state


def test_state_of_a_deleted_topic_is_deleted() -> None:
    coordinator = Coordinator()
    coordinator.initialize(1, 0)
    coordinator.image = deleted(coordinator.image, "t")
    assert coordinator.read(0).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    gone = coordinator.machine.topics_deleted([("t", coordinator.topic_id)], coordinator.now_ms)
    assert gone is not None
    coordinator.carry_out(gone)
    assert coordinator.read(0).error == ErrorCode.INVALID_REQUEST
