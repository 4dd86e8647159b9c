"""What the cluster is: brokers, topics, partitions and configs, as one immutable value.

A `ClusterImage` is never changed: a store hands out the next one and it replaces the last as a
whole, so whoever holds an image sees one consistent state for as long as it likes.  The helpers
return a new image with the same `version`; the store gives it its version when it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from kwire.cluster.metadata.acls import NO_ENTRIES, AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.persistent_map import PersistentMap
from kwire.cluster.metadata.tokens import DelegationToken

ResourceKey = tuple[int, str]
"""(ConfigResourceType, name): what a set of configs belongs to."""

FIRST_PRODUCER_ID = 1_000_000_000_000_000
"""Where the producer ids that kwire gives out begin.

Apache Kafka counts its own from 0, in blocks of a thousand, and keeps the count in the KRaft
metadata or in ZooKeeper, where kwire's would be unknown: a directory that goes back would have two
producers with one id, and the first batches of the second would count as those of the first, sent
again.  So kwire's lie where Apache Kafka never comes to, and below 2**53, up to which JSON and
JavaScript know integers.
"""

NO_LEADER = -1
NO_CONTROLLER = -1

TOPIC_RESOURCE = 2
"""Kafka's ConfigResource.Type.TOPIC: the configs that go with a topic when it is deleted."""

NOTHING_SET: Mapping[str, str] = MappingProxyType({})
NO_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients of one listener reach a broker: an advertised address, not a bound one."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker.

    `epoch` is that of its registration: larger with each one (KIP-380), -1 for a broker alone.
    `features` are the levels it can work at: name to (lowest, highest) (KIP-584).
    """

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: NO_FEATURES)

    def endpoint(self, listener: str) -> Endpoint | None:
        """The address that clients of `listener` are told, None if this broker lacks it."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """One partition: who has it, who leads it, who is in sync.

    `leader_epoch` counts leader changes, `partition_epoch` counts all changes of this record.
    `offline` are the replicas whose broker is gone or whose log directory failed.
    While it is reassigned (KIP-455), `replicas` has those that are `adding` and those that are
    `removing`.  `recovering`: the leader was not in sync when it was elected, and has yet to say
    that it is in order (KIP-704).  `controller_epoch` is that of the controller who said so.
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


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: partition `n` is `partitions[n]`."""

    name: str
    id: bytes
    partitions: tuple[PartitionImage, ...]


def _no_brokers() -> Mapping[int, BrokerImage]:
    return MappingProxyType({})


def metric_name(topic: str) -> str:
    """`.` and `_` are one character in Kafka's metric names."""
    return topic.replace(".", "_")


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster's metadata at one version.

    `controller_epoch` counts who was controller: what an earlier one says is void.
    `configs` holds what was set dynamically; a resource with nothing set has no entry.
    `deleting` are the topics that are to go as soon as all their replicas are gone.
    `names_by_metric` has the topics whose name has a `.` or `_`, by their `metric_name`.
    `next_producer_id` and all above it were never given to anybody.
    `acls` has the resources with entries; without any of them a pattern is not there.
    `tokens` are the delegation tokens by their ids.
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

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics.get(name)

    def leader_of(self, topic: str, index: int) -> int | None:
        """Who leads a partition; None where nobody does, or it does not exist."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        leader = found.partitions[index].leader
        return None if leader < 0 else leader

    def configs_of(self, resource: int, name: str) -> Mapping[str, str]:
        """What was set on a resource; empty if nothing was."""
        return self.configs.get((resource, name), NOTHING_SET)

    def names_like(self, topic: str) -> tuple[str, ...]:
        """The topics whose metrics could not be told from those of `topic`, itself included."""
        return self.names_by_metric.get(metric_name(topic), ())

    def acls_on(self, pattern: ResourcePattern) -> frozenset[AccessControlEntry]:
        """The entries on just these resources; empty if there are none."""
        return self.acls.get(pattern, NO_ENTRIES)

    # -- each returns the next image

    def with_broker(self, broker: BrokerImage) -> ClusterImage:
        return replace(self, brokers=MappingProxyType({**self.brokers, broker.id: broker}))

    def without_broker(self, broker_id: int) -> ClusterImage:
        left = {key: broker for key, broker in self.brokers.items() if key != broker_id}
        return replace(self, brokers=MappingProxyType(left))

    def with_controller(self, controller_id: int, controller_epoch: int) -> ClusterImage:
        return replace(self, controller_id=controller_id, controller_epoch=controller_epoch)

    def with_deleting(self, name: str) -> ClusterImage:
        return replace(self, deleting=self.deleting | {name})

    def with_next_producer_id(self, next_producer_id: int) -> ClusterImage:
        return replace(self, next_producer_id=next_producer_id)

    def with_acls(
        self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry]
    ) -> ClusterImage:
        """Replace all entries on these resources."""
        if entries:
            return replace(self, acls=self.acls.having([(pattern, entries)]))
        return replace(self, acls=self.acls.without([pattern]))

    def with_token(self, token_id: str, token: DelegationToken | None) -> ClusterImage:
        """The token of that id is this one, or there is none any more."""
        if token is None:
            return replace(self, tokens=self.tokens.without([token_id]))
        return replace(self, tokens=self.tokens.having([(token_id, token)]))

    def with_features(self, features: FinalizedFeatures) -> ClusterImage:
        return replace(self, features=features)

    def is_led(self, topic: str, topic_id: bytes, partitions: int) -> bool:
        """Whether that many partitions of a topic have a leader."""
        found = self.topics.get(topic)
        return (
            found is not None
            and found.id == topic_id
            and len(found.partitions) >= partitions
            and all(each.leader != NO_LEADER for each in found.partitions)
        )

    def with_version(self, version: int) -> ClusterImage:
        return replace(self, version=version)

    def with_topics(self, topics: Iterable[TopicImage]) -> ClusterImage:
        """Add topics, or put new versions of them in the place of the old ones."""
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
        """Remove topics and all that was said of them."""
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
        """Replace all that is set on a resource; an empty mapping removes its entry."""
        key = (resource, name)
        if configs:
            return self.with_all_configs([(key, configs)])
        return replace(self, configs=self.configs.without([key]))

    def with_all_configs(
        self, entries: Iterable[tuple[ResourceKey, Mapping[str, str]]]
    ) -> ClusterImage:
        """Replace all that is set on some resources; none of them without anything set."""
        frozen = ((key, MappingProxyType(dict(configs))) for key, configs in entries)
        return replace(self, configs=self.configs.having(frozen))


_Index = PersistentMap[str, tuple[str, ...]]


def _indexed(index: _Index, names: Iterable[str]) -> _Index:
    added: dict[str, tuple[str, ...]] = {}
    for name in names:
        if "." in name or "_" in name:
            key = metric_name(name)
            before = added[key] if key in added else index.get(key, ())
            added[key] = (*[each for each in before if each != name], name)
    return index.having(added.items())


def _unindexed(index: _Index, names: Iterable[str]) -> _Index:
    left: dict[str, tuple[str, ...]] = {}
    for name in names:
        key = metric_name(name)
        before = left[key] if key in left else index.get(key, ())
        left[key] = tuple([each for each in before if each != name])
    kept = [(key, known) for key, known in left.items() if known]
    return index.without(key for key, known in left.items() if not known).having(kept)
