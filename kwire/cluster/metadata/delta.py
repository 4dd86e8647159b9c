"""The difference between two images, for everything that follows the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    CreateTopic,
    DeleteTopic,
    DropRegistration,
    KeepRegistration,
    MarkForDeletion,
    RegisterBroker,
    SetConfigs,
    SetController,
    SetFeatures,
    SetToken,
    TakeProducerIds,
    UnregisterBroker,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    NOTHING_SET,
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    ResourceKey,
    TopicImage,
)
from kwire.cluster.metadata.tokens import Tokens

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterDelta:
    """The difference between two images; unchanged parts are left out.

    A topic that was deleted and created again is in `deleted` with its old id, and in `topics`.
    """

    deleted: Mapping[str, bytes] = field(default_factory=dict)
    """The names and ids of deleted topics."""
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    """New and changed topics, in their new state."""
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The new and changed partitions of each of `topics`."""
    configs: Mapping[ResourceKey, Mapping[str, str]] = field(default_factory=dict)
    """All configs of each resource whose configs changed."""
    brokers: Mapping[int, BrokerImage | None] = field(default_factory=dict)
    """New and changed brokers; None for those that are gone."""
    deleting: frozenset[str] = frozenset()
    """All topics marked for deletion, including those marked before."""
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    next_producer_id: int = 0
    version: int = 0
    acls: Mapping[ResourcePattern, frozenset[AccessControlEntry]] = field(default_factory=dict)
    """All entries of each resource pattern whose entries changed."""
    features: FinalizedFeatures | None = None
    """All features, if any changed."""
    tokens: Tokens = field(default_factory=dict)
    """New and changed delegation tokens; None for those that are gone."""
    registered: Mapping[int, BrokerImage | None] = field(default_factory=dict)
    """New and changed registrations that are kept; None for those that are dropped."""
    controllers: Mapping[int, ControllerImage | None] = field(default_factory=dict)
    """New and changed KRaft controllers; None for those that are gone."""

    def applied_to(self, before: ClusterImage) -> ClusterImage:
        """The image that results from applying this delta to `before`."""
        image = before.without_topics(self.deleted).with_topics(self.topics.values())
        for (resource, name), configs in self.configs.items():
            image = image.with_configs(resource, name, configs)
        for pattern, entries in self.acls.items():
            image = image.with_acls(pattern, entries)
        for token_id, token in self.tokens.items():
            image = image.with_token(token_id, token)
        for broker_id in self.brokers:
            image = image.without_broker(broker_id)
        for broker in filter(None, self.brokers.values()):
            image = image.with_broker(broker)
        for broker_id, registration in self.registered.items():
            image = image.with_registration(broker_id, registration)
        return replace(
            image,
            deleting=self.deleting,
            controller_id=self.controller_id,
            controller_epoch=self.controller_epoch,
            next_producer_id=self.next_producer_id,
            version=self.version,
            features=image.features if self.features is None else self.features,
            controllers=_changed(image.controllers, self.controllers),
        )


def _changed(before: Mapping[int, T], changes: Mapping[int, T | None]) -> Mapping[int, T]:
    """Return `before` with the entries of `changes`, where None removes one."""
    if not changes:
        return before
    entries: dict[int, T | None] = {**before, **changes}
    return MappingProxyType({key: value for key, value in entries.items() if value is not None})


@dataclass(slots=True)
class Touched:
    """The parts of an image that may have changed; a dict has the keys in order."""

    topics: dict[str, None] = field(default_factory=dict)
    configs: dict[ResourceKey, None] = field(default_factory=dict)
    brokers: dict[int, None] = field(default_factory=dict)
    """Live, or registered alone."""
    acls: dict[ResourcePattern, None] = field(default_factory=dict)
    tokens: dict[str, None] = field(default_factory=dict)
    controllers: dict[int, None] = field(default_factory=dict)


def delta_of(before: ClusterImage, after: ClusterImage, changes: Iterable[Change]) -> ClusterDelta:
    """The difference between `before` and `after`, which `changes` made of it.

    Costs time in proportion to the changes.
    """
    touched = Touched()
    for change in changes:
        match change:
            case CreateTopic(topic):
                touched.topics[topic.name] = touched.configs[TOPIC_RESOURCE, topic.name] = None
            case DeleteTopic(name):
                touched.topics[name] = touched.configs[TOPIC_RESOURCE, name] = None
            case AddPartitions(name) | AlterPartition(name):
                touched.topics[name] = None
            case SetConfigs(resource, name):
                touched.configs[resource, name] = None
            case ChangeAcls(pattern):
                touched.acls[pattern] = None
            case SetToken(token_id):
                touched.tokens[token_id] = None
            case RegisterBroker(broker) | KeepRegistration(broker):
                touched.brokers[broker.id] = None
            case UnregisterBroker(broker_id) | DropRegistration(broker_id):
                touched.brokers[broker_id] = None
    return difference(before, after, touched)


def delta_between(before: ClusterImage, after: ClusterImage) -> ClusterDelta:
    """Return the difference between any two images, by comparing everything."""
    touched = Touched(
        dict.fromkeys(before.topics) | dict.fromkeys(after.topics),
        dict.fromkeys(before.configs) | dict.fromkeys(after.configs),
        dict.fromkeys((*before.brokers, *after.brokers, *before.registered, *after.registered)),
        dict.fromkeys(before.acls) | dict.fromkeys(after.acls),
        dict.fromkeys(before.tokens) | dict.fromkeys(after.tokens),
        dict.fromkeys(before.controllers) | dict.fromkeys(after.controllers),
    )
    return difference(before, after, touched)


