"""A broker of the simulation: real logs, partitions, replica manager and handlers, no sockets."""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.image import BrokerImage
from kwire.cluster.peers.error import PeerError
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.controller_requests import ControllerRequests
from kwire.cluster.replication.manager import ReplicaManager
from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kwire.codecs.messages.fetch import FetchRequest, FetchResponse
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kwire.codecs.messages.list_offsets import ListOffsetsRequest
from kwire.codecs.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.codecs.messages.produce import ProduceRequest, ProduceResponse
from kwire.codecs.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kwire.codecs.primitives import Message
from kwire.log import LogManager, Region
from kwire.requests.context import Context
from kwire.requests.handlers import fetch, list_offsets, offset_for_leader_epoch, produce
from kwire.settings import load, topic_log_config
from kwire.storage.partitions.partition import Partition
from tests.cluster.controller.laws import Laws
from tests.cluster.controller.simulated_broker import SimulatedBroker
from tests.cluster.replication.membership import TestedMembership
from tests.cluster.replication.simulation.network import Network, on_the_wire
from tests.log.crashing_disk import CrashingDisk

if TYPE_CHECKING:
    from kwire.cluster.peers.peers import Role

HANDLERS: dict[type[Message], Any] = {
    ProduceRequest: produce.handle,
    FetchRequest: fetch.handle,
    ListOffsetsRequest: list_offsets.handle,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch.handle,
}

FromController = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
AnswerToController = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

OBEYED_MAX = 12

CONTROLLER = 0
"""The controller as an end of a network connection that may be cut."""

REQUEST_TIMEOUT_S = 5.0
ALTER_PARTITION_VERSION = 3


class SimulatedPeer:
    """A Peer that sends requests over the simulated network."""

    def __init__(self, network: Network, source: int, target: int, fetch_version: int) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._fetch_version = fetch_version

    async def version_for(self, request: Message) -> int:
        return self._fetch_version

    async def call(self, request: Message, *, version_max: int | None = None) -> Any:  # noqa: ANN401 - any reply
        version = min(request.MAX_VERSION, version_max or request.MAX_VERSION)
        return await self._network.call(self._source, self._target, request, version)


class SimulatedHost(ReplicationContext):
    """A ReplicationContext with simulated peers."""

    def __init__(self, broker: Broker, epoch: int, owner: ReplicatingBroker) -> None:
        super().__init__(broker.node, epoch)
        self._owner = owner

    def now_ms(self) -> int:
        return now_ms()

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Any:  # noqa: ANN401 - a Peer
        return SimulatedPeer(self._owner.network, self.node_id, broker_id, self._owner.version)

    def release_peer(self, broker_id: int, role: Role, number: int = 0) -> None:
        return

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        call = self._owner.network.call
        with trio.move_on_after(REQUEST_TIMEOUT_S):
            answer = await call(self.node_id, CONTROLLER, request, ALTER_PARTITION_VERSION)
            assert isinstance(answer, AlterPartitionResponse)
            return answer
        raise PeerError("the controller", "no answer")


def now_ms() -> int:
    return 1_700_000_000_000 + int(trio.current_time() * 1000)


