"""A broker of the simulation that reads its roles off the controllers' records; no sockets.

Its logs, partitions, replica manager, roles and handlers are real.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from kwire.broker.broker import Broker
from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.metadata.delta import delta_between
from kwire.cluster.peers.error import PeerError
from kwire.cluster.replication.kraft import KraftReplicationContext
from kwire.cluster.replication.manager import ReplicaManager
from kwire.cluster.replication.roles import MetadataRoles
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.codecs.messages.produce import ProduceRequest, ProduceResponse
from kwire.codecs.primitives import Message
from kwire.log import Log, LogManager
from kwire.requests.context import Context
from kwire.settings import load, topic_log_config
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.metadata_simulation.controllers import (
    CLUSTER_ID,
    NO_EPOCH,
    Controllers,
    Registration,
)
from tests.cluster.replication.simulation.broker import (
    CONTROLLER,
    HANDLERS,
    REQUEST_TIMEOUT_S,
    SimulatedPeer,
    now_ms,
    read_in,
)
from tests.cluster.replication.simulation.network import Network, on_the_wire
from tests.log.crashing_disk import CrashingDisk

if TYPE_CHECKING:
    from kwire.cluster.peers.peers import Role

FETCH_VERSION = 18
PRODUCE_VERSION = 9
ALTER_PARTITION_VERSION = 3
DIRECTORIES = ("a", "b")

Assignment = tuple[bytes, int, bytes]
"""Topic id, partition index, and the directory id of a broker's replica."""


class SimulatedChannel:
    """The channel to the controllers, over the simulated network."""

    def __init__(self, network: Network, broker_id: int) -> None:
        self._network = network
        self._broker_id = broker_id

    async def call(self, request: Any, timeout_ms: float) -> Any:  # noqa: ANN401 - as there
        with trio.move_on_after(REQUEST_TIMEOUT_S):
            return await self._network.call(
                self._broker_id, CONTROLLER, request, ALTER_PARTITION_VERSION
            )
        raise PeerError("the controllers", "no answer")


class SimulatedContext(KraftReplicationContext):
    """A KraftReplicationContext with simulated peers."""

    def __init__(self, broker: Broker, network: Network, broker_epoch: Callable[[], int]) -> None:
        super().__init__(broker.node, SimulatedChannel(network, broker.node_id), broker_epoch)
        self._network = network

    def now_ms(self) -> int:
        return now_ms()

    def peer(self, broker_id: int, role: Role, number: int = 0) -> Any:  # noqa: ANN401 - a Peer
        return SimulatedPeer(self._network, self.node_id, broker_id, FETCH_VERSION)

    def release_peer(self, broker_id: int, role: Role, number: int = 0) -> None:
        return


