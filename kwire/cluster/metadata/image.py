"""The cluster as one immutable value: brokers, topics, configs, access control lists, features.

A `ClusterImage` never changes: a store publishes the next one, which replaces it as a whole.  So
code that holds an image sees one consistent state as long as it likes.  The `with_` methods return
a new image with the same `version`; the store sets the version when it commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from kwire.cluster.metadata.acls import NO_ENTRIES, AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.persistent_map import PersistentMap
from kwire.cluster.metadata.tokens import DelegationToken

ResourceKey = tuple[int, str]
"""(ConfigResourceType, name): the resource that a set of configs belongs to."""

FIRST_PRODUCER_ID = 1_000_000_000_000_000
"""The first producer id that kwire assigns.

Apache Kafka assigns its ids from 0 on, in blocks of a thousand, and keeps the count in the KRaft
metadata or in ZooKeeper, which does not include kwire's ids.  If a data directory went back to
Apache Kafka, a second producer could get an id that kwire had assigned, and its first batches would
be taken for duplicates.  So kwire's ids start where Apache Kafka's never arrive, and stay below
2**53, the largest integer that JSON and JavaScript represent exactly.
"""

NO_LEADER = -1
NO_CONTROLLER = -1

NO_ID = bytes(16)
MIGRATING, UNASSIGNED, LOST = bytes(16), bytes(15) + b"\1", bytes(15) + b"\2"
"""Directory ids that name no directory (Kafka's DirectoryId).  The replica is in a directory that
the metadata do not know yet (MIGRATING), in none yet (UNASSIGNED), or was in one that failed."""

TOPIC_RESOURCE = 2
"""Kafka's ConfigResource.Type.TOPIC; deleting a topic also deletes these configs."""

NOTHING_SET: Mapping[str, str] = MappingProxyType({})
NO_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType({})


SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols, each at its number in Kafka's requests and records."""
SECURITY_PROTOCOL_NUMBERS: Final = {name: n for n, name in enumerate(SECURITY_PROTOCOLS)}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address at which clients of one listener reach a broker: advertised, not bound."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker.

    `epoch` is that of its registration and grows with each one (KIP-380); -1 in a cluster of one
    broker. `features` maps the features it supports to (lowest level, highest level) (KIP-584).
    `log_dirs` are its log directories, and `cordoned` those that its settings cordon (KIP-1066).

    Only with KRaft controllers: `is_leaving` is set during a controlled shutdown. `incarnation` is
    the id of the broker's process.  `directories` has the ids of its online log directories, and
    `cordoned_directories` those of them that get no new replicas, None if it has not said.
    """

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: NO_FEATURES)
    log_dirs: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    is_leaving: bool = False
    incarnation: bytes = NO_ID
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address for clients of `listener`; None if the broker lacks that listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None

    def has_online(self, directory: bytes) -> bool:
        """Whether a replica in that directory can be served (DirectoryId.isOnline of Kafka)."""
        if directory in (MIGRATING, UNASSIGNED):
            return True
        return directory != LOST and (not self.directories or directory in self.directories)


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """A registered KRaft controller, which need not be a voter, nor alive."""

    id: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """The state of one partition: replicas, leader, in-sync replicas.

    `leader_epoch` counts changes of the leader, `partition_epoch` all changes of this
    state.  `offline` has the replicas whose broker is gone or whose log directory failed.  During a
    reassignment (KIP-455), `replicas` includes those that are `adding` and those that are
    `removing`.  `recovering` means that the leader was elected although it was not in sync, and has
    not yet reported its recovery (KIP-704). `controller_epoch` is that of the controller that made
    this state.
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    controller_epoch: int = 0

    @property
    def directories(self) -> tuple[bytes, ...]:
        """The directory id of each replica, in the order of `replicas`; empty if not known."""
        return ()

    @property
    def eligible(self) -> tuple[int, ...]:
        """The eligible leader replicas (KIP-966)."""
        return ()

    @property
    def last_eligible(self) -> tuple[int, ...]:
        """The last known eligible leader replicas."""
        return ()


@dataclass(frozen=True, slots=True)
class KraftPartitionImage(PartitionImage):
    """The state of a partition in a cluster with KRaft controllers, which keep more of it.

    A class of its own, so that partitions of other clusters take no more memory.
    """

    directories: tuple[bytes, ...] = ()
    eligible: tuple[int, ...] = ()
    last_eligible: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; `partitions[n]` is partition `n`."""

    name: str
    id: bytes
    partitions: tuple[PartitionImage, ...]


def _no_brokers() -> Mapping[int, BrokerImage]:
    return MappingProxyType({})


def _no_controllers() -> Mapping[int, ControllerImage]:
    return MappingProxyType({})


def metric_name(topic: str) -> str:
    """The topic name in Kafka's metric names, where `.` and `_` are the same character."""
    return topic.replace(".", "_")


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster's metadata at one version.

    `controller_epoch` grows with each controller, and fences the earlier ones.
    `brokers` has the live brokers.
    `controllers` has the registered KRaft controllers.
    `configs` has the dynamic configs; a resource without any has no entry.
    `deleting` has the topics that are deleted as soon as all their replicas are.
    `names_by_metric` has the topics whose name has a `.` or `_`, by their `metric_name`.
    `next_producer_id` and all larger ids are unused.
    `acls` has the resource patterns with entries; one without entries is left out.
    `tokens` has the delegation tokens by their ids.
    `registered` has the registrations that outlast a broker's session, until an administrator
    unregisters the broker.  It is empty in clusters that keep only the registrations of live
    brokers: those of one broker, and those on ZooKeeper.  KRaft controllers fence a broker that is
    registered and not live.
    """

    cluster_id: str
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerImage] = field(default_factory=_no_brokers)
    topics: PersistentMap[str, TopicImage] = field(default_factory=PersistentMap)
    names_by_id: PersistentMap[bytes, str] = field(default_factory=PersistentMap)
    names_by_metric: PersistentMap[str, tuple[str, ...]] = field(default_factory=PersistentMap)
    configs: PersistentMap[ResourceKey, Mapping[str, str]] = field(default_factory=PersistentMap)
    deleting: frozenset[str] = frozenset()
    next_producer_id: int = 0
    features: FinalizedFeatures = field(default_factory=FinalizedFeatures)
    version: int = 0
    acls: PersistentMap[ResourcePattern, frozenset[AccessControlEntry]] = field(
        default_factory=PersistentMap
    )
    tokens: PersistentMap[str, DelegationToken] = field(default_factory=PersistentMap)
    registered: Mapping[int, BrokerImage] = field(default_factory=_no_brokers)
    controllers: Mapping[int, ControllerImage] = field(default_factory=_no_controllers)

    @property
    def fenced(self) -> dict[int, BrokerImage]:
        """The brokers that are registered and not live."""
        return {key: each for key, each in self.registered.items() if key not in self.brokers}

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics.get(name)

    def leader_of(self, topic: str, index: int) -> int | None:
        """The leader of a partition; None if it has none or does not exist."""
        topic_image = self.topics.get(topic)
        if topic_image is None or not 0 <= index < len(topic_image.partitions):
            return None
        leader = topic_image.partitions[index].leader
        return None if leader < 0 else leader

    def configs_of(self, resource: int, name: str) -> Mapping[str, str]:
        """The dynamic configs of a resource; empty if there are none."""
        return self.configs.get((resource, name), NOTHING_SET)

    def names_like(self, topic: str) -> tuple[str, ...]:
        """The topics with the same `metric_name` as `topic`, that topic included."""
        return self.names_by_metric.get(metric_name(topic), ())

    def acls_on(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        """The entries of exactly this resource pattern; empty if there are none."""
        return self.acls.get(pattern, NO_ENTRIES)

    # -- changes: each returns a new image

    def with_broker(self, broker: BrokerImage) -> ClusterImage:
        return replace(self, brokers=MappingProxyType({**self.brokers, broker.id: broker}))

    def without_broker(self, broker_id: int) -> ClusterImage:
        left = {key: broker for key, broker in self.brokers.items() if key != broker_id}
        return replace(self, brokers=MappingProxyType(left))

    def with_registration(self, broker_id: int, broker: BrokerImage | None) -> ClusterImage:
        """The image with the kept registration of a broker replaced; with None it is removed."""
        left = {key: each for key, each in self.registered.items() if key != broker_id}
        return replace(
            self,
            registered=MappingProxyType(left if broker is None else {**left, broker_id: broker}),
        )

    def with_controller(self, controller_id: int, controller_epoch: int) -> ClusterImage:
        return replace(self, controller_id=controller_id, controller_epoch=controller_epoch)

    def with_deleting(self, name: str) -> ClusterImage:
        return replace(self, deleting=self.deleting | {name})

    def with_next_producer_id(self, next_producer_id: int) -> ClusterImage:
        return replace(self, next_producer_id=next_producer_id)

    def with_acls(
        self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]
    ) -> ClusterImage:
        """The image with all entries of a resource pattern replaced."""
        if entries:
            return replace(self, acls=self.acls.having([(pattern, entries)]))
        return replace(self, acls=self.acls.without([pattern]))

    def with_token(self, token_id: str, token: DelegationToken | None) -> ClusterImage:
        """The image with a token added or replaced; with None it is removed."""
        if token is None:
            return replace(self, tokens=self.tokens.without([token_id]))
        return replace(self, tokens=self.tokens.having([(token_id, token)]))

    def with_features(self, features: FinalizedFeatures) -> ClusterImage:
        return replace(self, features=features)

    def is_led(self, topic: str, topic_id: bytes, partitions: int) -> bool:
        """Whether the topic has at least that many partitions and each has a leader."""
        topic_image = self.topics.get(topic)
        return (
            topic_image is not None
            and topic_image.id == topic_id
            and len(topic_image.partitions) >= partitions
            and all(each.leader != NO_LEADER for each in topic_image.partitions)
        )

    def with_version(self, version: int) -> ClusterImage:
        return replace(self, version=version)

    def with_topics(self, topics: Iterable[TopicImage]) -> ClusterImage:
        """The image with these topics added, or replaced if they exist."""
        given = {topic.name: topic for topic in topics}
        new, stale = [], []
        for topic in given.values():
            old = self.topics.get(topic.name)
            if old is None or old.id != topic.id:
                new.append(topic)
                stale += [old.id] if old is not None else []
        return replace(
            self,
            topics=self.topics.having(given.items()),
            names_by_id=self.names_by_id.without(stale).having((t.id, t.name) for t in new),
            names_by_metric=_indexed(self.names_by_metric, [topic.name for topic in new]),
        )

    def without_topics(self, names: Iterable[str]) -> ClusterImage:
        """The image without these topics and their configs."""
        names = tuple(names)
        gone = [topic for name in names if (topic := self.topics.get(name)) is not None]
        return replace(
            self,
            topics=self.topics.without(names),
            names_by_id=self.names_by_id.without(topic.id for topic in gone),
            names_by_metric=_unindexed(self.names_by_metric, [topic.name for topic in gone]),
            configs=self.configs.without((TOPIC_RESOURCE, name) for name in names),
            deleting=self.deleting.difference(names),
        )

    def with_configs(self, resource: int, name: str, configs: Mapping[str, str]) -> ClusterImage:
        """The image with all configs of a resource replaced; without any, it has no entry."""
        key = (resource, name)
        if configs:
            return self.with_all_configs([(key, configs)])
        return replace(self, configs=self.configs.without([key]))

    def with_all_configs(
        self, entries: Iterable[tuple[ResourceKey, Mapping[str, str]]]
    ) -> ClusterImage:
        """The image with the configs of several resources replaced; none may be empty."""
        frozen = ((key, MappingProxyType(dict(configs))) for key, configs in entries)
        return replace(self, configs=self.configs.having(frozen))


_Index = PersistentMap[str, tuple[str, ...]]


def _indexed(index: _Index, names: Iterable[str]) -> _Index:
    """Return `index` with topics added under the name that they have in metrics.

    Metrics replace "." by "_", so "a.b" and "a_b" collide there.  Other names cannot, and are left
    out.
    """
    added: dict[str, tuple[str, ...]] = {}
    for name in names:
        if "." in name or "_" in name:
            key = metric_name(name)
            before = added[key] if key in added else index.get(key, ())
            added[key] = (*[each for each in before if each != name], name)
    return index.having(added.items())


def _unindexed(index: _Index, names: Iterable[str]) -> _Index:
    """Return `index` without these topics, and without entries that no topic is left of."""
    left: dict[str, tuple[str, ...]] = {}
    for name in names:
        key = metric_name(name)
        before = left[key] if key in left else index.get(key, ())
        left[key] = tuple([each for each in before if each != name])
    kept = [(key, topics) for key, topics in left.items() if topics]
    return index.without(key for key, topics in left.items() if not topics).having(kept)
