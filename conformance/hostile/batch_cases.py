"""Cases that write each contradictory batch to topics of several kinds, and fetch the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.conformance.hostile.batch_lies import LIES, Lie
from kwire.conformance.hostile.case import HostileCase
from kwire.conformance.hostile.stage import HostileStage
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import fetch, produce

TOPICS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamping": {"message.timestamp.type": "LogAppendTime"},
    "gzip": {"compression.type": "gzip"},
}
"""Kinds of topics for which brokers validate batches differently."""

OLDEST_PRODUCE = 3
BESIDE = (
    "header: magic 3",
    "header: magic 1",
    "header: length 0",
    "header: length one too large",
    "header: count 3",
    "header: codec 5",
    "header: base offset 5",
    "record: no records at all",
    "set: two batches",
    "set: seventeen bytes behind the batch",
    "set: empty",
    "set: wrong CRC",
    "format 1: one",
)
"""Batches that are also sent together with a valid batch for another partition."""

OLD_LIES = [name for name in LIES if name.startswith(("set:", "format"))]
"""Batches that are also sent in the oldest version of Produce, which allowed the old formats."""


def batch_cases() -> Iterator[HostileCase]:
    """Yield the cases; each batch has a partition of its own in each of the topics."""
    for partition, (name, lie) in enumerate(LIES.items()):
        yield HostileCase(f"batch/{name}", partial(_play, lie=lie, partition=partition))
    for partition, name in enumerate(OLD_LIES, len(LIES)):
        play = partial(_play_old, lie=LIES[name], partition=partition)
        yield HostileCase(f"batch/v{OLDEST_PRODUCE}, {name}", play)

    for name in BESIDE:
        yield HostileCase(f"batch/beside a sound one, {name}", partial(_beside, lie=LIES[name]))


def _beside(stage: HostileStage, lie: Lie) -> None:
    """One request with a valid batch for one partition and a contradictory one for another."""
    newest = stage.broker.served[ApiKey.PRODUCE][1]
    topic = stage.topic(partitions=2)
    for acks in (1, -1, 2):
        for first, second in ((0, 1), (1, 0)):
            data = [
                PartitionProduceData(first, LIES["record: sound"](stage.now_ms)),
                PartitionProduceData(second, lie(stage.now_ms)),
            ]
            topics = [TopicProduceData(topic.name, topic.id, data)]
            stage.send(ProduceRequest(None, acks, 5000, topics), newest)
    for partition in range(2):
        stage.send(fetch(topic, partition=partition))


def _play(stage: HostileStage, lie: Lie, partition: int) -> None:
    newest = stage.broker.served[ApiKey.PRODUCE][1]
    for kind in TOPICS:
        _write(stage, _topic(stage, kind), partition, lie, newest)


def _play_old(stage: HostileStage, lie: Lie, partition: int) -> None:
    _write(stage, _topic(stage, "plain"), partition, lie, OLDEST_PRODUCE)


def _topic(stage: HostileStage, kind: str) -> CaseTopic:
    return stage.shared_topic(kind, len(LIES) + len(OLD_LIES), configs=TOPICS[kind])


def _write(stage: HostileStage, topic: CaseTopic, partition: int, lie: Lie, version: int) -> None:
    """Produce a false batch, then read the partition's end and its log."""
    stage.send(produce(topic, lie(stage.now_ms), partition=partition), version)
    latest = [ListOffsetsPartition(partition, -1, -1)]
    stage.send(ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic.name, latest)]))
    stage.send(fetch(topic, partition=partition))