class Process:
    """One life of a broker's process."""

    def __init__(self, broker: Broker, manager: ReplicaManager, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.nursery = nursery
        self.logs = broker.logs
        self.directory_ids = broker.logs.directory_ids()
        self.replay = MetadataReplay(CLUSTER_ID)
        self.read = 0
        """How many batches of the controllers' log it has replayed."""
        self.has_roles = False
        """Whether the first image has come."""
        self.is_leaving = False
        """Whether it has begun a controlled shutdown: it ends then, whatever it is told."""
        self.failed: list[bytes] = []
        """Directories that failed, and that the controllers do not know of."""
        self.assigned: dict[tuple[bytes, int], bytes] = {}
        """What the controllers are to be told of the directories of replicas."""
        self.roles = MetadataRoles(manager, self._assign)

    def _assign(self, topic_id: bytes, index: int, directory: bytes) -> None:
        self.assigned[topic_id, index] = directory


class MetadataBroker:
    """See the module."""

    def __init__(
        self,
        broker_id: int,
        base: Path,
        network: Network,
        controllers: Controllers,
        settings: Mapping[str, str],
        led: Callable[[Partition], None],
    ) -> None:
        """`led` is called with each partition that the broker begins or ends to lead."""
        self.id = broker_id
        self.network = network
        self.controllers = controllers
        self._base = base / str(broker_id)
        self._settings = settings
        self._led = led
        root = self._base / "0"
        root.mkdir(parents=True)
        self._disk = CrashingDisk(root)
        self._failed_last: str | None = None
        """The log directory that failed last, by its name."""
        self._powers = 0
        self.run_count = 0
        self.epoch = NO_EPOCH
        self._clean_epoch = NO_EPOCH
        """The epoch in which it stopped cleanly."""
        self.process: Process | None = None

    @property
    def partitions(self) -> list[Partition]:
        return [] if self.process is None else list(self.process.broker.hosted)

    @property
    def is_counted(self) -> bool:
        """Whether its process runs and the controllers count on it."""
        known = self.controllers.image.brokers.get(self.id)
        return self.process is not None and known is not None and known.epoch == self.epoch

    # -- its life

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until it stops or is killed; it does not register by itself."""
        self.run_count += 1
        self.epoch = NO_EPOCH
        config = load(
            None,
            {
                "node.id": str(self.id),
                "log.dirs": ",".join(str(self._disk.root / each) for each in DIRECTORIES),
                "replica.lag.time.max.ms": "5000",
                **self._settings,
            },
        )
        self._remove_old_copies()
        logs = LogManager(
            config.log_dirs,
            defaults=topic_log_config(config, {}),
            files=self._disk,
            clock=now_ms,
            closing_threads_max=1,
        )
        logs.identify(self.id, CLUSTER_ID)
        logs.load()
        broker = Broker(config, None, logs, CLUSTER_ID)  # type: ignore[arg-type]  # no store is asked
        broker.node.now_ms = now_ms
        broker.hosted.on_leadership_change = self._led
        try:
            async with trio.open_nursery() as nursery:
                broker.node.flusher.start(nursery)
                context = SimulatedContext(broker, self.network, lambda: self.epoch)
                manager = ReplicaManager(context, nursery)
                broker.membership = _Membership(broker, manager)
                self.process = Process(broker, manager, nursery)
                logs.dirs.on_dir_offline = self._dir_failed
                self.network.handlers[self.id] = (self._answer, nursery)
                task_status.started()
                await trio.sleep_forever()
        finally:
            for directory in logs.online_dirs:
                directory.unlock()

    def register(self) -> bool:
        """Register with the controllers; returns whether they took it.

        Each life of the process has its own incarnation.  The broker names the epoch of its last
        registration if it has stopped cleanly since then.
        """
        process = self.process
        assert process is not None
        incarnation = b"%08d%08d" % (self.id, self.run_count)
        epoch = self.controllers.register(
            Registration(
                self.id, incarnation, tuple(process.directory_ids.values()), self._clean_epoch
            )
        )
        if epoch == NO_EPOCH:
            return False
        self.epoch, self._clean_epoch = epoch, NO_EPOCH
        return True

    def kill(self, *, power: bool = False, chance: random.Random | None = None) -> None:
        """End it by kill -9, or by a power cut, which loses unflushed bytes."""
        self.network.gone(self.id)
        if self.process is None:
            return
        self.process.nursery.cancel_scope.cancel()
        self.process = None
        if power:
            assert chance is not None
            self._powers += 1
            self._disk = self._disk.left(self._base / str(self._powers), chance)

    def stop(self) -> None:
        """End it cleanly: its logs are flushed, and it knows its epoch at the next start."""
        process = self.process
        assert process is not None
        process.logs.close(process.broker.hosted.high_watermark_of)
        if not process.logs.offline_dirs:
            self._clean_epoch = self.epoch
        self.kill()

    def _dir_failed(self, path: Path, error: OSError, lost: list[Log]) -> None:
        process = self.process
        assert process is not None
        process.broker.hosted.lose(lost)
        process.roles.logs_lost(lost)
        process.failed.append(process.directory_ids[path])

    def fail_directory(self, number: int) -> bool:
        """A disk fails; returns False if it is the last one.  It works again after a restart."""
        process = self.process
        assert process is not None
        online = process.logs.online_dirs
        if len(online) < len(DIRECTORIES):
            return False
        directory = online[number % len(online)]
        self._failed_last = directory.path.name
        process.logs.dirs.dir_failed(directory, OSError(errno.EIO, "I/O error"))
        return True

    def _remove_old_copies(self) -> None:
        """Remove copies of replicas that were made anew while their directory was offline.

        The operator does so: with two copies the broker does not start, and names the older one.
        """
        if self._failed_last is None:
            return
        root = self._disk.root
        others = {
            folder.name
            for name in DIRECTORIES
            if name != self._failed_last
            for folder in (root / name).iterdir()
        }
        for folder in list((root / self._failed_last).iterdir()):
            if folder.is_dir() and folder.name in others:
                self._disk.remove_tree(folder)
        self._failed_last = None

    # -- the metadata

    def learn(self, count: int | None = None) -> None:
        """Replay the next batches of the controllers' log, or all.

        It takes no role before it has its own registration, and all of them at once then.
        """
        process = self.process
        if process is None:
            return
        log = self.controllers.log
        end = len(log) if count is None else min(len(log), process.read + count)
        while process.read < end:
            batch = log[process.read]
            process.read += 1
            published = process.replay.add(batch)
            if published is None or not self._is_registered_in(process):
                continue
            before = process.broker.image
            image = published.image
            delta = published.delta if process.has_roles else delta_between(before, image)
            process.has_roles = True
            process.broker.metadata.apply(image, delta)
            process.roles.apply(before, image, delta)

    def _is_registered_in(self, process: Process) -> bool:
        if process.has_roles:
            return True
        known = process.replay.image.registered.get(self.id)
        return self.epoch != NO_EPOCH and known is not None and known.epoch >= self.epoch

    def beat(self) -> None:
        """A heartbeat: tell of failed directories, and ask to be unfenced.

        A broker that was unregistered registers again.  One that shuts down does neither.
        """
        process = self.process
        if process is None or process.is_leaving:
            return
        known = self.controllers.image.registered.get(self.id)
        if known is None or known.epoch != self.epoch:
            self.register()
            return
        for directory in process.failed:
            self.controllers.lose_directory(self.id, directory)
        process.failed.clear()
        caught_up = process.has_roles and process.replay.end_offset > self.epoch
        if caught_up and self.id not in self.controllers.image.brokers:
            self.controllers.unfence(self.id)

    def assign(self) -> None:
        """Tell the controllers in which directories replicas are."""
        process = self.process
        if process is None or self.id not in self.controllers.image.registered:
            return
        assigned, process.assigned = process.assigned, {}
        for (topic_id, index), directory in assigned.items():
            self.controllers.assign(self.id, topic_id, index, directory)

    # -- requests

    async def _answer(self, request: Message, version: int) -> Message | None:
        """Answer a request of a broker or a client; None if the process ends meanwhile."""
        if self.process is None:
            return None
        context = Context("PLAINTEXT", "/127.0.0.1", "1-2-3", api_version=version)
        reply: Any = HANDLERS[type(request)](self.process.broker, request, context)
        if isinstance(reply, Awaitable):
            reply = await reply
        read_in(reply)
        answer: Message = reply
        return answer

    async def produce(self, request: ProduceRequest) -> ProduceResponse | None:
        received = on_the_wire(request, PRODUCE_VERSION)
        reply = await self._answer(received, PRODUCE_VERSION)
        assert reply is None or isinstance(reply, ProduceResponse)
        return reply


class _Membership(LoneMembership):
    """The membership of a broker that the simulation tells everything."""

    def __init__(self, broker: Broker, manager: ReplicaManager) -> None:
        super().__init__(broker.node)
        self.replication: ReplicaManager = manager
