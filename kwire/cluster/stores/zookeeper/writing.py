"""StepWriter: converts metadata changes to ZooKeeper operations, in steps.

A step is one transaction.  A change fits into one step, except for topics with very many
partitions.  Then the operation that decides is in the first step of a creation (the topic's znode)
and in the last step of a deletion.  So the next controller can finish what a crash interrupts, as
Apache Kafka's controller does.
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
from kwire.cluster.stores.zookeeper.session import SEQUENTIAL, ZnodeOperation, ZooKeeperSession

STEP_BYTES_MAX = 256 << 10
"""A quarter of jute.maxbuffer (1 MB); ZooKeeper drops a connection that sends more than that."""
_OPERATION_BYTES = 120
"""Size of an operation without path and content: header, access list, flags."""

TOPIC_CHANGES = (CreateTopic, AddPartitions, AlterPartition, MarkForDeletion, DeleteTopic)
"""Changes that only the controller may make."""


Noted = tuple[str | ResourceKey | ResourcePattern, int | None]
"""A topic, a config resource or an ACL pattern, and the version of its znode; None if deleted."""

_Key = TypeVar("_Key")


def _put(versions: dict[_Key, int], key: _Key, version: int | None) -> None:
    """Sets the version of a key; None removes the key."""
    if version is None:
        versions.pop(key, None)
    else:
        versions[key] = version


@dataclass(slots=True)
class ZnodeVersions:
    """Versions of the znodes that this broker has read and may write: a write names the version."""

    topics: dict[str, int] = field(default_factory=dict)
    configs: dict[ResourceKey, int] = field(default_factory=dict)
    acls: dict[ResourcePattern, int] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    """Paths that exist above a missing partition state: a controller was interrupted there."""

    def note(self, noted: Iterable[Noted]) -> None:
        """Set the versions that a step has written."""
        for key, version in noted:
            if isinstance(key, str):
                _put(self.topics, key, version)
            elif isinstance(key, ResourcePattern):
                _put(self.acls, key, version)
            else:
                _put(self.configs, key, version)


@dataclass(slots=True)
class WriteStep:
    """One transaction; once it is made, the changes `completed` are complete."""

    operations: list[ZnodeOperation] = field(default_factory=list)
    completed: list[Change] = field(default_factory=list)
    noted: list[Noted] = field(default_factory=list)
    size_bytes: int = 0


def as_written(change: Change) -> Change:
    """Return `change` with the partition epochs that it will have in ZooKeeper.

    They are the versions of the znodes.
    """
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
    """Set the partition epoch of each state to 0, except for new partitions.

    A new partition has no leader, so its znode is created when the controller elects one.
    """
    return tuple(state if is_new(state) else replace(state, partition_epoch=0) for state in states)


def applied(image: ClusterImage, changes: Iterable[Change], knows_topics: bool) -> ClusterImage:
    """Return the image after `changes`.  Raises Conflict.

    Without `knows_topics` this broker is not the controller.  Then a config change is not checked
    against the image's topics: ZooKeeper checks that the topic exists.
    """
    for change in changes:
        if isinstance(change, SetConfigs) and not knows_topics:
            if image.configs_of(change.resource, change.name) != change.expected:
                raise Conflict(f"the configs of {change.name!r} have changed")
            image = image.with_configs(change.resource, change.name, change.configs)
        else:
            image = apply(image, change)
    return image


def possible(
    image: ClusterImage, changes: Sequence[Change], knows_topics: bool
) -> tuple[list[Change], Conflict | None]:
    """Return the changes before the first conflict, and this Conflict or None.

    The changes are as they will be written.
    """
    written: list[Change] = []
    for change in changes:
        final = as_written(change)
        try:
            # Check the change as it is too: the epoch that an AlterPartition names must be larger
            # than the known one, although ZooKeeper sets it.
            applied(image, [change], knows_topics)
            image = applied(image, [final], knows_topics)
        except Conflict as conflict:
            return written, conflict
        written.append(final)
    return written, None


class StepWriter:
    """Makes the steps of one commit.

    `image` is the image before it; `children` has the names below /brokers/topics/T/partitions of
    each topic that the commit deletes.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        image: ClusterImage,
        versions: ZnodeVersions,
        fence: Callable[[], ZnodeOperation],
        children: Mapping[str, Sequence[str]],
        knows_topics: bool,
    ) -> None:
        """`versions` are those of the znodes before the commit; they are copied.

        `fence` makes the operation that fails once this broker is not the controller any more.
        """
        self._session, self._image = session, image
        self._fence, self._knows_topics = fence, knows_topics
        self._children = {name: set(folders) for name, folders in children.items()}
        self._versions = ZnodeVersions(
            dict(versions.topics), dict(versions.configs), dict(versions.acls), versions.made
        )
        self._noted: list[Noted] = []
        self._assigned: set[str] = set()

    def steps(self, changes: Sequence[Change]) -> Iterator[WriteStep]:
        """Yield the steps of `changes` in their order.

        A step with topic changes begins with the fence, other steps have none.
        """
        step = WriteStep()
        for number, change in enumerate(changes):
            fenced = isinstance(change, TOPIC_CHANGES)
            for group in self._groups(change, changes[number:]):
                size_bytes = sum(map(_size_bytes, group))
                if step.operations and step.size_bytes + size_bytes > STEP_BYTES_MAX:
                    yield step
                    step = WriteStep()
                if fenced and not step.size_bytes:
                    step.operations.append(self._fence())
                step.operations += group
                step.noted += self._noted
                self._noted = []
                step.size_bytes += size_bytes
            step.completed.append(change)
            self._image = applied(self._image, [change], self._knows_topics)
            if number + 1 < len(changes) and fenced != isinstance(
                changes[number + 1], TOPIC_CHANGES
            ):
                # The next change needs the fence and this one must not have it, or the reverse.
                yield step
                step = WriteStep()
        if step.operations or step.completed:
            yield step

    def _groups(self, change: Change, coming: Sequence[Change]) -> Iterator[list[ZnodeOperation]]:
        """Yield groups of operations that make `change`; a group must stay in one step.

        `coming` are `change` and the changes after it.
        """
        session = self._session
        match change:
            case CreateTopic(topic, configs):
                self._note(topic.name, 0)
                yield [
                    self._configured((TOPIC_RESOURCE, topic.name), configs),
                    session.create(znodes.topic_path(topic.name), znodes.encode_topic(topic)),
                    *self._folder_of(topic),
                ]
                yield from self._states(topic.name, 0, topic.partitions)
            case AddPartitions(name, _, first, partitions):
                topic = self._image.topics[name]
                grown = replace(topic, partitions=(*topic.partitions, *partitions))
                yield [self._assignment(grown)]
                yield from self._states(name, first, partitions)
            case AlterPartition():
                yield from self._altered_state(change, coming)
            case MarkForDeletion(name):
                if name not in self._image.deleting:
                    yield [session.create(znodes.deletion_path(name))]
            case DeleteTopic(name):
                yield from self._topic_deletion(name)
            case SetConfigs(resource, name, _, configs):
                yield self._config_change((resource, name), configs)
            case ChangeAcls() | SetToken():
                yield self._access_change(change)
            case SetFeatures(expected_epoch, features):
                yield [self._feature_change(expected_epoch, features)]
            case _:
                raise AssertionError(f"a commit cannot make {change!r}")

    def _folder_of(self, topic: TopicImage) -> list[ZnodeOperation]:
        """The folder of the partitions; Kafka 3.9 creates it with the first state."""
        if all(map(is_new, topic.partitions)):
            return []
        return [self._session.create(znodes.partitions_path(topic.name))]

    def _states(
        self, topic: str, first: int, states: Iterable[PartitionImage]
    ) -> Iterator[list[ZnodeOperation]]:
        """Yield operations that create the states of partitions, from number `first` on.

        A new partition has no state znode until the controller elects its leader, so it is left
        out.
        """
        for index, state in enumerate(states, first):
            if is_new(state):
                continue
            self._children.setdefault(topic, set()).add(str(index))
            yield [
                self._session.create(znodes.partition_path(topic, index)),
                self._session.create(znodes.state_path(topic, index), znodes.encode_state(state)),
            ]

    def _altered_state(
        self, change: AlterPartition, coming: Sequence[Change]
    ) -> Iterator[list[ZnodeOperation]]:
        """Yield the operations that write a partition's new state.

        `coming` has the later changes of the commit: the topic's replicas are in one znode, so they
        are written once, with all changes.
        """
        topic, state = self._image.topics[change.topic], change.state
        before = topic.partitions[change.index]
        group = []
        if _assignment_of(before) != _assignment_of(state) and topic.name not in self._assigned:
            self._assigned.add(topic.name)
            group.append(self._assignment(_with_final_assignment(topic, coming)))
        path, content = znodes.state_path(topic.name, change.index), znodes.encode_state(state)
        if before.partition_epoch >= 0:
            group.append(self._session.set_data(path, content, before.partition_epoch))
            yield group
            return
        # The partition has no state yet: another broker created the topic, or added partitions.
        folders = [znodes.partition_path(topic.name, change.index)]
        if all(partition.partition_epoch < 0 for partition in topic.partitions):
            folders.insert(0, znodes.partitions_path(topic.name))
        made = self._versions.made
        group += [self._session.create(folder) for folder in folders if folder not in made]
        group.append(self._session.create(path, content))
        yield group

    def _note(self, key: str | ResourceKey | ResourcePattern, version: int | None) -> None:
        noted: Noted = (key, version)
        self._noted.append(noted)
        self._versions.note([noted])

    def _assignment(self, topic: TopicImage) -> ZnodeOperation:
        """Return the operation that writes a topic's replicas."""
        version = self._versions.topics[topic.name]
        self._note(topic.name, version + 1)
        path = znodes.topic_path(topic.name)
        return self._session.set_data(path, znodes.encode_topic(topic), version)

    def _topic_deletion(self, name: str) -> Iterator[list[ZnodeOperation]]:
        """Yield the groups of operations that delete a topic.

        Each partition is a group of its own; the last one deletes the topic, its configs and the
        request to delete it.  An interrupted deletion can thus be continued.
        """
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

    def _configured(self, key: ResourceKey, configs: Mapping[str, str]) -> ZnodeOperation:
        """Return the operation that creates or replaces the configs of a resource."""
        path, content = znodes.config_path(key), znodes.encode_configs(configs)
        version = self._versions.configs.get(key)
        self._note(key, 0 if version is None else version + 1)
        if version is None:
            return self._session.create(path, content)
        return self._session.set_data(path, content, version)

    def _feature_change(self, expected_epoch: int, features: FinalizedFeatures) -> ZnodeOperation:
        """Return the operation that writes the features.

        It creates /feature if the expected epoch is negative: then there is no such znode.
        """
        path, content = znodes.FEATURE, znodes.encode_feature(features)
        if expected_epoch < 0:
            return self._session.create(path, content)
        return self._session.set_data(path, content, expected_epoch)

    def _config_change(self, key: ResourceKey, configs: Mapping[str, str]) -> list[ZnodeOperation]:
        """Return the operations that write configs and notify all brokers."""
        group = [self._configured(key, configs)]
        if key[0] == TOPIC_RESOURCE:
            # Only the controller's image has topics; ZooKeeper checks that the topic exists.
            group.insert(0, self._session.check(znodes.topic_path(key[1])))
        notification = znodes.encode_config_change(key)
        return [*group, self._session.create(znodes.CONFIG_CHANGE, notification, SEQUENTIAL)]

    def _access_change(self, change: ChangeAcls | SetToken) -> list[ZnodeOperation]:
        if isinstance(change, SetToken):
            return self._token_change(change)
        return self._acl_change(change)

    def _acl_change(self, change: ChangeAcls) -> list[ZnodeOperation]:
        """Return operations that write all entries of the pattern.

        Its znode is deleted if none is left.
        """
        session, pattern = self._session, change.pattern
        path, version = acl_znodes.acl_path(pattern), self._versions.acls.get(pattern)
        entries = change.apply_to(self._image).acls_on(pattern)
        content = acl_znodes.encode_acls(entries)
        if version is None:
            self._note(pattern, 0)
            write = session.create(path, content)
        elif entries:
            self._note(pattern, version + 1)
            write = session.set_data(path, content, version)
        else:
            self._note(pattern, None)
            write = session.delete(path, version)
        notification = acl_znodes.encode_change(pattern)
        return [write, session.create(acl_znodes.change_path(pattern), notification, SEQUENTIAL)]

    def _token_change(self, change: SetToken) -> list[ZnodeOperation]:
        """Return operations that write or delete a token, whatever its version.

        Apache Kafka checks no version either.
        """
        session, path = self._session, token_znodes.token_path(change.token_id)
        if change.token is None:
            write = session.delete(path)
        elif change.expected is None:
            write = session.create(path, token_znodes.encode_token(change.token))
        else:
            write = session.set_data(path, token_znodes.encode_token(change.token))
        notification = change.token_id.encode()
        return [write, session.create(token_znodes.CHANGE, notification, SEQUENTIAL)]


def _assignment_of(state: PartitionImage) -> znodes.ReplicaAssignment:
    return znodes.ReplicaAssignment(state.replicas, state.adding, state.removing)


def _with_final_assignment(topic: TopicImage, coming: Sequence[Change]) -> TopicImage:
    """Return `topic` with the replicas that it has after all `coming` changes.

    The topic's znode is written once per commit, not once per partition: with thousands of
    partitions that would be megabytes.
    """
    states = list(topic.partitions)
    for change in coming:
        if isinstance(change, AlterPartition) and change.topic == topic.name:
            states[change.index] = change.state
    return replace(topic, partitions=tuple(states))


def _size_bytes(operation: ZnodeOperation) -> int:
    content = getattr(operation, "data", None) or b""
    return len(operation.path) + len(content) + _OPERATION_BYTES
