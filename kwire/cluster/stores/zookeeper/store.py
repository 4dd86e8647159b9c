"""ZooKeeperStore: the ClusterStore that keeps the cluster's metadata in ZooKeeper.

The store keeps an image of what it has read.  One lock, the turn, lets only one task at a time read
or write ZooKeeper.  So images change in the order of ZooKeeper's transactions.  Each read sets the
watch again that has fired.  After a lost connection the store reads everything again, because kazoo
forgets the watches then.
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
from kwire.cluster.metadata.quorum import MetadataQuorum
from kwire.cluster.stores.contract import (
    Fenced,
    Place,
    SessionLost,
    SessionResumed,
    SessionSuspended,
    StoreError,
    StoreEvent,
    Watcher,
)
from kwire.cluster.stores.zookeeper import acl_znodes, reading, znodes
from kwire.cluster.stores.zookeeper.config import ZooKeeperConfig
from kwire.cluster.stores.zookeeper.following import EVERYTHING, ZooKeeperFollower, subject_of
from kwire.cluster.stores.zookeeper.link import log
from kwire.cluster.stores.zookeeper.session import (
    EPHEMERAL,
    SEQUENTIAL,
    OutcomeUnknown,
    SessionState,
    TransactionRefused,
    ZnodeOperation,
    ZooKeeperSession,
)
from kwire.cluster.stores.zookeeper.writing import (
    TOPIC_CHANGES,
    StepWriter,
    WriteStep,
    ZnodeVersions,
    applied,
    possible,
)

TRIES_MAX = 5
"""Attempts of a commit that is refused although the image fits: a znode's version is not known."""
REGISTRATION_POLL_S = 0.2
"""Pause between attempts to register while an earlier registration has not expired."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class ControllerTerm:
    """The time in which this broker is the controller.

    `epoch` is the controller epoch, `version` the version of /controller_epoch, which fences.
    """

    __slots__ = ("epoch", "version")

    def __init__(self, epoch: int, version: int) -> None:
        self.epoch = epoch
        self.version = version


class ZooKeeperStore:
    """See kwire.cluster.stores.contract.ClusterStore; the other methods need `run` to be running.

    `broker_id` is the id of this broker.
    """

    can_register_again = True

    def __init__(
        self, config: ZooKeeperConfig, broker_id: int, now_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        """`now_ms` is the clock for times that are written; tests replace it."""
        self._broker_id = broker_id
        self._now_ms = now_ms
        self._config = config
        self.session = ZooKeeperSession(config, self._on_state, self._on_znode)
        self.versions = ZnodeVersions()
        self.term: ControllerTerm | None = None
        self._image = ClusterImage("")
        self._loaded = trio.Event()
        self._watchers: list[Watcher] = []
        self.on_event: Callable[[StoreEvent], None] | None = None
        self._turn = trio.Lock()
        self._follower = ZooKeeperFollower(self, self._turn, config)
        self._was_suspended = False

    # -- running

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a session and follow the cluster; started once the image is loaded.

        Returns after `close`.  Raises StoreError if ZooKeeper cannot be reached at the start.
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
        """Reads all of the metadata that every broker needs (topics: only the controller)."""
        await reading.make_persistent_paths(self.session, self._config.access_paths)
        cluster_id = await reading.cluster_id(self.session)
        self._image = ClusterImage(cluster_id)
        await self._follower.read({EVERYTHING})
        self._loaded.set()

    def close(self) -> None:
        """Ends the session; watchers and `on_event` are not called any more."""
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
    def is_controller(self) -> bool:
        """Whether this broker believes that it is the controller."""
        return self.term is not None

    def is_own_term(self, controller_id: int, epoch: int, session_id: int) -> bool:
        """Return whether the controller in ZooKeeper is this broker in its term.

        The znode must belong to the present session: one of an earlier session is about to go.
        """
        term = self.term
        return (
            term is not None
            and (controller_id, epoch) == (self._broker_id, term.epoch)
            and session_id == self.session.id
        )

    @property
    def broker_id(self) -> int:
        return self._broker_id

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    # -- events

    def _on_state(self, state: SessionState) -> None:
        """Handles a new state of the session."""
        suspended, self._was_suspended = self._was_suspended, state is SessionState.SUSPENDED
        if state is SessionState.UP:
            self._follower.mark(EVERYTHING)
            if suspended:
                self.report(SessionResumed())
        elif state is SessionState.SUSPENDED:
            self.report(SessionSuspended())
        elif state is SessionState.NONE:
            self.end_term(NO_CONTROLLER, self._image.controller_epoch)
            self.report(SessionLost())

    def _on_znode(self, path: str) -> None:
        subject = subject_of(path)
        if subject is not None:
            self._follower.mark(subject)

    def report(self, event: StoreEvent) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def publish(self, after: ClusterImage, changes: Iterable[Change]) -> None:
        """Makes `after`, the result of `changes`, the image; calls the watchers if it is new."""
        before = self._image
        delta = delta_of(before, after.with_version(before.version + 1), changes)
        if delta == _empty_delta(before):
            return
        # When a term ends, topics leave the image although they exist.  Applying a delta drops the
        # configs of its deleted topics; naming the configs in the delta keeps them.
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

    def end_term(self, controller_id: int, epoch: int) -> None:
        """Ends this broker's term as the controller: the image has no topics after that.

        `controller_id` is the next controller or NO_CONTROLLER, `epoch` its epoch.
        """
        self.term = None
        image = self._image
        deletions = [DeleteTopic(topic.name, topic.id) for topic in image.topics.values()]
        rest = replace(image.without_topics(list(image.topics)), configs=image.configs)
        self.versions.topics.clear()
        self.publish(rest.with_controller(controller_id, epoch), deletions)

    # -- this broker

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Register `broker` until the session ends; returns the image, which has its epoch.

        Waits until an older registration of this id has expired.  Raises StoreError.
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
        addresses = ", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in owner.endpoints)
        raise StoreError(
            f"broker.id {broker.id} is registered in ZooKeeper by another broker, at {addresses}:"
            " give this broker an id of its own, or stop the other one"
        )

    def _announce(self, broker: BrokerImage, epoch: int) -> None:
        known = replace(broker, epoch=epoch)
        self.publish(self._image.with_broker(known), [RegisterBroker(known)])

    async def _try_to_register(
        self, broker: BrokerImage, owner: BrokerImage | None
    ) -> tuple[int | None, BrokerImage | None]:
        """Tries to register once; returns the broker epoch.

        If another broker has this id, returns None and that broker.
        """
        session, path = self.session, znodes.broker_path(broker.id)
        content = znodes.encode_broker(broker, self._now_ms())
        found = await session.get(path)
        operations: list[ZnodeOperation] = []
        if found is not None:
            stat = found[1]
            if stat.ephemeralOwner == session.id:
                operations = [session.set_data(path, content, stat.version)]
            elif stat.ephemeralOwner in session.ids:
                operations = [session.delete(path, stat.version)]
            else:
                return None, znodes.decode_broker(broker.id, found[0])
        if not operations or found is None or found[1].ephemeralOwner != session.id:
            # Kafka 3.9 does the same: ZooKeeper returns the stat, which has the epoch, only for
            # set_data.
            operations += [
                session.create(path, content, EPHEMERAL),
                session.set_data(path, content),
            ]
        try:
            results = await session.multi(operations)
        except (TransactionRefused, OutcomeUnknown) as problem:
            log.info("Registering in ZooKeeper failed; trying again: %s", problem)
            return None, owner
        stat = results[-1]
        if session.state is SessionState.NONE or stat.ephemeralOwner != session.id:
            return None, owner  # the session that registered has ended
        return stat.czxid, None

    async def quorum(self, asked_ms: int) -> MetadataQuorum:
        raise StoreError("the metadata is in ZooKeeper: there is no quorum of controllers")

    async def log_dir_failed(self) -> None:
        """Notifies the controller that a log directory of this broker failed.

        Raises StoreError.
        """
        session = self.session
        content = znodes.encode_log_dir_event(self._broker_id)
        while True:
            try:
                await session.multi([session.create(znodes.LOG_DIR_EVENT, content, SEQUENTIAL)])
            except OutcomeUnknown:
                continue  # a second notification does no harm
            except TransactionRefused as refused:
                raise StoreError(
                    f"ZooKeeper refused to create {znodes.LOG_DIR_EVENT}: {refused}"
                ) from refused
            return

    async def campaign(self) -> bool:
        """Tries to become the controller; returns whether this broker is it now."""
        await self._loaded.wait()
        async with self._turn:
            if self.term is not None:
                return True
            if not await self._elected():
                # Another broker won: read which, and watch its znode.
                await self._follower.read({znodes.CONTROLLER})
                return False
            return await self._begin_term()

    async def _elected(self) -> bool:
        """Creates /controller and raises the controller epoch in one transaction.

        Returns False if another broker is the controller.
        """
        session = self.session
        content = znodes.encode_controller(self._broker_id, self._now_ms())
        while True:
            stale: list[ZnodeOperation] = []
            holder = await session.get(znodes.CONTROLLER)
            if holder is not None:
                if holder[1].ephemeralOwner not in session.ids:
                    return False
                # An earlier session of this process created it, or the reply to its creation was
                # lost.  In both cases this process has not been the controller by it.
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
            except TransactionRefused as refused:
                if isinstance(refused.reason, NodeExistsError | BadVersionError | NoNodeError):
                    continue
                raise StoreError(f"ZooKeeper refused an election: {refused}") from refused
            except OutcomeUnknown:
                continue
            self.term = ControllerTerm(epoch, results[-1].version)
            return True

    async def _begin_term(self) -> bool:
        """Reads all topics and publishes the image with this broker as the controller.

        Returns False if the term ended meanwhile.
        """
        term = self.term
        await self._follower.prepare_term()
        image, changes = await self._follower.read_whole()
        if term is None or self.term is not term:
            return False
        self.publish(image.with_controller(self._broker_id, term.epoch), changes)
        await self._follower.read({znodes.DELETE_TOPICS})
        self._follower.mark_requests()
        return self.is_controller

    async def resign(self) -> None:
        """Ends this broker's term as the controller, so that another is elected.

        The fence makes ZooKeeper refuse the deletion if the znode is another controller's by now.
        """
        async with self._turn:
            if self.term is None:
                return
            try:
                await self.session.multi([self.fence(), self.session.delete(znodes.CONTROLLER)])
            except (TransactionRefused, OutcomeUnknown) as problem:
                log.info("Resigning as controller failed: %s", problem)
            await self._follower.read({znodes.CONTROLLER})

    # -- changes

    def fence(self) -> ZnodeOperation:
        """Return the operation that makes a transaction fail if there is a later controller.

        Raises Fenced if this broker already knows of one.
        """
        if self.term is None:
            raise Fenced(f"broker {self._broker_id} is not the controller")
        return self.session.check(znodes.CONTROLLER_EPOCH, self.term.version)

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Writes the changes to ZooKeeper in steps; returns the image that has them.

        A conflict with another writer's change is resolved by another try if the change is still
        possible.  Otherwise raises Conflict, which says how many changes were made.
        """
        await self._loaded.wait()
        async with self._turn:
            made = 0
            for _ in range(TRIES_MAX):
                conflict = await self._try_to_commit(changes[made:])
                if conflict is None:
                    return self._image
                made += conflict.made
                # The change conflicts with the image that was read again: more tries cannot help.
                if possible(self._image, changes[made:], self.is_controller)[1] is not None:
                    break
            raise Conflict(str(conflict), made)

    async def _try_to_commit(self, changes: Sequence[Change]) -> Conflict | None:
        """Makes `changes`; returns None if all are made, or else the first Conflict.

        A Conflict says how many changes were made before it.  By then the image that conflicts has
        been published.
        """
        if any(isinstance(change, TOPIC_CHANGES) for change in changes):
            self.fence()
        written, conflict = possible(self._image, changes, self.is_controller)
        children = await self._children_of(written)
        writer = StepWriter(
            self.session, self._image, self.versions, self.fence, children, self.is_controller
        )
        made, term = 0, self.term
        for step in writer.steps(written):
            try:
                await self._make(step)
            except TransactionRefused as refused:
                await self._handle_refusal(step, refused, written)
                self._check_term(term, step)
                return Conflict(f"ZooKeeper has another state: {refused.reason!r}", made)
            self._check_term(term, step)
            self.versions.note(step.noted)
            made += len(step.completed)
            self.publish(applied(self._image, step.completed, self.is_controller), step.completed)
        return None if conflict is None else Conflict(str(conflict), made)

    def _check_term(self, term: ControllerTerm | None, step: WriteStep) -> None:
        """Raise Fenced if `step` changes topics and the term ended while it was written.

        The next controller reads what was written; this broker's image has no topics any more.
        """
        if self.term is not term and any(
            isinstance(change, TOPIC_CHANGES) for change in step.completed
        ):
            raise Fenced(f"broker {self._broker_id} stopped being the controller during a commit")

    async def _children_of(self, changes: Iterable[Change]) -> dict[str, list[str]]:
        """Return the children of /brokers/topics/T/partitions of each topic to delete."""
        names = [change.topic for change in changes if isinstance(change, DeleteTopic)]
        if not names:
            return {}
        paths = [znodes.partitions_path(name) for name in names]
        folders = await self.session.get_all(paths)
        children = await self.session.children_of_all(paths)
        return {
            name: indices
            for name, folder, indices in zip(names, folders, children, strict=True)
            if folder is not None
        }

    async def _make(self, step: WriteStep) -> None:
        """Writes a step.

        If the connection is lost before the step is made, writes it again.  Raises
        TransactionRefused, StoreError.
        """
        while step.operations:
            try:
                await self.session.multi(step.operations)
            except OutcomeUnknown:
                # The transaction may have been made although its reply was lost: making it twice
                # would fail.
                if await self.session.was_made(step.operations):
                    return
                continue
            return

    async def _handle_refusal(
        self, step: WriteStep, refused: TransactionRefused, changes: Sequence[Change]
    ) -> None:
        """Reads again what `changes` are about, after ZooKeeper refused `step`.

        Raises Fenced if it refused because this broker is not the controller any more.
        """
        fenced = self.term is not None and step.operations[0] == self.fence()
        if fenced and refused.at == 0:
            await self._follower.read({znodes.CONTROLLER})
            self.end_term(self._image.controller_id, self._image.controller_epoch)
            raise Fenced(f"broker {self._broker_id} is no longer the controller") from refused
        if isinstance(refused.reason, NoNodeError):
            # The folder is missing: this is the first resource of its type, or the first client
            # of a user.
            for path in _user_paths_of(step.completed):
                await self.session.make_path(path.rpartition("/")[0])
        await self._follower.read_again(changes)

    async def read_configs(self, keys: Iterable[ResourceKey]) -> ClusterImage:
        """Reads the configs of `keys` anew; returns the image that has them."""
        await self._loaded.wait()
        async with self._turn:
            found = await reading.configs_of(self.session, list(keys), self.versions)
            self._follower.publish_configs(found)
            return self._image

    async def has_topics(self) -> bool:
        return bool(await self.session.children(znodes.TOPICS))

    async def allocate_producer_ids(self, count: int) -> range:
        """Return the next `count` producer ids, for this broker only."""
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
            except (TransactionRefused, OutcomeUnknown):
                # Another broker took the block, or this one did and the reply was lost.  Losing a
                # block does no harm.
                continue
            return block

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        """See ClusterStore."""
        async with self._turn:
            await self._follower.drop_reassignments(set(places))


def _user_paths_of(changes: Iterable[Change]) -> Iterator[str]:
    """Yield paths that `changes` write and whose parent znodes may not exist yet."""
    for change in changes:
        if isinstance(change, SetConfigs):
            yield znodes.config_path((change.resource, change.name))
        elif isinstance(change, ChangeAcls):
            yield from (acl_znodes.acl_path(change.pattern), acl_znodes.change_path(change.pattern))


def _empty_delta(image: ClusterImage) -> ClusterDelta:
    """A delta without changes, to the next version of `image`."""
    return delta_of(image, image.with_version(image.version + 1), ())
