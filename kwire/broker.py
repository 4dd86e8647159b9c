"""The broker's state: what it hosts, what it knows of the cluster, and its services."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from kwire.cluster.deciding import commit_decided
from kwire.cluster.store import StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import ZERO_UUID
from kwire.controller.topic_creation import internal_topic, on_first_use
from kwire.live_configs import apply_configs
from kwire.log import Log, LogConfig, LogError, LogManager
from kwire.metadata import topic_names
from kwire.metadata.changes import Decision
from kwire.metadata.delta import ClusterDelta, between
from kwire.metadata.election import offline_decisions
from kwire.metadata.features import SUPPORTED
from kwire.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from kwire.metadata.refusal import Refusal
from kwire.offsets_topic import offsets_partitions
from kwire.partitions.fetch_sessions import FetchSessions
from kwire.partitions.flushing import Flusher
from kwire.partitions.partition import Partition
from kwire.security import chosen
from kwire.settings import ConfigResourceType, topic_log_config
from kwire.timers import Timers
from kwire.txn.producer_ids import BLOCK_SIZE, ProducerIds

if TYPE_CHECKING:
    from kwire.cluster.membership import Membership
    from kwire.cluster.store import MetadataStore
    from kwire.controller.cluster.effects import Effects
    from kwire.controller.cluster.machine import ClusterController
    from kwire.coordinators.groups import GroupCoordinator
    from kwire.coordinators.share import ShareCoordinator
    from kwire.coordinators.transactions import TransactionCoordinator
    from kwire.metadata_view import MetadataViews
    from kwire.network.gate import Gate
    from kwire.peers.peers import Peers
    from kwire.quotas.enforced import ClientQuotas
    from kwire.replication.manager import ReplicaManager
    from kwire.security.store_changes import CheckStores
    from kwire.settings import BrokerConfig
    from kwire.sharing.manager import ShareManager
    from kwire.telemetry.service import ClientTelemetry

log = logging.getLogger("kwire.broker")


class Broker:
    """One broker id.  Owned by the trio loop: everything here is touched from that thread only.

    Handlers find here what they serve from; each service keeps to itself how it does it.
    """

    def __init__(
        self, config: BrokerConfig, store: MetadataStore, logs: LogManager, cluster_id: str
    ) -> None:
        self.static_config = config
        self.config = config
        self.store = store
        self.logs = logs
        logs.dirs.on_dir_offline = self._dir_failed
        self.image = ClusterImage(cluster_id)
        self.node_id: int = config.node_id
        self.topic_names: dict[bytes, str] = {}
        """By topic id, as in `image`; a plain dict, for Fetch and Produce look here each time."""
        self.partitions: dict[str, dict[int, Partition]] = {}
        self._unopened: set[str] = set()
        self._absent: set[tuple[str, int]] = set()
        self._known_at_start: set[str] = set()
        """Topics that a log without a topic id may be of: not of one that is made later."""
        self.storage_lost = trio.Event()
        """Set when it cannot go on: no log directory is left, or the metadata's has failed."""
        self.membership_lost: StoreError | None = None
        """Why it cannot go on as a member of its cluster."""
        self.gate: Gate | None = None
        """What every request passes; connections take it over when they begin."""
        self.authorizer = chosen.authorizer(config)
        """Asked before each request is handled; without one nobody asks."""
        self.on_acls_changed: Callable[[], None] | None = None
        """Called when what was allowed may not be any longer, or the other way round."""
        self.tokens = chosen.tokens(config)
        """What is known of delegation tokens, where there may be any."""
        self.asks_for_metrics = False
        """Whether there is a client metrics subscription."""
        self.quotas: ClientQuotas | None = None
        """What clients are held to, from the first quota on that is set."""
        self.check_stores: CheckStores | None = None
        """Of listeners that have TLS: whether they could be served with other settings."""
        self.on_quotas: Callable[[ClientQuotas], None] | None = None
        self.timers = Timers()
        self.flusher = Flusher(self.now_ms)
        self.member: Membership | None = None
        """This broker's part in a cluster.  A broker alone has none, and nothing of it here."""
        self.replication: ReplicaManager | None = None
        """In a cluster: what its controller asks goes there."""
        self.peers: Peers | None = None
        """In a cluster: the way to the other brokers."""
        self.producer_ids = ProducerIds()
        self._restocking = trio.Lock()
        self._nursery: trio.Nursery | None = None
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            lambda: random.randint(1, 2**31 - 1),
        )

    def begin(self, nursery: trio.Nursery) -> None:
        """Have background work run in `nursery`."""
        self._nursery = nursery
        nursery.start_soon(self.timers.run)
        self.flusher.start(nursery)

    async def start(self, nursery: trio.Nursery) -> None:
        """Be a cluster of one broker: take up what the metadata says, and follow it."""
        self.begin(nursery)
        image = await self.store.load()
        self._note_absent(image)
        self._known_at_start = set(image.topics)
        self.apply_image(image, between(self.image, image))
        self.store.watch(self.apply_image)
        await self.store.register(self.registration)
        await self._tell_offline()

    @property
    def registration(self) -> BrokerImage:
        """This broker as others are to know it."""
        config = self.config
        return BrokerImage(
            self.node_id, config.advertised_listeners, config.broker_rack, features=SUPPORTED
        )

    @cached_property
    def groups(self) -> GroupCoordinator:
        """Imported and made when first needed, by a group or by what groups left on disk."""
        from kwire.coordinators.groups import GroupCoordinator
        from kwire.coordinators.surroundings import BrokerSurroundings

        coordinator = GroupCoordinator.configured(
            self.config,
            partitions=offsets_partitions(self),
            timers=self.timers,
            now_ms=self.now_ms,
            surroundings=BrokerSurroundings(self),
        )
        if self._nursery is not None:
            coordinator.start(self._nursery)
        return coordinator

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        """Imported and made when first needed: most brokers serve no transactions."""
        from kwire.coordinators.transactions import TransactionCoordinator

        coordinator = TransactionCoordinator(self)
        if self._nursery is not None:
            coordinator.start(self._nursery)
        return coordinator

    @property
    def has_telemetry(self) -> bool:
        """Whether a client has asked what it is to push."""
        return "telemetry" in self.__dict__

    @cached_property
    def telemetry(self) -> ClientTelemetry:
        """Imported and made when a client first asks what it is to push."""
        from kwire.telemetry.service import ClientTelemetry

        return ClientTelemetry(self, self._nursery)

    def disconnected(self, connection_id: str) -> None:
        """A client's connection is closed."""
        if self.has_telemetry:
            self.telemetry.disconnected(connection_id)

    @cached_property
    def share_coordinator(self) -> ShareCoordinator:
        """Imported and made when first needed: most brokers have no share groups."""
        from kwire.coordinators.share import ShareCoordinator

        return ShareCoordinator(self, self._nursery)

    @cached_property
    def shares(self) -> ShareManager:
        """What members of share groups read here; likewise."""
        from kwire.sharing.manager import ShareManager

        return ShareManager(self, self._nursery)

    @cached_property
    def metadata_views(self) -> MetadataViews:
        """What Metadata answers from; imported when first asked."""
        from kwire.metadata_view import MetadataViews

        return MetadataViews(self.registration)

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @staticmethod
    def now_ms() -> int:
        """Wall clock in ms since the epoch, what Kafka stamps on records."""
        return time.time_ns() // 1_000_000

    # -- what is hosted

    def partition(self, topic: str, index: int) -> Partition | None:
        hosted = self.partitions.get(topic)
        return None if hosted is None else hosted.get(index)

    def led_partition(self, topic: str, index: int) -> Partition:
        """The partition, if it is here and led by this broker; LogError says what else."""
        partition = self.partition(topic, index)
        if partition is None:
            raise LogError(self.absent_error(topic, index))
        partition.check_leads()
        partition.log.check_online()
        return partition

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.topic_names.get(topic_id)

    def high_watermark_of(self, log: Log) -> int:
        """Up to where `log` is committed, for its checkpoint and for retention."""
        partition = self.partition(log.topic, log.partition)
        if partition is not None:
            return partition.high_watermark
        if self.replication is None:
            return log.log_end_offset
        # The controller has not said yet whose it is: what was known of it holds.
        known = self.logs.high_watermarks.get((log.topic, log.partition), 0)
        return min(known, log.log_end_offset)

    # -- what the cluster decides

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Commit what `decisions` change, each asked anew when somebody else was faster.

        A decision must go by the image it is given.  When this returns, what they decided last is
        applied here.  Raises StoreError; in a cluster NotController from who is not the controller
        where more than configs are to be changed.
        """
        if self.member is not None:
            await self.member.commit(decisions)
            return
        await commit_decided(self.store, lambda: self.image, decisions)

    @property
    def is_controller(self) -> bool:
        """Whether this broker may decide for the cluster: one that is alone always may."""
        return self.member is None or self.member.is_controller

    async def ask_controller(self, question: Callable[[ClusterController], Effects]) -> Any:  # noqa: ANN401 - any reply
        """The reply of the cluster's controller, where this broker is it.

        Raises NotController, StoreError.
        """
        if self.member is not None:
            return await self.member.ask(question)
        from kwire.controller.alone import answer

        return await answer(self, question)

    async def until(self, seen: Callable[[ClusterImage], bool], timeout_ms: int) -> bool:
        """Whether what this broker tells clients becomes so in time; alone it is so already.

        In a cluster the controller decides, and all brokers are told what came of it.
        """
        return self.member is None or await self.member.until(seen, timeout_ms)

    async def create_internal_topic(self, name: str) -> None:
        """Make a coordinator's topic, if it is not there yet; where that fails the log says why."""
        try:
            if self.member is not None:
                await self.member.create_internal_topic(name)
            else:
                await self.commit([internal_topic(self, name)])
        except Refusal as refusal:
            log.error("topic %s cannot be created: %s", name, refusal.message)
        except StoreError as problem:
            log.error("topic %s cannot be created: %s", name, problem)

    async def create_on_first_use(self, names: Sequence[str]) -> None:
        """Make topics that a client asked for and that are not there.  Raises StoreError."""
        if self.member is not None:
            await self.member.create_on_first_use(names)
        else:
            await self.commit([on_first_use(self, name) for name in names])

    async def restock_producer_ids(self) -> None:
        """Have producer ids to give out.  Raises StoreError."""
        async with self._restocking:
            if not self.producer_ids:
                self.producer_ids.add(await self.store.allocate_producer_ids(BLOCK_SIZE))

    def apply_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Make what this broker hosts follow `image`: partitions appear, change or go away.

        `delta` led to it from the image before; this costs what that is long.
        """
        for name in delta.deleted:
            self._drop_topic(name)
        self.apply_metadata(image, delta)
        for topic in delta.topics.values():
            self._host_topic(topic, delta.partitions[topic.name])

    def apply_metadata(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Know what `image` says, and live by its configs; what is hosted stays as it is."""
        before, self.image = self.image, image
        if "metadata_views" in self.__dict__:
            self.metadata_views.follow(before, image, delta)
        for topic_id in delta.deleted.values():
            self.topic_names.pop(topic_id, None)
        if delta.configs:
            apply_configs(self, delta.configs)
        if delta.acls and self.authorizer is not None:
            self.authorizer.follow(delta.acls)
            if self.on_acls_changed is not None:
                self.on_acls_changed()
        if delta.tokens and self.tokens is not None:
            self.tokens.follow(delta.tokens)
        if delta.deleted:
            self._forget_topics([*delta.deleted.items()])
        for topic in delta.topics.values():
            self.topic_names[topic.id] = topic.name
        name = topic_names.GROUP_METADATA_TOPIC
        if (name in delta.topics or name in delta.deleted) and "groups" in self.__dict__:
            self.groups.partitions = offsets_partitions(self)

    def _forget_topics(self, deleted: Sequence[tuple[str, bytes]]) -> None:
        """Have coordinators follow: these topics (name, id) are no more."""
        self.groups.topics_deleted(deleted)
        if "share_coordinator" in self.__dict__:
            self.share_coordinator.topics_deleted(deleted)

    def _note_absent(self, image: ClusterImage) -> None:
        """Partitions whose logs may be in a directory that is offline: they are not made anew.

        An empty one in their place would be taken for the partition, and its records for lost.
        """
        if self.logs.offline_dirs:
            self._absent = {
                (name, index)
                for name, topic in image.topics.items()
                for index, state in enumerate(topic.partitions)
                if self.node_id in state.replicas and not self._is_surely_here(name, index)
            }
            log.error("%d partitions are in log directories that are offline", len(self._absent))

    def _is_surely_here(self, topic: str, index: int) -> bool:
        """Not a log without a topic id: it may be of a topic of that name that was deleted."""
        log = self.logs.logs.get((topic, index))
        return log is not None and log.topic_id != ZERO_UUID

    async def _tell_offline(self) -> None:
        """Partitions whose disk has failed get no leader, those whose disk is back have one."""
        try:
            await self.commit(offline_decisions(self.image, self.node_id, self._offline()))
        except StoreError as problem:
            log.error("which partitions are offline is told to nobody: %s", problem)

    def _offline(self) -> set[tuple[str, int]]:
        failed = {
            (each.topic, each.index)
            for hosted in self.partitions.values()
            for each in hosted.values()
            if each.log.offline
        }
        return failed | self._absent

    def absent_error(self, topic: str, index: int) -> ErrorCode:
        """What is said of a partition that is not here.

        One whose disk was away when the broker started has no leader, and a log was never open.
        """
        if (topic, index) in self._absent:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _host_topic(self, topic: TopicImage, indexes: Iterable[int]) -> None:
        config = self.log_config(topic.name)
        for index in indexes:
            state = topic.partitions[index]
            if self.node_id not in state.replicas or (topic.name, index) in self._absent:
                continue
            try:
                self._host_partition(topic, index, state, config)
            except LogError as problem:
                log.error("cannot open %s-%d: %s", topic.name, index, problem)
                self._unopened.add(topic.name)

    def _host_partition(
        self, topic: TopicImage, index: int, state: PartitionImage, config: LogConfig
    ) -> None:
        hosted = self.partitions.setdefault(topic.name, {})
        partition = hosted.get(index)
        if partition is None:
            partition = hosted[index] = self._open_partition(topic, index, config)
        was_leader = partition.is_leader
        partition.follow(state)
        if partition.is_leader != was_leader:
            self.leadership_changed(partition)

    def open_missing(self) -> None:
        """Try again to open what the disk had no room for."""
        names, self._unopened = self._unopened, set()
        for name in sorted(names):
            topic = self.image.topics.get(name)
            if topic is not None and self.logs.online_dirs:
                self._host_topic(topic, range(len(topic.partitions)))

    def leadership_changed(self, partition: Partition) -> None:
        """Have the coordinator that lives in it serve its partition from now on, or no longer."""
        coordinator = self._coordinator_in(partition.topic)
        if coordinator is None:
            return
        if partition.is_leader:
            coordinator.lead(partition)
        else:
            coordinator.resign(partition.index)

    def _coordinator_in(
        self, topic: str
    ) -> GroupCoordinator | TransactionCoordinator | ShareCoordinator | None:
        if topic == topic_names.GROUP_METADATA_TOPIC:
            return self.groups
        if topic == topic_names.SHARE_GROUP_STATE_TOPIC:
            return self.share_coordinator
        return self.transactions if topic == topic_names.TRANSACTION_STATE_TOPIC else None

    def _open_partition(self, topic: TopicImage, index: int, config: LogConfig) -> Partition:
        log = self.logs.logs.get((topic.name, index))
        if log is not None and log.topic_id != topic.id:
            if log.topic_id == ZERO_UUID and topic.name in self._known_at_start:
                log.adopt_topic_id(topic.id)  # it was lost, or is older than topic ids
            else:
                self.logs.set_aside((topic.name, index))
                log = None
        if log is None:
            log = self.logs.create(topic.name, topic.id, index, config)
        return Partition(log, self.node_id, self.flusher)

    def _drop_topic(self, name: str) -> None:
        self._absent = {key for key in self._absent if key[0] != name}
        self._known_at_start.discard(name)
        for index, partition in self.partitions.pop(name, {}).items():
            partition.stop(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.leadership_changed(partition)
            if (name, index) in self.logs.logs:
                self.logs.delete(name, index)

    def _dir_failed(self, path: Path, problem: OSError, lost: list[Log]) -> None:
        """A log directory is gone: whoever waits for its partitions is told now."""
        log.error("%d partitions of %s are offline: %s", len(lost), path, problem)
        for found in lost:
            partition = self.partition(found.topic, found.partition)
            if partition is not None:
                partition.release_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
                self._give_up_coordinating(partition)
        if self.replication is not None:
            self.replication.logs_lost(lost)
        if self._nursery is not None:
            tell = self._tell_offline if self.member is None else self.member.tell_offline
            self._nursery.start_soon(tell)
        has_metadata = self.member is None and path == Path(self.config.log_dirs[0])
        if has_metadata or not self.logs.online_dirs:
            self.storage_lost.set()

    def _give_up_coordinating(self, partition: Partition) -> None:
        """Another broker leads what this one has lost, and coordinates what lives in it.

        No request of the controller says so: it answers them with KAFKA_STORAGE_ERROR.
        """
        coordinator = self._coordinator_in(partition.topic)
        if coordinator is not None and self.replication is not None:
            coordinator.resign(partition.index)

    def give_up(self, problem: StoreError) -> None:
        """The cluster that this broker is a member of is gone for good: have it stop."""
        self.membership_lost = problem
        self.storage_lost.set()

    # -- configs

    def log_config(self, topic: str) -> LogConfig:
        """What the logs of `topic` work by: its own configs over this broker's settings."""
        overrides = self.image.configs_of(ConfigResourceType.TOPIC, topic)
        return topic_log_config(self.config, overrides)
