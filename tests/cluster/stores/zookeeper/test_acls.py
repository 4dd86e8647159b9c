"""Access control lists in ZooKeeper: encoding as in Apache Kafka 3.9.2, and following."""

from __future__ import annotations

import json
from collections.abc import Iterator

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
from kwire.cluster.metadata.changes import ChangeAcls
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.zookeeper import acl_znodes, notifications
from kwire.testing import ZooKeeperProcess
from tests.cluster.stores.zookeeper.stores import opened
from tests.waiting import zookeeper_client

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
TOPIC = ResourcePattern(ResourceType.TOPIC, LITERAL, "t")

LISTS = {
    "/kafka-acl/Topic/t": (
        TOPIC,
        '{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*",'
        '"operation":"Read"},{"principal":"User:alice","permissionType":"Allow","host":"*",'
        '"operation":"Write"},{"principal":"User:bob","permissionType":"Deny","host":"10.0.0.1",'
        '"operation":"Describe"}],"version":1}',
        (
            AccessControlEntry("User:alice", "*", AclOperation.READ, ALLOW),
            AccessControlEntry("User:alice", "*", AclOperation.WRITE, ALLOW),
            AccessControlEntry("User:bob", "10.0.0.1", AclOperation.DESCRIBE, DENY),
        ),
    ),
    "/kafka-acl-extended/prefixed/Topic/pre": (
        ResourcePattern(ResourceType.TOPIC, PREFIXED, "pre"),
        '{"acls":[{"principal":"User:aé\\"x/ü","permissionType":"Allow","host":"*",'
        '"operation":"All"}],"version":1}',
        (AccessControlEntry('User:aé"x/ü', "*", AclOperation.ALL, ALLOW),),
    ),
    "/kafka-acl/Cluster/kafka-cluster": (
        ResourcePattern(ResourceType.CLUSTER, LITERAL, "kafka-cluster"),
        '{"acls":[{"principal":"User:x","permissionType":"Allow","host":"*",'
        '"operation":"ClusterAction"}],"version":1}',
        (AccessControlEntry("User:x", "*", AclOperation.CLUSTER_ACTION, ALLOW),),
    ),
    "/kafka-acl/TransactionalId/tx": (
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, LITERAL, "tx"),
        '{"acls":[{"principal":"User:x","permissionType":"Allow","host":"*",'
        '"operation":"IdempotentWrite"}],"version":1}',
        (AccessControlEntry("User:x", "*", AclOperation.IDEMPOTENT_WRITE, ALLOW),),
    ),
}
CHANGES = {
    "TOPIC:t": TOPIC,
    "TOPIC:*": ResourcePattern(ResourceType.TOPIC, LITERAL, "*"),
    "GROUP:a:b": ResourcePattern(ResourceType.GROUP, LITERAL, "a:b"),
    "TRANSACTIONAL_ID:tx": ResourcePattern(ResourceType.TRANSACTIONAL_ID, LITERAL, "tx"),
    "DELEGATION_TOKEN:tok": ResourcePattern(ResourceType.DELEGATION_TOKEN, LITERAL, "tok"),
    '{"version":1,"resourceType":"TOPIC","name":"pre","patternType":"PREFIXED"}': ResourcePattern(
        ResourceType.TOPIC, PREFIXED, "pre"
    ),
}


@pytest.mark.parametrize("path", LISTS)
def test_acl_znodes_equal_those_of_apache_kafka(path: str) -> None:
    pattern, content, entries = LISTS[path]
    assert acl_znodes.acl_path(pattern) == path
    assert acl_znodes.decode_acls(content.encode()) == frozenset(entries)
    assert acl_znodes.encode_acls(frozenset(entries)).decode() == content


@pytest.mark.parametrize("content", CHANGES)
def test_acl_notifications_equal_those_of_apache_kafka(content: str) -> None:
    pattern = CHANGES[content]
    assert acl_znodes.encode_change(pattern).decode() == content
    kind = PatternType(pattern.pattern_type)
    assert acl_znodes.decode_change(content.encode(), kind) == pattern
    folder = {LITERAL: "/kafka-acl-changes", PREFIXED: "/kafka-acl-extended-changes"}[kind]
    assert acl_znodes.change_path(pattern) == f"{folder}/acl_changes_"


def test_acl_notifications_of_brokers_before_2_0_are_decoded() -> None:
    pattern = ResourcePattern(ResourceType.TRANSACTIONAL_ID, LITERAL, "tx")
    assert acl_znodes.decode_change(b"TransactionalId:tx", LITERAL) == pattern


@pytest.mark.parametrize("content", [b"", b"nothing", b"{"])
def test_content_that_is_not_json_decodes_to_no_entries(content: bytes) -> None:
    """Apache Kafka does the same."""
    assert acl_znodes.decode_acls(content) == frozenset()


def entry_text(**odd: object) -> bytes:
    """A list of one entry with an invalid field."""
    sound = {"principal": "a:b", "permissionType": "Allow", "host": "*", "operation": "Read"}
    return json.dumps({"version": 1, "acls": [{**sound, **odd}]}).encode()


