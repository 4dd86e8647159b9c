"""Compares an Apache Kafka 3.9.2 cluster in ZooKeeper with one of kwire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from kazoo.client import KazooClient

from kwire.client.cluster import Cluster
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    SetConfigs,
)
from kwire.cluster.metadata.image import TOPIC_RESOURCE, TopicImage
from kwire.cluster.stores.zookeeper import reading, znodes
from kwire.cluster.stores.zookeeper.writing import ZnodeVersions
from kwire.codecs.messages.metadata import MetadataRequest
from tests.cluster.stores.zookeeper.stores import Observed

_OWN = re.compile(rb'"timestamp":"\d+"|"id":"[\w-]{22}"')
"""Fields that differ between clusters: times and the cluster id."""


@dataclass(frozen=True, slots=True)
class Znode:
    content: bytes
    is_ephemeral: bool
    access: tuple[tuple[int, str], ...]
    """The permissions of a znode, and the scheme of each grantee."""
    version: int = field(compare=False)


def tree(
    hosts: str, chroot: str, options: Mapping[str, object] = MappingProxyType({})
) -> dict[str, Znode]:
    """All znodes below a chroot, without the fields of `_OWN`; `options` are a KazooClient's."""
    client = KazooClient(hosts, timeout=120, **options)
    client.start(timeout=120)
    found: dict[str, Znode] = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        content, stat = client.get(chroot + path)
        access = tuple((each.perms, each.id.scheme) for each in client.get_acls(chroot + path)[0])
        plain = _OWN.sub(b"", content or b"")
        found[path] = Znode(plain, bool(stat.ephemeralOwner), tuple(sorted(access)), stat.version)
        waiting += [f"{path}/{name}" for name in client.get_children(chroot + path)]
    client.stop()
    client.close()
    return found


async def topics_in(store: Observed) -> dict[str, TopicImage]:
    """Read all topics of a cluster that the store only observes."""
    names = await store.session.children(znodes.TOPICS)
    read = await reading.topics(store.session, names, ZnodeVersions())
    return {name: topic for name, topic in read.items() if topic is not None}


def told_by(cluster: Cluster) -> dict[str, Any]:
    """Each topic in a broker's Metadata response: its id, and the replicas of each partition."""
    reply = cluster.any().call(MetadataRequest(topics=None))
    return {
        topic.name: (
            topic.topic_id,
            {
                each.partition_index: (
                    each.leader_id,
                    each.leader_epoch,
                    tuple(each.replica_nodes),
                    set(each.isr_nodes),
                )
                for each in topic.partitions
            },
        )
        for topic in reply.topics
    }


def as_told(topics: dict[str, TopicImage]) -> dict[str, Any]:
    """The same for topics that were read from ZooKeeper."""
    return {
        topic.name: (
            topic.id,
            {
                index: (state.leader, state.leader_epoch, state.replicas, set(state.isr))
                for index, state in enumerate(topic.partitions)
            },
        )
        for topic in topics.values()
    }


async def changes_towards(onlooker: Observed, store: Observed) -> list[Change]:
    """The changes that make the metadata of `store` equal to the observed cluster's."""
    wanted, known = await topics_in(onlooker), store.image
    deleting = await onlooker.session.children(znodes.DELETE_TOPICS)
    configs = dict(await reading.all_configs(onlooker.session, ZnodeVersions()))
    changes: list[Change] = []
    for name, topic in known.topics.items():
        if name not in wanted:
            changes += [MarkForDeletion(name, topic.id), DeleteTopic(name, topic.id)]
    for name, topic in wanted.items():
        if name not in known.topics:
            changes.append(CreateTopic(topic, configs.get((TOPIC_RESOURCE, name), {})))
        else:
            changes += _partitions(known.topics[name], topic)
        if name in deleting and name not in known.deleting:
            changes.append(MarkForDeletion(name, topic.id))
    for (resource, name), values in configs.items():
        before = known.configs_of(resource, name)
        if before != values and (resource != TOPIC_RESOURCE or name in known.topics):
            changes.append(SetConfigs(resource, name, before, values))
    return changes


def _partitions(known: TopicImage, wanted: TopicImage) -> list[Change]:
    changes: list[Change] = []
    for index, state in enumerate(known.partitions):
        epoch = state.partition_epoch
        after = replace(wanted.partitions[index], partition_epoch=epoch)
        if after != replace(state, offline=()):
            after = replace(after, partition_epoch=epoch + 1)
            changes.append(AlterPartition(known.name, known.id, index, epoch, after))
    first = len(known.partitions)
    if new := wanted.partitions[first:]:
        changes.append(AddPartitions(known.name, known.id, first, new))
    return changes
