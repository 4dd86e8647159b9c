"""A broker without sockets that leads and follows by metadata images; it has id 1.

The test publishes images, answers the Fetches that brokers 2 and 3 get, and sees what the broker
asks of its controllers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from trio.testing import wait_all_tasks_blocked

from kwire.broker.broker import Broker
from kwire.cluster.metadata.delta import delta_between
from kwire.cluster.metadata.image import (
    BrokerImage,
    ClusterImage,
    KraftPartitionImage,
    TopicImage,
)
from kwire.cluster.replication.kraft import KraftReplicationContext
from kwire.cluster.replication.manager import ReplicaManager
from kwire.cluster.replication.roles import MetadataRoles
from kwire.codecs.batches import Record, build
from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.primitives import Message
from kwire.log import Log, LogManager
from kwire.settings import load, topic_log_config
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.simulation.broker import SimulatedPeer
from tests.cluster.replication.simulation.network import Call, Network

if TYPE_CHECKING:
    from kwire.cluster.peers.peers import Role

ME = 1
EPOCH = 101
"""The broker epoch of this broker; that of broker 2 is 102, and so on."""
TOPIC = "t"
TOPIC_ID = b"t" * 16
CLUSTER_ID = "abcdefghijklmnopqrstuv"
FETCH_VERSION = 18


def state(
    leader: int,
    replicas: tuple[int, ...] = (1, 2),
    *,
    epoch: int = 0,
    partition_epoch: int | None = None,
    isr: tuple[int, ...] | None = None,
    directories: tuple[bytes, ...] = (),
    recovering: bool = False,
) -> KraftPartitionImage:
    """A partition; without `partition_epoch` that is the leader epoch, without `isr` all are."""
    return KraftPartitionImage(
        leader,
        epoch,
        epoch if partition_epoch is None else partition_epoch,
        replicas,
        replicas if isr is None else isr,
        recovering=recovering,
        directories=directories,
    )


class Channel:
    """The channel to the controllers: the test answers each request."""

    def __init__(self) -> None:
        self.asked: list[AlterPartitionRequest] = []
        self.answers: list[AlterPartitionResponse] = []
        self._given = trio.Event()

    async def call(self, request: Any, timeout_ms: float) -> Any:  # noqa: ANN401 - as there
        self.asked.append(request)
        while not self.answers:
            await self._given.wait()
        return self.answers.pop(0)

    async def answer(self, answer: AlterPartitionResponse) -> None:
        self.answers.append(answer)
        given, self._given = self._given, trio.Event()
        given.set()
        await wait_all_tasks_blocked()


class StageContext(KraftReplicationContext):
    """A KraftReplicationContext whose peers are on a simulated network."""

    def __init__(self, broker: Broker, channel: Channel, network: Network) -> None:
        super().__init__(broker.node, channel, lambda: EPOCH)
        self._network = network

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Any:  # noqa: ANN401 - a Peer
        return SimulatedPeer(self._network, self.node_id, broker_id, FETCH_VERSION)

    def release_peer(self, broker_id: int, role: Role, number: int = 0) -> None:
        return


class RolesStage:
    """See the module."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.nursery = nursery
        self.network = Network()
        self.channel = Channel()
        for broker_id in (2, 3):
            self.network.handlers[broker_id] = (_unanswered, nursery)
        self.context = StageContext(broker, self.channel, self.network)
        self.manager = ReplicaManager(self.context, nursery)
        self.assigned: list[tuple[bytes, int, bytes]] = []
        """What the controllers are told of directories: topic id, partition, directory id."""
        self.roles = MetadataRoles(self.manager, lambda *each: self.assigned.append(each))
        self.led: list[tuple[int, bool]] = []
        """Changes of leadership: the partition, and whether this broker leads it since then."""
        broker.hosted.on_leadership_change = lambda each: self.led.append(
            (each.index, each.is_leader)
        )
        broker.logs.dirs.on_dir_offline = self._dir_failed
        self.image = ClusterImage(CLUSTER_ID)
        for broker_id in (1, 2, 3):
            self.image = self.image.with_broker(BrokerImage(broker_id, (), epoch=100 + broker_id))

    def _dir_failed(self, path: Path, error: OSError, lost: list[Log]) -> None:
        self.broker.hosted.lose(lost)
        self.roles.logs_lost(lost)

    # -- the metadata

    def publish(self, image: ClusterImage) -> None:
        """The broker gets a new image."""
        before = self.broker.image
        delta = delta_between(before, image)
        self.image = image
        self.broker.metadata.apply(image, delta)
        self.roles.apply(before, image, delta)

    def place(
        self, *states: KraftPartitionImage, topic: str = TOPIC, topic_id: bytes = TOPIC_ID
    ) -> None:
        """The broker gets an image in which the topic has these partitions."""
        self.publish(self.image.with_topics([TopicImage(topic, topic_id, states)]))

    def change(self, index: int = 0, **fields: Any) -> None:  # noqa: ANN401 - fields of all types
        """The broker gets an image in which a partition has changed; its partition epoch grows."""
        topic = self.image.topics[TOPIC]
        before = topic.partitions[index]
        fields.setdefault("partition_epoch", before.partition_epoch + 1)
        states = list(topic.partitions)
        states[index] = replace(before, **fields)
        self.place(*states)  # type: ignore[arg-type]  # as they were placed

    def change_broker(self, broker_id: int, **fields: Any) -> None:  # noqa: ANN401 - as above
        self.publish(self.image.with_broker(replace(self.image.brokers[broker_id], **fields)))

    def fence(self, broker_id: int) -> None:
        self.publish(self.image.without_broker(broker_id))

    # -- the broker

    def find(self, index: int = 0, topic: str = TOPIC) -> Partition | None:
        return self.broker.hosted.get(topic, index)

    def partition(self, index: int = 0, topic: str = TOPIC) -> Partition:
        found = self.find(index, topic)
        assert found is not None
        return found

    @property
    def proposed(self) -> tuple[int, ...] | None:
        leading = self.partition().leading
        return None if leading is None else leading.proposed

    def directory_id(self, name: str) -> bytes:
        """The id of the log directory with that name."""
        ids = {path.name: each for path, each in self.broker.logs.directory_ids().items()}
        return ids[name]

    def append(self, count: int = 1, index: int = 0) -> None:
        for _ in range(count):
            records = build([Record(0, 0, None, b"v")])
            self.partition(index).append(records, now_ms=self.broker.node.now_ms())

    def fetched_by(self, follower_id: int, offset: int, broker_epoch: int | None = None) -> None:
        """A follower of partition 0 has fetched up to `offset`, in its present registration."""
        leading = self.partition().leading
        assert leading is not None
        follower = leading.follower(follower_id)
        assert follower is not None
        epoch = 100 + follower_id if broker_epoch is None else broker_epoch
        leading.fetched(follower, offset, 0, epoch)

    async def fetches(self) -> list[tuple[int, FetchRequest]]:
        """The Fetches that the broker waits for, with the leaders that they went to."""
        await wait_all_tasks_blocked()
        return [
            (each.target, each.request)
            for each in self.network.calls
            if isinstance(each.request, FetchRequest)
        ]

    async def fetched_from(self) -> list[int]:
        """The brokers that this one fetches from at the moment."""
        return [target for target, _ in await self.fetches()]

    @property
    def calls(self) -> list[Call]:
        return self.network.calls