UNKNOWN = entry_text(operation="New")
ODD = [
    b"[]",
    b'{"acls":[]}',
    b'{"version":2,"acls":[]}',
    b'{"version":1}',
    b'{"version":1,"acls":[7]}',
    entry_text(principal="a"),
    entry_text(permissionType="Any"),
    entry_text(host=1),
    UNKNOWN,
]


@pytest.mark.parametrize("content", ODD)
def test_invalid_acl_raises_instead_of_decoding_to_no_entries(content: bytes) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        acl_znodes.decode_acls(content)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"t", LITERAL),
        (b"NOTHING:t", LITERAL),
        (b"\xff:t", LITERAL),
        (b"{}", PREFIXED),
        (b"7", PREFIXED),
    ],
)
def test_acl_notification_of_an_unknown_resource_is_refused(
    content: bytes, kind: PatternType
) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        acl_znodes.decode_change(content, kind)


@pytest.fixture
def client(zookeeper: ZooKeeperProcess, unique: str) -> Iterator[KazooClient]:
    """A path below the chroot of the test's stores."""
    with zookeeper_client(zookeeper.address) as client:
        client.create(f"/{unique}")
        client.chroot = f"/{unique}"
        yield client


@pytest.mark.java
@pytest.mark.slow
async def test_damaged_acl_keeps_its_previous_entries_and_stops_a_starting_broker(
    zookeeper: ZooKeeperProcess, unique: str, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    path, (pattern, _, entries) = "/kafka-acl/Topic/t", LISTS["/kafka-acl/Topic/t"]
    async with opened(zookeeper.connect(f"/{unique}"), has_acls=True) as store:
        await store.commit([ChangeAcls(pattern, entries)])
        client.set(path, UNKNOWN)
        for content in (b"damaged", b"TOPIC:t", b"TOPIC:u"):
            client.create("/kafka-acl-changes/acl_changes_", content, sequence=True)
        other = ResourcePattern(ResourceType.TOPIC, LITERAL, "u")
        client.create("/kafka-acl/Topic/u", acl_znodes.encode_acls(entries[:1]))
        client.create("/kafka-acl-changes/acl_changes_", b"TOPIC:u", sequence=True)
        image = await store.shows(lambda image: image.acls_on(other) == {entries[0]})
        assert image.acls_on(pattern) == {*entries}
        assert f"{path} in ZooKeeper cannot be decoded as an access control list" in caplog.text
        refused = pytest.RaisesExc(StoreError, match=path)
        with pytest.RaisesGroup(refused, flatten_subgroups=True):
            async with opened(zookeeper.connect(f"/{unique}"), 2, has_acls=True):
                pass
        # It is in nobody's way: the next who changes it writes it anew.
        await store.commit([ChangeAcls(pattern, (), entries[:1])])
        assert acl_znodes.decode_acls(client.get(path)[0]) == {*entries[1:]}


@pytest.mark.java
@pytest.mark.slow
async def test_old_acl_notifications_are_deleted(
    zookeeper: ZooKeeperProcess,
    unique: str,
    client: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, (pattern, _, entries) = "/kafka-acl-changes", LISTS["/kafka-acl/Topic/t"]
    async with opened(zookeeper.connect(f"/{unique}"), has_acls=True) as store:
        for entry in entries:
            await store.commit([ChangeAcls(pattern, (entry,))])
        names = client.get_children(folder)
        assert len(names) == 3
        monkeypatch.setattr(notifications, "CHANGES_KEPT_S", -60)
        client.set("/kafka-acl/Topic/t", acl_znodes.encode_acls(entries[:1]))
        client.create(f"{folder}/acl_changes_", b"TOPIC:t", sequence=True)
        await store.shows(lambda image: image.acls_on(pattern) == {entries[0]})
        # Their removal is told like any change, and they are read once.
        await store.commit([ChangeAcls(pattern, (), entries[:1])])
        async with opened(zookeeper.connect(f"/{unique}"), 2, has_acls=True) as other:
            assert not other.image.acls
        assert not {*names} & {*client.get_children(folder)}


@pytest.mark.java
@pytest.mark.slow
async def test_removed_acl_folders_are_created_again(
    zookeeper: ZooKeeperProcess, unique: str, client: KazooClient
) -> None:
    pattern, _, entries = LISTS["/kafka-acl-extended/prefixed/Topic/pre"]
    async with opened(zookeeper.connect(f"/{unique}"), has_acls=True) as store:
        client.delete("/kafka-acl-extended", recursive=True)
        client.delete("/kafka-acl-extended-changes", recursive=True)
        await store.commit([ChangeAcls(pattern, entries)])
        assert client.exists("/kafka-acl-extended/prefixed/Topic/pre")
        assert client.get_children("/kafka-acl-extended-changes") == ["acl_changes_0000000000"]


@pytest.mark.java
@pytest.mark.slow
async def test_store_without_authorizer_reads_no_acls(
    zookeeper: ZooKeeperProcess, unique: str, client: KazooClient
) -> None:
    async with opened(zookeeper.connect(f"/{unique}")):
        assert not [name for name in client.get_children("/") if name.startswith("kafka-acl")]
