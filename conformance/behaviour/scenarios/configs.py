"""Scenarios of configs: describing them, altering them, and their effect on a running broker."""

from __future__ import annotations

from kwire.codecs.messages.alter_configs import AlterableConfig as OldConfig
from kwire.codecs.messages.alter_configs import AlterConfigsRequest
from kwire.codecs.messages.alter_configs import AlterConfigsResource as OldResource
from kwire.codecs.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.conformance.behaviour.asking import (
    APPEND,
    BROKER,
    DELETE,
    EARLIEST,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    configure,
    list_offsets,
    offset_of,
)
from kwire.conformance.behaviour.scenario import Scenarios
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import CaseTopic
from kwire.conformance.wire.cases.build import batch, fetch, fill, produce

scenario = Scenarios("configs")
LAST_SEGMENT = 1_048_576
"""The smallest segment.bytes that Apache Kafka 4 accepts."""


def describe(
    name: str, *keys: str, kind: int = TOPIC, synonyms: bool = True, documented: bool = False
) -> DescribeConfigsRequest:
    """A request for configs of one resource; without keys, for all of them."""
    resource = DescribeConfigsResource(kind, name, list(keys) or None)
    return DescribeConfigsRequest([resource], synonyms, documented)


@scenario()
def all_topic_configs(stage: ScenarioStage) -> None:
    """DescribeConfigs returns all configs of a topic with types, sources and synonyms."""
    topic = stage.topic(configs={"retention.ms": "1000", "cleanup.policy": "compact"})
    for version in (1, 3, 4):
        stage.send(describe(topic.name), version)
    stage.send(describe(topic.name, "retention.ms", "no.such", "cleanup.policy"))
    stage.send(describe(topic.name, "retention.ms", synonyms=False))
    stage.send(describe(stage.name("none")))
    stage.send(describe(""))


@scenario()
def synonyms_follow_the_broker(stage: ScenarioStage) -> None:
    """A topic's own value hides the default until DELETE removes it."""
    topic = stage.topic()
    keys = ("retention.ms", "segment.bytes", "max.message.bytes", "min.insync.replicas")
    stage.send(describe(topic.name, *keys))
    configure(stage, topic, retention_ms="5000", min_insync_replicas="1")
    stage.send(describe(topic.name, *keys))
    stage.send(alter(topic.name, ("retention.ms", DELETE, None)))
    stage.await_controller()
    stage.send(describe(topic.name, *keys))


@scenario()
def append_and_subtract(stage: ScenarioStage) -> None:
    """APPEND and SUBTRACT change lists; for other configs they are refused."""
    topic = stage.topic()
    key = "cleanup.policy"
    for change in (
        (key, APPEND, "compact"),
        (key, APPEND, "compact"),
        (key, SUBTRACT, "delete"),
        (key, SUBTRACT, "delete"),
        (key, APPEND, "delete,compact"),
        (key, APPEND, "nonsense"),
        (key, SUBTRACT, "compact,delete"),
        (key, SET, ""),
        (key, APPEND, None),
        (key, SUBTRACT, None),
        (key, DELETE, None),
        ("retention.ms", APPEND, "5"),
        ("retention.ms", SUBTRACT, "5"),
        ("no.such.config", APPEND, "5"),
        ("leader.replication.throttled.replicas", APPEND, "0:1"),
        ("leader.replication.throttled.replicas", APPEND, "1:1"),
        ("leader.replication.throttled.replicas", SUBTRACT, "0:1"),
    ):
        stage.send(alter(topic.name, change))
        stage.await_controller()
        stage.send(describe(topic.name, key, "leader.replication.throttled.replicas"))


