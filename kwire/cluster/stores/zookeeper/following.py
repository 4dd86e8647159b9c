"""Following the cluster: what changed is marked by watches, read in turn, and published.

Every broker follows the controller, the brokers and the configs; the controller also the topics,
and what administrators and brokers ask of it by znodes, which go when they have been heard.
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
    ElectionsAsked,
    Fenced,
    IsrChanged,
    LogDirsFailed,
    Place,
    ReassignmentsAsked,
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
    Operation,
    OutcomeUnknown,
    Refused,
    Session,
    State,
)
from kwire.cluster.stores.zookeeper.token_following import TokenFollower
from kwire.cluster.stores.zookeeper.writing import Versions

EVERYTHING = "/"
REFUSED_PAUSE_S = 1.0
LIST_PAUSE_RATIO = 10
"""The list of all topics changes with each that is made, also by this broker, and ZooKeeper tells
it whole: it is read again when ten times as long has passed as reading it took."""

_ASKED = (
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
    *_ASKED,
}


def subject_of(path: str) -> str | None:
    """What is to be read when this path has changed; None if nothing."""
    if path in _SUBJECTS:
        return path
    above, _, _ = path.rpartition("/")
    if above == znodes.BROKER_IDS:
        return above
    return path if above == znodes.TOPICS else None


class Followed(Protocol):
    """What the follower is to its store (kwire.cluster.stores.zookeeper.store)."""

    session: Session
    versions: Versions

    @property
    def image(self) -> ClusterImage:
        """As of now."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the controller."""

    def holds(self, controller_id: int, epoch: int, session_id: int) -> bool:
        """Whether what ZooKeeper says of the controller is this broker, as it knows itself."""

    def fence(self) -> Operation:
        """Raises Fenced."""

    def publish(self, after: ClusterImage, changes: Iterable[Change]) -> None:
        """The image is `after`, by changes of what these are about."""

    def leave_office(self, controller_id: int, epoch: int) -> None:
        """Another is the controller, or nobody."""

    def tell(self, event: StoreEvent) -> None:
        """Whoever listens."""


