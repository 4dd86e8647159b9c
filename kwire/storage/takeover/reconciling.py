"""Finds what Apache Kafka has changed since kwire last used the directories (pure).

Each finding is a change of kwire's metadata and a sentence for the log.  Apache Kafka's metadata
decides on every topic that it knows or has deleted; other topics are kwire's own, and stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from kwire.cluster.metadata.acls import ResourceType
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
)
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from kwire.codecs.uuids import uuid_text
from kwire.log.directory.kraft_metadata import KraftMetadata, KraftPartition
from kwire.settings import ConfigResourceType
from kwire.storage.takeover import entities, tokens
from kwire.storage.takeover.features import levels_from_log
from kwire.storage.takeover.kraft_changes import acl_changes, acls_in

OnDisk = Mapping[str, Mapping[int, bytes | None]]
"""The topic id in each partition's folder (None if it has none), by topic and partition."""
KnownConfigs = Callable[[int, str, Mapping[str, str]], Mapping[str, str] | None]
"""(resource, name, configs) to those configs that kwire keeps; None for other resources."""


@dataclass(frozen=True, slots=True)
class MetadataFinding:
    """A difference: a sentence for the log, and its change; None if kwire cannot apply it."""

    says: str
    change: Change | None = None


def from_kraft(
    image: ClusterImage,
    kraft: KraftMetadata,
    node_id: int,
    on_disk: OnDisk,
    known_configs: KnownConfigs,
) -> Iterator[MetadataFinding]:
    """Yield the changes that make `image` agree with the KRaft metadata."""
    for name, topic in image.topics.items():
        topic_id = kraft.topics.get(name)
        if topic_id == topic.id:
            yield from _partitions(topic, kraft.partitions[topic.id], node_id)
            yield from _configs(image, kraft, TOPIC_RESOURCE, name, known_configs)
        elif topic_id is not None:
            says = f"topic {name} was deleted and created again, with id {uuid_text(topic_id)}"
            yield MetadataFinding(says, DeleteTopic(name, topic.id))
        elif topic.id in kraft.removed or topic.id not in on_disk.get(name, {}).values():
            yield MetadataFinding(f"topic {name} was deleted", DeleteTopic(name, topic.id))
    for name, topic_id in kraft.topics.items():
        known = image.topics.get(name)
        if known is None or known.id != topic_id:
            given = kraft.configs.get((TOPIC_RESOURCE, name), {})
            configs = known_configs(TOPIC_RESOURCE, name, given) or {}
            yield _new(name, topic_id, kraft.partitions[topic_id], node_id, configs)
    for kind, name in sorted({*kraft.configs, *image.configs}):
        if kind != TOPIC_RESOURCE:
            yield from _configs(image, kraft, kind, name, known_configs)
    yield from _access(image, kraft)
    for which, levels in levels_from_log(image, kraft):
        yield MetadataFinding(f"feature levels changed: {which}", levels)


def _access(image: ClusterImage, kraft: KraftMetadata) -> Iterator[MetadataFinding]:
    """Yield the changes of credentials, quotas, ACLs and delegation tokens."""
    for changed in entities.from_log(image, kraft):
        yield MetadataFinding(changed.says, changed.change)
    for change in acl_changes(image.acls, acls_in(kraft)):
        kind, _, resource_name = change.pattern
        says = f"the ACLs of {ResourceType(kind).name} {resource_name} changed"
        yield MetadataFinding(says, change)
    for token in tokens.from_log(image, kraft):
        yield MetadataFinding(f"delegation token {token.token_id} changed", token)


