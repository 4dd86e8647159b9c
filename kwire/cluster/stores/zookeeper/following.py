"""ZooKeeperFollower: reads what has changed in ZooKeeper, and publishes it.

A watch that fires marks a subject (a path, or EVERYTHING).  `run` reads the marked subjects in the
store's turn and publishes the new image.  Every broker follows the controller, the brokers, the
features and the configs.  The controller also follows the topics, and the znodes by which
administrators and brokers send it requests; it deletes such a znode after reading it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import trio
from kazoo.exceptions import NoNodeError

from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    RegisterBroker,
    SetConfigs,
    SetFeatures,
    UnregisterBroker,
)
from kwire.cluster.metadata.image import NO_CONTROLLER, ClusterImage, ResourceKey, TopicImage
from kwire.cluster.stores.contract import (
    ControllerGone,
    ElectionsRequested,
    Fenced,
    IsrChanged,
    LogDirsFailed,
    Place,
    ReassignmentsRequested,
    StoreError,
    StoreEvent,
)
from kwire.cluster.stores.zookeeper import acl_znodes, reading, token_znodes, znodes
from kwire.cluster.stores.zookeeper.acl_following import AclFollower
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.merging import is_settled, with_configs, with_topics
from kwire.cluster.stores.zookeeper.notifications import CHANGES_KEPT_S
from kwire.cluster.stores.zookeeper.session import (
    OutcomeUnknown,
    SessionState,
    TransactionRefused,
    ZnodeOperation,
    ZooKeeperSession,
)
from kwire.cluster.stores.zookeeper.token_following import TokenFollower
from kwire.cluster.stores.zookeeper.writing import ZnodeVersions

EVERYTHING = "/"
REFUSED_PAUSE_S = 1.0
LIST_PAUSE_RATIO = 10
"""The list of all topics is read at most once in ten times the time that reading it takes.

It changes with each new topic, even of this broker, and ZooKeeper always sends it whole."""

_REQUESTS = (
    znodes.REASSIGN_PARTITIONS,
    znodes.PREFERRED_ELECTION,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
)
_SUBJECTS = {
    znodes.CONTROLLER,
    znodes.BROKER_IDS,
    znodes.CONFIG_CHANGES,
    *acl_znodes.FOLDERS.values(),
    token_znodes.CHANGES,
    znodes.FEATURE,
    znodes.TOPICS,
    znodes.DELETE_TOPICS,
    *_REQUESTS,
}


def subject_of(path: str) -> str | None:
    """Return the subject to read when `path` has changed; None if nothing depends on it."""
    if path in _SUBJECTS:
        return path
    parent, _, _ = path.rpartition("/")
    if parent == znodes.BROKER_IDS:
        return parent
    return path if parent == znodes.TOPICS else None


class FollowedStore(Protocol):
    """What the follower needs of its store (kwire.cluster.stores.zookeeper.store)."""

    session: ZooKeeperSession
    versions: ZnodeVersions

    @property
    def image(self) -> ClusterImage:
        """The latest image."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller."""

    def is_own_term(self, controller_id: int, epoch: int, session_id: int) -> bool:
        """Whether /controller, as it was read, is this broker in its present term."""

    def fence(self) -> ZnodeOperation:
        """The operation that fences a write of the controller.  Raises Fenced."""

    def publish(self, after: ClusterImage, changes: Iterable[Change]) -> None:
        """Make `after`, the result of `changes`, the image."""

    def end_term(self, controller_id: int, epoch: int) -> None:
        """Stop being the controller, in favour of `controller_id` or NO_CONTROLLER."""

    def report(self, event: StoreEvent) -> None:
        """Pass `event` to the store's `on_event`."""


