"""Scenarios of ListOffsets and OffsetForLeaderEpoch: from times and epochs to offsets."""

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
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import batch, fetch, fill, produce

scenario = Scenarios("listing")


def at(stage: ScenarioStage, *times: int, compression: Compression = Compression.NONE) -> bytearray:
    """A batch of records with timestamps that many milliseconds after one hour before the run."""
    first = stage.now_ms - 3_600_000
    records = [Record(i, first + ms, None, b"%d" % ms) for i, ms in enumerate(times)]
    return build(records, compression=compression)


def since(stage: ScenarioStage, ms: int) -> int:
    return stage.now_ms - 3_600_000 + ms


@scenario()
def empty_partition(stage: ScenarioStage) -> None:
    """In an empty partition every timestamp returns offset -1 and no error."""
    topic = stage.topic()
    for timestamp in (0, stage.now_ms, 2**62, LATEST, EARLIEST, MAX_TIMESTAMP):
        stage.send(list_offsets(topic, timestamp))
    for version in (1, 2, 4):
        stage.send(list_offsets(topic, stage.now_ms), version)


@scenario()
def beyond_the_last(stage: ScenarioStage) -> None:
    """A time after the last record returns offset -1 and timestamp -1."""
    topic = stage.topic()
    fill(stage, topic, at(stage, 0, 1, 2))
    for ms in (2, 3, 100_000):
        stage.send(list_offsets(topic, since(stage, ms)))


@scenario()
def first_at_or_after(stage: ScenarioStage) -> None:
    """A look-up returns the first offset with a time at or after the given one."""
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


@scenario()
def after_the_start_has_moved(stage: ScenarioStage) -> None:
    """Records before the log start are not found, even if their batch still exists."""
    topic = stage.topic()
    fill(stage, topic, at(stage, 10, 20, 30), at(stage, 5, 40))
    stage.send(delete_records(topic, 1))
    for ms in (0, 10, 20, 30):
        stage.send(list_offsets(topic, since(stage, ms)))
    stage.send(list_offsets(topic, EARLIEST))
    stage.send(delete_records(topic, -1))
    for timestamp in (EARLIEST, LATEST, MAX_TIMESTAMP, since(stage, 0)):
        stage.send(list_offsets(topic, timestamp))


@scenario()
def max_timestamp(stage: ScenarioStage) -> None:
    """MAX_TIMESTAMP returns the first record with the highest time; it needs version 7."""
    topic = stage.topic()
    fill(stage, topic, at(stage, 10, 30, 20))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    fill(stage, topic, at(stage, 30, 30), at(stage, 7))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    fill(stage, topic, at(stage, 31, 1, 31, compression=Compression.ZSTD))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    for version in (1, 6, 7):
        stage.send(list_offsets(topic, MAX_TIMESTAMP), version)


@scenario()
def leader_epochs(stage: ScenarioStage) -> None:
    """An offset has the leader epoch of its own record; OffsetForLeaderEpoch returns an epoch's
    end."""
    topic = stage.topic()
    stage.send(list_offsets(topic, LATEST, EARLIEST))
    _ends(stage, topic, 0, 1, -1)
    fill(stage, topic, at(stage, 1, 2))
    stage.send(list_offsets(topic, LATEST, EARLIEST, since(stage, 2), since(stage, 9)))
    for current in (0, 1, 9):
        stage.send(list_offsets(topic, LATEST, epoch=current))
    _ends(stage, topic, 0, 1, 5, -1)
    for current in (0, 1):
        partition = OffsetForLeaderPartition(0, current, 0)
        topics = [OffsetForLeaderTopic(topic.name, [partition])]
        stage.send(OffsetForLeaderEpochRequest(-1, topics))


def _ends(stage: ScenarioStage, topic: CaseTopic, *epochs: int) -> None:
    """Ask for the end offset of each of these leader epochs."""
    for epoch in epochs:
        partition = OffsetForLeaderPartition(0, -1, epoch)
        topics = [OffsetForLeaderTopic(topic.name, [partition])]
        stage.send(OffsetForLeaderEpochRequest(-1, topics))


@scenario()
def the_broker_computes_the_highest_time(stage: ScenarioStage) -> None:
    """A broker computes the highest time of a batch that does not state it."""
    _state_highest(stage, -1, 0, 1)


@scenario(excuse="a broker may believe a highest time that the batch's first record allows")
def a_wrong_highest_time(stage: ScenarioStage) -> None:
    """A batch states a possible highest time that is not the one of its records."""
    first = since(stage, 0)
    _state_highest(stage, first, first + 1, first + 50)


