"""kwire follows a KRaft metadata log, and writes to it if this node is the only one in it."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.cluster.metadata.changes import (
    AddPartitions,
    Change,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
)
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.stores.change_log import ChangeLog
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.batches import iter_batches, records
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.primitives import Message
from kwire.codecs.uuids import uuid_bytes
from kwire.log import Log
from kwire.log.directory import kraft_metadata, kraft_records
from kwire.log.directory.files import Files
from kwire.log.directory.kraft_log import KraftLog
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.storage.takeover import kraft_changes
from kwire.storage.takeover.kraft_changes import UNASSIGNED, Replica, records_of
from kwire.storage.takeover.stay import LOGGED_MAX, MARK
from tests.inside import running_broker
from tests.log.configs import DEFAULTS

SETTINGS = {"node.id": "1"}
STATE = PartitionImage(1, 0, 0, (1,), (1,))
REGISTRATION = bytes((1, 0, 3)) + (1).to_bytes(4) + bytes(17) + (13).to_bytes(8)
"""Of broker 1, with epoch 13; what follows is not read."""


def topic(name: str, number: int = 1, partitions: int = 1) -> TopicImage:
    return TopicImage(name, bytes([number]) * 16, (STATE,) * partitions)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a KRaft node without topics."""
    data = tmp_path / "data"
    folder = data / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (data / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=kraft\ndirectory.id=K5BPdwfb4nPV1HGMlEZcrA\n"
    )
    vote(data, 1)
    levels = {
        "metadata.version": 30,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }
    append(data, [FeatureLevelRecord(*each) for each in levels.items()], REGISTRATION)
    return data


def vote(data: Path, *voters: int) -> None:
    quorum = {"currentVoters": [{"voterId": voter} for voter in voters], "data_version": 0}
    (data / "__cluster_metadata-0" / "quorum-state").write_text(json.dumps(quorum))


def append(data: Path, records: list[Message], *more: bytes) -> None:
    """Append to the metadata log, as Apache Kafka's controller does while kwire does not run."""
    log = KraftLog(data / "__cluster_metadata-0", Files(), DEFAULTS, Broker.now_ms())
    log.append([*(kraft_records.encode(each, 0) for each in records), *more], Broker.now_ms())
    log.close()


