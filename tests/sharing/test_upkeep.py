"""`__share_group_state` stays short: what says nothing any longer is deleted."""

from __future__ import annotations

import pytest

from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.conformance.wire.cases.share_state import begun, initialize, read, write
from kwire.conformance.wire.stage import Stage
from tests.clients.waiting import eventually
from tests.conftest import BrokerFactory
from tests.sharing.serving import stage_on

pytestmark = pytest.mark.slow

STATES = "__share_group_state"
EARLIEST, LATEST = -2, -1
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.prune.interval.ms": "50",
    "share.coordinator.cold.partition.snapshot.interval.ms": "50",
}


def offset(stage: Stage, which: int) -> int:
    """Where the topic begins or ends."""
    asked = ListOffsetsTopic(STATES, [ListOffsetsPartition(0, timestamp=which)])
    [topic] = stage.ask(ListOffsetsRequest(-1, 0, [asked])).topics
    found: int = topic.partitions[0].offset
    return found


def test_the_topic_is_pruned_and_what_is_left_tells_all(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(SETTINGS)
    stage = stage_on(broker.bootstrap)
    group, topic = begun(stage, 1, 7)
    for number in range(20):  # each of the other partition's is a snapshot of its own
        stage.ask(write(group, topic.id, (number, number, 0, 1), start=number))
        stage.ask(initialize(group, topic.id, 1, number, 1))
    begins = offset(stage, EARLIEST)
    assert begins <= offset(stage, LATEST)
    eventually(lambda: _moves_on(stage, topic.id, group, begins), True)
    known = [stage.ask(read(group, topic.id, partition=each)) for each in (0, 1)]
    assert [each.results[0].partitions[0].start_offset for each in known] == [19, 19]
    broker.stop()
    broker.start()
    again = stage_on(broker.bootstrap)
    assert offset(again, EARLIEST) > begins
    for partition, before in enumerate(known):
        told = again.ask(read(group, topic.id, partition=partition))
        assert told.results[0].partitions[0] == before.results[0].partitions[0]
    stage.finish()
    again.finish()


def _moves_on(stage: Stage, topic_id: bytes, group: str, begins: int) -> bool:
    """Whether the topic begins later; one partition is written meanwhile, the others are cold."""
    stage.ask(initialize(group, topic_id, 1, 19, 1))
    return offset(stage, EARLIEST) > begins