def _state_highest(stage: ScenarioStage, *times: int) -> None:
    """Produce batches that state these wrong largest timestamps, then read and list offsets.

    The timestamps of the records are `first` to `first + 2`, so the last batches state the truth.
    """
    topic = stage.topic()
    first = since(stage, 0)
    records = [Record(i, first + i, None, b"v") for i in range(3)]
    for wrong in (*times, first + 2):
        for compression in (Compression.NONE, Compression.GZIP):
            data = build(records, max_timestamp=wrong, compression=compression)
            stage.send(produce(topic, data))
    stage.send(fetch(topic))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    stage.send(list_offsets(topic, first + 1))


@scenario()
def log_append_time(stage: ScenarioStage) -> None:
    """With LogAppendTime the broker's time is in the response, the batch and the look-up by
    time."""
    topic = stage.topic(configs={"message.timestamp.type": "LogAppendTime"})
    for compression in (Compression.NONE, Compression.SNAPPY):
        before = offset_of(stage, topic, LATEST)
        reply = stage.send(produce(topic, at(stage, 1, 2, 3, compression=compression)))
        append_time = reply.responses[0].partition_responses[0].log_append_time_ms
        (header,) = headers(read(stage, topic, before))
        stage.note("told is in the batch", header.max_timestamp == append_time)
        stage.note("type", header.timestamp_type == TimestampType.LOG_APPEND_TIME)
        stage.note("base time", header.base_timestamp - stage.now_ms)
        stage.note("found by it", offset_of(stage, topic, append_time) >= 0)
        stage.note("not found after it", offset_of(stage, topic, append_time + 60_000))
        stage.note("found before it", offset_of(stage, topic, since(stage, 0)))
        stage.note("highest", offset_of(stage, topic, MAX_TIMESTAMP) >= 0)
    stage.send(fetch(topic))


@scenario()
def time_type_altered_live(stage: ScenarioStage) -> None:
    """A changed message.timestamp.type applies to later batches only."""
    topic = stage.topic()
    stage.send(produce(topic, at(stage, 1, 2)))
    configure(stage, topic, message_timestamp_type="LogAppendTime")
    stage.send(produce(topic, at(stage, 3, 4)))
    configure(stage, topic, message_timestamp_type="CreateTime")
    stage.send(produce(topic, at(stage, 5, 6)))
    stage.send(fetch(topic))


@scenario()
def old_versions(stage: ScenarioStage) -> None:
    """Versions 1 and 2 return one offset for each partition, as old tools expect."""
    topic = stage.topic(partitions=2)
    fill(stage, topic, at(stage, 1, 2))
    for version in range(1, 10):
        for timestamp in (LATEST, EARLIEST, since(stage, 2)):
            stage.send(list_offsets(topic, timestamp), version)
            stage.send(list_offsets(topic, timestamp, partition=1), version)


@scenario()
def no_timestamps(stage: ScenarioStage) -> None:
    """Records with timestamp -1 keep it, and no look-up by time finds them."""
    topic = stage.topic()
    stage.send(produce(topic, build([Record(0, -1, None, b"v"), Record(1, -1, None, b"w")])))
    stage.send(fetch(topic))
    for timestamp in (MAX_TIMESTAMP, 0, EARLIEST, LATEST):
        stage.send(list_offsets(topic, timestamp))
    stage.send(produce(topic, batch(stage, b"x")))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    stage.send(list_offsets(topic, 0))


@scenario()
def over_segments(stage: ScenarioStage) -> None:
    """Look-ups by time over several segments that overlap in time, before and after deletions."""
    topic = stage.topic(configs={"segment.bytes": "1048576"})
    first = since(stage, 0)
    for ahead in (100, 500, 300, 700, 200):
        times = (ahead, ahead + 50, ahead + 20)
        records = [Record(i, first + ms, None, bytes(300_000)) for i, ms in enumerate(times)]
        fill(stage, topic, build(records))
    lookup_times = (0, 100, 101, 121, 151, 260, 351, 501, 551, 700, 721, 751)
    for ms in lookup_times:
        stage.send(list_offsets(topic, since(stage, ms)))
    stage.send(list_offsets(topic, MAX_TIMESTAMP))
    # Whether a time is found that only segments before the log start have depends on whether they
    # are deleted yet, which no broker guarantees.
    for start, deleted_ms in ((2, -1), (5, 150), (11, 550)):
        stage.send(delete_records(topic, start))
        for ms in lookup_times:
            if ms > deleted_ms:
                stage.send(list_offsets(topic, since(stage, ms)))
        stage.send(list_offsets(topic, MAX_TIMESTAMP))
