"""What changes are in ZooKeeper: operations, in steps that are made whole or not at all.

A change is one step where it fits; a topic with very many partitions takes more.  What makes it
count is in the first step then (of a topic that is made, its znode) or in the last (of one that
goes): whatever a crash leaves behind, the next controller finishes, as Apache Kafka's does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kwire.cluster.metadata.acls import ResourcePattern
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    Conflict,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    SetConfigs,
    SetFeatures,
    SetToken,
    apply,
)
from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    TOPIC_RESOURCE,
    ClusterImage,
    PartitionImage,
    ResourceKey,
    TopicImage,
)
from kwire.cluster.stores.zookeeper import acl_znodes, token_znodes, znodes
from kwire.cluster.stores.zookeeper.session import SEQUENTIAL, Operation, Session

STEP_BYTES_MAX = 256 << 10
"""A quarter of jute.maxbuffer, 1 MB, above which ZooKeeper drops the connection."""
_OPERATION_BYTES = 120
"""Of an operation besides its path and content: header, access list, flags."""

TOPIC_CHANGES = (CreateTopic, AddPartitions, AlterPartition, MarkForDeletion, DeleteTopic)
"""What the controller alone decides."""


Noted = tuple[str | ResourceKey | ResourcePattern, int | None]
"""A topic, what is configured, or what has access control lists, and the version of its znode; None
if it is gone."""

_Key = TypeVar("_Key")


def _put(versions: dict[_Key, int], key: _Key, version: int | None) -> None:
    if version is None:
        versions.pop(key, None)
    else:
        versions[key] = version


@dataclass(slots=True)
class Versions:
    """Those of the znodes that are written again, as far as this broker has read them."""

    topics: dict[str, int] = field(default_factory=dict)
    configs: dict[ResourceKey, int] = field(default_factory=dict)
    acls: dict[ResourcePattern, int] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    """Paths of partitions that have no state, and of the folders of such: a controller was
    interrupted there."""

    def note(self, noted: Iterable[Noted]) -> None:
        """What a step that was made has made of them."""
        for key, version in noted:
            if isinstance(key, str):
                _put(self.topics, key, version)
            elif isinstance(key, ResourcePattern):
                _put(self.acls, key, version)
            else:
                _put(self.configs, key, version)


@dataclass(slots=True)
class Step:
    """Operations that are made all or none; with it, `completed` have been made."""

    operations: list[Operation] = field(default_factory=list)
    completed: list[Change] = field(default_factory=list)
    noted: list[Noted] = field(default_factory=list)
    size_bytes: int = 0


def as_written(change: Change) -> Change:
    """The change with the partition epochs that it will have: the versions of its znodes."""
    match change:
        case CreateTopic(topic):
            return replace(change, topic=replace(topic, partitions=_new(topic.partitions)))
        case AddPartitions():
            return replace(change, partitions=_new(change.partitions))
        case AlterPartition():
            state = replace(change.state, partition_epoch=change.partition_epoch + 1)
            return replace(change, state=state)
        case SetFeatures(expected_epoch, features):
            return replace(change, features=replace(features, epoch=expected_epoch + 1))
    return change


def _new(states: Iterable[PartitionImage]) -> tuple[PartitionImage, ...]:
    """Without a state there is no znode of it: the controller makes it, and says who leads."""
    return tuple(state if is_new(state) else replace(state, partition_epoch=0) for state in states)


def applied(image: ClusterImage, changes: Iterable[Change], knows_topics: bool) -> ClusterImage:
    """The image after them.  Raises Conflict.

    Who is not the controller knows no topics: ZooKeeper looks whether there is one.
    """
    for change in changes:
        if isinstance(change, SetConfigs) and not knows_topics:
            if image.configs_of(change.resource, change.name) != change.expected:
                raise Conflict(f"other configs are set on {change.name!r}")
            image = image.with_configs(change.resource, change.name, change.configs)
        else:
            image = apply(image, change)
    return image


def possible(
    image: ClusterImage, changes: Sequence[Change], knows_topics: bool
) -> tuple[list[Change], Conflict | None]:
    """Those that can be made, as they will be written, and what is in the way of the next."""
    made: list[Change] = []
    for change in changes:
        written = as_written(change)
        try:
            # Of an AlterPartition the new epoch must be larger, whatever it will be.
            applied(image, [change], knows_topics)
            image = applied(image, [written], knows_topics)
        except Conflict as conflict:
            return made, conflict
        made.append(written)
    return made, None


class Writer:
    """Makes steps of the changes of one commit.

    `image` is the one before; `children` what is below /brokers/topics/T/partitions of the topics
    that are to go.
    """

    def __init__(
        self,
        session: Session,
        image: ClusterImage,
        versions: Versions,
        fence: Callable[[], Operation],
        children: Mapping[str, Sequence[str]],
        knows_topics: bool,
    ) -> None:
        self._session, self._image = session, image
        self._fence, self._knows_topics = fence, knows_topics
        self._children = {name: set(folders) for name, folders in children.items()}
        self._versions = Versions(
            dict(versions.topics), dict(versions.configs), dict(versions.acls), versions.made
        )
        self._noted: list[Noted] = []
        self._assigned: set[str] = set()

    def steps(self, changes: Sequence[Change]) -> Iterator[Step]:
        """In their order.  The fence is the first operation of a step with changes of topics."""
        step = Step()
        for at, change in enumerate(changes):
            fenced = isinstance(change, TOPIC_CHANGES)
            for group in self._groups(change, changes[at:]):
                size_bytes = sum(map(_size_bytes, group))
                if step.operations and step.size_bytes + size_bytes > STEP_BYTES_MAX:
                    yield step
                    step = Step()
                if fenced and not step.size_bytes:
                    step.operations.append(self._fence())
                step.operations += group
                step.noted += self._noted
                self._noted = []
                step.size_bytes += size_bytes
            step.completed.append(change)
            self._image = applied(self._image, [change], self._knows_topics)
            if at + 1 < len(changes) and fenced != isinstance(changes[at + 1], TOPIC_CHANGES):
                yield step  # settings of any broker are not fenced
                step = Step()
        if step.operations or step.completed:
            yield step

    def _groups(self, change: Change, coming: Sequence[Change]) -> Iterator[list[Operation]]:
        """Operations that must not be torn apart, one group after another."""
        session = self._session
        match change:
            case CreateTopic(topic, configs):
                self._note(topic.name, 0)
                yield [
                    self._configured((TOPIC_RESOURCE, topic.name), configs),
                    session.create(znodes.topic_path(topic.name), znodes.encode_topic(topic)),
                    *self._folder_of(topic),
                ]
                yield from self._born(topic.name, 0, topic.partitions)
            case AddPartitions(name, _, first, partitions):
                topic = self._image.topics[name]
                grown = replace(topic, partitions=(*topic.partitions, *partitions))
                yield [self._assignment(grown)]
                yield from self._born(name, first, partitions)
            case AlterPartition():
                yield from self._altered(change, coming)
            case MarkForDeletion(name):
                if name not in self._image.deleting:
                    yield [session.create(znodes.deletion_path(name))]
            case DeleteTopic(name):
                yield from self._gone(name)
            case SetConfigs(resource, name, _, configs):
                yield self._set((resource, name), configs)
            case ChangeAcls() | SetToken():
                yield self._of_access(change)
            case SetFeatures(expected_epoch, features):
                yield [self._agreed(expected_epoch, features)]
            case _:
                raise AssertionError(f"{change!r} is not made by a commit")

    def _folder_of(self, topic: TopicImage) -> list[Operation]:
        """Made with the first state, as 3.9 does."""
        if all(map(is_new, topic.partitions)):
            return []
        return [self._session.create(znodes.partitions_path(topic.name))]

    def _born(
        self, topic: str, first: int, states: Iterable[PartitionImage]
    ) -> Iterator[list[Operation]]:
        for index, state in enumerate(states, first):
            if is_new(state):
                continue
            self._children.setdefault(topic, set()).add(str(index))
            yield [
                self._session.create(znodes.partition_path(topic, index)),
                self._session.create(znodes.state_path(topic, index), znodes.encode_state(state)),
            ]

    def _altered(
        self, change: AlterPartition, coming: Sequence[Change]
    ) -> Iterator[list[Operation]]:
        topic, state = self._image.topics[change.topic], change.state
        before = topic.partitions[change.index]
        group = []
        if _assignment_of(before) != _assignment_of(state) and topic.name not in self._assigned:
            self._assigned.add(topic.name)
            group.append(self._assignment(_assigned(topic, coming)))
        path, content = znodes.state_path(topic.name, change.index), znodes.encode_state(state)
        if before.partition_epoch >= 0:
            group.append(self._session.set_data(path, content, before.partition_epoch))
            yield group
            return
        # Nobody has said yet who leads it: another broker made the topic, or let it grow.
        folders = [znodes.partition_path(topic.name, change.index)]
        if all(each.partition_epoch < 0 for each in topic.partitions):
            folders.insert(0, znodes.partitions_path(topic.name))
        made = self._versions.made
        group += [self._session.create(folder) for folder in folders if folder not in made]
        group.append(self._session.create(path, content))
        yield group

    def _note(self, key: str | ResourceKey | ResourcePattern, version: int | None) -> None:
        noted: Noted = (key, version)
        self._noted.append(noted)
        self._versions.note([noted])

    def _assignment(self, topic: TopicImage) -> Operation:
        version = self._versions.topics[topic.name]
        self._note(topic.name, version + 1)
        path = znodes.topic_path(topic.name)
        return self._session.set_data(path, znodes.encode_topic(topic), version)

    def _gone(self, name: str) -> Iterator[list[Operation]]:
        session = self._session
        for index in sorted(self._children.get(name, ())):
            path = f"{znodes.partitions_path(name)}/{index}"
            state = [session.delete(f"{path}/state")] if self._has_state(name, index) else []
            yield [*state, session.delete(path)]
        last = [session.delete(znodes.partitions_path(name))] if name in self._children else []
        last.append(session.delete(znodes.topic_path(name)))
        if (TOPIC_RESOURCE, name) in self._versions.configs:
            last.append(session.delete(znodes.config_path((TOPIC_RESOURCE, name))))
            self._note((TOPIC_RESOURCE, name), None)
        self._note(name, None)
        if name in self._image.deleting:
            last.append(session.delete(znodes.deletion_path(name)))
        yield last

    def _has_state(self, name: str, index: str) -> bool:
        states = self._image.topics[name].partitions
        return int(index) < len(states) and states[int(index)].partition_epoch >= 0

    def _configured(self, key: ResourceKey, configs: Mapping[str, str]) -> Operation:
        path, content = znodes.config_path(key), znodes.encode_configs(configs)
        version = self._versions.configs.get(key)
        self._note(key, 0 if version is None else version + 1)
        if version is None:
            return self._session.create(path, content)
        return self._session.set_data(path, content, version)

    def _agreed(self, expected_epoch: int, features: FinalizedFeatures) -> Operation:
        path, content = znodes.FEATURE, znodes.encode_feature(features)
        if expected_epoch < 0:
            return self._session.create(path, content)
        return self._session.set_data(path, content, expected_epoch)

    def _set(self, key: ResourceKey, configs: Mapping[str, str]) -> list[Operation]:
        group = [self._configured(key, configs)]
        if key[0] == TOPIC_RESOURCE:
            group.insert(0, self._session.check(znodes.topic_path(key[1])))
        told = znodes.encode_config_change(key)
        return [*group, self._session.create(znodes.CONFIG_CHANGE, told, SEQUENTIAL)]

    def _of_access(self, change: ChangeAcls | SetToken) -> list[Operation]:
        return self._given(change) if isinstance(change, SetToken) else self._listed(change)

    def _listed(self, change: ChangeAcls) -> list[Operation]:
        """All entries of a pattern; the znode goes with the last of them."""
        session, pattern = self._session, change.pattern
        path, version = acl_znodes.acl_path(pattern), self._versions.acls.get(pattern)
        entries = change.apply_to(self._image).acls_on(pattern)
        content = acl_znodes.encode_acls(entries)
        if version is None:
            self._note(pattern, 0)
            written = session.create(path, content)
        elif entries:
            self._note(pattern, version + 1)
            written = session.set_data(path, content, version)
        else:
            self._note(pattern, None)
            written = session.delete(path, version)
        told = acl_znodes.encode_change(pattern)
        return [written, session.create(acl_znodes.change_path(pattern), told, SEQUENTIAL)]

    def _given(self, change: SetToken) -> list[Operation]:
        """A token; nobody looks at the version of its znode, Apache Kafka's brokers neither."""
        session, path = self._session, token_znodes.token_path(change.token_id)
        if change.token is None:
            written = session.delete(path)
        elif change.expected is None:
            written = session.create(path, token_znodes.encode_token(change.token))
        else:
            written = session.set_data(path, token_znodes.encode_token(change.token))
        told = change.token_id.encode()
        return [written, session.create(token_znodes.CHANGE, told, SEQUENTIAL)]


def _assignment_of(state: PartitionImage) -> znodes.Assignment:
    return znodes.Assignment(state.replicas, state.adding, state.removing)


def _assigned(topic: TopicImage, coming: Sequence[Change]) -> TopicImage:
    """The topic with the replicas that all coming changes of its partitions give it.

    One write instead of one each: a topic of thousands of partitions is megabytes otherwise.
    """
    states = list(topic.partitions)
    for change in coming:
        if isinstance(change, AlterPartition) and change.topic == topic.name:
            states[change.index] = change.state
    return replace(topic, partitions=tuple(states))


def _size_bytes(operation: Operation) -> int:
    content = getattr(operation, "data", None) or b""
    return len(operation.path) + len(content) + _OPERATION_BYTES
