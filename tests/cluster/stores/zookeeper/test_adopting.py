"""Adoption writes all metadata of a single node to ZooKeeper, and refuses what it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kwire.cluster.metadata.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.changes import (
    Change,
    ChangeAcls,
    CreateTopic,
    SetConfigs,
    SetFeatures,
    SetToken,
)
from kwire.cluster.metadata.credentials import user_key
from kwire.cluster.metadata.entities import entity_key
from kwire.cluster.metadata.features import TRANSACTION_VERSION
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.zookeeper import acl_znodes, token_znodes, znodes
from kwire.cluster.stores.zookeeper.adopting import CannotAdopt, adopt
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.security.sasl.scram import Credential
from kwire.testing import ZooKeeperProcess
from tests.cluster.stores.zookeeper.stores import running
from tests.waiting import zookeeper_client

pytestmark = [pytest.mark.slow, pytest.mark.java]

NODE = 7
ALONE = PartitionImage(NODE, 3, 5, (NODE,), (NODE,))
TOPIC = TopicImage("t", b"t" * 16, (ALONE, replace(ALONE, leader_epoch=9)))
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ON_TOPIC = ResourcePattern(ResourceType.TOPIC, LITERAL, "t")
ON_GROUPS = ResourcePattern(ResourceType.GROUP, PREFIXED, "team a.")
READS = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
NEVER = AccessControlEntry("User:mallory", "*", AclOperation.ALL, AclPermissionType.DENY)
TOKEN = DelegationToken("id", "User:a", "User:r", ("User:b",), 1, 3, 2)
SECRET = Credential(b"salt", b"stored", b"server", 4096).text
CONFIGS = {
    (TOPIC_RESOURCE, "t"): {"retention.ms": "12345678"},
    (znodes.BROKER_RESOURCE, ""): {"log.cleaner.threads": "2"},
    (znodes.BROKER_RESOURCE, str(NODE)): {"log.retention.ms": "777"},
    (znodes.GROUP_RESOURCE, "g"): {"consumer.session.timeout.ms": "47000"},
    (znodes.CLIENT_METRICS_RESOURCE, "m"): {"interval.ms": "1000"},
    user_key("alice ü"): {"SCRAM-SHA-256": SECRET, "producer_byte_rate": "1000.0"},
    entity_key({"user": None}): {"consumer_byte_rate": "5.0"},
    entity_key({"user": "bob", "client-id": "app/1"}): {"request_percentage": "12.5"},
    entity_key({"client-id": "app/1"}): {"producer_byte_rate": "3.0"},
    entity_key({"client-id": None}): {"controller_mutation_rate": "1.0"},
    entity_key({"ip": "10.0.0.1"}): {"connection_creation_rate": "7.0"},
}
CHANGES: list[Change] = [
    CreateTopic(TOPIC, CONFIGS[TOPIC_RESOURCE, "t"]),
    *(SetConfigs(*key, {}, configs) for key, configs in CONFIGS.items() if key[1] != "t"),
    ChangeAcls(ON_TOPIC, (READS, NEVER)),
    ChangeAcls(ON_GROUPS, (READS,)),
    SetToken("id", None, TOKEN),
]
OF_ZOOKEEPER = frozenset({"version", "controller_id", "controller_epoch", "brokers"})
"""Fields of an image that are ZooKeeper's own: adoption does not write them."""


async def lone_image(directory: Path) -> ClusterImage:
    """The image of a single node's store with CHANGES, after its next start."""
    store = LocalStore(directory / "kwire-metadata.log")
    await store.commit(CHANGES)
    known = (await store.load()).features
    await store.commit([SetFeatures(known.epoch, known.with_level(TRANSACTION_VERSION, 1, 40))])
    await store.allocate_producer_ids(1000)
    store.close()
    again = LocalStore(directory / "kwire-metadata.log")
    again.close()
    return await again.load()


def kept(image: ClusterImage) -> dict[str, object]:
    """The compared fields of an image, without versions that ZooKeeper counts."""
    values = {each.name: getattr(image, each.name) for each in fields(image)}
    values["features"] = dict(image.features.asked)
    values["topics"] = {
        name: [(topic.id, each.leader_epoch, each.replicas) for each in topic.partitions]
        for name, topic in image.topics.items()
    }
    for name in ("configs", "acls", "tokens", "names_by_id", "names_by_metric"):
        values[name] = dict(values[name].items())
    return {name: value for name, value in values.items() if name not in OF_ZOOKEEPER}


def config_of(zookeeper: ZooKeeperProcess, chroot: str) -> ZooKeeperConfig:
    return ZooKeeperConfig(zookeeper.connect(f"/{chroot}"), 30_000, 120_000)