@scenario()
def altered_in_vain(stage: ScenarioStage) -> None:
    """A refused or only validated change has no effect."""
    topic = stage.topic()
    keys = ("retention.ms", "segment.bytes")
    for request in (
        alter(topic.name, ("retention.ms", SET, "77"), validate=True),
        alter(topic.name, ("retention.ms", SET, "x")),
        alter(topic.name, ("retention.ms", SET, None)),
        alter(topic.name, ("retention.ms", SET, "5"), ("segment.bytes", SET, "-5")),
        alter(topic.name, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
        alter(topic.name, ("retention.ms", SET, "5"), ("retention.ms", DELETE, None)),
        alter(topic.name, ("no.such.config", SET, "5")),
        alter(topic.name, ("", SET, "5")),
        alter(topic.name, ("min.insync.replicas", SET, "0")),
        alter(topic.name, ("max.message.bytes", SET, "-1")),
        alter(topic.name, ("retention.ms", DELETE, "5")),
        alter(topic.name),
        alter(stage.name("none"), ("retention.ms", SET, "5")),
        alter("", ("retention.ms", SET, "5")),
        alter(topic.name, ("retention.ms", SET, "5"), kind=1),
        alter(topic.name, ("retention.ms", SET, "5"), kind=77),
    ):
        stage.send(request)
        stage.await_controller()
        stage.send(describe(topic.name, *keys))


@scenario()
def two_resources_one_bad(stage: ScenarioStage) -> None:
    """Each resource has its own result; a resource that is named twice is refused."""
    good, bad = stage.topic("a"), stage.topic("b")
    resources = [
        AlterConfigsResource(TOPIC, good.name, [AlterableConfig("retention.ms", SET, "5")]),
        AlterConfigsResource(TOPIC, bad.name, [AlterableConfig("retention.ms", SET, "x")]),
    ]
    reply = stage.ask(IncrementalAlterConfigsRequest(resources))
    for topic in (good, bad):
        codes = [r.error_code for r in reply.responses if r.resource_name == topic.name]
        stage.note(topic.name[-1], list(codes))
    stage.send(IncrementalAlterConfigsRequest([resources[0], resources[0]]))
    stage.await_controller()
    stage.send(describe(good.name, "retention.ms"))


@scenario()
def replaced_whole(stage: ScenarioStage) -> None:
    """AlterConfigs replaces all configs of a resource with those in the request."""
    topic = stage.topic(configs={"retention.ms": "5000", "segment.ms": "6000"})

    def replace(*configs: tuple[str, str | None], validate: bool = False) -> None:
        """Replace all configs of the topic and read three of them back."""
        entries = [OldConfig(*config) for config in configs]
        resource = OldResource(TOPIC, topic.name, entries)
        stage.send(AlterConfigsRequest([resource], validate))
        stage.await_controller()
        stage.send(describe(topic.name, "retention.ms", "segment.ms", "retention.bytes"))

    replace(("retention.bytes", "9"), validate=True)
    replace(("retention.bytes", "9"))
    replace(("retention.bytes", "9"), ("retention.ms", None))
    replace(("retention.bytes", "x"))
    replace(("retention.bytes", "1"), ("retention.bytes", "2"))
    replace(("no.such", "1"))
    replace()


@scenario()
def broker_configs(stage: ScenarioStage) -> None:
    """Which broker configs can be altered while the broker runs, for one broker and for all."""
    node = str(stage.broker.node_id)
    for kind_name in (node, ""):
        for key, value in (
            ("log.dirs", "/x"),
            ("listeners", "PLAINTEXT://:1"),
            ("no.such.config", "1"),
            ("message.max.bytes", "x"),
            ("num.io.threads", "0"),
        ):
            reply = stage.ask(alter(kind_name, (key, SET, value), kind=BROKER))
            stage.note(f"{key} for {kind_name!r}", reply.responses[0].error_code)
    stage.send(alter("12345", ("message.max.bytes", SET, "1000000"), kind=BROKER))
    stage.send(alter("x", ("message.max.bytes", SET, "1000000"), kind=BROKER))
    stage.send(describe("12345", "message.max.bytes", kind=BROKER))
    stage.send(describe("x", "message.max.bytes", kind=BROKER))
    stage.send(describe(node, "message.max.bytes", "log.retention.ms", kind=BROKER))
    stage.send(describe("", "message.max.bytes", kind=BROKER))


@scenario()
def segments_roll_live(stage: ScenarioStage) -> None:
    """A changed segment.bytes applies to the next segment of a running broker."""
    topic = stage.topic()
    value = b"x" * 700_000
    fill(stage, topic, batch(stage, value), batch(stage, value))
    configure(stage, topic, segment_bytes=str(LAST_SEGMENT))
    fill(stage, topic, batch(stage, value), batch(stage, value))
    for offset in range(4):
        big = 8 * LAST_SEGMENT
        reply = stage.ask(fetch(topic, offset, max_bytes=big, partition_max_bytes=big))
        stage.note(f"from {offset}", len(reply.responses[0].partitions[0].records))


# Retention, as consumers see it


def at_hours(stage: ScenarioStage, hours: int, size: int = 600_000) -> bytearray:
    """A batch with one record of this age; two such records do not fit in the smallest segment."""
    return batch(stage, bytes(size), first_ms=stage.now_ms - hours * 3_600_000)


def start_is(stage: ScenarioStage, topic: CaseTopic, offset: int) -> None:
    stage.until(f"the log starts at {offset}", lambda: offset_of(stage, topic, EARLIEST) == offset)


@scenario(brisk=True)
def retention_by_time(stage: ScenarioStage) -> None:
    """After a change of retention.ms, old segments are deleted; their offsets are out of range."""
    topic = stage.topic(configs={"segment.bytes": str(LAST_SEGMENT), "retention.ms": "-1"})
    for hours in (5, 4, 1, 0):
        fill(stage, topic, at_hours(stage, hours))
    configure(stage, topic, retention_ms=str(2 * 3_600_000))
    start_is(stage, topic, 2)
    for offset in (0, 1):
        stage.send(fetch(topic, offset))
    for timestamp in (EARLIEST, 0, stage.now_ms - 4 * 3_600_000):
        stage.send(list_offsets(topic, timestamp))
    reply = stage.send(fetch(topic, 2, partition_max_bytes=10))
    stage.note("still there", bool(reply.responses[0].partitions[0].records))


@scenario(brisk=True)
def retention_of_everything(stage: ScenarioStage) -> None:
    """The active segment is deleted too once all its records are old; offsets go on."""
    topic = stage.topic(configs={"retention.ms": "-1"})
    fill(stage, topic, at_hours(stage, 5, 10), at_hours(stage, 4, 10))
    configure(stage, topic, retention_ms="3600000")
    start_is(stage, topic, 2)
    stage.send(fetch(topic, 2))
    stage.send(fetch(topic, 1))
    stage.send(produce(topic, at_hours(stage, 0, 10)))
    stage.send(fetch(topic, 2))


@scenario(brisk=True)
def retention_by_size(stage: ScenarioStage) -> None:
    """retention.bytes deletes the oldest segments while the rest still has that size."""
    topic = stage.topic(configs={"segment.bytes": str(LAST_SEGMENT)})
    for _ in range(5):
        fill(stage, topic, at_hours(stage, 0))
    configure(stage, topic, retention_bytes="1300000")
    start_is(stage, topic, 2)
    stage.send(list_offsets(topic, EARLIEST))
    configure(stage, topic, retention_bytes="0")
    stage.until("less is left", lambda: offset_of(stage, topic, EARLIEST) >= 4)
    stage.send(list_offsets(topic, EARLIEST))


@scenario(brisk=True)
def deleted_records_free_segments(stage: ScenarioStage) -> None:
    """Segments before the log start are deleted; compacted topics keep old records."""
    kept = stage.topic(
        "kept", configs={"cleanup.policy": "compact", "segment.bytes": str(LAST_SEGMENT)}
    )
    for hours in (5, 4, 0):
        records = batch(
            stage, b"x" * 600_000, keyed=True, first_ms=stage.now_ms - hours * 3_600_000
        )
        fill(stage, kept, records)
    configure(stage, kept, retention_ms="3600000")
    gone = stage.topic("gone", configs={"retention.ms": "-1"})
    fill(stage, gone, at_hours(stage, 5, 10))
    configure(stage, gone, retention_ms="3600000")
    start_is(stage, gone, 1)
    stage.send(list_offsets(kept, EARLIEST))