class Follower:
    """See the module.  `read` and its like want the store's turn."""

    def __init__(self, store: Followed, turn: trio.Lock, config: ZooKeeperConfig) -> None:
        self._store = store
        self._of_access: list[AclFollower | TokenFollower] = []
        if config.has_acls:
            self._of_access.append(AclFollower(store))
        if config.has_tokens:
            self._of_access.append(TokenFollower(store))
        self._session = store.session
        self._turn = turn
        self._marks: set[str] = set()
        self._late: set[str] = set()
        """Marked as well, and not read before `_list_due_at`, by trio's clock."""
        self._list_due_at = 0.0
        self._work = trio.Event()
        self._told: Mapping[Place, tuple[int, ...]] = {}
        self._dropped: set[Place] = set()

    # -- marks

    def mark(self, subject: str) -> None:
        self._marks.add(subject)
        self._work.set()

    def mark_what_is_asked(self) -> None:
        """Of the controller, also before it was that."""
        for subject in _ASKED:
            self.mark(subject)

    def wake(self) -> None:
        self._work.set()

    async def run(self) -> None:
        """Read what is marked, until the session is closed."""
        while self._session.state is not State.CLOSED:
            with trio.move_on_at(self._list_due_at if self._late else math.inf):
                await self._work.wait()
            self._work = trio.Event()
            was_refused = False
            async with self._turn:
                marks = self._take_marks()
                try:
                    await self.read(marks)
                except StoreError as problem:
                    self._marks |= marks
                    was_refused = self._session.state is State.UP
                    if was_refused:
                        log.warning("ZooKeeper is not followed: %s", problem)
                        self._work.set()
            # A znode that changed again while it was read is read again at once: that may be
            # /controller, and every broker waits for the next one.
            if was_refused:
                await trio.sleep(REFUSED_PAUSE_S)

    def _take_marks(self) -> set[str]:
        """What is to be read now."""
        marks, self._marks = self._marks | self._late, set()
        is_early = trio.current_time() < self._list_due_at
        self._late = marks & {znodes.TOPICS} if is_early else set()
        return marks - self._late

    async def read(self, subjects: set[str]) -> None:
        """Read them, publish what is new, and leave watches.  Raises StoreError."""
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
        if not self._store.leads:
            return
        named = {each.rpartition("/")[2] for each in subjects if each.count("/") == 3}
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
            if (everything or subject in subjects) and self._store.leads:
                await step()

    # -- what every broker follows

    async def _read_controller(self) -> None:
        store = self._store
        controller_id, epoch, owner = await reading.controller(self._session)
        if store.leads and not store.holds(controller_id, epoch, owner):
            store.leave_office(controller_id, epoch)
        else:
            store.publish(store.image.with_controller(controller_id, epoch), ())
        if controller_id == NO_CONTROLLER:
            store.tell(ControllerGone())

    async def _read_brokers(self) -> None:
        registered = await reading.brokers(self._session)
        image = self._store.image  # as of now: the office may have been lost meanwhile
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
        features = await reading.features(self._session)
        image = self._store.image
        if features.epoch != image.features.epoch or image.features.agreed is None:
            change = SetFeatures(image.features.epoch, features)
            self._store.publish(image.with_features(features), [change])

    async def _read_access(self, subjects: set[str]) -> None:
        for each in self._of_access:
            await each.follow(subjects, everything=EVERYTHING in subjects)

    async def _read_all_configs(self) -> None:
        await self._session.children(znodes.CONFIG_CHANGES, watch=True)
        self.publish_configs(await self._all_configs())

    async def _all_configs(self) -> reading.Configs:
        """Also of what is known to have had some, and has none any more."""
        found = await reading.all_configs(self._session, self._store.versions)
        gone: reading.Configs = {key: {} for key in self._store.image.configs if key not in found}
        return {**found, **gone}

    async def _read_config_changes(self) -> None:
        """Of each notification what it is about, and not what it says: that may be old by now."""
        folder = znodes.CONFIG_CHANGES
        names = await self._session.children(folder, watch=True)
        paths = [f"{folder}/{name}" for name in names]
        found = await self._session.get_all(paths)
        keys: dict[ResourceKey, None] = {}
        outdated = []
        for path, each in zip(paths, found, strict=True):
            if each is None:
                continue
            if time.time() - each[1].ctime / 1000 > CHANGES_KEPT_S:
                outdated.append(path)
            try:
                if (key := znodes.decode_config_change(each[0])) is not None:
                    keys[key] = None
            except (ValueError, TypeError, LookupError) as problem:
                log.warning("%s is damaged: %r", path, problem)
        self.publish_configs(
            await reading.configs_of(self._session, list(keys), self._store.versions)
        )
        for path in outdated:
            await self._remove([path])

    def publish_configs(self, found: Mapping[ResourceKey, Mapping[str, str]]) -> None:
        """What is set now on these."""
        self._store.publish(*with_configs(self._store.image, found))

    # -- topics: of the controller alone

    async def prepare_office(self) -> None:
        """What was told to an earlier controller is in the state that is read now."""
        for folder in (znodes.ISR_CHANGES, znodes.LOG_DIR_EVENTS):
            names = await self._session.children(folder)
            await self._remove([f"{folder}/{name}" for name in names])
        found = await self._session.get(znodes.FEATURE)
        if found is None:
            await self._session.make(znodes.FEATURE, znodes.encode_feature(reading.NOT_AGREED))
        self._told, self._dropped = {}, set()

    async def _read_all_topics(self, also: Iterable[str]) -> None:
        """Of all the assignments; of those that are new, or named, the states as well."""
        began = trio.current_time()
        names = await self._session.children(znodes.TOPICS, watch=True)
        image, there = self._store.image, set(names)
        gone = [name for name in image.topics if name not in there]
        new = [name for name in names if name not in image.topics]
        now = trio.current_time()
        self._list_due_at = now + LIST_PAUSE_RATIO * (now - began)
        await self._read_topics([*gone, *new, *(set(also) & image.topics.keys())])

    async def read_whole(self) -> tuple[ClusterImage, list[Change]]:
        """The image with all topics, at the beginning of an office, and what is new in it.

        With their configs: of those that others made nobody was told.
        """
        names = await self._session.children(znodes.TOPICS, watch=True)
        image, changes = with_topics(self._store.image, await self._topics(names))
        image, set_since = with_configs(image, await self._all_configs())
        return image, [*changes, *set_since]

    async def _topics(self, names: Sequence[str]) -> dict[str, TopicImage | None]:
        store = self._store
        read = await reading.topics(self._session, names, store.versions)
        await reading.give_ids(self._session, read, store.versions, store.fence())
        return read

    async def _read_topics(self, names: Sequence[str]) -> None:
        store = self._store
        read = await self._topics(names)
        new = [name for name, each in read.items() if each and name not in store.image.topics]
        # Whoever makes a topic sets its configs first, and tells nobody.
        configs = await reading.configs_of(self._session, reading.topic_keys(new), store.versions)
        store.fence()  # the office may be over by now
        image, changes = with_topics(store.image, read)
        image, set_now = with_configs(image, configs)
        store.publish(image, [*changes, *set_now])
        if changes and self._told:
            self.mark(znodes.REASSIGN_PARTITIONS)

    async def read_again(self, changes: Iterable[Change]) -> None:
        """What these are about: one of them could not be made."""
        topics: dict[str, None] = {}
        keys: dict[ResourceKey, None] = {}
        if any(isinstance(change, SetFeatures) for change in changes):
            await self._read_features()
        changes = list(changes)
        for each in self._of_access:
            await each.read_again(changes)
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
        if self._store.leads and topics:
            await self._read_topics(list(topics))
            await self._read_deletions()

    async def _read_deletions(self) -> None:
        store, folder = self._store, znodes.DELETE_TOPICS
        names = await self._session.children(folder, watch=True)
        known = frozenset(name for name in names if name in store.image.topics)
        unknown = [name for name in names if name not in known]
        if unknown:  # unless they were made a moment ago
            await self._read_topics(unknown)
            known |= frozenset(name for name in unknown if name in store.image.topics)
        store.fence()  # the office may be over by now
        store.publish(replace(store.image, deleting=known), ())
        for name in names:
            if name not in known:
                await self._remove([znodes.deletion_path(name)])

    # -- what is asked of the controller

    async def _read_reassignments(self) -> None:
        path = znodes.REASSIGN_PARTITIONS
        found = await self._watched(path)
        if found is None:
            self._told, self._dropped = {}, set()
            return
        try:
            asked = znodes.decode_reassignments(found[0])
        except (ValueError, TypeError, LookupError) as problem:
            log.warning("%s is damaged: %r", path, problem)
            asked = {}
        image = self._store.image
        left = {
            place: replicas
            for place, replicas in asked.items()
            if place not in self._dropped and not is_settled(image, place, replicas)
        }
        if not left:
            await self._remove([path])
        elif left != asked:
            content = znodes.encode_reassignments(left)
            await self._fenced([self._session.set_data(path, content, found[1].version)])
        new = {place: each for place, each in left.items() if self._told.get(place) != each}
        self._told = left
        if new:
            self._store.tell(ReassignmentsAsked(new))

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        self._dropped.update(places)
        await self._read_reassignments()

    async def _read_elections(self) -> None:
        path = znodes.PREFERRED_ELECTION
        found = await self._watched(path)
        if found is None:
            return
        places = _places(path, found[0])
        if places:
            self._store.tell(ElectionsAsked(places))
        await self._remove([path])

    async def _read_isr_changes(self) -> None:
        told = await self._notifications(znodes.ISR_CHANGES)
        places = [place for path, content in told for place in _places(path, content)]
        known = self._store.image.topics
        topics = dict.fromkeys(topic for topic, _ in places if topic in known)
        if topics:
            await self._read_topics(list(topics))
        if places and self._store.leads:
            self._store.tell(IsrChanged(tuple(dict.fromkeys(places))))
        await self._remove([path for path, _ in told])

    async def _read_log_dir_events(self) -> None:
        told = await self._notifications(znodes.LOG_DIR_EVENTS)
        ids: dict[int, None] = {}
        for path, content in told:
            try:
                ids[znodes.decode_log_dir_event(content)] = None
            except (ValueError, TypeError, LookupError) as problem:
                log.warning("%s is damaged: %r", path, problem)
        if ids:
            self._store.tell(LogDirsFailed(tuple(ids)))
        await self._remove([path for path, _ in told])

    async def _notifications(self, folder: str) -> list[tuple[str, bytes]]:
        names = await self._session.children(folder, watch=True)
        paths = [f"{folder}/{name}" for name in names]
        found = await self._session.get_all(paths)
        return [(path, each[0]) for path, each in zip(paths, found, strict=True) if each]

    async def _watched(self, path: str) -> tuple[bytes, Any] | None:
        """The znode, with a watch also where it is not there."""
        found = await self._session.get(path, watch=True)
        if found is None and await self._session.exists(path, watch=True) is not None:
            found = await self._session.get(path)
        return found

    async def _remove(self, paths: Iterable[str]) -> None:
        """What was heard, or is outdated: each on its own, for it may be gone by now."""
        for path in paths:
            operations = [self._session.delete(path)]
            if path.startswith(znodes.CONFIG_CHANGES):
                await self._unfenced(operations)
            else:
                await self._fenced(operations)

    async def _fenced(self, operations: Sequence[Operation]) -> None:
        """By the controller, if it still is; what was not made comes again, or is another's."""
        try:
            await self._session.multi([self._store.fence(), *operations])
        except Fenced:
            return
        except Refused as refused:
            if refused.at == 0:
                self.mark(znodes.CONTROLLER)
            elif not isinstance(refused.reason, NoNodeError):
                log.info("a notification was not removed: %s", refused)
        except OutcomeUnknown:
            return  # all is read anew when the connection is back

    async def _unfenced(self, operations: Sequence[Operation]) -> None:
        try:
            await self._session.multi(operations)
        except (Refused, OutcomeUnknown) as problem:
            log.debug("a notification was not removed: %s", problem)


def _places(path: str, content: bytes) -> tuple[Place, ...]:
    try:
        return znodes.decode_places(content)
    except (ValueError, TypeError, LookupError) as problem:
        log.warning("%s is damaged: %r", path, problem)
        return ()