class ReplicatingBroker(SimulatedBroker):
    """A simulated broker that carries out the controller's requests."""

    def __init__(
        self,
        broker_id: int,
        laws: Laws,
        base: Path,
        network: Network,
        settings: Mapping[str, str],
        version: int,
    ) -> None:
        super().__init__(broker_id, laws)
        self.base = base / str(broker_id)
        self.base.mkdir()
        self.network = network
        self.settings = settings
        self.version = version
        """The version of Fetch in which it fetches."""
        self.led: Callable[[Partition], None] = lambda partition: None
        self.lives = 0
        """Number of power cuts so far."""
        self.run_count = 0
        """Number of starts so far."""
        root = self.base / "0"
        root.mkdir()
        self.disk = CrashingDisk(root)
        self.broker: Broker | None = None
        self.obeyed: list[FromController] = []
        """Recent requests of controllers; copies of them may arrive again."""
        self.unstarted = False
        """Whether the controller's simulation has started it, and its tasks have yet to start."""

    # -- its life

    @property
    def goes_on(self) -> bool:
        """Whether its process runs, registered or not."""
        return self.broker is not None and not self.unstarted

    def start(self, epoch: int) -> BrokerImage:
        self.unstarted = True
        return super().start(epoch)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until it is killed."""
        self.unstarted = False
        self.run_count += 1
        config = load(
            None,
            {
                "node.id": str(self.id),
                "log.dirs": str(self.disk.root / "data"),
                "replica.lag.time.max.ms": "5000",
                **self.settings,
            },
        )
        logs = LogManager(
            config.log_dirs,
            defaults=topic_log_config(config, {}),
            files=self.disk,
            clock=now_ms,
            closing_threads_max=1,
        )
        logs.load()
        broker = self.broker = Broker(config, None, logs, "simulated")  # type: ignore[arg-type]  # it is asked for nothing
        broker.node.now_ms = now_ms
        broker.hosted.on_leadership_change = lambda partition: self.led(partition)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                broker.node.flusher.start(nursery)
                host = SimulatedHost(broker, self.epoch, self)
                TestedMembership(broker, host, nursery)
                self.network.handlers[self.id] = (self._answer, nursery)
                task_status.started()
                await trio.sleep_forever()
        finally:
            for directory in logs.online_dirs:
                directory.unlock()

    def end(self, *, power: bool, chance: random.Random) -> None:
        """End it by kill -9, or by a power cut, which loses unflushed bytes."""
        self.network.gone(self.id)
        if self.broker is None:
            return
        self._nursery.cancel_scope.cancel()
        self.broker = None
        if power:
            self.lives += 1
            self.disk = self.disk.left(self.base / str(self.lives), chance)

    @property
    def partitions(self) -> list[Partition]:
        if self.broker is None:
            return []
        return [each for hosted in self.broker.hosted.by_topic.values() for each in hosted.values()]

    # -- what it is asked

    @property
    def manager(self) -> ReplicaManager:
        assert self.broker is not None
        manager = self.broker.membership.replication
        assert manager is not None
        return manager

    @property
    def requests(self) -> ControllerRequests:
        assert self.broker is not None
        requests = self.broker.membership.controller_requests
        assert requests is not None
        return requests

    def handle(self, request: Message) -> Message:
        """Carry out a controller's request; one of an earlier controller must change nothing."""
        super().handle(request)
        assert isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest)
        highest, before = self.requests.controller_epoch, self.known
        answer = self._obey(request)
        if request.controller_epoch < highest or request.broker_epoch < self.epoch:
            assert answer.error_code, (request, highest, self.epoch)
            assert self.known == before, (request, before, self.known)
        else:
            self.obeyed.append(request)
            del self.obeyed[:-OBEYED_MAX]
        return answer

    @property
    def known(self) -> list[tuple[str, int, int, int, tuple[int, ...]]]:
        """Its partitions, with the epochs and ISR that it knows."""
        return sorted(
            (each.topic, each.index, each.leader, each.leader_epoch, each.isr)
            for each in self.partitions
        )

    def _obey(self, request: FromController) -> AnswerToController:
        requests = self.requests
        received = on_the_wire(request, request.MAX_VERSION)
        if isinstance(received, LeaderAndIsrRequest):
            return requests.leader_and_isr(received, received.MAX_VERSION)
        if isinstance(received, UpdateMetadataRequest):
            return requests.update_metadata(received)
        assert isinstance(received, StopReplicaRequest)
        return requests.stop_replica(received)

    async def _answer(self, request: Message, version: int) -> Message | None:
        """Answer a request of a broker or a client; None if the process ends meanwhile."""
        if self.broker is None:
            return None
        context = Context("PLAINTEXT", "/127.0.0.1", "1-2-3", api_version=version)
        reply: Any = HANDLERS[type(request)](self.broker, request, context)
        if isinstance(reply, Awaitable):
            reply = await reply
        read_in(reply)
        answer: Message = reply
        return answer

    async def produce(self, request: ProduceRequest) -> ProduceResponse | None:
        reply = await self._answer(on_the_wire(request, 9), 9)
        assert reply is None or isinstance(reply, ProduceResponse)
        return reply


def read_in(reply: Message) -> None:
    """Read the file regions of a Fetch response into memory, as the kernel would send them."""
    if not isinstance(reply, FetchResponse):
        return
    for topic in reply.responses:
        for data in topic.partitions:
            region = data.records
            if isinstance(region, Region):
                data.records = os.pread(region.fileno(), region.size_bytes, region.position)
