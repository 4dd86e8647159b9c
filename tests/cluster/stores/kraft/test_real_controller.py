"""An observer of a real controller of Apache Kafka 4.4.0, and the directory that it leaves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cluster.stores.kraft import records
from kwire.cluster.stores.kraft.controllers import ControllerChannel
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import broker_registration
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest
from kwire.codecs.messages.broker_registration import BrokerRegistrationRequest
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.conformance import apache_kafka
from kwire.conformance.apache_kafka import CLUSTER_ID
from tests.cluster.stores.kraft.features import features_of
from tests.cluster.stores.kraft.real_controller import KafkaBroker, KafkaController
from tests.cluster.stores.kraft.test_link import Follower, comparable, observing, opened

DUMP = "org.apache.kafka.tools.DumpLogSegments"
ANSWER_MS = 120_000
SETTINGS = {
    # The broker of these tests registers, and then sends no heartbeats.
    "broker.session.timeout.ms": "3600000",
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.max.idle.interval.ms": "0",
}


async def ask(channel: ControllerChannel, request: Any) -> Any:  # noqa: ANN401 - of any API
    answer = await channel.call(request, ANSWER_MS)
    assert getattr(answer, "error_code", 0) == 0
    return answer


async def register(channel: ControllerChannel, follower: Follower) -> None:
    """Register broker 1 and unfence it."""
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=CLUSTER_ID,
        incarnation_id=b"i" * 16,
        listeners=[broker_registration.Listener("PLAINTEXT", "localhost", 9, 0)],
        features=features_of(broker_registration.Feature),
        log_dirs=[b"l" * 16],
    )
    epoch = (await ask(channel, request)).broker_epoch
    await follower.wait_for(epoch + 1)
    assert follower.image.fenced[1].epoch == epoch
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch, want_fence=False
    )
    answer = await ask(channel, heartbeat)
    assert not answer.is_fenced
    while 1 not in follower.image.brokers:
        await follower.reached.wait()


async def create(channel: ControllerChannel, follower: Follower, *names: str) -> None:
    """Create topics, and wait until the image has them."""
    topics = [CreatableTopic(name, 2, 1) for name in names]
    codes = {int(ErrorCode.NOT_CONTROLLER)}
    while codes == {ErrorCode.NOT_CONTROLLER}:  # of each topic: it is not elected yet
        answer = await ask(channel, CreateTopicsRequest(topics=topics, timeout_ms=ANSWER_MS))
        codes = {topic.error_code for topic in answer.topics}
    assert codes == {0}, answer.topics[0].error_message
    while not follower.image.topics.keys() >= set(names):
        await follower.reached.wait()
    for name in names:
        partitions = follower.image.topics[name].partitions
        assert [partition.leader for partition in partitions] == [1, 1]
        assert partitions[0].directories == (b"l" * 16,)


def dumped(folder: Path) -> str:
    """What Apache Kafka's tool prints of the log and the snapshots in `folder`."""
    files = sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")])
    arguments = ["--cluster-metadata-decoder", "--files", ",".join(map(str, files))]
    done = apache_kafka.run(DUMP, arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.java
async def test_observer_follows_a_real_controller_through_its_kill_and_a_snapshot(
    tmp_path: Path,
) -> None:
    kafka = KafkaController(tmp_path / "controller", settings=SETTINGS)
    await trio.to_thread.run_sync(kafka.start)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    try:
        async with observing(first, kafka.port, cluster_id=CLUSTER_ID) as follower:
            await follower.link.load()
            channel = follower.link.channel("1", ANSWER_MS)
            await register(channel, follower)
            await create(channel, follower, "a", "b")
            epoch = follower.link.news.leader.epoch
            kafka.kill()
            kafka.spawn()
            await create(channel, follower, "after-the-kill")
            assert follower.link.news.leader.epoch > epoch
            for number in range(4):  # each is worth a snapshot of the controller
                await create(channel, follower, *(f"many-{number}-{each}" for each in range(4)))
            image = follower.image
        await check_dump(first, image.topics.keys())
        await trio.to_thread.run_sync(kafka.stop)
        snapshots = sorted(kafka.metadata.glob("*.checkpoint"))
        kafka.forget_log()
        kafka.spawn()
        async with observing(second, kafka.port, cluster_id=CLUSTER_ID) as follower:
            loaded = await follower.link.load()
            newest = int(snapshots[-1].name[:20])
            assert follower.seen[0] == newest, "the snapshot comes first"
            assert loaded.brokers == image.brokers
            kept = {name: topic for name, topic in image.topics.items() if name in loaded.topics}
            assert dict(loaded.topics.items()) == kept
            assert kept.keys() >= {"a", "b", "after-the-kill"}
            await create(follower.link.channel("1", ANSWER_MS), follower, "after-the-snapshot")
        await check_dump(second, {"after-the-snapshot"})
    finally:
        kafka.stop()


async def check_dump(folder: Path, names: Iterable[str]) -> None:
    """Apache Kafka's tool reads the log and the snapshots, which have records of these topics."""
    said = await trio.to_thread.run_sync(dumped, folder)
    for name in names:
        assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{name}"' in said


@pytest.mark.java
@pytest.mark.long
async def test_apache_kafka_broker_continues_on_the_observers_directory(tmp_path: Path) -> None:
    kafka = KafkaController(tmp_path / "controller", settings=SETTINGS)
    broker = KafkaBroker(tmp_path / "broker", 2, kafka)
    await trio.to_thread.run_sync(kafka.start)
    folder = tmp_path / "observer"
    folder.mkdir()
    try:
        async with observing(folder, kafka.port, cluster_id=CLUSTER_ID) as follower:
            await follower.link.load()
            channel = follower.link.channel("1", ANSWER_MS)
            await register(channel, follower)
            await create(channel, follower, "a")
            before = follower.image.version
        await trio.to_thread.run_sync(broker.take_metadata, folder)
        await trio.to_thread.run_sync(broker.start)
        async with observing(folder, kafka.port, cluster_id=CLUSTER_ID) as follower:
            while 2 not in follower.image.brokers:
                await follower.reached.wait()
            image = follower.image
        await trio.to_thread.run_sync(broker.stop)
        log = opened(broker.metadata)
        assert log.end_offset > before
        replay = MetadataReplay(CLUSTER_ID)
        for batch in log.batches(0, image.version):
            replay.add(batch)
        assert comparable(replay.image) == comparable(image)
        own = (folder / "00000000000000000000.log").read_bytes()
        theirs = (broker.metadata / "00000000000000000000.log").read_bytes()
        assert theirs.startswith(own) or own.startswith(theirs)
        assert list(records.decode_batches(own))
    finally:
        broker.stop()
        kafka.stop()