def from_logs(
    known: TopicImage, found: TopicImage, image: ClusterImage
) -> Iterator[MetadataFinding]:
    """Yield the changes that make the topic `known` agree with its logs (`found`), apart from
    epochs.
    """
    have = len(known.partitions)
    if found.id != known.id:
        says = f"topic {known.name} was deleted and created again, with id {uuid_text(found.id)}"
        yield MetadataFinding(says, DeleteTopic(known.name, known.id))
        yield MetadataFinding(
            f"topic {known.name}, with {len(found.partitions)} partitions",
            CreateTopic(found, image.configs_of(TOPIC_RESOURCE, known.name)),
        )
    elif len(found.partitions) > have:
        yield MetadataFinding(
            f"topic {known.name} grew from {have} to {len(found.partitions)} partitions",
            AddPartitions(known.name, known.id, have, found.partitions[have:]),
        )


def _new(
    name: str,
    topic_id: bytes,
    states: Mapping[int, KraftPartition],
    node_id: int,
    configs: Mapping[str, str],
) -> MetadataFinding:
    """Return a finding that creates a topic which only Kafka has.

    If this node does not host all of its partitions, the finding changes nothing and says so.
    """
    elsewhere = [index for index, state in states.items() if node_id not in state.replicas]
    if elsewhere or sorted(states) != list(range(len(states))):
        return MetadataFinding(f"{name} is left alone: this node lacks some of its partitions")
    partitions = tuple(_led(node_id, states[index]) for index in range(len(states)))
    topic = TopicImage(name, topic_id, partitions)
    return MetadataFinding(
        f"topic {name} was created, with {len(partitions)} partitions", CreateTopic(topic, configs)
    )


def _led(node_id: int, state: KraftPartition) -> PartitionImage:
    """The partition with this leader, in the newest epoch: clients ignore older epochs."""
    return PartitionImage(
        node_id, state.leader_epoch, state.partition_epoch, (node_id,), (node_id,)
    )


def _partitions(
    topic: TopicImage, states: Mapping[int, KraftPartition], node_id: int
) -> Iterator[MetadataFinding]:
    """Yield the newer leader epochs and the new partitions that Kafka gave the topic."""
    have = len(topic.partitions)
    for index, state in enumerate(topic.partitions):
        found = states.get(index)
        if found is not None and found.leader_epoch > state.leader_epoch:
            yield newer_epoch(topic, index, found.leader_epoch, found.partition_epoch)
    more = [states[index] for index in sorted(states) if index >= have]
    if more:
        yield MetadataFinding(
            f"topic {topic.name} grew from {have} to {have + len(more)} partitions",
            AddPartitions(
                topic.name, topic.id, have, tuple(_led(node_id, state) for state in more)
            ),
        )


def newer_epoch(
    topic: TopicImage, index: int, leader_epoch: int, partition_epoch: int = 0
) -> MetadataFinding:
    """Return the finding that a partition was led elsewhere in a later epoch than kwire knows."""
    state = topic.partitions[index]
    wanted = replace(
        state,
        leader_epoch=leader_epoch,
        partition_epoch=max(state.partition_epoch + 1, partition_epoch),
    )
    return MetadataFinding(
        f"{topic.name}-{index} was led in epoch {leader_epoch}, after {state.leader_epoch} here",
        AlterPartition(topic.name, topic.id, index, state.partition_epoch, wanted),
    )


_KINDS = {
    TOPIC_RESOURCE: "topic",
    ConfigResourceType.BROKER: "broker",
    ConfigResourceType.GROUP: "group",
    ConfigResourceType.CLIENT_METRICS: "client metrics subscription",
}


def _configs(
    image: ClusterImage, kraft: KraftMetadata, kind: int, name: str, known_configs: KnownConfigs
) -> Iterator[MetadataFinding]:
    """Yield the change of a resource's configs if Kafka has changed them.

    `known_configs` returns those that kwire can use, or None to ignore the resource.
    """
    before = image.configs_of(kind, name)
    after = known_configs(kind, name, kraft.configs.get((kind, name), {}))
    if after is not None and after != before:
        keys = before.keys() | after.keys()
        differ = sorted(key for key in keys if before.get(key) != after.get(key))
        what = f"{_KINDS[kind]} {name or '(all)'}"
        says = f"{what}: {', '.join(differ)} changed"
        yield MetadataFinding(says, SetConfigs(kind, name, before, after))
