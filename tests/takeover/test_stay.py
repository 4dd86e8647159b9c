"""Directories with a KRaft metadata log: kwire follows it, and writes it where it is its alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from kwire.broker import Broker
from kwire.cluster.change_log import ChangeLog
from kwire.cluster.store import StoreError
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.primitives import Message
from kwire.log.directory import kraft_metadata, kraft_records
from kwire.log.directory.files import Files
from kwire.log.directory.kraft_log import KraftLog
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.metadata.changes import AddPartitions, CreateTopic, DeleteTopic, SetConfigs
from kwire.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from kwire.takeover import kraft_changes
from kwire.takeover.kraft_changes import Replica
from tests.inside import running_broker

SETTINGS = {"node.id": "1"}
STATE = PartitionImage(1, 0, 0, (1,), (1,))
REGISTRATION = bytes((1, 27, 3)) + (1).to_bytes(4) + bytes(17) + (13).to_bytes(8)
"""Of broker 1, with epoch 13; what follows is not read."""


def topic(name: str, number: int = 1, partitions: int = 1) -> TopicImage:
    return TopicImage(name, bytes([number]) * 16, (STATE,) * partitions)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What a KRaft node leaves that has made no topic."""
    data = tmp_path / "data"
    folder = data / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (data / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=kraft\ndirectory.id=K5BPdwfb4nPV1HGMlEZcrA\n"
    )
    vote(data, 1)
    append(data, [FeatureLevelRecord("metadata.version", 30)], REGISTRATION)
    return data


def vote(data: Path, *voters: int) -> None:
    said = {"currentVoters": [{"voterId": voter} for voter in voters], "data_version": 0}
    (data / "__cluster_metadata-0" / "quorum-state").write_text(json.dumps(said))


def append(data: Path, records: list[Message], *more: bytes) -> None:
    """As Apache Kafka's controller does while kwire is away."""
    log = KraftLog(data / "__cluster_metadata-0", Files(), Broker.now_ms())
    log.append([*(kraft_records.encode(each, 0) for each in records), *more], Broker.now_ms())
    log.close()


def said(data: Path) -> KraftMetadata:
    return kraft_metadata.read(data / "__cluster_metadata-0", Files())


async def test_what_is_made_here_is_in_the_kraft_metadata_before_it_is_acknowledged(
    data: Path,
) -> None:
    async with running_broker(data, SETTINGS) as broker:
        assert broker.cluster_id == "kraft"
        await broker.store.commit([CreateTopic(topic("a"), {"retention.ms": "5"})])
        assert said(data).topics == {"a": topic("a").id}
        await broker.store.commit([AddPartitions("a", topic("a").id, 1, (STATE,))])
        await broker.store.commit(
            [SetConfigs(TOPIC_RESOURCE, "a", {"retention.ms": "5"}, {"segment.ms": "6"})]
        )
        killed = Path(shutil.copytree(data, data.with_name("killed")))
        await broker.store.commit([DeleteTopic("a", topic("a").id)])
    found = said(killed)
    assert len(found.partitions[topic("a").id]) == 2
    assert found.configs[TOPIC_RESOURCE, "a"] == {"segment.ms": "6"}
    assert said(data).topics == {}
    assert json.loads((data / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == 13


async def image_in(data: Path, settings: Mapping[str, str] = SETTINGS) -> ClusterImage:
    async with running_broker(data, settings) as broker:
        return broker.image


async def test_what_was_done_elsewhere_is_followed_at_each_start(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(data, SETTINGS) as broker:
        await broker.store.commit([CreateTopic(topic("a")), CreateTopic(topic("b", 2))])
    theirs = [
        *kraft_changes.records_of(CreateTopic(topic("c", 3, 2)), Replica(1), said(data)),
        *kraft_changes.records_of(DeleteTopic("a", topic("a").id), Replica(1), said(data)),
    ]
    append(data, [], *(kraft_records.encode(record, version) for record, version in theirs))
    shutil.rmtree(data / "a-0")
    assert set((await image_in(data)).topics) == {"b", "c"}
    assert "topic a was deleted" in caplog.text
    assert "topic c was made, with 2 partitions" in caplog.text
    assert "topic b" not in caplog.text
    caplog.clear()
    assert set((await image_in(data)).topics) == {"b", "c"}
    assert "since kwire last had" not in caplog.text


async def test_a_folder_that_was_set_aside_is_served_again(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(data, SETTINGS) as broker:
        await broker.store.commit([CreateTopic(topic("a"))])
    (data / "a-0").rename(data / f"a-0.{32 * '1'}-stray")
    assert set((await image_in(data)).topics) == {"a"}
    assert (data / "a-0").is_dir()
    assert "a-0 was set aside" in caplog.text


async def test_a_log_that_others_vote_on_is_not_touched(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vote(data, 1, 2, 3)
    before = kraft_metadata.fingerprint(data / "__cluster_metadata-0")
    async with running_broker(data, SETTINGS) as broker:
        await broker.store.commit([CreateTopic(topic("a"))])
    assert kraft_metadata.fingerprint(data / "__cluster_metadata-0") == before
    assert "its voters are [1, 2, 3]" in caplog.text
    assert json.loads((data / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == -1
    assert set((await image_in(data)).topics) == {"a"}, "nobody has said anything since"
    append(data, [FeatureLevelRecord("x", 1)])
    assert set((await image_in(data)).topics) == {"a"}, "nobody there has heard of it"


def full(log: ChangeLog, changes: object, image: object) -> None:
    raise OSError(28, "No space left on device")


async def test_a_write_that_fails_here_is_made_up_for_there(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is refused for want of room, and made again with another id, is there once."""
    async with running_broker(data, SETTINGS) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(ChangeLog, "write", full)
            with pytest.raises(StoreError):
                await broker.store.commit([CreateTopic(topic("a", 1))])
        await broker.store.commit([CreateTopic(topic("a", 2))])
    assert said(data).topics == {"a": topic("a", 2).id}
    assert said(data).removed == {topic("a", 1).id}
