"""What the cluster is: brokers, topics, partitions and configs, as one immutable value.

A `ClusterImage` is never changed: a store hands out the next one and it replaces the last as a
whole, so whoever holds an image sees one consistent state for as long as it likes.  The helpers
return a new image with the same `version`; the store gives it its version when it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

ResourceKey = tuple[int, str]
"""(ConfigResourceType, name): what a set of configs belongs to."""

NO_LEADER = -1
NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients of one listener reach a broker: an advertised address, not a bound one."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None

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
    """

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic: partition `n` is `partitions[n]`."""

    name: str
    id: bytes
    partitions: tuple[PartitionImage, ...]


def _no_brokers() -> Mapping[int, BrokerImage]:
    return MappingProxyType({})


def _no_topics() -> Mapping[str, TopicImage]:
    return MappingProxyType({})


def _no_names() -> Mapping[bytes, str]:
    return MappingProxyType({})


def _no_configs() -> Mapping[ResourceKey, Mapping[str, str]]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster's metadata at one version.

    `configs` holds what was set dynamically; a resource with nothing set has no entry.
    """

    cluster_id: str
    controller_id: int = NO_CONTROLLER
    brokers: Mapping[int, BrokerImage] = field(default_factory=_no_brokers)
    topics: Mapping[str, TopicImage] = field(default_factory=_no_topics)
    names_by_id: Mapping[bytes, str] = field(default_factory=_no_names)
    configs: Mapping[ResourceKey, Mapping[str, str]] = field(default_factory=_no_configs)
    version: int = 0

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.topics.get(name)

    def configs_of(self, resource: int, name: str) -> Mapping[str, str]:
        """What was set on a resource; empty if nothing was."""
        return self.configs.get((resource, name), {})

    # -- each returns the next image

    def with_broker(self, broker: BrokerImage) -> ClusterImage:
        return replace(self, brokers=MappingProxyType({**self.brokers, broker.id: broker}))

    def with_controller(self, controller_id: int) -> ClusterImage:
        return replace(self, controller_id=controller_id)

    def with_version(self, version: int) -> ClusterImage:
        return replace(self, version=version)

    def with_topics(self, topics: Iterable[TopicImage]) -> ClusterImage:
        """Add topics, or put new versions of them in the place of the old ones."""
        by_name, by_id = dict(self.topics), dict(self.names_by_id)
        for topic in topics:
            old = by_name.get(topic.name)
            if old is not None and old.id != topic.id:
                del by_id[old.id]
            by_name[topic.name] = topic
            by_id[topic.id] = topic.name
        return replace(self, topics=MappingProxyType(by_name), names_by_id=MappingProxyType(by_id))

    def without_topics(self, names: Iterable[str], resource: int) -> ClusterImage:
        """Remove topics and the configs of `resource` (TOPIC) that were set on them."""
        by_name, by_id, configs = dict(self.topics), dict(self.names_by_id), dict(self.configs)
        for name in names:
            topic = by_name.pop(name, None)
            if topic is not None:
                del by_id[topic.id]
            configs.pop((resource, name), None)
        return replace(
            self,
            topics=MappingProxyType(by_name),
            names_by_id=MappingProxyType(by_id),
            configs=MappingProxyType(configs),
        )

    def with_configs(self, resource: int, name: str, configs: Mapping[str, str]) -> ClusterImage:
        """Replace all that is set on a resource; an empty mapping removes its entry."""
        all_configs = dict(self.configs)
        if configs:
            all_configs[resource, name] = MappingProxyType(dict(configs))
        else:
            all_configs.pop((resource, name), None)
        return replace(self, configs=MappingProxyType(all_configs))
