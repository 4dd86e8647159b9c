"""A simulated broker: kwire's own code for share groups in simulated surroundings."""

from __future__ import annotations

from collections.abc import Awaitable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import trio

from kwire.broker.timers import Timers
from kwire.cluster.metadata.features import SHARE_VERSION, FinalizedFeatures
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.persistent_map import PersistentMap
from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.cluster.peers.peers import Role
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import Message
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.runtime.share import Reply, ShareCoordinator
from kwire.coordinators.share.machine import ShareStateAnswer
from kwire.coordinators.share.partition import ShareLimits
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareStateWrite
from kwire.coordinators.share_partitions.led import Leadership, LedPartition
from kwire.coordinators.share_partitions.manager import Opening, ShareManager
from kwire.coordinators.share_partitions.states import ShareStates
from kwire.requests.context import Context
from kwire.settings import BrokerConfig
from kwire.settings.live import LiveSettings
from kwire.settings.resources import ConfigResourceType
from kwire.storage.partitions.purgatory import ExpiredRequests
from tests.cluster.replication.simulation.network import Network
from tests.coordinators.share_partitions.simulation.dead_topic import NAME, DeadTopics
from tests.coordinators.share_partitions.simulation.laws import SharingLaws
from tests.coordinators.share_partitions.simulation.logs import DataPartition, StatePartition

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership
    from tests.coordinators.share_partitions.simulation.world import World

BROKERS = (1, 2, 3)
GROUP, TOPIC, TOPIC_ID = "g", "t", b"t" * 16
STATE_ID = b"s" * 16
LOCK_MS, DELIVERIES, RECORD_LOCKS = 15_000, 3, 100
UPDATES_PER_SNAPSHOT = 3
OVERRIDES = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": NAME}
SETTINGS = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.delivery.count.limit": str(DELIVERIES),
    "group.share.partition.max.record.locks": str(RECORD_LOCKS),
    "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_PER_SNAPSHOT),
}

LIMITS = ShareLimits(RECORD_LOCKS, DELIVERIES, LOCK_MS)


class WatchedCoordinator(ShareCoordinator):
    """A share coordinator whose requests and answers the laws check."""

    laws: SharingLaws

    def serving(self, key: ShareKey) -> StatePartition | None:
        shard = self.runtime.shards.get(self.partition_for(key))
        return None if shard is None or not shard.serves else cast("Any", shard.partition)

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Reply:
        self.laws.note_beginning(key, state_epoch)
        reply = super().initialize(key, state_epoch, start_offset)
        _then(reply, lambda answer: self.laws.begun(key, state_epoch, answer))
        return reply

    def read(self, key: ShareKey, leader_epoch: int) -> Reply:
        shard = self.serving(key)
        known = None if shard is None else shard.references.get(key)
        self.laws.note_reading(key, leader_epoch)
        reply = super().read(key, leader_epoch)
        _then(reply, lambda answer: self.laws.read(key, leader_epoch, known, answer))
        return reply

    def write(self, key: ShareKey, written: ShareStateWrite) -> Reply:
        shard = self.serving(key)
        fence = self.laws.fence(key)
        before = None if shard is None else (shard.references.get(key), shard.log_end_offset)
        reply = super().write(key, written)
        if shard is not None and before is not None and shard.log_end_offset > before[1]:
            assert before[0] is not None
            self.laws.check_landed(key, written, before[0], shard.references.get(key))
        _then(reply, lambda answer: self.laws.written(key, written, fence, answer))
        return reply

    def summary(self, key: ShareKey) -> Reply:
        shard = self.serving(key)
        known = None if shard is None else shard.references.get(key)
        reply = super().summary(key)
        _then(reply, lambda answer: self.laws.summarized(known, answer))
        return reply


def _then(reply: Reply, look: Any) -> None:  # noqa: ANN401 - a function of an Answer
    if isinstance(reply, Promise):
        reply.when_resolved(look)
    else:
        look(reply)


class WatchedStates(ShareStates):
    """Reports each write of a leader to the laws."""

    laws: SharingLaws

    def write(self, key: ShareKey, written: ShareStateWrite) -> Reply:
        self.laws.tries(key, written)
        return super().write(key, written)


class WatchedManager(ShareManager):
    """Has the laws check the state from which a leader starts."""

    def __init__(self, broker: SharingBroker, laws: SharingLaws) -> None:
        node, membership = cast("Node", broker), cast("ClusterMembership", broker)
        super().__init__(node, membership, lambda: broker.share)
        self.laws = laws
        self.states = states = WatchedStates(node, membership, lambda: broker.share)
        states.laws = laws
        topics = DeadTopics(broker.dead_topic, broker.node_id)
        self.dead_letters.topics = cast("Any", topics)

    def _answered(
        self, key: ShareKey, leadership: Leadership, opening: Opening, answer: ShareStateAnswer
    ) -> None:
        super()._answered(key, leadership, opening, answer)
        if answer.state is not None and isinstance(opening.result, LedPartition):
            self.laws.opened(key, leadership.leader_epoch, answer.state, opening.result)


