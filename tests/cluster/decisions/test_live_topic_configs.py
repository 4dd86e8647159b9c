"""Each topic config takes effect when it is altered on a topic in use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from kwire.codecs.batches import Compression, Record, build, read_header
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.log import Log
from kwire.log.compaction.cleanable import Cleanable, examine
from kwire.log.upkeep.job import run_all
from kwire.settings.topic_settings import TopicSettings
from kwire.storage.partitions.partition import Partition
from tests.cluster.decisions.client import SET, TOPIC, AdminClient, new_topic
from tests.cluster.decisions.conftest import OpenAdmin

NAME = "t"
LONG_AGO_MS = 10**9
TEXT = b"".join(b"%d squared is %d; " % (n, n * n) for n in range(2000))


class LiveTopic:
    """A topic with one partition and its records."""

    def __init__(self, admin: AdminClient) -> None:
        self.admin = admin
        self.broker = admin.broker

    @property
    def partition(self) -> Partition:
        return self.broker.hosted.by_topic[NAME][0]

    @property
    def log(self) -> Log:
        return self.partition.log

    async def alter(self, **configs: str) -> tuple[ErrorCode, str | None]:
        edits = [(name.replace("_", "."), SET, value) for name, value in configs.items()]
        return await self.admin.alter(TOPIC, NAME, *edits)

    async def write(
        self,
        value: bytes = b"v",
        *,
        key: bytes | None = b"k",
        ago_ms: int = 0,
        compression: Compression = Compression.NONE,
    ) -> PartitionProduceResponse:
        timestamp = self.broker.now_ms() - ago_ms
        records = bytes(build([Record(0, timestamp, key, value, [])], compression=compression))
        data = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name=NAME, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
        reply = await self.admin.ask(request, 8, ProduceResponse)
        return reply.responses[0].partition_responses[0]

    async def error_of(self, value: bytes = b"v", **fields: int) -> ErrorCode:
        return ErrorCode((await self.write(value, ago_ms=fields.get("ago_ms", 0))).error_code)

    async def stored(self, value: bytes = TEXT) -> tuple[Compression, int]:
        """Codec and size of a stored batch."""
        offset = (await self.write(value)).base_offset
        region = self.log.read(
            offset, 1 << 20, max_offset=self.log.log_end_offset, min_one_batch=True
        )
        assert region is not None
        header = read_header(region.read())
        return Compression(header.attributes & 7), header.size_bytes

    def upkeep(self, after_ms: int = 300_000) -> None:
        """Run the background work of the broker that is due `after_ms` from now."""
        jobs = self.broker.logs.maintain(
            self.broker.now_ms() + after_ms, self.broker.hosted.high_watermark_of
        )
        run_all(jobs)

    def cleanable(self, after_ms: int = 0) -> Cleanable:
        return examine(self.log, self.partition.high_watermark, self.broker.now_ms() + after_ms)

    @property
    def segments(self) -> int:
        return len(self.log.segments)


Effect = Callable[[LiveTopic], Awaitable[None]]
EFFECTS: dict[str, Effect] = {}


def shows(*names: str) -> Callable[[Effect], Effect]:
    def add(effect: Effect) -> Effect:
        EFFECTS.update(dict.fromkeys(names, effect))
        return effect

    return add


@shows("segment.bytes")
async def _(topic: LiveTopic) -> None:
    half = bytes(600_000)
    await topic.write(half)
    await topic.write(half)
    assert topic.segments == 1
    await topic.alter(segment_bytes=str(1 << 20))
    await topic.write(half)
    assert topic.segments == 2


@shows("segment.ms")
async def _(topic: LiveTopic) -> None:
    await topic.write(ago_ms=10_000)
    await topic.write()
    assert topic.segments == 1
    await topic.alter(segment_ms="5000")
    await topic.write()
    assert topic.segments == 2


@shows("segment.jitter.ms")
async def _(topic: LiveTopic) -> None:
    """The jitter is drawn from a billion: that it is below 1000 is no concern."""
    await topic.alter(segment_ms="1000000000")
    await topic.write(ago_ms=999_999_000)
    await topic.write()
    assert topic.segments == 1
    await topic.alter(segment_jitter_ms="1000000000")
    await topic.write()
    assert topic.segments == 2


@shows("retention.ms", "file.delete.delay.ms")
async def _(topic: LiveTopic) -> None:
    await topic.write(ago_ms=10_000)
    topic.upkeep()
    assert topic.log.log_start_offset == 0
    await topic.alter(retention_ms="5000", file_delete_delay_ms="700000")
    topic.upkeep(600_000)
    assert topic.log.log_start_offset == 1
    assert list(topic.log.dir.glob("*.log.deleted"))
    await topic.alter(file_delete_delay_ms="0")
    await topic.write(ago_ms=10_000)
    topic.upkeep(900_000)
    topic.upkeep(900_000)
    assert not list(topic.log.dir.glob("00000000000000000001.log.deleted"))
    assert topic.log.log_start_offset == 2


@shows("retention.bytes")
async def _(topic: LiveTopic) -> None:
    await topic.write()
    topic.upkeep()
    assert topic.log.log_start_offset == 0
    await topic.alter(retention_bytes="0")
    topic.upkeep(600_000)
    assert topic.log.log_start_offset == 1


@shows("max.message.bytes")
async def _(topic: LiveTopic) -> None:
    assert await topic.error_of(bytes(200)) is ErrorCode.NONE
    await topic.alter(max_message_bytes="100")
    assert await topic.error_of(bytes(200)) is ErrorCode.MESSAGE_TOO_LARGE


@shows("max.decompressed.message.bytes")
async def _(topic: LiveTopic) -> None:
    """The limit is that of the records of a compressed batch."""
    await topic.alter(max_decompressed_message_bytes="100")
    assert await topic.error_of(bytes(200)) is ErrorCode.NONE
    compressed = await topic.write(bytes(200), compression=Compression.GZIP)
    assert compressed.error_code == ErrorCode.INVALID_RECORD
    await topic.alter(max_decompressed_message_bytes="1000")
    compressed = await topic.write(bytes(200), compression=Compression.GZIP)
    assert compressed.error_code == ErrorCode.NONE


@shows("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
async def _(topic: LiveTopic) -> None:
    assert await topic.error_of(ago_ms=60_000) is ErrorCode.NONE
    assert await topic.error_of(ago_ms=-60_000) is ErrorCode.NONE
    await topic.alter(message_timestamp_before_max_ms="30000")
    assert await topic.error_of(ago_ms=60_000) is ErrorCode.INVALID_TIMESTAMP
    assert await topic.error_of(ago_ms=-60_000) is ErrorCode.NONE
    await topic.alter(message_timestamp_after_max_ms="30000")
    assert await topic.error_of(ago_ms=-60_000) is ErrorCode.INVALID_TIMESTAMP


@shows("message.timestamp.type")
async def _(topic: LiveTopic) -> None:
    assert (await topic.write(ago_ms=LONG_AGO_MS)).log_append_time_ms == -1
    await topic.alter(message_timestamp_type="LogAppendTime")
    before_ms = topic.broker.now_ms()
    assert (await topic.write(ago_ms=LONG_AGO_MS)).log_append_time_ms >= before_ms


@shows("compression.type")
async def _(topic: LiveTopic) -> None:
    assert (await topic.stored())[0] is Compression.NONE
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        await topic.alter(compression_type=codec.name.lower())
        assert (await topic.stored())[0] is codec


def level(codec: str, least: str, most: str) -> None:
    @shows(f"compression.{codec}.level")
    async def effect(topic: LiveTopic) -> None:
        await topic.alter(compression_type=codec, **{f"compression_{codec}_level": least})
        _, large = await topic.stored()
        await topic.alter(**{f"compression_{codec}_level": most})
        assert (await topic.stored())[1] < large


level("gzip", "1", "9")
level("lz4", "1", "17")
level("zstd", "-50", "19")


@shows("flush.messages")
async def _(topic: LiveTopic) -> None:
    await topic.write()
    assert topic.log.recovery_point == 0
    await topic.alter(flush_messages="1")
    await topic.write()
    assert topic.log.recovery_point == 2


@shows("flush.ms")
async def _(topic: LiveTopic) -> None:
    await topic.write()
    topic.upkeep(1000)
    assert topic.log.recovery_point == 0
    await topic.alter(flush_ms="1000")
    topic.upkeep(2000)
    assert topic.log.recovery_point == 1


@shows("index.interval.bytes", "segment.index.bytes")
async def _(topic: LiveTopic) -> None:
    for _ in range(3):
        await topic.write()
    assert topic.log.segments.active.offset_index.count == 0
    await topic.alter(index_interval_bytes="0")
    await topic.write()
    assert topic.log.segments.active.offset_index.count == 1
    await topic.alter(segment_index_bytes="36")
    for _ in range(4):  # four entries of offsets have room, and three of times, if time goes on
        await topic.write()
    assert topic.segments == 2


@shows("min.insync.replicas")
async def _(topic: LiveTopic) -> None:
    """It is capped by the number of replicas: here, one more that is not in sync."""
    topic.partition.replicas = (topic.broker.node_id, 77)
    assert await topic.error_of() is ErrorCode.NONE
    await topic.alter(min_insync_replicas="2")
    assert await topic.error_of() is ErrorCode.NOT_ENOUGH_REPLICAS


@shows("cleanup.policy")
async def _(topic: LiveTopic) -> None:
    assert (await topic.write(key=None)).error_code == ErrorCode.NONE
    await topic.alter(cleanup_policy="compact")
    assert (await topic.write(key=None)).error_code == ErrorCode.INVALID_RECORD


@shows("min.compaction.lag.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio")
async def _(topic: LiveTopic) -> None:
    await topic.alter(cleanup_policy="compact", min_cleanable_dirty_ratio="1")
    await topic.write(ago_ms=60_000)
    topic.log.roll(topic.broker.now_ms())
    await topic.write()
    topic.log.flush()
    assert not topic.cleanable().is_due
    await topic.alter(min_cleanable_dirty_ratio="0.5")
    assert topic.cleanable().is_due
    await topic.alter(min_compaction_lag_ms="120000", max_compaction_lag_ms="200000")
    assert not topic.cleanable().is_due
    await topic.alter(min_cleanable_dirty_ratio="1")
    assert not topic.cleanable(100_000).is_overdue
    await topic.alter(max_compaction_lag_ms="120000")
    assert topic.cleanable(100_000).is_overdue


@shows("delete.retention.ms")
async def _(topic: LiveTopic) -> None:
    """A round of the cleaner takes it from the log's config when it begins."""
    await topic.alter(delete_retention_ms="7")
    assert topic.log.config.delete_retention_ms == 7