async def _unanswered(request: Message, version: int) -> Message | None:
    raise AssertionError("a test answers")


def prepare(tmp_path: Path, names: Sequence[str] = ("a",)) -> LogManager:
    """The log directories of broker 1, with identities; the logs in them are loaded."""
    settings = {"node.id": str(ME), "log.dirs": ",".join(str(tmp_path / name) for name in names)}
    config = load(None, settings)
    logs = LogManager(config.log_dirs, defaults=topic_log_config(config, {}))
    logs.identify(ME, CLUSTER_ID)
    logs.load()
    return logs


@asynccontextmanager
async def roles(
    tmp_path: Path,
    names: Sequence[str] = ("a",),
    settings: Mapping[str, str] | None = None,
    logs: LogManager | None = None,
) -> AsyncIterator[RolesStage]:
    """Broker 1, with log directories of these names; `logs` are those that `prepare` has made."""
    logs = logs or prepare(tmp_path, names)
    paths = ",".join(str(tmp_path / name) for name in names)
    config = load(None, {"node.id": str(ME), "log.dirs": paths, **(settings or {})})
    broker = Broker(config, None, logs, CLUSTER_ID)  # type: ignore[arg-type]  # no store is asked
    async with trio.open_nursery() as nursery:
        broker.node.flusher.start(nursery)
        yield RolesStage(broker, nursery)
        nursery.cancel_scope.cancel()
    logs.close(broker.hosted.high_watermark_of)
