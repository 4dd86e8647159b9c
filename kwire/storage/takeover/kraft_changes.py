"""Converts changes of kwire's metadata to the records that a KRaft controller writes for them.

A partition is written as a controlled shutdown leaves it: it has no leader, and its replica is in
sync, or with KIP-966 eligible and the last leader.  At its next start Apache Kafka elects that
replica in the next epoch; after a kill it elects it as the last known leader.  Metadata that kwire
does not know (other features) stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import md5

from kwire.cluster.metadata.acls import NO_ENTRIES, AccessControlEntry, Acls, ResourcePattern
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
    SetFeatures,
    SetToken,
)
from kwire.cluster.metadata.entities import ENTITY_RESOURCE
from kwire.cluster.metadata.features import ELR_VERSION
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage
from kwire.codecs.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codecs.messages.config_record import ConfigRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.producer_ids_record import ProducerIdsRecord
from kwire.codecs.messages.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.primitives import Message
from kwire.log.directory.kraft_metadata import KraftMetadata, KraftPartition
from kwire.storage.takeover import tokens
from kwire.storage.takeover.entities import lacking_in_log, records_of_entity
from kwire.storage.takeover.features import level_records, levels_lacking_in_log

NO_LEADER = -1
METADATA_VERSION = "metadata.version"
DIRECTORIES_SINCE = 17
"""Level of `metadata.version` 3.7-IV2: partitions name the directories of their replicas."""
BROKER_RESOURCE = 4
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
WRITTEN = (TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)
"""Resources whose configs both brokers keep."""
UNASSIGNED = bytes(15) + b"\1"
"""Kafka's DirectoryId.UNASSIGNED: the broker searches the log in all its directories."""

Versioned = tuple[Message, int]
"""A record and the version in which it is written."""


@dataclass(frozen=True, slots=True)
class Replica:
    """The node that has the partitions, and its log directory if it has only one."""

    node_id: int
    directory_id: bytes = UNASSIGNED


def records_of(change: Change, replica: Replica, kraft: KraftMetadata) -> Iterator[Versioned]:
    """Yield the records that a controller writes for `change`; none if KRaft does not keep the
    change.
    """
    features = kraft.features
    match change:
        case CreateTopic(topic, configs):
            yield TopicRecord(topic.name, topic.id), 0
            yield from _configs(TOPIC_RESOURCE, topic.name, {}, configs)
            for index, state in enumerate(topic.partitions):
                yield _partition(topic.id, index, state, replica, features)
        case AddPartitions(_, topic_id, first, partitions):
            for index, state in enumerate(partitions, first):
                yield _partition(topic_id, index, state, replica, features)
        case AlterPartition(_, topic_id, index, _, state):
            yield _partition(topic_id, index, state, replica, features)
        case DeleteTopic(name, topic_id):
            # Configs have to be removed, or Apache Kafka applies them to a new topic of that name.
            yield from _configs(
                TOPIC_RESOURCE, name, kraft.configs.get((TOPIC_RESOURCE, name), {}), {}
            )
            yield RemoveTopicRecord(topic_id), 0
        case SetConfigs(resource, name, expected, configs) if resource in WRITTEN:
            yield from _configs(resource, name, expected, configs)
        case SetConfigs() | ChangeAcls() | SetToken() | SetFeatures():
            yield from _of_cluster(change, replica, kraft)


def _of_cluster(
    change: SetConfigs | ChangeAcls | SetToken | SetFeatures,
    replica: Replica,
    kraft: KraftMetadata,
) -> Iterator[Versioned]:
    """Yield the records for ACLs, tokens, features, credentials and quotas."""
    match change:
        case ChangeAcls():
            yield from _acls(change, kraft)
        case SetToken():
            yield from ((record, 0) for record in tokens.token_records(change, kraft))
        case SetFeatures():
            had_elr = bool(kraft.features.get(ELR_VERSION))
            yield from ((record, 0) for record in level_records(change, kraft))
            if had_elr and not change.features.wanted.get(ELR_VERSION):
                yield from _without_elr(replica, kraft)
        case SetConfigs() if change.resource == ENTITY_RESOURCE:
            yield from ((record, 0) for record in records_of_entity(change, kraft))


def _without_elr(replica: Replica, kraft: KraftMetadata) -> Iterator[Versioned]:
    """Yield this node's partitions as a cluster without eligible leader replicas has them.

    Otherwise Apache Kafka could not elect a leader from the replicas that were eligible.
    """
    features = {**kraft.features, ELR_VERSION: 0}
    for topic_id, states in kraft.partitions.items():
        for index, state in states.items():
            if state.replicas == (replica.node_id,):
                yield _partition(topic_id, index, state, replica, features)


def acls_in(kraft: KraftMetadata) -> dict[ResourcePattern, frozenset[AccessControlEntry]]:
    """Return all ACLs in the KRaft log, by their resource pattern."""
    found: defaultdict[ResourcePattern, set[AccessControlEntry]] = defaultdict(set)
    for record in kraft.acls.values():
        pattern, entry = _pattern_and_entry(record)
        found[pattern].add(entry)
    return {pattern: frozenset(entries) for pattern, entries in found.items()}


def _pattern_and_entry(
    record: AccessControlEntryRecord,
) -> tuple[ResourcePattern, AccessControlEntry]:
    """Return the two parts of an ACL that kwire keeps apart: its resource and its entry."""
    return (
        ResourcePattern(record.resource_type, record.pattern_type, record.resource_name),
        AccessControlEntry(record.principal, record.host, record.operation, record.permission_type),
    )


