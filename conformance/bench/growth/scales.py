"""Things that are stored and grow: topics, groups, segments, producer ids."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import crc32c

from kwire.codecs.batch_layout import CRC, CRC_END, CRC_POS, PRODUCER, PRODUCER_POS
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kwire.conformance.bench import frames
from kwire.conformance.bench.brokers import BenchBroker
from kwire.conformance.bench.frames import FetchReply, ProduceReply, RequestFailed
from kwire.conformance.bench.growth.asking import (
    LIST_VERSION,
    Caller,
    Producing,
    attempts,
    check,
    is_retriable,
)
from kwire.conformance.bench.growth.scale import Scale, Step, Steps

SEED = 1
"""For the order in which many topics, groups and ids are used."""
METADATA_VERSION = 12
FIND_VERSION = 4
COMMIT_VERSION, OFFSETS_VERSION = 9, 9
SEGMENT_BYTES = 1 << 20
"""The smallest segment that Apache Kafka allows."""
BATCH_RECORDS, VALUE_BYTES = 150, 100
FETCH_BYTES = 16_384
MIDDLE = (0.4, 0.6)
"""The part of a log from which its middle is read."""
MS_A_BATCH = 1_000
"""The distance between the timestamps of two batches."""
_epochs = itertools.count()


def shuffled(count: int) -> list[int]:
    """Return the numbers below `count` in an order that is random and always the same."""
    return random.Random(SEED).sample(range(count), count)


class TopicScale(Scale):
    """Topics of one partition, each with one record."""

    key, title, full = "topics", "{} topics of one partition", 10_000
    partitions = 1

    def names(self, size: int) -> list[str]:
        """Return the names of all topics."""
        return [f"growth-{self.key}-{number:05}" for number in range(size)]

    def build(self, broker: BenchBroker, size: int) -> None:
        """Create the topics, and write a record to each partition."""
        with Caller(broker.address) as caller:
            caller.create_topics(self.names(size), self.partitions)
            produce = Producing(caller, self._all(size))
            for _ in range(size * self.partitions):
                produce()

    def _all(self, size: int) -> list[tuple[str, int]]:
        """Return all partitions in a random order."""
        names = self.names(size)
        count = self.partitions
        return [(names[at // count], at % count) for at in shuffled(size * count)]

    @contextmanager
    def opened(self, broker: BenchBroker, size: int) -> Iterator[Steps]:
        """Yield requests to one topic, to all in turn, and the creation of one more."""
        topic = self.names(size)[size // 2]
        with Caller(broker.address) as caller:
            yield {
                "Produce to one topic": Producing(caller, [(topic, 0)]),
                "Produce to each partition in turn": Producing(caller, self._all(size)),
                "Fetch from one topic": _fetching(caller, topic, [0]),
                "Metadata of one topic": _describing(caller, topic),
                "CreateTopics and DeleteTopics of another": _creating(caller, self.partitions),
            }

    def wait_until_served(self, broker: BenchBroker, size: int) -> None:
        with Caller(broker.address) as caller:
            caller.wait_until_led(self.names(size), self.partitions)


class WideTopicScale(TopicScale):
    """Topics of ten partitions."""

    key, title, full = "partitions", "{} topics of ten partitions", 1_000
    partitions = 10


def _fetching(caller: Caller, topic: str, offsets: Sequence[int]) -> Step:
    """Return a step that fetches from the next of these offsets of partition 0."""
    prepared = frames.fetch(topic, 0, max_wait_ms=0, max_bytes=FETCH_BYTES)
    frame = bytearray(prepared.data)
    layout = FetchReply(topic)
    turn = itertools.count()

    def fetch() -> int:
        offset = offsets[next(turn) % len(offsets)]
        frames.OFFSET.pack_into(frame, prepared.offset_pos, offset)
        if not layout.records_size(bytearray(caller.exchange(frame))):
            raise RequestFailed(f"Fetch returned no records at offset {offset}")
        return 1

    return fetch


def _describing(caller: Caller, topic: str) -> Step:
    """Return a step that asks for the metadata of one topic."""
    message = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

    def describe() -> int:
        reply = caller.ask(message, METADATA_VERSION, MetadataResponse)
        check("Metadata", (each.error_code for each in reply.topics))
        return 1

    return describe


def _creating(caller: Caller, partitions: int) -> Step:
    """Return a step that creates a topic with a new name and deletes it again."""
    numbers = itertools.count(time.monotonic_ns())

    def create() -> int:
        caller.create_and_delete(f"growth-more-{next(numbers)}", partitions)
        return 1

    return create


class GroupScale(Scale):
    """Groups without members that commit an offset."""

    key, title, full = "groups", "{} groups that commit", 5_000
    topic = "growth-committed"

    def build(self, broker: BenchBroker, size: int) -> None:
        """Create the topic, and let each group commit once."""
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], 1)
            self._find_coordinators(caller, size)
            commit = self._committing(caller, range(size))
            for _ in range(size):
                commit()

    def _find_coordinators(self, caller: Caller, size: int) -> None:
        """Wait until all groups have a coordinator; the first request creates the offsets topic."""
        keys = [_group(number) for number in range(size)]
        for _ in attempts():
            message = FindCoordinatorRequest(coordinator_keys=keys)
            found = caller.ask(message, FIND_VERSION, FindCoordinatorResponse)
            if not any(each.error_code for each in found.coordinators):
                return
        raise RequestFailed("not all groups have a coordinator")

    def _committing(self, caller: Caller, groups: Sequence[int]) -> Step:
        """Return a step that commits for the next of these groups."""
        topics = [OffsetCommitRequestTopic(self.topic, partitions=[_commit_of_one()])]
        turn = itertools.count()

        def commit() -> int:
            group = _group(groups[next(turn) % len(groups)])
            message = OffsetCommitRequest(group, topics=topics)
            for _ in attempts():
                reply = caller.ask(message, COMMIT_VERSION, OffsetCommitResponse)
                error = reply.topics[0].partitions[0].error_code
                if not is_retriable(error):
                    check("OffsetCommit", iter([error]))
                    return 1
            raise RequestFailed("OffsetCommit does not succeed")

        return commit

    @contextmanager
    def opened(self, broker: BenchBroker, size: int) -> Iterator[Steps]:
        """Yield commits of one group and of all in turn, and OffsetFetch of one."""
        with Caller(broker.address) as caller:
            yield {
                "OffsetCommit of one group": self._committing(caller, [size // 2]),
                "OffsetCommit of each group in turn": self._committing(caller, shuffled(size)),
                "OffsetFetch of one group": self._reading(caller, [_group(size // 2)]),
            }

    def _reading(self, caller: Caller, groups: Sequence[str]) -> Step:
        """Return a step that asks for the committed offsets of these groups in one request."""
        topics = [OffsetFetchRequestTopics(self.topic, partition_indexes=[0])]
        message = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group, topics=topics) for group in groups]
        )

        def read() -> int:
            reply = caller.ask(message, OFFSETS_VERSION, OffsetFetchResponse)
            check("OffsetFetch", (group.error_code for group in reply.groups))
            if any(group.topics[0].partitions[0].committed_offset < 0 for group in reply.groups):
                raise RequestFailed("OffsetFetch returned no offset")
            return 1

        return read

    def wait_until_served(self, broker: BenchBroker, size: int) -> None:
        """Wait until OffsetFetch returns the offsets of all groups."""
        with Caller(broker.address) as caller:
            self._find_coordinators(caller, size)
            read = self._reading(caller, [_group(number) for number in range(size)])
            for _ in attempts():
                try:
                    read()
                except RequestFailed as failure:
                    if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name not in str(failure):
                        raise
                else:
                    return
        raise RequestFailed("not all groups are loaded")


def _group(number: int) -> str:
    return f"growth-group-{number:05}"


def _commit_of_one() -> OffsetCommitRequestPartition:
    """Return the commit of an offset in partition 0."""
    return OffsetCommitRequestPartition(0, 1)


class SegmentScale(Scale):
    """A partition of many segments of 1 MB, each batch later than the one before."""

    key, title, full = "segments", "a partition of {} segments", 100
    topic = "growth-segments"
    begin_ms = 1_700_000_000_000

    def build(self, broker: BenchBroker, size: int) -> None:
        """Write the segments, and a little more into the active one."""
        configs = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], 1, configs)
            for number in range(self._batches(size)):
                frame = frames.produce(self.topic, 0, self._batch(number)).data
                ProduceReply(self.topic, caller.exchange(frame))

    def _batch(self, number: int) -> bytes:
        """Return a batch of about 16 kB with the timestamp that belongs to its number."""
        at_ms = self.begin_ms + number * MS_A_BATCH
        value = bytes(VALUE_BYTES)
        return bytes(build(Record(0, at_ms, None, value) for _ in range(BATCH_RECORDS)))

    def _batches(self, size: int) -> int:
        """Return the number of batches that fill so many segments."""
        return max(2, size * SEGMENT_BYTES // len(self._batch(0)))

    def _middle(self, size: int) -> list[int]:
        """Return the numbers of the batches in the middle, in a random order."""
        begin, end = (int(share * self._batches(size)) for share in MIDDLE)
        return [begin + number for number in shuffled(max(1, end - begin))]

    @contextmanager
    def opened(self, broker: BenchBroker, size: int) -> Iterator[Steps]:
        """Yield fetches and look-ups by time from the middle, and writes at the end."""
        middle = self._middle(size)
        offsets = [number * BATCH_RECORDS for number in middle]
        with Caller(broker.address) as caller:
            yield {
                "Fetch of 16 kB from the middle": _fetching(caller, self.topic, offsets),
                "ListOffsets of a time in the middle": self._searching(caller, middle),
                "Produce": Producing(caller, [(self.topic, 0)]),
            }

    def _searching(self, caller: Caller, batches: Sequence[int]) -> Step:
        """Return a step that looks up the timestamp of the next of these batches."""
        turn = itertools.count()

        def search() -> int:
            number = batches[next(turn) % len(batches)]
            at_ms = self.begin_ms + number * MS_A_BATCH
            topics = [ListOffsetsTopic(self.topic, [ListOffsetsPartition(0, -1, at_ms)])]
            message = ListOffsetsRequest(replica_id=-1, topics=topics)
            found = caller.ask(message, LIST_VERSION, ListOffsetsResponse).topics[0].partitions[0]
            if (found.error_code, found.offset) != (0, number * BATCH_RECORDS):
                raise RequestFailed(f"ListOffsets returned {found.error_code}, {found.offset}")
            return 1

        return search


class ProducerIdScale(Scale):
    """Idempotent producers that wrote to one partition."""

    key, title, full = "producer-ids", "{} producer ids in one partition", 100_000
    topic = "growth-ids"

    def __init__(self, configs: dict[str, str] | None = None) -> None:
        """Give the topic these configs."""
        self._configs = configs

    def build(self, broker: BenchBroker, size: int) -> None:
        """Write a record of each producer id."""
        with Caller(broker.address) as caller:
            caller.create_topics([self.topic], 1, self._configs)
            write = self.writing(caller, range(size))
            for _ in range(size):
                write()

    def writing(self, caller: Caller, ids: Sequence[int]) -> Step:
        """Return a step that writes a record of the next of these ids.

        Each call takes a new epoch, because sequence numbers begin at 0 again.
        """
        batch = bytearray(
            build(
                [Record(0, time.time_ns() // 1_000_000, None, bytes(VALUE_BYTES))],
                producer_id=1,
                producer_epoch=0,
                base_sequence=0,
            )
        )
        frame = bytearray(frames.produce(self.topic, 0, bytes(batch)).data)
        at = frame.index(batch)
        end = at + len(batch)
        epoch = next(_epochs)
        turn = itertools.count()

        def write() -> int:
            number = next(turn)
            sequence, index = divmod(number, len(ids))
            PRODUCER.pack_into(frame, at + PRODUCER_POS, 1_000 + ids[index], epoch, sequence)
            CRC.pack_into(frame, at + CRC_POS, crc32c.crc32c(frame[at + CRC_END : end]))
            ProduceReply(self.topic, caller.exchange(frame))
            return 1

        return write

    @contextmanager
    def opened(self, broker: BenchBroker, size: int) -> Iterator[Steps]:
        """Yield writes of one id and of all in turn."""
        ids = shuffled(size)
        with Caller(broker.address) as caller:
            yield {
                "Produce of one id": self.writing(caller, ids[:1]),
                "Produce of each id in turn": self.writing(caller, ids[1:]),
            }
