"""Directories recorded from Apache Kafka 4.3.1 and 4.4.0, each at its own metadata version.

The recording made topic `t`, five records, an offset of group `g`, ACLs, a password, a quota, and
configs of a topic, the broker, all brokers and a share group.  On 4.4.0 it also used what that
version has: CIDR hosts, configs, a controller that was unregistered (UnregisterControllerRecord),
and share.version moved from 2 to 1.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kwire.client.access.acls import Operation, Permission
from kwire.cluster.decisions.feature_updates import (
    SAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    update_features,
)
from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.changes import ChangeAcls, SetConfigs, SetFeatures
from kwire.cluster.metadata.features import ELR_VERSION, METADATA_VERSION, SHARE_VERSION
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage
from kwire.log.directory import kraft_metadata
from kwire.log.directory.files import Files
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.settings import ConfigResourceType
from tests.inside import running_broker

RECORDED = Path(__file__).parent / "data"
VERSIONS = ("4.3.1", "4.4.0")
SETTINGS = {"node.id": "1"}
LEVELS = {
    "4.3.1": {
        "metadata.version": 30,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "eligible.leader.replicas.version": 1,
    },
    "4.4.0": {
        "metadata.version": 33,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "eligible.leader.replicas.version": 1,
    },
}
HOSTS = {
    "4.3.1": {("User:alice", "*")},
    "4.4.0": {("User:alice", "*"), ("User:bob", "10.1.2.3/8"), ("User:bob", "2001:db8::/32")},
}
NEW_CONFIGS = {
    "max.decompressed.message.bytes": "1000000",
    "errors.deadletterqueue.group.enable": "true",
}
"""Configs of topics that 4.4.0 added."""


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def data(tmp_path: Path, version: str) -> Path:
    return Path(shutil.copytree(RECORDED / f"apache-{version}", tmp_path / "data"))


def log_of(data: Path) -> KraftMetadata:
    return kraft_metadata.read(data / "__cluster_metadata-0", Files())


def hosts_in(image: ClusterImage) -> set[tuple[str, str]]:
    return {(entry.principal, entry.host) for entries in image.acls.values() for entry in entries}


async def test_recorded_directory_is_served_at_its_own_levels(data: Path, version: str) -> None:
    async with running_broker(data, SETTINGS) as broker:
        image = broker.image
        assert image.cluster_id == "kwireConformanceKfk0A"
        assert image.topics.keys() == {"t", "__consumer_offsets"}
        assert image.features.in_force == LEVELS[version]
        assert hosts_in(image) == HOSTS[version]
        configs = {
            "retention.ms": "604800001",
            **(NEW_CONFIGS if version == "4.4.0" else {}),
        }
        assert image.configs_of(TOPIC_RESOURCE, "t") == configs
        of_all = image.configs_of(ConfigResourceType.BROKER, "")
        assert of_all.items() >= {"log.cleaner.threads": "2", "min.insync.replicas": "1"}.items()
        own = image.configs_of(ConfigResourceType.BROKER, "1")
        assert own == {"log.retention.ms": "700000000", "cordoned.log.dirs": ""}
        shared = image.configs_of(ConfigResourceType.GROUP, "s")
        assert shared["share.record.lock.duration.ms"] == "20000"
        assert ("errors.deadletterqueue.topic.name" in shared) == (version == "4.4.0")
        ends = {index: broker.logs.logs["t", index].log_end_offset for index in (0, 1)}
        assert ends == {0: 3, 1: 2}
    assert log_of(data).features.items() >= LEVELS[version].items()


async def test_changes_of_kwire_are_in_the_recorded_metadata_log(data: Path, version: str) -> None:
    """Feature levels, configs and ACLs; the levels that no one moves stay."""
    async with running_broker(data, SETTINGS) as broker:
        store, image = broker.node.store, broker.image
        updates = [FeatureUpdate(SHARE_VERSION, 2, UPGRADE)]
        features = update_features(image, updates, 1)
        assert features is not None
        pattern = ResourcePattern(2, 3, "u")
        bob = AccessControlEntry("User:bob", "10.0.0.0/8", Operation.READ, Permission.ALLOW)
        before = image.configs_of(TOPIC_RESOURCE, "t")
        after = {**before, "max.decompressed.message.bytes": "5"}
        await store.commit(
            [
                features,
                ChangeAcls(pattern, (bob,)),
                SetConfigs(TOPIC_RESOURCE, "t", before, after),
            ]
        )
    found = log_of(data)
    assert found.features.items() >= {**LEVELS[version], SHARE_VERSION: 2}.items()
    assert "10.0.0.0/8" in {record.host for record in found.acls.values()}
    assert found.configs[2, "t"] == after
    async with running_broker(data, SETTINGS) as broker:
        assert broker.image.features.in_force == {**LEVELS[version], SHARE_VERSION: 2}


async def test_upgrade_of_metadata_version_is_in_the_metadata_log(tmp_path: Path) -> None:
    data = Path(shutil.copytree(RECORDED / "apache-4.3.1", tmp_path / "data"))
    async with running_broker(data, SETTINGS) as broker:
        change = update_features(
            broker.image, [FeatureUpdate(METADATA_VERSION, 33, UPGRADE)], broker.node_id
        )
        assert change is not None
        await broker.node.store.commit([change])
    assert log_of(data).features.items() >= {**LEVELS["4.3.1"], METADATA_VERSION: 33}.items()


async def test_partitions_have_an_in_sync_replica_after_elr_is_turned_off(tmp_path: Path) -> None:
    """Apache Kafka leaves a partition without in-sync replicas, but an eligible one, at its stop.

    Without ELR it would not elect that one.
    """
    data = Path(shutil.copytree(RECORDED / "apache-4.4.0", tmp_path / "data"))
    states = [state for each in log_of(data).partitions.values() for state in each.values()]
    assert {state.isr for state in states} == {()}
    async with running_broker(data, SETTINGS) as broker:
        change = update_features(
            broker.image, [FeatureUpdate(ELR_VERSION, 0, SAFE_DOWNGRADE)], broker.node_id
        )
        assert change is not None
        await broker.node.store.commit([change])
    found = log_of(data)
    assert not found.features[ELR_VERSION]
    states = [state for each in found.partitions.values() for state in each.values()]
    assert {state.isr for state in states} == {(1,)}


async def test_level_that_an_earlier_kwire_did_not_support_is_taken_up(tmp_path: Path) -> None:
    """It took metadata.version 33 for 30, its own highest, and left the log as it was."""
    data = Path(shutil.copytree(RECORDED / "apache-4.4.0", tmp_path / "data"))
    async with running_broker(data, SETTINGS) as broker:
        before = broker.image.features
        earlier = before.with_level(METADATA_VERSION, 30, before.epoch + 1)
        broker.node.store.ahead = None  # type: ignore[attr-defined]  # a LocalStore
        await broker.node.store.commit([SetFeatures(before.epoch, earlier)])
    async with running_broker(data, SETTINGS) as broker:
        assert broker.image.features.level(METADATA_VERSION) == 33
    assert log_of(data).features[METADATA_VERSION] == 33