def _acls(change: ChangeAcls, kraft: KraftMetadata) -> Iterator[Versioned]:
    for acl_id in _ids_of(change.pattern, change.removed, kraft):
        yield RemoveAccessControlEntryRecord(acl_id), 0
    for entry in change.added:
        yield _acl(change.pattern, entry), 0


def _ids_of(
    pattern: ResourcePattern, entries: Collection[AccessControlEntry], kraft: KraftMetadata
) -> list[bytes]:
    """Return the KRaft ids of these ACLs of one resource; ACLs that KRaft lacks are left out."""
    wanted = {(pattern, entry) for entry in entries}
    if not wanted:
        return []
    return [
        acl_id
        for acl_id, record in kraft.acls.items()
        if record.resource_name == pattern.name and _pattern_and_entry(record) in wanted
    ]


def _acl(pattern: ResourcePattern, entry: AccessControlEntry) -> AccessControlEntryRecord:
    """Return the record of an entry.

    Its id is a hash of the unique entry; Kafka's ids are random.
    """
    content = "\0".join(str(int(p)) if isinstance(p, int) else p for p in (*pattern, *entry))
    return AccessControlEntryRecord(
        md5(content.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest(),
        int(pattern.resource_type),
        pattern.name,
        int(pattern.pattern_type),
        entry.principal,
        entry.host,
        int(entry.operation),
        int(entry.permission),
    )


def producer_ids(replica: Replica, next_producer_id: int) -> Versioned:
    """The record that reserves all producer ids below `next_producer_id`."""
    return ProducerIdsRecord(replica.node_id, -1, next_producer_id), 0


def _configs(
    resource: int, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Versioned]:
    for config in sorted(before.keys() | after.keys()):
        if before.get(config) != after.get(config):
            yield ConfigRecord(int(resource), name, config, after.get(config)), 0


def _partition(
    topic_id: bytes,
    index: int,
    state: PartitionImage | KraftPartition,
    replica: Replica,
    features: Mapping[str, int],
) -> Versioned:
    """Return the record of a partition with this node as its only replica, and its version.

    The version depends on the features of the KRaft cluster: 1 adds log directories, 2 the eligible
    leader replicas (KIP-966). It has no leader until Kafka elects one.
    """
    only = [replica.node_id]
    record = PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=only,
        isr=only,
        leader=NO_LEADER,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
    )
    if features.get(METADATA_VERSION, 0) < DIRECTORIES_SINCE:
        return record, 0
    record.directories = [replica.directory_id]
    if not features.get(ELR_VERSION):
        return record, 1
    record.isr, record.eligible_leader_replicas, record.last_known_elr = [], only, only
    return record, 2


def lacking(kraft: KraftMetadata, image: ClusterImage, replica: Replica) -> Iterator[Change]:
    """Yield the changes that make the KRaft metadata equal to `image`."""
    only = (replica.node_id,)
    for name, topic_id in kraft.topics.items():
        known = image.topics.get(name)
        is_ours = all(state.replicas == only for state in kraft.partitions[topic_id].values())
        if is_ours and (known is None or known.id != topic_id):
            yield DeleteTopic(name, topic_id)
    for name, topic in image.topics.items():
        configs = image.configs_of(TOPIC_RESOURCE, name)
        if kraft.topics.get(name) != topic.id:
            yield CreateTopic(topic, configs)
            continue
        states = kraft.partitions[topic.id]
        for index, state in enumerate(topic.partitions[: len(states)]):
            if state.leader_epoch > states[index].leader_epoch:
                yield AlterPartition(name, topic.id, index, states[index].partition_epoch, state)
        if len(topic.partitions) > len(states):
            yield AddPartitions(name, topic.id, len(states), topic.partitions[len(states) :])
    yield from _lacking_configs(kraft, image)
    yield from levels_lacking_in_log(image, kraft)
    yield from lacking_in_log(image, kraft)
    yield from acl_changes(acls_in(kraft), image.acls)
    yield from tokens.lacking_in_log(image, kraft)


def acl_changes(before: Acls, after: Acls) -> Iterator[ChangeAcls]:
    """The changes from one set of ACLs to another."""
    for pattern in sorted(before.keys() | after.keys()):
        had, has = before.get(pattern, NO_ENTRIES), after.get(pattern, NO_ENTRIES)
        if had != has:
            yield ChangeAcls(pattern, (*sorted(has - had),), (*sorted(had - has),))


def _lacking_configs(kraft: KraftMetadata, image: ClusterImage) -> Iterable[Change]:
    """Yield the changes that give KRaft the configs that only kwire's metadata has.

    Configs left by a deleted topic are first removed for a new topic of that name.
    """
    for name, leftovers in kraft.leftovers.items():
        if name in image.topics and leftovers:
            present = kraft.configs.get((TOPIC_RESOURCE, name), {})
            yield SetConfigs(TOPIC_RESOURCE, name, {**leftovers, **present}, present)
    for (kind, name), configs in image.configs.items():
        if kind not in WRITTEN:
            continue
        before = kraft.configs.get((int(kind), name), {})
        if kind == TOPIC_RESOURCE and name not in kraft.topics:
            continue  # set when the topic is created
        wanted = {**before, **configs}  # configs that kwire does not know stay
        if wanted != before:
            yield SetConfigs(kind, name, before, wanted)
