"""ListOffsets and OffsetForLeaderEpoch: from times and epochs to offsets."""

from __future__ import annotations

from kwire.codecs.batches import Compression, Record, TimestampType, build
from kwire.codecs.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.conformance.behaviour.asking import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    configure,
    delete_records,
    headers,
    list_offsets,
    offset_of,
    read,
)
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import Topic
from kwire.conformance.wire.cases.build import batch, fetch, fill, produce

scenario = Scenarios("listing")


def at(stage: ScenarioStage, *times: int, compression: Compression = Compression.NONE) -> bytearray:
    """A batch of records at these milliseconds from an hour before the run on."""
    first = stage.now_ms - 3_600_000
    records = [Record(i, first + ms, None, b"%d" % ms) for i, ms in enumerate(times)]
    return build(records, compression=compression)


def since(stage: ScenarioStage, ms: int) -> int:
    return stage.now_ms - 3_600_000 + ms


@scenario(10, 11)
def empty_partition(stage: ScenarioStage) -> None:
    """Traps 10 and 11: of an empty partition every time gives -1 and no error."""
    topic = stage.topic()
    for timestamp in (0, stage.now_ms, 2**62, LATEST, EARLIEST, MAX_TIMESTAMP):
        stage.send(list_offsets(topic, timestamp))
    for version in (1, 2, 4):
        stage.send(list_offsets(topic, stage.now_ms), version)


@scenario(11)
def beyond_the_last(stage: ScenarioStage) -> None:
    """Trap 11: a time after the last record gives offset -1 and timestamp -1."""
    topic = stage.topic()
    fill(stage, topic, at(stage, 0, 1, 2))
    for ms in (2, 3, 100_000):
        stage.send(list_offsets(topic, since(stage, ms)))


@scenario(12)
def first_at_or_after(stage: ScenarioStage) -> None:
    """Trap 12: the first offset whose time is at or after the one asked, not the nearest one."""
    topic = stage.topic()
    fill(
        stage,
        topic,
        at(stage, 10, 30, 20),
        at(stage, 25, 15, compression=Compression.LZ4),
        at(stage, 40, 5, 50),
    )
    for ms in (0, 10, 11, 15, 20, 21, 26, 30, 31, 40, 41, 50, 51):
        stage.send(list_offsets(topic, since(stage, ms)))
    stage.send(list_offsets(topic, since(stage, 0), since(stage, 45)))


@scenario(12)
def after_the_start_has_moved(stage: ScenarioStage) -> None:
    """Trap 12: records before the log's start are not found, though their batch is there."""
    topic = stage.topic()
    fill(stage, topic, at(stage, 10, 20, 30), at(stage, 5, 40))
    stage.send(delete_records(topic, 1))
    for ms in (0, 10, 20, 30):
        stage.send(list_offsets(topic, since(stage, ms)))
    stage.send(list_offsets(topic, EARLIEST))
    stage.send(delete_records(topic, -1))
    for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, since(stage, 0)):
        stage.send(list_offsets(topic, timestamp))


@scenario(14)
def max_timestamp(stage: ScenarioStage) -> None:
    """Trap 14: the record of the highest time, the first of several; needs version 7."""
    topic = stage.topic()
    fill(stage, topic, at(stage, 10, 30, 20))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    fill(stage, topic, at(stage, 30, 30), at(stage, 7))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    fill(stage, topic, at(stage, 31, 1, 31, compression=Compression.ZSTD))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    for version in (1, 6, 7):
        stage.send(list_offsets(topic, MAX_TIMESTAMP), version)


@scenario(15, 42)
def leader_epochs(stage: ScenarioStage) -> None:
    """Traps 15 and 42: an offset comes with its own record's epoch; where an epoch ends."""
    topic = stage.topic()
    stage.send(list_offsets(topic, LATEST, EARLIEST))
    _ends(stage, topic, 0, 1, -1)
    fill(stage, topic, at(stage, 1, 2))
    stage.send(list_offsets(topic, LATEST, EARLIEST, since(stage, 2), since(stage, 9)))
    for current in (0, 1, 9):
        stage.send(list_offsets(topic, LATEST, epoch=current))
    _ends(stage, topic, 0, 1, 5, -1)
    for current in (0, 1):
        place = OffsetForLeaderPartition(0, current, 0)
        stage.send(OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic.name, [place])]))


def _ends(stage: ScenarioStage, topic: Topic, *epochs: int) -> None:
    for epoch in epochs:
        place = OffsetForLeaderPartition(0, -1, epoch)
        stage.send(OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic.name, [place])]))


@scenario(16)
def the_broker_computes_the_highest_time(stage: ScenarioStage) -> None:
    """Trap 16: a batch whose highest time was left to the broker gets it from its records."""
    _state_highest(stage, -1, 0, 1)


