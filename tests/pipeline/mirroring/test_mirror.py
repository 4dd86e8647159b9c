"""A mirror's target equals its source: records, partitions, configs and group offsets."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from kwire import pipeline
from kwire.cli.app import app
from kwire.pipeline import Mirror, Mirrored, Rename
from kwire.pipeline.errors import PipelineError, QueryFailed
from kwire.pipeline.exactly_once import Bounds
from kwire.testing import BrokerProcess
from tests.conftest import threads
from tests.pipeline.archiving.archives import delete_records
from tests.pipeline.mirroring import mirrors
from tests.pipeline.mirroring.mirrors import numbered
from tests.polling import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's own
]

SMALL = Bounds(records=50, patience_s=180.0)


@pytest.fixture(scope="module")
def other_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A second cluster, of kwire."""
    with BrokerProcess(tmp_path_factory.mktemp("other-broker")) as broker:
        yield broker.bootstrap


@dataclass(frozen=True)
class Pair:
    """Two clusters, and a topic of the source."""

    spark: SparkSession
    source: str
    target: str
    topic: str

    def options(self, **more: object) -> Mirror:
        options = Mirror(
            pipeline.Kafka(self.source),
            pipeline.Kafka(self.target),
            pipeline.Topics((self.topic,)),
            name=self.topic,
            groups=f"{self.topic}.*",
            bounds=SMALL,
        )
        return replace(options, **more)  # type: ignore[arg-type]  # by name

    def mirror(self, **more: object) -> Mirrored:
        """Run the mirror to its end."""
        return run(self.spark, self.options(**more))

    def assert_same(self) -> None:
        source = mirrors.all_records(self.source, self.topic)
        assert mirrors.all_records(self.target, self.topic) == source
        assert any(source)


def run(spark: SparkSession, options: Mirror) -> Mirrored:
    mirroring = pipeline.mirror(spark, options)
    pipeline.follow(mirroring.query)
    return mirroring.finish()


@pytest.fixture
def pair(spark: SparkSession, bootstrap: str, other_broker: str, unique: str) -> Pair:
    """From the shared broker to the other one."""
    return Pair(spark, bootstrap, other_broker, unique)


def test_mirrored_topic_equals_its_source(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic, 3, retention_ms="-1", max_message_bytes="2000000")
    mirrors.write(pair.source, pair.topic, mirrors.flight_records())
    first = pair.mirror(batch_records=200)
    pair.assert_same()
    assert mirrors.configs_of(pair.target, pair.topic) == {
        "retention.ms": "-1",
        "max.message.bytes": "2000000",
    }
    assert first.records == len(mirrors.flight_records())
    assert (first.skipped, first.lag, first.topics) == (0, 0, [pair.topic])
    mirrors.write(pair.source, pair.topic, numbered(10))
    again = pair.mirror()
    pair.assert_same()
    assert (again.records, again.skipped, again.topics) == (10, 0, [])


@pytest.mark.long
def test_mirror_follows_new_partitions_topics_and_configs(pair: Pair) -> None:
    pattern = pipeline.Topics(pattern=f"{pair.topic}.*")
    mirrors.create(pair.source, pair.topic, 1, retention_ms="1000000000", segment_ms="100000000")
    mirrors.write(pair.source, pair.topic, numbered(5))
    pair.mirror(topics=pattern)
    later = f"{pair.topic}-later"
    mirrors.create(pair.source, later, 2)
    mirrors.write(pair.source, later, numbered(7))
    client = mirrors.admin(pair.source)
    client.create_partitions([NewPartitions(pair.topic, 3)])[pair.topic].result()
    change_configs(pair.source, pair.topic, {"retention.ms": "2000000000", "segment.ms": None})
    mirrors.write(pair.source, pair.topic, numbered(20, 5), partition=2)
    done = pair.mirror(topics=pattern)
    pair.assert_same()
    replace(pair, topic=later).assert_same()
    assert (done.topics, done.partitions, done.settings) == ([later], 2, 0)
    assert mirrors.configs_of(pair.target, pair.topic)["retention.ms"] == "1000000000"
    done = pair.mirror(topics=pattern, follow_configs=True)
    assert done.settings == 2
    assert mirrors.configs_of(pair.target, pair.topic) == {"retention.ms": "2000000000"}