@shows("remote.storage.enable")
async def _(topic: LiveTopic) -> None:
    sentence = (
        "Tiered Storage functionality is disabled in the broker. "
        "Topic cannot be configured with remote log storage."
    )
    refused = await topic.alter(remote_storage_enable="true")
    assert refused == (ErrorCode.INVALID_CONFIG, sentence)


KEPT = {
    "errors.deadletterqueue.group.enable": "true",
    "follower.replication.throttled.replicas": "0:1",
    "leader.replication.throttled.replicas": "0:1",
    "local.retention.bytes": "1",
    "local.retention.ms": "1",
    "preallocate": "true",
    "remote.copy.lag.bytes": "1",
    "remote.copy.lag.ms": "1",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "unclean.leader.election.enable": "true",
}
"""What is taken, kept and described, but changes nothing: there are no other replicas, no tiered
storage, and segments are not made at their full size beforehand.  Share groups alone look at
errors.deadletterqueue.group.enable."""


@pytest.mark.parametrize("name", sorted(EFFECTS))
async def test_topic_config_takes_effect_on_a_live_log(open_admin: OpenAdmin, name: str) -> None:
    async with open_admin() as admin:
        await admin.create(new_topic(NAME))
        with trio.fail_after(240):
            await EFFECTS[name](LiveTopic(admin))


@pytest.mark.parametrize("name", sorted(KEPT))
async def test_topic_config_without_effect_is_kept(open_admin: OpenAdmin, name: str) -> None:
    async with open_admin() as admin:
        await admin.create(new_topic(NAME))
        assert await admin.alter(TOPIC, NAME, (name, SET, KEPT[name])) == (ErrorCode.NONE, None)
        assert (await admin.config(TOPIC, NAME, name)).value == KEPT[name]


def test_every_topic_config_has_a_test() -> None:
    known = {name for name, each in TopicSettings.DEFINITIONS.items() if not each.internal}
    assert EFFECTS.keys() | KEPT.keys() == known
    assert not EFFECTS.keys() & KEPT.keys()