@scenario(16, excuse="a broker may believe a highest time that the batch's first record allows")
def a_wrong_highest_time(stage: ScenarioStage) -> None:
    """Trap 16: a batch whose highest time is possible, but not that of its records."""
    first = since(stage, 0)
    _state_highest(stage, first, first + 1, first + 50)


def _state_highest(stage: ScenarioStage, *times: int) -> None:
    topic = stage.topic()
    first = since(stage, 0)
    records = [Record(i, first + i, None, b"v") for i in range(3)]
    for wrong in (*times, first + 2):
        for compression in (Compression.NONE, Compression.GZIP):
            made = build(records, max_timestamp=wrong, compression=compression)
            stage.send(produce(topic, made))
    stage.send(fetch(topic))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    stage.send(list_offsets(topic, first + 1))


@scenario(17)
def log_append_time(stage: ScenarioStage) -> None:
    """Trap 17: the broker's time is in the reply, in the batch and in the look-up by time."""
    topic = stage.topic(configs={"message.timestamp.type": "LogAppendTime"})
    for compression in (Compression.NONE, Compression.SNAPPY):
        before = offset_of(stage, topic, LATEST)
        reply = stage.send(produce(topic, at(stage, 1, 2, 3, compression=compression)))
        told = reply.responses[0].partition_responses[0].log_append_time_ms
        (header,) = headers(read(stage, topic, before))
        stage.note("told is in the batch", header.max_timestamp == told)
        stage.note("type", header.timestamp_type == TimestampType.LOG_APPEND_TIME)
        stage.note("base time", header.base_timestamp - stage.now_ms)
        stage.note("found by it", offset_of(stage, topic, told) >= 0)
        stage.note("not found after it", offset_of(stage, topic, told + 60_000))
        stage.note("found before it", offset_of(stage, topic, since(stage, 0)))
        stage.note("highest", offset_of(stage, topic, MAX_TIMESTAMP) >= 0)
    stage.send(fetch(topic))


@scenario(17)
def time_type_altered_live(stage: ScenarioStage) -> None:
    """Trap 17: message.timestamp.type changes for what comes after it."""
    topic = stage.topic()
    stage.send(produce(topic, at(stage, 1, 2)))
    configure(stage, topic, message_timestamp_type="LogAppendTime")
    stage.send(produce(topic, at(stage, 3, 4)))
    configure(stage, topic, message_timestamp_type="CreateTime")
    stage.send(produce(topic, at(stage, 5, 6)))
    stage.send(fetch(topic))


@scenario(50)
def old_versions(stage: ScenarioStage) -> None:
    """Trap 50: tools ask with versions 1 and 2 and want one offset of each partition."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, at(stage, 1, 2))
    for version in range(1, 10):
        for timestamp in (LATEST, EARLIEST, since(stage, 2)):
            stage.send(list_offsets(topic, timestamp), version)
            stage.send(list_offsets(topic, timestamp, partition=1), version)


@scenario()
def no_timestamps(stage: ScenarioStage) -> None:
    """Records without a time (-1): kept so, and found by no time."""
    topic = stage.topic()
    stage.send(produce(topic, build([Record(0, -1, None, b"v"), Record(1, -1, None, b"w")])))
    stage.send(fetch(topic))
    for timestamp in (MAX_TIMESTAMP, 0, EARLIEST, LATEST):
        stage.send(list_offsets(topic, timestamp))
    stage.send(produce(topic, batch(stage, b"x")))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    stage.send(list_offsets(topic, 0))


@scenario(12, 14)
def over_segments(stage: ScenarioStage) -> None:
    """Traps 12 and 14: times over several segments, out of order between them, and cut off."""
    topic = stage.topic(configs={"segment.bytes": "1048576"})
    first = since(stage, 0)
    for ahead in (100, 500, 300, 700, 200):
        times = (ahead, ahead + 50, ahead + 20)
        records = [Record(i, first + ms, None, bytes(300_000)) for i, ms in enumerate(times)]
        fill(stage, topic, build(records))
    asked = (0, 100, 101, 121, 151, 260, 351, 501, 551, 700, 721, 751)
    for ms in asked:
        stage.send(list_offsets(topic, since(stage, ms)))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    # Whether a time is found that only segments before the log's start have depends on whether
    # they have been removed yet: by when that is, nobody says.
    for start, gone_ms in ((2, -1), (5, 150), (11, 550)):
        stage.send(delete_records(topic, start))
        for ms in asked:
            if ms > gone_ms:
                stage.send(list_offsets(topic, since(stage, ms)))
        stage.send(list_offsets(topic, MAX_TIMESTAMP))