@pytest.fixture
def client(zookeeper: ZooKeeperProcess, unique: str) -> Iterator[KazooClient]:
    """A client with the cluster's chroot, which does not exist yet."""
    with zookeeper_client(zookeeper.address) as client:
        client.chroot = f"/{unique}"
        yield client


async def test_adoption_writes_all_metadata_of_the_single_node(
    zookeeper: ZooKeeperProcess, unique: str, tmp_path: Path
) -> None:
    config, image = config_of(zookeeper, unique), await lone_image(tmp_path)
    planned = [*(await adopt(config, image, NODE, dry_run=True)).paths]
    assert [*(await adopt(config, image, NODE)).paths] == planned
    assert set(planned) == {
        znodes.CLUSTER_ID,
        znodes.PRODUCER_ID_BLOCK,
        znodes.FEATURE,
        znodes.topic_path("t"),
        token_znodes.token_path("id"),
        *map(acl_znodes.acl_path, (ON_TOPIC, ON_GROUPS)),
        *(znodes.config_path(key) for key in CONFIGS if key[1] != "t"),
    }
    assert [*(await adopt(config, image, NODE)).paths] == []

    whole = replace(config, has_acls=True, has_tokens=True)
    async with running(whole, NODE) as store:
        assert await store.campaign()
        (first, *_) = await store.allocate_producer_ids(1)
        after = kept(replace(store.image, next_producer_id=first))
    assert after == kept(image)
    assert image.features.level(TRANSACTION_VERSION) == 1


async def test_interrupted_adoption_is_completed_by_the_next_one(
    zookeeper: ZooKeeperProcess, unique: str, tmp_path: Path, client: KazooClient
) -> None:
    config, image = config_of(zookeeper, unique), await lone_image(tmp_path)
    await adopt(config, image, NODE)
    lost = [acl_znodes.acl_path(ON_GROUPS), token_znodes.token_path("id")]
    for path in lost:
        client.delete(path)
    client.set(znodes.FEATURE, b'{"features":{},"version":2,"status":1}')
    assert [*(await adopt(config, image, NODE)).paths] == [znodes.FEATURE, *lost]
    assert [*(await adopt(config, image, NODE)).paths] == []


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        (
            acl_znodes.acl_path(ON_TOPIC),
            acl_znodes.encode_acls([READS]),
            "other access control entries in /kafka-acl/Topic/t",
        ),
        (acl_znodes.acl_path(ON_TOPIC), b"[]", "/kafka-acl/Topic/t in ZooKeeper cannot be"),
        (
            token_znodes.token_path("id"),
            token_znodes.encode_token(replace(TOKEN, expiry_ms=3)),
            "another delegation token id",
        ),
        (token_znodes.token_path("id"), b"", "/delegation_token/tokens/id in ZooKeeper cannot be"),
        (
            znodes.FEATURE,
            b'{"features":{},"version":2,"status":1,"kwire":{"asked":{"group.version":0}}}',
            "other levels of features in /feature",
        ),
    ],
)
async def test_adoption_refuses_to_overwrite_other_metadata(
    zookeeper: ZooKeeperProcess,
    unique: str,
    tmp_path: Path,
    client: KazooClient,
    path: str,
    content: bytes,
    says: str,
) -> None:
    client.create(path, content, makepath=True)
    with pytest.RaisesGroup(pytest.RaisesExc(CannotAdopt, match=says)):
        await adopt(config_of(zookeeper, unique), await lone_image(tmp_path), NODE)
    assert client.get(path)[0] == content
    assert client.exists(znodes.CLUSTER_ID) is None


@pytest.mark.parametrize(
    ("name", "host", "operation"),
    [
        ("a/b", "*", AclOperation.READ),
        ("a", "*", AclOperation.TWO_PHASE_COMMIT),
        ("a", "10.0.0.0/8", AclOperation.READ),
    ],
)
async def test_adoption_refuses_an_acl_that_zookeeper_cannot_keep(
    zookeeper: ZooKeeperProcess,
    unique: str,
    client: KazooClient,
    name: str,
    host: str,
    operation: AclOperation,
) -> None:
    pattern = ResourcePattern(ResourceType.GROUP, LITERAL, name)
    entry = AccessControlEntry("User:eve", host, operation, AclPermissionType.DENY)
    image = ClusterImage("c").with_acls(pattern, frozenset({entry}))
    with pytest.RaisesGroup(pytest.RaisesExc(CannotAdopt, match=f"'{name}' for User:eve")):
        await adopt(config_of(zookeeper, unique), image, NODE)
    assert not client.exists("/")