def difference(before: ClusterImage, after: ClusterImage, touched: Touched) -> ClusterDelta:
    """The difference between two images, of which only the touched parts may differ."""
    deleted: dict[str, bytes] = {}
    changed: dict[str, TopicImage] = {}
    partitions: dict[str, tuple[int, ...]] = {}
    for name in touched.topics:
        old, new = before.topics.get(name), after.topics.get(name)
        if old is not None and (new is None or new.id != old.id):
            deleted[name] = old.id
            old = None
        if new is not None and new != old:
            changed[name] = new
            partitions[name] = _changed_partitions(old, new)
    return ClusterDelta(
        deleted,
        changed,
        partitions,
        {
            key: after.configs_of(*key)
            for key in touched.configs
            if after.configs_of(*key) != before.configs_of(*key)
        },
        _differing(before.brokers, after.brokers, touched.brokers),
        after.deleting,
        after.controller_id,
        after.controller_epoch,
        after.next_producer_id,
        after.version,
        {
            pattern: after.acls_on(pattern)
            for pattern in touched.acls
            if after.acls_on(pattern) != before.acls_on(pattern)
        },
        after.features if after.features != before.features else None,
        {
            token_id: after.tokens.get(token_id)
            for token_id in touched.tokens
            if after.tokens.get(token_id) != before.tokens.get(token_id)
        },
        _differing(before.registered, after.registered, touched.brokers),
        _differing(before.controllers, after.controllers, touched.controllers),
    )


def _differing(
    before: Mapping[int, T], after: Mapping[int, T], keys: Iterable[int]
) -> dict[int, T | None]:
    """Return the values in `after` of those `keys` whose values differ."""
    return {key: after.get(key) for key in keys if after.get(key) != before.get(key)}


def _changed_partitions(old: TopicImage | None, new: TopicImage) -> tuple[int, ...]:
    """Return the indexes of partitions that are new in `new` or differ from `old`."""
    have = () if old is None else old.partitions
    # Most states are the same object in both; `is` avoids comparing them.
    return tuple(
        index
        for index, state in enumerate(new.partitions)
        if index >= len(have) or (have[index] is not state and have[index] != state)
    )


def changes_for(before: ClusterImage, delta: ClusterDelta) -> Iterator[Change]:
    """Yield changes that turn `before` into the image that `delta` leads to.

    They are as few as the delta is long, and need not be those that were committed.  They do not
    set the version.
    """
    for name, topic_id in delta.deleted.items():
        yield DeleteTopic(name, topic_id)
    for name, topic in delta.topics.items():
        old = None if name in delta.deleted else before.topics.get(name)
        if old is None:
            yield CreateTopic(topic, delta.configs.get((TOPIC_RESOURCE, name), NOTHING_SET))
        else:
            yield from _changed_states(old, topic, delta.partitions[name])
    yield from _changed_configs(before, delta)
    for pattern, entries in delta.acls.items():
        old_entries = before.acls_on(pattern)
        yield ChangeAcls(
            pattern, (*sorted(entries - old_entries),), (*sorted(old_entries - entries),)
        )
    for token_id, token in delta.tokens.items():
        yield SetToken(token_id, before.tokens.get(token_id), token)
    yield from _changed_members(before, delta)
    for name in sorted(delta.deleting - (before.deleting - delta.deleted.keys())):
        topic = delta.topics.get(name) or before.topics[name]
        yield MarkForDeletion(name, topic.id)


def _changed_members(before: ClusterImage, delta: ClusterDelta) -> Iterator[Change]:
    """Yield the changes of brokers, controller, features and producer ids."""
    for broker_id, broker in delta.brokers.items():
        yield UnregisterBroker(broker_id) if broker is None else RegisterBroker(broker)
    for broker_id, broker in delta.registered.items():
        yield DropRegistration(broker_id) if broker is None else KeepRegistration(broker)
    if (delta.controller_id, delta.controller_epoch) != (
        before.controller_id,
        before.controller_epoch,
    ):
        yield SetController(before.controller_id, delta.controller_id, delta.controller_epoch)
    if delta.next_producer_id != before.next_producer_id:
        yield TakeProducerIds(before.next_producer_id, delta.next_producer_id)
    if delta.features is not None:
        yield SetFeatures(before.features.epoch, delta.features)


def _changed_configs(before: ClusterImage, delta: ClusterDelta) -> Iterator[Change]:
    """Yield the changes of configs, without those of new topics."""
    for (resource, name), configs in delta.configs.items():
        is_new = resource == TOPIC_RESOURCE and (name in delta.deleted or name not in before.topics)
        if not is_new:  # CreateTopic carries the configs of a new topic
            yield SetConfigs(resource, name, before.configs_of(resource, name), configs)


def _changed_states(old: TopicImage, new: TopicImage, changed: Iterable[int]) -> Iterator[Change]:
    """Yield the changes that turn the partitions of `old` into those of `new`.

    `changed` has the indexes of partitions that differ.
    """
    first = len(old.partitions)
    for index in changed:
        if index < first:
            epoch = old.partitions[index].partition_epoch
            yield AlterPartition(new.name, new.id, index, epoch, new.partitions[index])
    if len(new.partitions) > first:
        yield AddPartitions(new.name, new.id, first, new.partitions[first:])