def change_configs(bootstrap: str, topic: str, changes: dict[str, str | None]) -> None:
    entries = [
        ConfigEntry(
            name,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for name, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    client = mirrors.admin(bootstrap)
    client.incremental_alter_configs([resource])[resource].result()


@pytest.mark.long
def test_stopped_mirror_continues_without_loss_or_duplicates(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic, 2)
    written = 100
    mirrors.write(pair.source, pair.topic, numbered(written))
    mirroring = pipeline.mirror(pair.spark, pair.options(batch_records=10, every_s=0.1))
    is_over = threading.Event()

    def keep_ahead() -> None:
        """Add records, so that the stop comes before the end, however late Spark reports."""
        nonlocal written
        while not is_over.wait(0.01):
            if written < mirroring.done.records + 100:
                mirrors.write(pair.source, pair.topic, numbered(50, written))
                written += 50

    ahead = threading.Thread(target=keep_ahead)
    ahead.start()
    try:
        pipeline.follow(mirroring.query, lambda step: mirroring.query.stop())
    finally:
        is_over.set()
        ahead.join()
    stopped = mirroring.finish()
    assert 0 < stopped.records < written
    rest = pair.mirror(batch_records=100)
    pair.assert_same()
    assert rest.lag == 0


def test_continuous_mirror_follows_records_topics_and_groups(pair: Pair) -> None:
    later = f"{pair.topic}-later"
    mirrors.create(pair.source, pair.topic)
    mirrors.write(pair.source, pair.topic, numbered(10))
    stop = threading.Event()
    options = pair.options(
        topics=pipeline.Topics(pattern=f"{pair.topic}.*"), every_s=0.2, sync_s=1.0
    )
    mirroring = pipeline.mirror(pair.spark, options)
    seen: list[int] = []

    def on_step(step: object) -> None:
        if mirroring.done.records == 10 and 10 not in seen:
            mirrors.create(pair.source, later)
            mirrors.write(pair.source, later, numbered(3))
        seen.append(mirroring.done.records)
        if seen[-1] == 13:
            mirrors.commit(pair.source, pair.topic, pair.topic, 4)
            stop.set()

    pipeline.follow(mirroring.query, on_step, stop=stop)
    done = mirroring.finish()
    pair.assert_same()
    replace(pair, topic=later).assert_same()
    assert mirrors.committed(pair.target, pair.topic, pair.topic) == 4
    assert [(group.state, group.source_lag) for group in done.groups] == [("same", 6)]


def test_group_continues_in_the_target_with_its_first_unread_record(pair: Pair) -> None:
    """The group has committed each offset of a source with gaps: markers and aborted records."""
    mirrors.create(pair.source, pair.topic)
    transactions = [(numbered(3, 10 * n), n % 3 != 1) for n in range(4)]
    mirrors.write(pair.source, pair.topic, numbered(3, 100))
    mirrors.write_in_transactions(pair.source, pair.topic, 0, transactions)
    mirrors.write(pair.source, pair.topic, numbered(2, 200))
    end = 3 + 4 * 4 + 2
    for offset in range(end + 1):
        mirrors.commit(pair.source, f"{pair.topic}-{offset}", pair.topic, offset)
    done = pair.mirror(bounds=Bounds(records=5))
    pair.assert_same()
    assert {group.state for group in done.groups} == {"same"}
    source, target = (
        mirrors.places(pair.source, pair.topic),
        mirrors.places(pair.target, pair.topic),
    )
    for offset in range(end + 1):
        there = mirrors.committed(pair.target, f"{pair.topic}-{offset}", pair.topic)
        unread = [record for at, record in source.items() if at >= offset]
        assert [record for at, record in target.items() if at >= there] == unread, offset


def test_group_after_a_last_marker_is_at_the_end_of_the_target(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic)
    mirrors.write_in_transactions(pair.source, pair.topic, 0, [(numbered(3), True)])
    mirrors.commit(pair.source, pair.topic, pair.topic, 4)
    done = pair.mirror()
    assert [(group.state, group.source_lag) for group in done.groups] == [("same", 0)]
    assert mirrors.unread(pair.target, pair.topic, pair.topic) == []


@pytest.mark.long
def test_groups_with_members_and_groups_ahead_are_left_alone(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic)
    mirrors.write(pair.source, pair.topic, numbered(10))
    mirrors.commit(pair.source, pair.topic, pair.topic, 3)
    pair.mirror()
    consumer = Consumer(
        {
            "bootstrap.servers": pair.target,
            "group.id": pair.topic,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([pair.topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    mirrors.commit(pair.source, pair.topic, pair.topic, 5)
    (group,) = pair.mirror().groups
    assert group.state == "active"
    consumer.commit(offsets=[TopicPartition(pair.topic, 0, 8)], asynchronous=False)
    consumer.close()
    (group,) = pair.mirror().groups
    assert (group.state, group.source_lag) == ("ahead", 5)
    assert mirrors.committed(pair.target, pair.topic, pair.topic) == 8
    (group,) = pair.mirror(backwards=True).groups
    assert group.state == "same"
    assert mirrors.committed(pair.target, pair.topic, pair.topic) == 5


def test_mirrored_topic_may_have_another_name(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic)
    mirrors.write(pair.source, pair.topic, numbered(5))
    mirrors.commit(pair.source, pair.topic, pair.topic, 2)
    pair.mirror(rename=Rename("{source}.{topic}", "berlin"))
    there = f"berlin.{pair.topic}"
    assert mirrors.records(pair.target, there) == numbered(5)
    assert mirrors.committed(pair.target, pair.topic, there) == 2


def test_topic_is_not_mirrored_back_to_its_origin(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic)
    mirrors.write(pair.source, pair.topic, numbered(5))
    pair.mirror()
    back = replace(pair, source=pair.target, target=pair.source)
    with pytest.raises(PipelineError, match=f"{pair.topic} is mirrored from the target"):
        back.mirror(name="back")
    prefixed = Rename("back.{topic}")
    pattern = pipeline.Topics(pattern=f"{pair.topic}.*")
    done = back.mirror(name="back", topics=pattern, rename=prefixed)
    assert (done.records, done.passed_over) == (0, [pair.topic])
    with pytest.raises(PipelineError, match="mirrored into itself: both sides are the cluster"):
        replace(pair, target=pair.source).mirror()


def test_records_deleted_in_the_source_fail_the_mirror_unless_skipped(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic)
    mirrors.write(pair.source, pair.topic, numbered(10))
    pair.mirror()
    mirrors.write(pair.source, pair.topic, numbered(10, 10))
    delete_records(pair.source, pair.topic, {0: 15})
    with pytest.raises(PipelineError, match="the records 10 to 14 of partition 0 of"):
        pair.mirror()
    pair.mirror(skip_lost=True)
    assert mirrors.records(pair.target, pair.topic) == numbered(10) + numbered(5, 15)


@pytest.mark.long
def test_recreated_topic_is_mirrored_again_or_refused(pair: Pair) -> None:
    mirrors.create(pair.source, pair.topic)
    mirrors.write(pair.source, pair.topic, numbered(10))
    pair.mirror()
    remake(pair.target, pair.topic)
    pair.mirror()
    pair.assert_same()
    remake(pair.source, pair.topic)
    mirrors.write(pair.source, pair.topic, numbered(3))
    with pytest.raises(QueryFailed, match="was written from another source"):
        pair.mirror()


def remake(bootstrap: str, topic: str) -> None:
    client = mirrors.admin(bootstrap)
    client.delete_topics([topic])[topic].result()
    while mirrors.partitions_of(bootstrap, topic):
        pass
    mirrors.create(bootstrap, topic)


def test_invalid_mirror_settings_raise_pipeline_error(pair: Pair) -> None:
    with pytest.raises(PipelineError, match=f"has no topic {pair.topic}$"):
        pair.mirror()
    with pytest.raises(PipelineError, match=r"it needs \{topic\} once"):
        Rename("{source}")
    with pytest.raises(PipelineError, match="needs a name for the source"):
        Rename("{source}.{topic}")
    with pytest.raises(PipelineError, match="is no name for a mirror"):
        pair.options(name="a b")


@pytest.mark.long
@pytest.mark.java
@pytest.mark.parametrize("is_source", [True, False])
def test_between_kwire_and_apache_kafka(
    pair: Pair, request: pytest.FixtureRequest, is_source: bool
) -> None:
    apache = request.getfixturevalue("apache_kafka").bootstrap
    pair = replace(pair, source=apache) if is_source else replace(pair, target=apache)
    mirrors.create(pair.source, pair.topic, 2, retention_ms="-1")
    mirrors.write(pair.source, pair.topic, mirrors.flight_records())
    transactions = [(numbered(3, 10 * n), n != 1) for n in range(3)]
    mirrors.write_in_transactions(pair.source, pair.topic, 1, transactions)
    mirrors.commit(pair.source, pair.topic, pair.topic, 20, 1)
    done = pair.mirror()
    pair.assert_same()
    assert {group.state for group in done.groups} == {"same"}
    assert mirrors.configs_of(pair.target, pair.topic) == {"retention.ms": "-1"}
    unread = mirrors.unread(pair.source, pair.topic, pair.topic, 1)
    assert mirrors.unread(pair.target, pair.topic, pair.topic, 1) == unread


def test_example_of_the_mirror_command_works(pair: Pair) -> None:
    """`kwire pipeline mirror` runs in this process; test_guide.py runs it in a shell."""
    mirrors.create(pair.source, pair.topic, 2)
    mirrors.write(pair.source, pair.topic, numbered(30))
    mirrors.commit(pair.source, pair.topic, pair.topic, 0)
    command = ["pipeline", "mirror", pair.topic, "-b", pair.source]
    command += ["--other-bootstrap-server", pair.target]
    options = ["--json", "--groups", pair.topic, "--name", pair.topic]
    before = list(threads()).count("rdk:main")
    done = CliRunner().invoke(app, [*command, *options], prog_name="kwire")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["job"], summary["target"]) == ("mirror", pair.target)
    mirrored = summary["mirrored"]
    assert (mirrored["records"], mirrored["topics"]) == (30, [pair.topic])
    assert [group["group"] for group in mirrored["groups"]] == [pair.topic]
    assert "starting Spark" in done.stderr
    gc.collect()
    # A thread that has ended is listed until the kernel has taken it apart.
    until(lambda: list(threads()).count("rdk:main") <= before, "a client goes on asking")
    pair.assert_same()