class ZooKeeperFollower:
    """See the module.  The caller of `read` and of the other reading methods holds the turn."""

    def __init__(self, store: FollowedStore, turn: trio.Lock, config: ZooKeeperConfig) -> None:
        """`turn` is the store's lock: its holder may read, write and publish."""
        self._store = store
        self._access_followers: list[AclFollower | TokenFollower] = []
        if config.has_acls:
            self._access_followers.append(AclFollower(store))
        if config.has_tokens:
            self._access_followers.append(TokenFollower(store))
        self._session = store.session
        self._turn = turn
        # Subjects that have changed and have to be read.
        self._marks: set[str] = set()
        self._late: set[str] = set()
        """Marked subjects that are not read before `_list_due_at` (trio's clock)."""
        self._list_due_at = 0.0
        self._marked = trio.Event()
        self._reported_reassignments: Mapping[Place, tuple[int, ...]] = {}
        """Requested reassignments in ZooKeeper that were reported as an event already."""
        self._refused_reassignments: set[Place] = set()
        """Requested reassignments that the controller refused; they are removed."""

    # -- marks

    def mark(self, subject: str) -> None:
        self._marks.add(subject)
        self._marked.set()

    def mark_requests(self) -> None:
        """Mark the requests to the controller, which may be older than its term."""
        for subject in _REQUESTS:
            self.mark(subject)

    def wake(self) -> None:
        self._marked.set()

    async def run(self) -> None:
        """Read marked subjects until the session is closed."""
        while self._session.state is not SessionState.CLOSED:
            with trio.move_on_at(self._list_due_at if self._late else math.inf):
                await self._marked.wait()
            self._marked = trio.Event()
            was_refused = False
            async with self._turn:
                marks = self._take_marks()
                try:
                    await self.read(marks)
                except StoreError as problem:
                    self._marks |= marks
                    was_refused = self._session.state is SessionState.UP
                    if was_refused:
                        log.warning("Cannot read the cluster's state: %s. Retrying.", problem)
                        self._marked.set()
            # Only a refused read waits.  A subject that was marked again during the read is read
            # again at once: it may be /controller, and all brokers wait for the next controller.
            if was_refused:
                await trio.sleep(REFUSED_PAUSE_S)

    def _take_marks(self) -> set[str]:
        """The subjects to read now; the topic list stays marked until it is due."""
        marks, self._marks = self._marks | self._late, set()
        is_early = trio.current_time() < self._list_due_at
        self._late = marks & {znodes.TOPICS} if is_early else set()
        return marks - self._late

    async def read(self, subjects: set[str]) -> None:
        """Read `subjects`, publish the changes and set watches.  Raises StoreError."""
        everything = EVERYTHING in subjects
        steps = {
            znodes.CONTROLLER: self._read_controller,
            znodes.BROKER_IDS: self._read_brokers,
            znodes.FEATURE: self._read_features,
        }
        for subject, step in steps.items():
            if everything or subject in subjects:
                await step()
        if everything:
            await self._read_all_configs()
        elif znodes.CONFIG_CHANGES in subjects:
            await self._read_config_changes()
        await self._read_access(subjects)
        if not self._store.is_controller:
            return
        # /brokers/topics/T marks the topic T.
        named = {path.rpartition("/")[2] for path in subjects if path.count("/") == 3}
        if everything or znodes.TOPICS in subjects:
            await self._read_all_topics(named)
        elif named:
            await self._read_topics(sorted(named))
        steps = {
            znodes.DELETE_TOPICS: self._read_deletions,
            znodes.REASSIGN_PARTITIONS: self._read_reassignments,
            znodes.PREFERRED_ELECTION: self._read_elections,
            znodes.ISR_CHANGES: self._read_isr_changes,
            znodes.LOG_DIR_EVENTS: self._read_log_dir_events,
        }
        for subject, step in steps.items():
            if (everything or subject in subjects) and self._store.is_controller:
                await step()

    # -- subjects of every broker

    async def _read_controller(self) -> None:
        """Publishes who is the controller.

        If it is another broker, or another session's, this broker's own term ends.
        """
        store = self._store
        controller_id, epoch, owner = await reading.controller(self._session)
        if store.is_controller and not store.is_own_term(controller_id, epoch, owner):
            store.end_term(controller_id, epoch)
        else:
            store.publish(store.image.with_controller(controller_id, epoch), ())
        if controller_id == NO_CONTROLLER:
            store.report(ControllerGone())

    async def _read_brokers(self) -> None:
        """Publishes the brokers that are registered now."""
        registered = await reading.brokers(self._session)
        image = self._store.image  # after the await: the term may have ended meanwhile
        changes: list[Change] = []
        for broker_id in image.brokers:
            if broker_id not in registered:
                changes.append(UnregisterBroker(broker_id))
                image = image.without_broker(broker_id)
        for broker in registered.values():
            if image.brokers.get(broker.id) != broker:
                changes.append(RegisterBroker(broker))
                image = image.with_broker(broker)
        self._store.publish(image, changes)

    async def _read_features(self) -> None:
        """Publishes the features, if they have changed."""
        features = await reading.features(self._session)
        image = self._store.image
        if features.epoch != image.features.epoch or image.features.agreed is None:
            change = SetFeatures(image.features.epoch, features)
            self._store.publish(image.with_features(features), [change])

    async def _read_access(self, subjects: set[str]) -> None:
        for follower in self._access_followers:
            await follower.follow(subjects, everything=EVERYTHING in subjects)

    async def _read_all_configs(self) -> None:
        await self._session.children(znodes.CONFIG_CHANGES, watch=True)
        self.publish_configs(await self._all_configs())

    async def _all_configs(self) -> reading.Configs:
        """All configs in ZooKeeper; empty ones for resources of the image that have none now."""
        present = await reading.all_configs(self._session, self._store.versions)
        gone: reading.Configs = {key: {} for key in self._store.image.configs if key not in present}
        return {**present, **gone}

    async def _read_config_changes(self) -> None:
        """Read the configs that the notifications name; remove outdated notifications."""
        folder = znodes.CONFIG_CHANGES
        names = await self._session.children(folder, watch=True)
        paths = [f"{folder}/{name}" for name in names]
        contents = await self._session.get_all(paths)
        keys: dict[ResourceKey, None] = {}
        outdated = []
        for path, content in zip(paths, contents, strict=True):
            if content is None:
                continue
            if time.time() - content[1].ctime / 1000 > CHANGES_KEPT_S:
                outdated.append(path)
            try:
                if (key := znodes.decode_config_change(content[0])) is not None:
                    keys[key] = None
            except (ValueError, TypeError, LookupError) as problem:
                log.warning("%s is damaged: %r", path, problem)
        self.publish_configs(
            await reading.configs_of(self._session, list(keys), self._store.versions)
        )
        for path in outdated:
            await self._remove([path])

    def publish_configs(self, configs: Mapping[ResourceKey, Mapping[str, str]]) -> None:
        """Publish the image with `configs`, as they were read."""
        self._store.publish(*with_configs(self._store.image, configs))

    # -- topics: the controller's subjects

    async def prepare_term(self) -> None:
        """Removes notifications to an earlier controller, before a term begins.

        They are not needed: the whole state is read after that.
        """
        for folder in (znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS):
            names = await self._session.children(folder)
            await self._remove([f"{folder}/{name}" for name in names])
        if await self._session.get(znodes.FEATURE) is None:
            await self._session.make(znodes.FEATURE, znodes.encode_feature(reading.NOT_AGREED))
        self._reported_reassignments, self._refused_reassignments = {}, set()

    async def _read_all_topics(self, also: Iterable[str]) -> None:
        """Read the list of topics; then the topics that are new, gone, or in `also`."""
        began = trio.current_time()
        names = await self._session.children(znodes.TOPICS, watch=True)
        image, present = self._store.image, set(names)
        gone = [name for name in image.topics if name not in present]
        new = [name for name in names if name not in image.topics]
        now = trio.current_time()
        self._list_due_at = now + LIST_PAUSE_RATIO * (now - began)
        await self._read_topics([*gone, *new, *(set(also) & image.topics.keys())])

    async def read_whole(self) -> tuple[ClusterImage, list[Change]]:
        """Return the image with all topics at a term's start, and the changes that lead to it.

        Reads all configs too: ZooKeeper does not announce those of new topics.
        """
        names = await self._session.children(znodes.TOPICS, watch=True)
        image, changes = with_topics(self._store.image, await self._topics(names))
        image, config_changes = with_configs(image, await self._all_configs())
        return image, [*changes, *config_changes]

    async def _topics(self, names: Sequence[str]) -> dict[str, TopicImage | None]:
        """Return topics as they are in ZooKeeper; gives ids to topics without one.

        Raises Fenced if this broker is not the controller any more.
        """
        store = self._store
        read = await reading.topics(self._session, names, store.versions)
        await reading.give_ids(self._session, read, store.versions, store.fence())
        return read

    async def _read_topics(self, names: Sequence[str]) -> None:
        """Publishes the present state of topics; those that are gone are removed.

        Raises Fenced if this broker's term has ended.
        """
        store = self._store
        read = await self._topics(names)
        new = [name for name, topic in read.items() if topic and name not in store.image.topics]
        # A broker that creates a topic writes its configs first, and announces neither.
        configs = await reading.configs_of(self._session, reading.topic_keys(new), store.versions)
        store.fence()  # raises Fenced if the term has ended meanwhile
        image, changes = with_topics(store.image, read)
        image, config_changes = with_configs(image, configs)
        store.publish(image, [*changes, *config_changes])
        if changes and self._reported_reassignments:
            # A finished reassignment is removed from the request.
            self.mark(znodes.REASSIGN_PARTITIONS)

    async def read_again(self, changes: Iterable[Change]) -> None:
        """Reads again what `changes` are about, after ZooKeeper refused one of them."""
        topics: dict[str, None] = {}
        keys: dict[ResourceKey, None] = {}
        if any(isinstance(change, SetFeatures) for change in changes):
            await self._read_features()
        changes = list(changes)
        for follower in self._access_followers:
            await follower.read_again(changes)
        for change in changes:
            match change:
                case CreateTopic(topic):
                    topics[topic.name] = None
                    keys.update(dict.fromkeys(reading.topic_keys([topic.name])))
                case AddPartitions(name) | AlterPartition(name):
                    topics[name] = None
                case MarkForDeletion(name) | DeleteTopic(name):
                    topics[name] = None
                case SetConfigs(resource, name):
                    keys[resource, name] = None
        self.publish_configs(
            await reading.configs_of(self._session, list(keys), self._store.versions)
        )
        if self._store.is_controller and topics:
            await self._read_topics(list(topics))
            await self._read_deletions()

    async def _read_deletions(self) -> None:
        """Publishes which topics are to be deleted.

        Requests to delete topics that do not exist are removed.  Raises Fenced.
        """
        store, folder = self._store, znodes.DELETE_TOPICS
        names = await self._session.children(folder, watch=True)
        known = frozenset(name for name in names if name in store.image.topics)
        unknown = [name for name in names if name not in known]
        if unknown:  # they may have been created a moment ago
            await self._read_topics(unknown)
            known |= frozenset(name for name in unknown if name in store.image.topics)
        store.fence()  # raises Fenced if the term has ended meanwhile
        store.publish(replace(store.image, deleting=known), ())
        for name in names:
            if name not in known:
                await self._remove([znodes.deletion_path(name)])

    # -- requests to the controller

    async def _read_reassignments(self) -> None:
        """Reports new reassignment requests; removes those that are settled or refused."""
        path = znodes.REASSIGN_PARTITIONS
        znode = await self._watched(path)
        if znode is None:
            self._reported_reassignments, self._refused_reassignments = {}, set()
            return
        try:
            requested = znodes.decode_reassignments(znode[0])
        except (ValueError, TypeError, LookupError) as problem:
            log.warning("%s is damaged: %r", path, problem)
            requested = {}
        image = self._store.image
        left = {
            place: replicas
            for place, replicas in requested.items()
            if place not in self._refused_reassignments and not is_settled(image, place, replicas)
        }
        if not left:
            await self._remove([path])
        elif left != requested:
            content = znodes.encode_reassignments(left)
            await self._fenced([self._session.set_data(path, content, znode[1].version)])
        reported = self._reported_reassignments
        new = {
            place: replicas for place, replicas in left.items() if reported.get(place) != replicas
        }
        self._reported_reassignments = left
        if new:
            self._store.report(ReassignmentsRequested(new))

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        self._refused_reassignments.update(places)
        await self._read_reassignments()

    async def _read_elections(self) -> None:
        """Reports the preferred elections that a tool requests, and removes them."""
        path = znodes.PREFERRED_ELECTION
        znode = await self._watched(path)
        if znode is None:
            return
        places = _places(path, znode[0])
        if places:
            self._store.report(ElectionsRequested(places))
        await self._remove([path])

    async def _read_isr_changes(self) -> None:
        """Reads the topics whose leaders have changed an ISR.

        Leaders of old versions write the ISR themselves and notify the controller.
        """
        notifications = await self._notifications(znodes.ISR_CHANGES)
        places = [place for path, content in notifications for place in _places(path, content)]
        known = self._store.image.topics
        topics = dict.fromkeys(topic for topic, _ in places if topic in known)
        if topics:
            await self._read_topics(list(topics))
        if places and self._store.is_controller:
            self._store.report(IsrChanged(tuple(dict.fromkeys(places))))
        await self._remove([path for path, _ in notifications])

    async def _read_log_dir_events(self) -> None:
        """Reports the brokers that have a failed log directory."""
        notifications = await self._notifications(znodes.LOG_DIR_EVENTS)
        ids: dict[int, None] = {}
        for path, content in notifications:
            try:
                ids[znodes.decode_log_dir_event(content)] = None
            except (ValueError, TypeError, LookupError) as problem:
                log.warning("%s is damaged: %r", path, problem)
        if ids:
            self._store.report(LogDirsFailed(tuple(ids)))
        await self._remove([path for path, _ in notifications])

    async def _notifications(self, folder: str) -> list[tuple[str, bytes]]:
        """Return path and content of each notification; watches the folder."""
        names = await self._session.children(folder, watch=True)
        paths = [f"{folder}/{name}" for name in names]
        contents = await self._session.get_all(paths)
        return [(path, znode[0]) for path, znode in zip(paths, contents, strict=True) if znode]

    async def _watched(self, path: str) -> tuple[bytes, Any] | None:
        """Content and stat of a znode; sets a watch even if the znode does not exist."""
        znode = await self._session.get(path, watch=True)
        if znode is None and await self._session.exists(path, watch=True) is not None:
            znode = await self._session.get(path)
        return znode

    async def _remove(self, paths: Iterable[str]) -> None:
        """Deletes notifications or requests.

        Each has its own transaction, since one may be deleted already.
        """
        for path in paths:
            operations = [self._session.delete(path)]
            if path.startswith(znodes.CONFIG_CHANGES):
                await self._unfenced(operations)
            else:
                await self._fenced(operations)

    async def _fenced(self, operations: Sequence[ZnodeOperation]) -> None:
        """Writes as the controller, if this broker is still the controller.

        A write that fails is not repeated: its subject is read again, here or by the next
        controller.
        """
        try:
            await self._session.multi([self._store.fence(), *operations])
        except Fenced:
            return
        except TransactionRefused as refused:
            if refused.at == 0:
                self.mark(znodes.CONTROLLER)
            elif not isinstance(refused.reason, NoNodeError):
                log.info("Cannot remove a notification from ZooKeeper: %s", refused)
        except OutcomeUnknown:
            return  # everything is read again when the connection is back

    async def _unfenced(self, operations: Sequence[ZnodeOperation]) -> None:
        """Makes a transaction that may fail, such as the removal of a notification."""
        try:
            await self._session.multi(operations)
        except (TransactionRefused, OutcomeUnknown) as problem:
            log.debug("Cannot remove a notification from ZooKeeper: %s", problem)


def _places(path: str, content: bytes) -> tuple[Place, ...]:
    """Return the partitions that a notification or request names; none if it is damaged."""
    try:
        return znodes.decode_places(content)
    except (ValueError, TypeError, LookupError) as problem:
        log.warning("%s is damaged: %r", path, problem)
        return ()
