"""The membership of a broker that is a cluster by itself.

Its metadata is a file beside its logs.  It hosts the partitions that the metadata assigns to it,
and it is its own controller.  For each request it creates a controller machine and drops it after
the answer: no other broker has to learn of the decisions, and none of them continue later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.cluster.decisions.registrations import check_registered
from kwire.cluster.decisions.topic_creation import internal_topic, on_first_use
from kwire.cluster.metadata.changes import SetController, UnregisterBroker
from kwire.cluster.metadata.delta import ClusterDelta, delta_between
from kwire.cluster.metadata.election import offline_decisions
from kwire.cluster.metadata.image import NO_CONTROLLER
from kwire.cluster.stores.contract import NotController, StoreError
from kwire.cluster.stores.deciding import commit_decided
from kwire.cluster.stores.local import LocalStore
from kwire.codecs.primitives import ZERO_UUID
from kwire.log import Log, LogError

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.controller.effects import ControllerEffects
    from kwire.cluster.controller.machine import ClusterController
    from kwire.cluster.decisions.topic_creation import NewTopic
    from kwire.cluster.metadata.changes import Decision
    from kwire.cluster.metadata.image import (
        ClusterImage,
        PartitionImage,
        ResourceKey,
        TopicImage,
    )
    from kwire.cluster.metadata.quorum import MetadataQuorum
    from kwire.cluster.replication.controller_requests import ControllerRequests
    from kwire.cluster.replication.manager import ReplicaManager
    from kwire.cluster.stores.kraft.forwarding import Forwarding, RequestSender
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kwire.log import LogConfig
    from kwire.storage.partitions.hosted import PartitionKey
    from kwire.storage.partitions.partition import Partition

log = logging.getLogger("kwire.broker")


class LoneMembership:
    """The membership of a broker that is a cluster by itself; see `ClusterMembership`."""

    replication: ReplicaManager | None = None
    controller_requests: ControllerRequests | None = None
    forwarding: Forwarding | None = None
    is_controller = True
    has_metadata = True
    ended_brokers: Collection[int] = ()

    def __init__(self, node: Node) -> None:
        """The logs of `node` are not opened yet."""
        self._node = node
        self._hosted = node.hosted
        self._known_at_start: set[str] = set()
        """Topics that may own a log without a topic id.  A topic created later does not."""
        self._unopened: set[str] = set()
        """Topics with partitions that could not be opened, for instance for lack of room."""

    @property
    def image(self) -> ClusterImage:
        return self._node.image

    async def begin(self) -> None:
        """Load the metadata, host its partitions, and register the broker.  Raises StoreError."""
        store = self._node.store
        image = await store.load()
        self._note_absent(image)
        self._known_at_start = set(image.topics)
        self.apply(image, delta_between(self.image, image))
        store.watch(self.apply)
        if isinstance(store, LocalStore):
            store.prepare = self.prepare
        await store.register(self._node.registration)
        await self._report_offline()

    def apply(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Update the metadata cache and the hosted partitions to `image`, the result of `delta`.

        Opens, updates and drops partitions.  The cost is in proportion to the delta.
        """
        for name in delta.deleted:
            self._drop_topic(name)
        self._node.metadata.apply(image, delta)
        for topic in delta.topics.values():
            self._host_topic(topic, delta.partitions[topic.name])

    def prepare(
        self, image: ClusterImage, delta: ClusterDelta
    ) -> Iterator[Callable[[], None] | None]:
        """Create the logs of the partitions that `delta` adds, before `apply`; yields after each.

        The files of a log take a millisecond or more, so that the loop would stand still for long
        if a topic has hundreds of partitions.  A thread first writes the checkpoints that may have
        lines of deleted partitions with these names: each has a line for each log.
        """
        hosted = self._hosted
        new = self._new_partitions(delta)
        keys = [(topic.name, index) for topic, index in new]
        for job in hosted.logs.maintenance.outdated_checkpoints(keys):
            for _ in job.steps:
                yield None
            yield job.run
            job.finish()
        configs: dict[str, LogConfig] = {}
        for topic, index in new:
            name, state = topic.name, topic.partitions[index]
            if name not in configs:
                configs[name] = self._node.log_config(name, image)
            try:
                partition_log = hosted.logs.create(name, topic.id, index, configs[name])
                if state.leader == self._node.node_id:
                    partition_log.assign_epoch(state.leader_epoch, 0)
            except LogError as error:
                log.debug("Partition %s-%d is opened later: %s", name, index, error)
            yield None

    def _new_partitions(self, delta: ClusterDelta) -> list[tuple[TopicImage, int]]:
        """Return the partitions that `delta` adds to this broker."""
        new: list[tuple[TopicImage, int]] = []
        for name, topic in delta.topics.items():
            if name in delta.deleted:
                continue  # its earlier logs have the same keys: `apply` drops them first
            before = self.image.topics.get(name)
            count = 0 if before is None or before.id != topic.id else len(before.partitions)
            for index in delta.partitions[name]:
                # One below `count` only changed: its directory may be offline.
                key = name, index
                is_known = key in self._hosted.logs.logs or key in self._hosted.absent
                is_here = self._node.node_id in topic.partitions[index].replicas
                if index >= count and is_here and not is_known:
                    new.append((topic, index))
        return new

    # -- partitions

    def _note_absent(self, image: ClusterImage) -> None:
        """Records which partitions may have their logs in a log directory that is offline."""
        node_id, logs = self._node.node_id, self._hosted.logs
        if not logs.offline_dirs:
            return
        self._hosted.absent = {
            (name, index)
            for name, topic in image.topics.items()
            for index, state in enumerate(topic.partitions)
            if node_id in state.replicas and not self._is_surely_here(name, index)
        }
        log.error(
            "%d partitions may be in log directories that are offline. They have no leader until "
            "the directories are back.",
            len(self._hosted.absent),
        )

    def _is_surely_here(self, topic: str, index: int) -> bool:
        """Return whether an online directory has this partition's log, known by its topic id.

        A log without a topic id may belong to a topic of the same name that was deleted.
        """
        partition_log = self._hosted.logs.logs.get((topic, index))
        return partition_log is not None and partition_log.topic_id != ZERO_UUID

    def _host_topic(self, topic: TopicImage, indexes: Iterable[int]) -> None:
        """Opens the partitions `indexes` of a topic that this broker has replicas of.

        A partition that cannot be opened is logged and skipped, so that the others still work.
        """
        for index in indexes:
            state = topic.partitions[index]
            is_absent = (topic.name, index) in self._hosted.absent
            if is_absent or self._node.node_id not in state.replicas:
                continue
            try:
                self._host_partition(topic, index, state)
            except LogError as error:
                log.error("Cannot open partition %s-%d: %s", topic.name, index, error)
                self._unopened.add(topic.name)

    def _host_partition(self, topic: TopicImage, index: int, state: PartitionImage) -> None:
        """Opens a partition unless it is open, and sets its state.

        Reports to the coordinators if this broker begins or stops to lead it.  Raises LogError.
        """
        partition = self._hosted.get(topic.name, index)
        if partition is None:
            partition = self._open(topic, index)
        was_leader = partition.is_leader
        partition.follow(state)
        if partition.is_leader != was_leader:
            self._hosted.on_leadership_change(partition)

    def _open(self, topic: TopicImage, index: int) -> Partition:
        """Open the partition.  A log of another topic with the same name is set aside.

        A log without a topic id belongs to a topic that existed at the start: the id was lost, or
        the log is older than topic ids.
        """
        logs, key = self._hosted.logs, (topic.name, index)
        partition_log = logs.logs.get(key)
        if partition_log is not None and partition_log.topic_id != topic.id:
            may_be_its_own = topic.name in self._known_at_start
            if partition_log.topic_id != ZERO_UUID or not may_be_its_own:
                logs.set_aside(key)
        return self._hosted.open(topic.name, topic.id, index)

    def open_missing(self) -> None:
        """Try again to open partitions for which the disk had no room."""
        names, self._unopened = self._unopened, set()
        for name in sorted(names):
            topic = self.image.topics.get(name)
            if topic is not None and self._hosted.logs.online_dirs:
                self._host_topic(topic, range(len(topic.partitions)))

    def _drop_topic(self, name: str) -> None:
        """Removes all hosted partitions of a deleted topic."""
        self._hosted.absent = {key for key in self._hosted.absent if key[0] != name}
        self._known_at_start.discard(name)
        for index in list(self._hosted.by_topic.get(name, ())):
            self._hosted.drop(name, index)

    # -- disks

    def logs_lost(self, path: Path, lost: list[Log]) -> bool:
        """Mark the partitions offline.  Returns False if the directory held the metadata too."""
        if self._node.nursery is not None:
            self._node.nursery.start_soon(self._report_offline)
        return path != Path(self._node.config.log_dirs[0])

    async def _report_offline(self) -> None:
        """Commit which partitions are offline.

        Partitions on failed disks lose their leader, and those on working disks get one.
        """
        decisions = offline_decisions(self.image, self._node.node_id, self._offline())
        try:
            await self.commit(decisions)
        except StoreError as error:
            log.error("Cannot commit which partitions are offline: %s", error)

    def _offline(self) -> set[PartitionKey]:
        """The partitions that this broker cannot lead: all of them once it is unregistered."""
        if self._node.node_id not in self.image.brokers:
            return {(each.topic, each.index) for each in self._hosted} | self._hosted.absent
        failed = {(each.topic, each.index) for each in self._hosted if each.log.offline}
        return failed | self._hosted.absent

    # -- decisions

    async def commit(self, decisions: Sequence[Decision]) -> None:
        await commit_decided(self._node.store, lambda: self.image, decisions)

    async def ask(self, question: Callable[[ClusterController], ControllerEffects]) -> Any:  # noqa: ANN401 - any reply
        """Return the controller machine's reply once its decisions are committed.

        Raises StoreError.
        """
        effects = question(self._controller())
        while effects.decisions or effects.then is not None:
            await self.commit(effects.decisions)
            if effects.then is None:
                break
            effects = effects.then()
        return effects.reply

    def _controller(self) -> ClusterController:
        """Return a controller machine with as much state as the requests of clients need."""
        from kwire.cluster.controller.machine import ClusterController

        image = self.image
        machine = ClusterController(self._node.settings, image)
        machine.state.members = {each.id: each.epoch for each in image.brokers.values()}
        for name, topic in image.topics.items():
            for index, partition in enumerate(topic.partitions):
                for broker_id in partition.offline:
                    machine.state.offline.setdefault(broker_id, set()).add((name, index))
                if partition.adding or partition.removing:
                    machine.state.add_to_indexes((name, index), partition)
        return machine

    async def quorum(self) -> MetadataQuorum:
        """The quorum of one broker, which leads even while it is not registered."""
        quorum = await self._node.store.quorum(self._node.now_ms())
        return replace(quorum, leader_id=self._node.node_id)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove this broker from the cluster: until its restart, its partitions have no leader.

        Raises Refusal, StoreError.
        """
        node_id = self._node.node_id

        def unregister(image: ClusterImage) -> UnregisterBroker:
            check_registered(image, broker_id)
            return UnregisterBroker(broker_id)

        def dismiss(image: ClusterImage) -> SetController:
            return SetController(node_id, NO_CONTROLLER, image.controller_epoch)

        await self.commit([unregister, dismiss])
        log.warning("Broker %d was unregistered: it leads nothing until it restarts.", broker_id)
        await self._report_offline()

    async def create_internal_topic(self, name: str) -> None:
        await self.commit([internal_topic(self._node.settings, name)])

    async def create_on_first_use(
        self, names: Sequence[str], sender: RequestSender | None = None
    ) -> None:
        await self.commit([on_first_use(self._node.settings, name) for name in names])

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        raise NotController("A broker that is a cluster by itself has no other controller.")

    # -- what a cluster of one broker does not need

    async def wait_until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        """True: whatever this broker has committed is already applied."""
        return True

    def call_when(self, seen: Callable[[ClusterImage], bool], then: Callable[[], None]) -> None:
        then()

    async def wait_for_metadata(self, timeout_ms: int) -> None:
        return

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        raise AssertionError("a cluster of one broker has no requests between brokers")

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        return

    async def leave(self) -> None:
        return
