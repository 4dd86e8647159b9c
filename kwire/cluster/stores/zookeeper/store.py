"""The cluster's metadata in ZooKeeper: a ClusterStore.

What this broker knows is an image; every change of it, made here or told by a watch, is read or
written in one turn at a time, so that images follow each other as ZooKeeper's transactions do.
A watch is left again by the read that follows it; after a lost connection all is read anew, for
kazoo forgets the watches then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import trio
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from kwire.cluster.metadata.changes import (
    Change,
    ChangeAcls,
    Conflict,
    DeleteTopic,
    RegisterBroker,
    SetConfigs,
)
from kwire.cluster.metadata.delta import ClusterDelta, delta_of
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    BrokerImage,
    ClusterImage,
    ResourceKey,
)
from kwire.cluster.stores.contract import (
    Fenced,
    Place,
    SessionBack,
    SessionLost,
    SessionSuspended,
    StoreError,
    StoreEvent,
    Watcher,
)
from kwire.cluster.stores.zookeeper import acl_znodes, reading, znodes
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.following import EVERYTHING, Follower, subject_of
from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.session import (
    EPHEMERAL,
    SEQUENTIAL,
    Operation,
    OutcomeUnknown,
    Refused,
    Session,
    State,
)
from kwire.cluster.stores.zookeeper.writing import (
    TOPIC_CHANGES,
    Step,
    Versions,
    Writer,
    applied,
    possible,
)

TRIES_MAX = 5
"""Of a commit whose znodes were other than known, though nothing it was decided by has changed."""
REGISTRATION_POLL_S = 0.2


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Office:
    """Being the controller: of which epoch, and the version of the znode that says so."""

    __slots__ = ("epoch", "version")

    def __init__(self, epoch: int, version: int) -> None:
        self.epoch = epoch
        self.version = version


class ZooKeeperStore:
    """See kwire.cluster.stores.contract.ClusterStore.  `run` must be running for anything else to
    work.

    `broker_id` is the broker that this process is.
    """

    has_way_back = True

    def __init__(
        self, config: ZooKeeperConfig, broker_id: int, now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._broker_id = broker_id
        self._now_ms = now_ms
        self._config = config
        self.session = Session(config, self._on_state, self._on_znode)
        self.versions = Versions()
        self.office: Office | None = None
        self._image = ClusterImage("")
        self._loaded = trio.Event()
        self._watchers: list[Watcher] = []
        self.on_event: Callable[[StoreEvent], None] | None = None
        self._turn = trio.Lock()
        self._follower = Follower(self, self._turn, config)
        self._was_suspended = False

    # -- its life

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the session and follow the cluster; started once the image is loaded.

        Ends after `close`.  Raises StoreError if ZooKeeper cannot be reached at first.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.session.run)
            try:
                async with self._turn:
                    await self._load()
                task_status.started()
                await self._follower.run()
            finally:
                self.close()

    async def _load(self) -> None:
        await reading.make_persistent_paths(self.session, self._config.access_paths)
        cluster_id = await reading.cluster_id(self.session)
        self._image = ClusterImage(cluster_id)
        await self._follower.read({EVERYTHING})
        self._loaded.set()

    def close(self) -> None:
        self._watchers.clear()
        self.on_event = None
        self.session.close()
        self._follower.wake()

    async def load(self) -> ClusterImage:
        await self._loaded.wait()
        return self._image

    @property
    def image(self) -> ClusterImage:
        return self._image

    @property
    def leads(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self.office is not None

    def holds(self, controller_id: int, epoch: int, session_id: int) -> bool:
        office = self.office
        return (
            office is not None
            and (controller_id, epoch) == (self._broker_id, office.epoch)
            and session_id == self.session.id
        )

    @property
    def broker_id(self) -> int:
        return self._broker_id

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    # -- what is heard

    def _on_state(self, state: State) -> None:
        """On the loop, from the session."""
        suspended, self._was_suspended = self._was_suspended, state is State.SUSPENDED
        if state is State.UP:
            self._follower.mark(EVERYTHING)
            if suspended:
                self.tell(SessionBack())
        elif state is State.SUSPENDED:
            self.tell(SessionSuspended())
        elif state is State.NONE:
            self.leave_office(NO_CONTROLLER, self._image.controller_epoch)
            self.tell(SessionLost())

    def _on_znode(self, path: str) -> None:
        subject = subject_of(path)
        if subject is not None:
            self._follower.mark(subject)

    def tell(self, event: StoreEvent) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def publish(self, after: ClusterImage, changes: Iterable[Change]) -> None:
        """`after` is the image now, by `changes`: tell the watchers, if that is anything new."""
        before = self._image
        delta = delta_of(before, after.with_version(before.version + 1), changes)
        if delta == _nothing(before):
            return
        # A topic that is not this broker's business any more has gone with its configs by the
        # delta, and not in truth.
        kept = {
            key: after.configs[key]
            for key in reading.topic_keys(delta.deleted)
            if key in after.configs
        }
        if kept:
            delta = replace(delta, configs={**kept, **delta.configs})
        self._image = after.with_version(before.version + 1)
        for watcher in tuple(self._watchers):
            watcher(self._image, delta)

    def leave_office(self, controller_id: int, epoch: int) -> None:
        """Another is the controller, or nobody: topics are its business."""
        self.office = None
        image = self._image
        gone = [DeleteTopic(topic.name, topic.id) for topic in image.topics.values()]
        kept = replace(image.without_topics(list(image.topics)), configs=image.configs)
        self.versions.topics.clear()
        self.publish(kept.with_controller(controller_id, epoch), gone)

    # -- this broker

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """As broker `broker.id`, until the session ends.  The image's broker has its `epoch`.

        Waits for an older registration of the same id to expire.  Raises StoreError.
        """
        await self._loaded.wait()
        patience_s = (self._config.session_timeout_ms + self._config.connection_timeout_ms) / 1000
        owner: BrokerImage | None = None
        with trio.move_on_after(patience_s):
            while True:
                async with self._turn:
                    epoch, owner = await self._try_to_register(broker, owner)
                    if epoch is not None:
                        self._announce(broker, epoch)
                        return self._image
                await trio.sleep(REGISTRATION_POLL_S)
        if owner is None:
            raise StoreError(f"ZooKeeper did not register broker {broker.id} in {patience_s:g} s")
        where = ", ".join(f"{each.host}:{each.port}" for each in owner.endpoints)
        raise StoreError(
            f"broker.id {broker.id} is registered in ZooKeeper by another broker, at {where}:"
            " give this one an id of its own, or stop the other"
        )

    def _announce(self, broker: BrokerImage, epoch: int) -> None:
        known = BrokerImage(broker.id, broker.endpoints, broker.rack, epoch, broker.features)
        self.publish(self._image.with_broker(known), [RegisterBroker(known)])

    async def _try_to_register(
        self, broker: BrokerImage, owner: BrokerImage | None
    ) -> tuple[int | None, BrokerImage | None]:
        """Its epoch, or who has the id."""
        session, path = self.session, znodes.broker_path(broker.id)
        content = znodes.encode_broker(broker, self._now_ms())
        found = await session.get(path)
        operations: list[Operation] = []
        if found is not None:
            stat = found[1]
            if stat.ephemeralOwner == session.id:
                operations = [session.set_data(path, content, stat.version)]
            elif stat.ephemeralOwner in session.ids:
                operations = [session.delete(path, stat.version)]
            else:
                return None, znodes.decode_broker(broker.id, found[0])
        if not operations or found is None or found[1].ephemeralOwner != session.id:
            # As 3.9 does, whose clients of ZooKeeper are told no stat by a creation.
            operations += [
                session.create(path, content, EPHEMERAL),
                session.set_data(path, content),
            ]
        try:
            results = await session.multi(operations)
        except (Refused, OutcomeUnknown) as problem:
            log.info("the registration is tried again: %s", problem)
            return None, owner
        made = results[-1]
        if session.state is State.NONE or made.ephemeralOwner != session.id:
            return None, owner  # its session is over
        return made.czxid, None

    async def log_dir_failed(self) -> None:
        session = self.session
        content = znodes.encode_log_dir_event(self._broker_id)
        while True:
            try:
                await session.multi([session.create(znodes.LOG_DIR_EVENT, content, SEQUENTIAL)])
            except OutcomeUnknown:
                continue  # a second notification does no harm
            except Refused as refused:
                raise StoreError(
                    f"ZooKeeper refused {znodes.LOG_DIR_EVENT}: {refused}"
                ) from refused
            return

    async def campaign(self) -> bool:
        await self._loaded.wait()
        async with self._turn:
            if self.office is not None:
                return True
            if not await self._elected():
                await self._follower.read({znodes.CONTROLLER})
                return False
            return await self._take_office()

    async def _elected(self) -> bool:
        """Create /controller and raise the epoch, in one."""
        session = self.session
        content = znodes.encode_controller(self._broker_id, self._now_ms())
        while True:
            stale: list[Operation] = []
            holder = await session.get(znodes.CONTROLLER)
            if holder is not None:
                if holder[1].ephemeralOwner not in session.ids:
                    return False
                # Of a session of ours that is over, or of a creation whose reply was lost: in both
                # cases nobody has led by it since.
                stale = [session.delete(znodes.CONTROLLER, holder[1].version)]
            found = await session.get(znodes.CONTROLLER_EPOCH)
            if found is None:
                await session.make(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))
                continue
            epoch = znodes.decode_controller_epoch(found[0]) + 1
            raised = session.set_data(
                znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), found[1].version
            )
            try:
                results = await session.multi(
                    [*stale, session.create(znodes.CONTROLLER, content, EPHEMERAL), raised]
                )
            except Refused as refused:
                if isinstance(refused.reason, NodeExistsError | BadVersionError | NoNodeError):
                    continue
                raise StoreError(f"ZooKeeper refused an election: {refused}") from refused
            except OutcomeUnknown:
                continue
            self.office = Office(epoch, results[-1].version)
            return True

    async def _take_office(self) -> bool:
        """Read all topics: then this broker is the controller, and is told so.

        False if it was over before it began.
        """
        office = self.office
        await self._follower.prepare_office()
        image, changes = await self._follower.read_whole()
        if office is None or self.office is not office:
            return False
        self.publish(image.with_controller(self._broker_id, office.epoch), changes)
        await self._follower.read({znodes.DELETE_TOPICS})
        self._follower.mark_what_is_asked()
        return self.leads

    async def resign(self) -> None:
        async with self._turn:
            if self.office is None:
                return
            try:
                await self.session.multi([self.fence(), self.session.delete(znodes.CONTROLLER)])
            except (Refused, OutcomeUnknown) as problem:
                log.info("the office of controller was not given back: %s", problem)
            await self._follower.read({znodes.CONTROLLER})

    # -- changes

    def fence(self) -> Operation:
        if self.office is None:
            raise Fenced(f"broker {self._broker_id} is not the controller")
        return self.session.check(znodes.CONTROLLER_EPOCH, self.office.version)

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        await self._loaded.wait()
        async with self._turn:
            made = 0
            for _ in range(TRIES_MAX):
                conflict = await self._try_to_commit(changes[made:])
                if conflict is None:
                    return self._image
                made += conflict.made
                if possible(self._image, changes[made:], self.leads)[1] is not None:
                    break
            raise Conflict(str(conflict), made)

    async def _try_to_commit(self, changes: Sequence[Change]) -> Conflict | None:
        """None if all are made; else what was in the way, which is published then."""
        if any(isinstance(change, TOPIC_CHANGES) for change in changes):
            self.fence()
        written, conflict = possible(self._image, changes, self.leads)
        children = await self._children_of(written)
        writer = Writer(self.session, self._image, self.versions, self.fence, children, self.leads)
        made, office = 0, self.office
        for step in writer.steps(written):
            try:
                await self._make(step)
            except Refused as refused:
                await self._see_what_is_in_the_way(step, refused, written)
                self._must_still_be(office, step)
                return Conflict(f"ZooKeeper has it otherwise: {refused.reason!r}", made)
            self._must_still_be(office, step)
            self.versions.note(step.noted)
            made += len(step.completed)
            self.publish(applied(self._image, step.completed, self.leads), step.completed)
        return None if conflict is None else Conflict(str(conflict), made)

    def _must_still_be(self, office: Office | None, step: Step) -> None:
        """Raises Fenced where a step was the controller's and the office was lost meanwhile.

        The next controller finds what was made of it; here topics are nobody's business any more.
        """
        if self.office is not office and any(
            isinstance(change, TOPIC_CHANGES) for change in step.completed
        ):
            raise Fenced(f"broker {self._broker_id} ceased to be the controller meanwhile")

    async def _children_of(self, changes: Iterable[Change]) -> dict[str, list[str]]:
        """The folders of the partitions of topics that go."""
        names = [change.topic for change in changes if isinstance(change, DeleteTopic)]
        if not names:
            return {}
        paths = [znodes.partitions_path(name) for name in names]
        there = await self.session.get_all(paths)
        found = await self.session.children_of_all(paths)
        return {
            name: indices
            for name, each, indices in zip(names, there, found, strict=True)
            if each is not None
        }

    async def _make(self, step: Step) -> None:
        """Make a step, though the connection may go meanwhile.  Raises Refused, StoreError."""
        while step.operations:
            try:
                await self.session.multi(step.operations)
            except OutcomeUnknown:
                if await self.session.was_made(step.operations):
                    return
                continue
            return

    async def _see_what_is_in_the_way(
        self, step: Step, refused: Refused, changes: Sequence[Change]
    ) -> None:
        """Read anew what the changes are about.  Raises Fenced."""
        fenced = self.office is not None and step.operations[0] == self.fence()
        if fenced and refused.at == 0:
            await self._follower.read({znodes.CONTROLLER})
            self.leave_office(self._image.controller_id, self._image.controller_epoch)
            raise Fenced(f"broker {self._broker_id} is the controller no longer") from refused
        if isinstance(refused.reason, NoNodeError):  # the first of its kind, or of a user's clients
            for path in _written_for(step.completed):
                await self.session.make_path(path.rpartition("/")[0])
        await self._follower.read_again(changes)

    async def read_configs(self, keys: Iterable[ResourceKey]) -> ClusterImage:
        await self._loaded.wait()
        async with self._turn:
            found = await reading.configs_of(self.session, list(keys), self.versions)
            self._follower.publish_configs(found)
            return self._image

    async def has_topics(self) -> bool:
        return bool(await self.session.children(znodes.TOPICS))

    async def allocate_producer_ids(self, count: int) -> range:
        await self._loaded.wait()
        path = znodes.PRODUCER_ID_BLOCK
        while True:
            found = await self.session.get(path)
            if found is None:
                await self.session.make_path(path)
                continue
            first = znodes.decode_next_producer_id(found[0])
            block = range(first, first + count)
            content = znodes.encode_producer_ids(self._broker_id, block)
            try:
                await self.session.multi([self.session.set_data(path, content, found[1].version)])
            except (Refused, OutcomeUnknown):
                continue  # somebody has taken them; perhaps this broker, who will not miss them
            return block

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        """Those asked for in ZooKeeper that cannot be: nobody is to try them again."""
        async with self._turn:
            await self._follower.drop_reassignments(set(places))


def _written_for(changes: Iterable[Change]) -> Iterator[str]:
    """Paths of what users set: the folders above may not be there."""
    for change in changes:
        if isinstance(change, SetConfigs):
            yield znodes.config_path((change.resource, change.name))
        elif isinstance(change, ChangeAcls):
            yield from (acl_znodes.acl_path(change.pattern), acl_znodes.change_path(change.pattern))


def _nothing(image: ClusterImage) -> ClusterDelta:
    """The delta that changes nothing, at the next version."""
    return delta_of(image, image.with_version(image.version + 1), ())
