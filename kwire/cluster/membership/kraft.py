"""The membership of a broker in a cluster with KRaft controllers, which are other nodes.

    join    follow the metadata, register, lead and follow what they say, then be unfenced
    stay    register anew if the controllers no longer have the registration
    leave   let the controllers move the leaderships of this broker to others, then stop

No controller sends this broker requests: the metadata that it observes say what it leads and
follows, and what it answers clients.  What only a controller may change goes there, with the name
of the client (`forwarding`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from kwire.cluster.membership.kraft_topics import KraftTopics
from kwire.cluster.membership.waiting import ImageWaiters
from kwire.cluster.metadata.delta import delta_between
from kwire.cluster.metadata.features import CORDONING, METADATA_VERSION
from kwire.cluster.replication.kraft import KraftReplicationContext
from kwire.cluster.replication.manager import ReplicaManager
from kwire.cluster.replication.roles import MetadataRoles
from kwire.cluster.stores.contract import NotController, StoreError
from kwire.cluster.stores.kraft.assigning import DirectoryAssignments
from kwire.cluster.stores.kraft.forwarding import Forwarding
from kwire.cluster.stores.kraft.opening import metadata_dir_of
from kwire.cluster.stores.kraft.store import ONLY_CONTROLLERS

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.controller.effects import ControllerEffects
    from kwire.cluster.controller.machine import ClusterController
    from kwire.cluster.decisions.topic_creation import NewTopic
    from kwire.cluster.metadata.changes import Decision
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage, ResourceKey
    from kwire.cluster.metadata.quorum import MetadataQuorum
    from kwire.cluster.stores.kraft.forwarding import RequestSender
    from kwire.cluster.stores.kraft.store import KraftStore
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kwire.log import Log

log = logging.getLogger("kwire.cluster")


class KraftMember:
    """The membership of a broker beside KRaft controllers; see `ClusterMembership`."""

    is_controller = False
    controller_requests = None
    has_metadata = True
    ended_brokers: Collection[int] = ()

    def __init__(
        self,
        node: Node,
        store: KraftStore,
        nursery: trio.Nursery,
        give_up: Callable[[StoreError], None],
    ) -> None:
        """`give_up` stops the broker: its cluster is gone for good."""
        self._node = node
        self._store = store
        self._nursery = nursery
        store.on_end = give_up
        self._context = KraftReplicationContext(
            node, store.channel("in-sync replicas"), lambda: store.broker_epoch
        )
        self._replication = ReplicaManager(self._context, nursery)
        self._roles = MetadataRoles(self._replication, self._assign)
        self._assignments: DirectoryAssignments | None = None
        self.forwarding = Forwarding(store.channel("forwarding"))
        self._waiters = ImageWaiters(node, nursery)
        self._topics = KraftTopics(
            store.channel("topics"), self.forwarding, node.settings, self._waiters.wait_until
        )
        self._directory_ids = node.hosted.logs.directory_ids()

    @property
    def replication(self) -> ReplicaManager:
        return self._replication

    @property
    def image(self) -> ClusterImage:
        return self._node.image

    # -- joining

    async def join(self) -> None:
        """Register, host the partitions of the metadata, and return once this broker is unfenced.

        Raises StoreError.
        """
        store = self._store
        directory_ids = tuple(self._directory_ids.values())
        image = await store.register(replace(self._node.registration, directories=directory_ids))
        life = store.life
        self._assignments = DirectoryAssignments(
            store.channel("log directories"), life, lambda: self.image
        )
        self._nursery.start_soon(self._assignments.run)
        self._apply(image, delta_between(self.image, image))
        store.watch(self._apply)
        self._tell_directories()
        life.ready()
        await life.wait_unfenced()

    def _apply(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Take over the controllers' next image, and lead and follow what it says."""
        before = self._node.image
        self._context.apply_metadata(image, delta)
        self._roles.apply(before, image, delta)
        if delta.features is not None:
            self._tell_directories()
        self._waiters.wake()

    # -- log directories

    def _assign(self, topic_id: bytes, index: int, directory: bytes) -> None:
        assert self._assignments is not None, "this broker hosts nothing before it is registered"
        self._assignments.assign(topic_id, index, directory)

    def _tell_directories(self) -> None:
        """Tell the controllers which log directories have failed, and which are cordoned."""
        ids, dirs = self._directory_ids, self._node.hosted.logs.dirs
        online = {each.path: each for each in dirs.online_dirs if each.path in ids}
        failed = tuple(each for path, each in ids.items() if path not in online)
        cordoned = None
        if self.image.features.level(METADATA_VERSION) >= CORDONING:
            cordoned = tuple(ids[path] for path in online if dirs.is_cordoned(online[path]))
        self._store.life.set_directories(failed, cordoned)

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        self._replication.configs_changed(changed)
        if self._assignments is not None:
            self._tell_directories()

    def logs_lost(self, path: Path, lost: list[Log]) -> bool:
        """Stop following with these logs, and tell the controllers.

        Returns False if the directory held the metadata too.
        """
        self._roles.logs_lost(lost)
        if self._assignments is not None:
            self._tell_directories()
        return path != metadata_dir_of(self._node.config)

    def open_missing(self) -> None:
        self._roles.open_missing()

    # -- requests of clients

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Raises NotController."""
        raise NotController(ONLY_CONTROLLERS)

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - any reply
        """Raises NotController."""
        raise NotController(ONLY_CONTROLLERS)

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        return await self._waiters.wait_until(seen, timeout_ms)

    def call_when(self, seen: Callable[[ClusterImage], bool], then: Callable[[], None]) -> None:
        self._waiters.call_when(seen, then)

    async def wait_for_metadata(self, timeout_ms: int) -> None:
        return

    async def quorum(self) -> MetadataQuorum:
        """Raises StoreError: DescribeQuorum goes to a controller."""
        return await self._store.quorum(self._node.now_ms())

    async def unregister_broker(self, broker_id: int) -> None:
        """Raises StoreError: UnregisterBroker goes to a controller."""
        raise NotController(ONLY_CONTROLLERS)

    async def create_internal_topic(self, name: str) -> None:
        await self._topics.create_internal_topic(name)

    async def create_on_first_use(
        self, names: Sequence[str], sender: RequestSender | None = None
    ) -> None:
        await self._topics.create_on_first_use(names, sender)

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        return await self._topics.ask_for_topics(wanted)

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        raise AssertionError("controllers of KRaft send no LeaderAndIsr")

    # -- leaving

    async def leave(self) -> None:
        """Let the controllers move to others what this broker leads, as far as possible."""
        if not self._node.config.controlled_shutdown_enable:
            return
        self._roles.begin_shutdown()
        if not await self._store.life.leave():
            log.warning("The controllers did not agree to the shutdown in time.")