def partition_records(data: Path) -> list[PartitionRecord]:
    """The partition records in the order of the log."""
    segment = (data / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    found = []
    for position, header in iter_batches(segment):
        for raw in records(segment, position) if not header.is_control else ():
            _, record = kraft_records.decode(raw.value or b"")
            if isinstance(record, PartitionRecord):
                found.append(record)
    return found


def metadata_of(data: Path) -> KraftMetadata:
    return kraft_metadata.read(data / "__cluster_metadata-0", Files())


async def test_change_is_in_the_kraft_log_before_it_is_acknowledged(
    data: Path,
) -> None:
    async with running_broker(data, SETTINGS) as broker:
        assert broker.image.cluster_id == "kraft"
        await broker.node.store.commit([CreateTopic(topic("a"), {"retention.ms": "5"})])
        assert metadata_of(data).topics == {"a": topic("a").id}
        await broker.node.store.commit([AddPartitions("a", topic("a").id, 1, (STATE,))])
        await broker.node.store.commit(
            [SetConfigs(TOPIC_RESOURCE, "a", {"retention.ms": "5"}, {"segment.ms": "6"})]
        )
        killed = Path(shutil.copytree(data, data.with_name("killed")))
        await broker.node.store.commit([DeleteTopic("a", topic("a").id)])
    found = metadata_of(killed)
    assert len(found.partitions[topic("a").id]) == 2
    assert found.configs[TOPIC_RESOURCE, "a"] == {"segment.ms": "6"}
    assert metadata_of(data).topics == {}
    assert json.loads((data / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == 13


async def image_in(data: Path, settings: Mapping[str, str] = SETTINGS) -> ClusterImage:
    async with running_broker(data, settings) as broker:
        return broker.image


async def test_clean_shutdown_file_has_the_broker_epoch_of_apache_kafka(data: Path) -> None:
    """With another epoch in .kafka_cleanshutdown, Apache Kafka's controller assumes an unclean
    stop and removes the node from the eligible leader replicas (KIP-966)."""
    golden = Path(__file__).parents[2] / "log" / "data" / "kraft-3.9.2"
    shutil.copytree(golden, data / "__cluster_metadata-0", dirs_exist_ok=True)
    async with running_broker(data, SETTINGS) as broker:
        assert set(broker.image.topics) == {"first", "third"}
    assert json.loads((data / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == 26


async def test_changes_of_the_kraft_log_are_followed_at_each_start(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(data, SETTINGS) as broker:
        await broker.node.store.commit([CreateTopic(topic("a")), CreateTopic(topic("b", 2))])
    theirs = [
        *kraft_changes.records_of(CreateTopic(topic("c", 3, 2)), Replica(1), metadata_of(data)),
        *kraft_changes.records_of(DeleteTopic("a", topic("a").id), Replica(1), metadata_of(data)),
    ]
    append(data, [], *(kraft_records.encode(record, version) for record, version in theirs))
    shutil.rmtree(data / "a-0")
    assert set((await image_in(data)).topics) == {"b", "c"}
    assert "topic a was deleted" in caplog.text
    assert "topic c was created, with 2 partitions" in caplog.text
    assert "topic b" not in caplog.text
    caplog.clear()
    assert set((await image_in(data)).topics) == {"b", "c"}
    assert "since kwire last had" not in caplog.text


async def test_stray_folder_of_an_existing_topic_is_served_again(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(data, SETTINGS) as broker:
        await broker.node.store.commit([CreateTopic(topic("a"))])
    (data / "a-0").rename(data / f"a-0.{32 * '1'}-stray")
    assert set((await image_in(data)).topics) == {"a"}
    assert (data / "a-0").is_dir()
    assert "a-0 was set aside" in caplog.text


async def test_kraft_log_with_other_voters_is_not_written(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vote(data, 1, 2, 3)
    before = kraft_metadata.fingerprint(data / "__cluster_metadata-0")
    async with running_broker(data, SETTINGS) as broker:
        await broker.node.store.commit([CreateTopic(topic("a"))])
    assert kraft_metadata.fingerprint(data / "__cluster_metadata-0") == before
    assert "its voters are [1, 2, 3]" in caplog.text
    assert json.loads((data / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == -1
    assert set((await image_in(data)).topics) == {"a"}, "the log has not changed since"
    append(data, [FeatureLevelRecord("x", 1)])
    assert set((await image_in(data)).topics) == {"a"}, "nobody there has heard of it"


def theirs(data: Path, *changes: Change) -> list[bytes]:
    """Records that Apache Kafka's controller writes for changes."""
    written = [
        each for change in changes for each in records_of(change, Replica(1), KraftMetadata())
    ]
    return [kraft_records.encode(record, version) for record, version in written]


async def test_deleted_topic_does_not_return_from_the_kraft_log(data: Path) -> None:
    """kwire cannot write the deletion to this KRaft log."""
    append(data, [], *theirs(data, CreateTopic(topic("a")), CreateTopic(topic("b", 2))))
    vote(data, 1, 2, 3)
    async with running_broker(data, SETTINGS) as broker:
        assert set(broker.image.topics) == {"a", "b"}
        await broker.node.store.commit([DeleteTopic("a", topic("a").id)])
    assert set((await image_in(data)).topics) == {"b"}
    append(data, [], *theirs(data, CreateTopic(topic("c", 3))))
    assert set((await image_in(data)).topics) == {"a", "b", "c"}, "the log has changed since"


@pytest.mark.parametrize("mark", ["", "[]", "{}", '{"kraft": 5}', '{"kraft": "another"}', None])
async def test_kraft_log_is_followed_without_a_readable_mark(
    data: Path, caplog: pytest.LogCaptureFixture, mark: str | None
) -> None:
    append(data, [], *theirs(data, CreateTopic(topic("a"))))
    vote(data, 1, 2, 3)
    async with running_broker(data, SETTINGS) as broker:
        await broker.node.store.commit([DeleteTopic("a", topic("a").id)])
    if mark is None:
        (data / MARK).unlink()
    else:
        (data / MARK).write_text(mark)
    caplog.clear()
    assert set((await image_in(data)).topics) == {"a"}
    assert (f"{MARK} is ignored" in caplog.text) == (mark in ("", "[]", "{}"))
    assert json.loads((data / MARK).read_text()) == {
        "format": 1,
        "kraft": kraft_metadata.fingerprint(data / "__cluster_metadata-0"),
    }


@pytest.mark.parametrize("theirs", [0, 4_999, 5_000])
async def test_producer_ids_of_an_older_kwire_are_not_reused(data: Path, theirs: int) -> None:
    """That version took the ids from Apache Kafka's next block, up to 4,999."""
    append(data, [ProducerIdsRecord(1, 13, theirs)])
    image = ClusterImage("kraft").with_next_producer_id(5_000)
    ChangeLog.create(data / "kwire-metadata.log", image).close()
    async with running_broker(data, SETTINGS):
        pass
    assert metadata_of(data).next_producer_id == 5_000
    before = kraft_metadata.fingerprint(data / "__cluster_metadata-0")
    async with running_broker(data, SETTINGS):
        pass
    assert kraft_metadata.fingerprint(data / "__cluster_metadata-0") == before, "logged once"


async def test_kwire_leaves_apache_kafkas_next_producer_id_unchanged(data: Path) -> None:
    """kwire's producer ids begin far above those that Apache Kafka reaches."""
    async with running_broker(data, SETTINGS):
        pass
    assert metadata_of(data).next_producer_id == 0


async def test_quorum_continues_the_offsets_and_epochs_of_apache_kafka(data: Path) -> None:
    golden = Path(__file__).parents[2] / "log" / "data" / "kraft-3.9.2"
    shutil.copytree(golden, data / "__cluster_metadata-0", dirs_exist_ok=True)
    log = KraftLog(data / "__cluster_metadata-0", Files(), DEFAULTS, Broker.now_ms())
    end_offset, epoch = log.end_offset, log.leader_epoch
    log.close()
    assert end_offset > 0
    assert epoch > 0
    for _ in range(2):
        async with running_broker(data, SETTINGS) as broker:
            quorum = await broker.membership.quorum()
        assert quorum.leader_epoch > epoch
        assert quorum.end_offset > end_offset
        end_offset, epoch = quorum.end_offset, quorum.leader_epoch


async def test_stray_folders_of_other_topics_stay_strays(data: Path) -> None:
    async with running_broker(data, SETTINGS) as broker:
        await broker.node.store.commit([CreateTopic(topic("a", 1, 2))])
    older, of_another = f"a-0.{32 * '1'}-stray", f"a-1.{32 * '2'}-stray"
    shutil.copytree(data / "a-0", data / older)
    (data / "a-1").rename(data / of_another)
    (data / of_another / "partition.metadata").write_text(f"version: 0\ntopic_id: {22 * 'B'}\n")
    shutil.copytree(data / "a-0", data / f"b-0.{32 * '3'}-stray")
    assert set((await image_in(data)).topics) == {"a"}
    for name in (older, of_another, f"b-0.{32 * '3'}-stray", "a-0", "a-1"):
        assert (data / name).is_dir(), name
    assert not (data / "b-0").exists()


async def test_replica_is_written_with_its_directory_if_there_is_only_one(
    data: Path, tmp_path: Path
) -> None:
    """Apache Kafka finds a replica by its directory's id, or searches two directories."""
    async with running_broker(data, SETTINGS) as broker:
        await broker.node.store.commit([CreateTopic(topic("a"))])
    mine = uuid_bytes("K5BPdwfb4nPV1HGMlEZcrA")
    assert [each.directories for each in partition_records(data)] == [[mine]]
    two = {**SETTINGS, "log.dirs": f"{data},{tmp_path / 'second'}"}
    async with running_broker(data, two) as broker:
        await broker.node.store.commit([CreateTopic(topic("b", 2))])
    assert partition_records(data)[-1].directories == [UNASSIGNED]


async def test_kraft_log_with_partitions_of_other_brokers_is_not_written(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = records_of(CreateTopic(topic("b", 2)), Replica(2), KraftMetadata())
    append(data, [], *(kraft_records.encode(record, version) for record, version in elsewhere))
    before = kraft_metadata.fingerprint(data / "__cluster_metadata-0")
    async with running_broker(data, SETTINGS) as broker:
        await broker.node.store.commit([CreateTopic(topic("a"))])
    assert kraft_metadata.fingerprint(data / "__cluster_metadata-0") == before
    assert "other brokers have partitions" in caplog.text
    assert "b is left alone: this node lacks some of its partitions" in caplog.text


async def test_configs_of_this_broker_and_cluster_defaults_are_followed(data: Path) -> None:
    kinds = ((4, "", "a"), (4, "1", "b"), (4, "2", "c"), (2, "t", "retention.ms"), (2, "t", "x"))
    records = [ConfigRecord(kind, name, key, "5") for kind, name, key in kinds]
    append(data, [*records], *theirs(data, CreateTopic(topic("t"))))
    image = await image_in(data)
    assert image.configs_of(4, "") == {"a": "5"}
    assert image.configs_of(4, "1") == {"b": "5"}
    assert image.configs_of(4, "2") == {}
    assert image.configs_of(TOPIC_RESOURCE, "t") == {"retention.ms": "5"}


@pytest.mark.parametrize("more", [0, 3])
async def test_report_counts_changes_above_the_limit(
    data: Path, caplog: pytest.LogCaptureFixture, more: int
) -> None:
    made = [CreateTopic(topic(f"t{number}", number + 1)) for number in range(LOGGED_MAX + more)]
    append(data, [], *theirs(data, *made))
    await image_in(data)
    assert caplog.text.count(" was created, with 1 partitions") == LOGGED_MAX
    assert ("now taken over: 3 more changes" in caplog.text) == bool(more)
    assert caplog.text.count("more changes") == bool(more)
    assert "were led in later epochs" not in caplog.text, "kwire has led none of them"


async def test_commit_is_refused_while_the_kraft_logs_disk_is_full(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is acknowledged only if the KRaft log has it.  The broker continues."""

    def fail(log: Log, *_: object, **__: object) -> None:
        error = OSError(errno.ENOSPC, "No space left on device")
        raise log.storage.refused(error) from error

    async with running_broker(data, SETTINGS) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", fail)
            with pytest.raises(StoreError, match=r"KRaft metadata log takes no records: No space"):
                await broker.node.store.commit([CreateTopic(topic("a"))])
        assert not broker.image.topics
        await broker.node.store.commit([CreateTopic(topic("b", 2))])
    assert metadata_of(data).topics == {"b": topic("b", 2).id}


def full(log: ChangeLog, changes: object, image: object) -> None:
    raise OSError(28, "No space left on device")


async def test_kraft_log_has_no_topic_whose_creation_failed_in_kwire(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic is refused for lack of room, then created with another id; the log has one topic."""
    async with running_broker(data, SETTINGS) as broker:
        with monkeypatch.context() as patch:
            patch.setattr(ChangeLog, "write", full)
            with pytest.raises(StoreError):
                await broker.node.store.commit([CreateTopic(topic("a", 1))])
        await broker.node.store.commit([CreateTopic(topic("a", 2))])
    assert metadata_of(data).topics == {"a": topic("a", 2).id}
    assert metadata_of(data).removed == {topic("a", 1).id}