class NetworkPeers:
    """The connections to the other brokers."""

    def __init__(self, network: Network, source: int) -> None:
        self._network = network
        self._source = source

    def peer(self, broker_id: int, role: Role) -> NetworkPeer:
        assert role is Role.SHARE_STATE
        return NetworkPeer(self._network, self._source, broker_id)


class NetworkPeer:
    def __init__(self, network: Network, source: int, target: int) -> None:
        self._network, self._source, self._target = network, source, target

    async def call(self, request: Message) -> Any:  # noqa: ANN401 - by request
        return await self._network.call(
            self._source, self._target, request, type(request).MAX_VERSION
        )


class SharingBroker:
    """One broker process, which exists while `run` runs.

    It takes the place of a Broker, and of the parts of one that handlers and services use.
    """

    authorizer = None
    share: WatchedCoordinator

    def __init__(self, broker_id: int, world: World) -> None:
        self.node_id = broker_id
        self.node = self.metadata = self.hosted = self.membership = self.coordinators = self
        self.expired = ExpiredRequests()
        self._world = world
        self.dead_topic = world.dead_topic
        self.config = BrokerConfig({"node.id": str(broker_id), **SETTINGS})
        self.settings = LiveSettings(self.config)
        self.is_alive = False
        self.life = 0

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until it is killed."""
        self.life += 1
        self.timers = Timers()
        self.peers = NetworkPeers(self._world.network, self.node_id)
        self.partitions = [
            DataPartition(log, self.node_id, index)
            for index, log in enumerate(self._world.data_logs)
        ]
        self.led_states: dict[int, StatePartition] = {}
        self.image = _image(self._world, None)
        with trio.CancelScope() as self._scope:
            async with trio.open_nursery() as self.running_nursery:
                self.share = WatchedCoordinator(cast("Node", self))
                self.share.laws = self._world.laws
                self.shares = WatchedManager(self, self._world.laws)
                self._world.network.handlers[self.node_id] = self._handle, self.running_nursery
                self.running_nursery.start_soon(self.timers.run)
                self.is_alive = True
                task_status.started()
                await trio.sleep_forever()

    def kill(self) -> None:
        self.is_alive = False
        self._scope.cancel()

    def learn(self, *, topic_is_known: bool = True) -> None:
        """The broker learns all leaders."""
        world = self._world
        self.image = _image(world, topic_is_known)
        for partition, led in zip(self.partitions, world.data_leaders, strict=True):
            partition.follow(led.leader, led.epoch, led.since_epoch)
        for index, led in enumerate(world.state_leaders):
            ours = self.led_states.get(index)
            if led.leader != self.node_id or not topic_is_known:
                if ours is not None:
                    del self.led_states[index]
                    ours.lose()
                    self.share.resign(index)
                continue
            current = world.state_logs[index].leader
            assert current is not None
            if ours is not None and ours is not current:
                ours.lose()
            self.led_states[index] = current
            self.share.lead(cast("Any", current))

    # -- used by share groups

    def now_ms(self) -> int:
        return int(trio.current_time() * 1000)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.image.names_by_id.get(topic_id)

    def get(self, topic: str, index: int) -> DataPartition | None:
        return self.partitions[index] if topic == TOPIC and index < len(self.partitions) else None

    async def create_internal_topic(self, name: str) -> None:
        assert name == SHARE_GROUP_STATE_TOPIC
        await trio.lowlevel.checkpoint()
        self.learn()

    # -- requests

    async def _handle(self, request: Message, version: int) -> Message | None:
        """Serve a request of another broker."""
        reply: Message = await self.ask(request, Context("B", "", "", api_version=version))
        return reply

    async def ask(self, request: Message, context: Context) -> Any:  # noqa: ANN401 - by request
        assert request.API_KEY is not None
        handler = import_module(f"kwire.requests.handlers.{ApiKey(request.API_KEY).name.lower()}")
        reply = handler.handle(self, request, context)
        return await reply if isinstance(reply, Awaitable) else reply


def _image(world: World, topic_is_known: bool | None) -> ClusterImage:
    """`topic_is_known`: whether `__share_group_state` exists; None for a broker just started."""
    known: dict[str, TopicImage] = {}
    topics = {TOPIC: (TOPIC_ID, world.data_leaders)}
    if topic_is_known:
        topics[SHARE_GROUP_STATE_TOPIC] = STATE_ID, world.state_leaders
    for name, (topic_id, leaders) in topics.items():
        partitions = tuple(
            PartitionImage(led.leader, led.epoch, led.epoch, BROKERS, BROKERS) for led in leaders
        )
        known[name] = TopicImage(name, topic_id, partitions)
    return ClusterImage(
        "c",
        topics=PersistentMap(known.items()),
        names_by_id=PersistentMap((each.id, name) for name, each in known.items()),
        configs=PersistentMap([((ConfigResourceType.GROUP, GROUP), OVERRIDES)]),
        features=FinalizedFeatures({SHARE_VERSION: 2}),
    )
