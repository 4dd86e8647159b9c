"""Brokers that replicate, their controller, a network, clients; and what must always hold.

The controller is that of tests/controller/cluster/simulation.py.  After each event:

    a record that was acknowledged to acks=all is in the log of each later leader
    in one leader epoch only one broker acknowledges
    the high watermark of a leader is not behind the end of the log of anyone in the ISR
    what a broker knows as a partition's leader epoch only grows

The power goes only where Kafka promises something: while another in-sync replica that lives has
all that was acknowledged, and the controller hears of it at once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.codecs.batches import Record, build, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.controller.cluster.effects import Effects
from kwire.log import Log
from kwire.metadata.changes import Change, CreateTopic
from kwire.metadata.image import ClusterImage, TopicImage
from kwire.metadata.placement import new_partition
from kwire.partitions.partition import Partition
from kwire.peers.error import PeerError
from kwire.settings import BrokerConfig
from tests.controller.cluster.laws import Laws
from tests.controller.cluster.simulation import Cluster, Store
from tests.replication.simulation.broker import ReplicatingBroker, now_ms
from tests.replication.simulation.network import Network

TOPIC = "t"
CONFIG = BrokerConfig({"node.id": "1"})
BROKERS = (1, 2, 3)
CONTROLLER = 0
"""As an end of a way that may be cut."""

REQUEST_TIMEOUT_S = 5.0
REPLICA_STATE_SINCE = 15
"""Fetch."""

Step = tuple[int, int, int]


@dataclass(frozen=True)
class Acknowledged:
    """A record that a producer was promised."""

    index: int
    offset: int
    value: bytes
    leader_epoch: int


class Replicated(Cluster):
    """The controller's simulation, with brokers that hold records."""

    def __init__(
        self, base: Path, network: Network, settings: Mapping[str, str], version: int
    ) -> None:
        self.config = CONFIG
        self.laws = Laws()
        self.store = Store(self.laws)
        self.replicating = {
            each: ReplicatingBroker(each, self.laws, base, network, settings, version)
            for each in BROKERS
        }
        self.brokers = {**self.replicating}
        self.term = None
        self.deposed = []
        self.terms = 0
        for broker_id in self.brokers:
            self.start(broker_id)
        self.elect(1)


class World:
    """All of it, driven by numbers that are drawn."""

    def __init__(self, base: Path, chance: random.Random, clock: MockClock) -> None:
        self.chance = chance
        self.clock = clock
        self.network = Network()
        settings = {
            "min.insync.replicas": str(chance.choice([1, 2, 2])),
            "log.flush.interval.messages": str(chance.choice([1, 3, 1 << 40])),
        }
        version = chance.choice([17, 17, 11])  # with and without truncation on Fetch
        self.cluster = Replicated(base, self.network, settings, version)
        self.brokers = self.cluster.replicating
        self.acknowledged: list[Acknowledged] = []
        self.acknowledgers: dict[tuple[int, int], int] = {}
        self.epochs: dict[tuple[int, int, int], tuple[int, int]] = {}
        """By broker, its life and partition."""
        self.seen: Counter[str] = Counter()
        self.produced = 0
        for broker in self.brokers.values():
            broker.led = self.check_leader
            broker.ask_controller = self._controller_for(broker.id)
        self._events = [
            *[self.control] * 10, *[self.deliver] * 4, *[self.net] * 10, *[self.calm] * 3,
            *[self.produce] * 8, *[self.tick] * 4, self.long_tick, self.lose, self.lose,
            self.kill, self.power, *[self.start] * 3, self.cut, self.mend, self.mend,
            self.elect, self.lose_answer, self.expire, self.lapse, self.come_to,
        ]  # fmt: skip

    def _controller_for(self, broker_id: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
        async def ask(request: AlterPartitionRequest) -> AlterPartitionResponse:
            term = self.cluster.term
            if term is None or (broker_id, CONTROLLER) in self.network.cut:
                raise PeerError("the controller", "it cannot be reached")
            told: list[AlterPartitionResponse | None] = []
            heard = trio.Event()

            def learn(response: AlterPartitionResponse | None) -> None:
                told.append(response)
                heard.set()

            term.take(term.machine.alter_partition(request), learn)
            with trio.move_on_after(REQUEST_TIMEOUT_S):
                await heard.wait()
            if not told or told[0] is None or (broker_id, CONTROLLER) in self.network.cut:
                raise PeerError("the controller", "no answer")
            return told[0]

        return ask

    # -- driving

    async def run(self, schedule: list[Step]) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await self.begin()
            for number, step in enumerate(schedule):
                kind, one, two = step
                event = self._events[kind % len(self._events)]
                try:
                    event(one, two)
                    await self.rest()
                    self.check()
                except Exception as problem:
                    problem.add_note(f"step {number}: {event.__name__}({one}, {two})")
                    raise
            await self.settle()
            nursery.cancel_scope.cancel()

    async def rest(self) -> None:
        """Start those that are to, and let everybody come to where they wait."""
        for broker in self.brokers.values():
            if broker.unstarted:
                self.network.gone(broker.id)
                broker.end(power=False, chance=self.chance)
                await wait_all_tasks_blocked()
                await self._nursery.start(broker.run)
        await wait_all_tasks_blocked()

    async def begin(self) -> None:
        await self.rest()
        replicas = [[1, 2, 3], [2, 3, 1]]
        image = TopicImage(TOPIC, b"t" * 16, tuple(new_partition(each) for each in replicas))

        def create(known: ClusterImage) -> Change | None:
            return None if TOPIC in known.topics else CreateTopic(image)

        assert self.cluster.term is not None
        self.cluster.term.take(Effects(decisions=[create]))
        await self.calm_down()

    async def calm_down(self) -> None:
        """What is under way happens."""
        for _ in range(12):
            self.control(0, 0)
            for each in self.network.movable:
                self.network.arrive(each)
            await self.rest()

    async def settle(self) -> None:
        """All come back, and have the same in the end."""
        self.network.cut.clear()
        self.cluster.deposed.clear()
        for broker in self.brokers.values():
            if not broker.is_alive and broker.goes_on:
                self._step_down(broker)
            elif not broker.is_alive:
                self.cluster.start(broker.id)
        self.cluster.elect(1)
        for _ in range(40):
            await self.calm_down()
            self.clock.jump(0.7)
            await self.rest()
            self.check()
            if self.is_settled():
                break
        else:
            raise AssertionError(f"it never comes to rest: {self.state()}")
        logs = {
            (each.index, _bytes_of(each.log))
            for broker in self.brokers.values()
            for each in broker.partitions
        }
        assert len(logs) == 2, "replicas differ"
        for broker in self.brokers.values():
            for partition in broker.partitions:
                self.check_has_all(partition)

    def is_settled(self) -> bool:
        topic = self.cluster.store.image.topics[TOPIC]
        return all(len(each.isr) == len(each.replicas) for each in topic.partitions) and all(
            len({(each.log_end_offset, each.high_watermark) for each in self.copies(index)}) == 1
            and all(each.high_watermark == each.log_end_offset for each in self.copies(index))
            for index in range(2)
        )

    def state(self) -> str:
        return (
            "; ".join(
                f"{broker.id}: {each.index} leader {each.leader} epoch {each.leader_epoch} isr"
                f" {each.isr} hw {each.high_watermark} end {each.log_end_offset}"
                for broker in self.brokers.values()
                for each in broker.partitions
            )
            + f" | {self.cluster.store.image.topics[TOPIC].partitions}"
        )

    def copies(self, index: int) -> list[Partition]:
        return [
            each
            for broker in self.brokers.values()
            for each in broker.partitions
            if each.index == index
        ]

    # -- events

    def broker(self, number: int) -> ReplicatingBroker:
        return self.brokers[number % len(BROKERS) + 1]

    def control(self, one: int, two: int) -> None:
        """The controller does what it has to."""
        term = self.cluster.term
        if term is None:
            return
        term.see()
        for _ in range(4):
            term.work()
            if term.is_over:
                self.cluster.term = None
                return
        for broker in self.brokers.values():
            if broker.broker is not None and not broker.unstarted and broker.is_alive:
                while self._may_deliver(broker.id) and self.cluster.deliver(term, broker.id):
                    pass

    def _may_deliver(self, broker_id: int) -> bool:
        broker = self.brokers[broker_id]
        if broker.broker is None or broker.unstarted:
            return False
        return (broker_id, CONTROLLER) not in self.network.cut

    def deliver(self, one: int, two: int) -> None:
        term, broker_id = self.cluster.term, self.broker(one).id
        if term is not None:
            term.work()
            if self._may_deliver(broker_id):
                self.cluster.deliver(term, broker_id)

    def lose_answer(self, one: int, two: int) -> None:
        term, broker_id = self.cluster.term, self.broker(one).id
        if term is not None and self._may_deliver(broker_id):
            self.cluster.deliver(term, broker_id, answer_arrives=False)

    def net(self, one: int, two: int) -> None:
        movable = self.network.movable
        if movable:
            self.network.arrive(movable[one % len(movable)])

    def calm(self, one: int, two: int) -> None:
        for each in self.network.movable:
            self.network.arrive(each)

    def lose(self, one: int, two: int) -> None:
        movable = self.network.movable
        if movable:
            movable[one % len(movable)].fail()

    def tick(self, one: int, two: int) -> None:
        self.clock.jump(0.1 + one % 20 / 10)

    def long_tick(self, one: int, two: int) -> None:
        self.clock.jump(8.0)

    def cut(self, one: int, two: int) -> None:
        """One way of two brokers, or of one and the controller."""
        source, target = one % 3 + 1, two % 4
        if source != target:
            self.network.cut.add((source, target))

    def mend(self, one: int, two: int) -> None:
        self.network.cut.clear()

    def elect(self, one: int, two: int) -> None:
        live = self.cluster.live
        if live:
            self.cluster.elect(live[one % len(live)])

    def kill(self, one: int, two: int) -> None:
        broker = self.broker(one)
        if broker.is_alive:
            self.seen["killed"] += 1
            self.cluster.kill(broker.id)
            broker.end(power=False, chance=self.chance)

    def power(self, one: int, two: int) -> None:
        broker, term = self.broker(one), self.cluster.term
        if not broker.is_alive or term is None or term.node_id == broker.id:
            return
        if broker.version < REPLICA_STATE_SINCE:
            return  # leaders do not hear in which life a follower is
        self._be_quick()
        if term.is_over or not all(self._survives(index, broker.id) for index in range(2)):
            return
        self.seen["lost its power"] += 1
        self.cluster.kill(broker.id)
        broker.end(power=True, chance=self.chance)
        self._be_quick()
        for known in self.cluster.store.image.topics[TOPIC].partitions:
            assert broker.id not in known.isr, known

    def _be_quick(self) -> None:
        """The controller decides all that it has to."""
        term = self.cluster.term
        for _ in range(5):
            if term is not None:
                term.see()
                while term.queue and not term.is_over:
                    term.work()

    def _survives(self, index: int, without: int) -> bool:
        """Whether another in-sync replica that lives has all that was acknowledged."""
        known = self.cluster.store.image.topics[TOPIC].partitions[index]
        others = [
            each
            for broker_id in known.isr
            if broker_id != without and broker_id in self.cluster.store.image.brokers
            for each in self.brokers[broker_id].partitions
            if each.index == index
        ]
        return any(self._has_all(each) for each in others)

    def start(self, one: int, two: int) -> None:
        broker = self.broker(one)
        if not broker.is_alive and not broker.goes_on:
            self.cluster.start(broker.id)

    def expire(self, one: int, two: int) -> None:
        """The broker's session is lost: it steps down, and is registered anew."""
        broker = self.broker(one)
        if broker.is_alive and broker.broker is not None:
            self.seen["expired"] += 1
            self._step_down(broker)

    def _step_down(self, broker: ReplicatingBroker) -> None:
        assert broker.broker is not None
        manager = broker.broker.replication
        assert manager is not None
        manager.step_down()
        self.cluster.start(broker.id)
        broker.unstarted = False  # it is the same process
        manager._host.broker_epoch = broker.epoch

    def lapse(self, one: int, two: int) -> None:
        """A session is lost, and the broker does not know: it goes on, and leads as before."""
        broker = self.broker(one)
        if broker.is_alive and broker.goes_on:
            self.seen["lapsed"] += 1
            self.cluster.kill(broker.id)

    def come_to(self, one: int, two: int) -> None:
        """A broker learns that its session was lost."""
        broker = self.broker(one)
        if not broker.is_alive and broker.goes_on:
            self._step_down(broker)

    def produce(self, one: int, two: int) -> None:
        """To a broker that thinks that it leads; acks=all, or 1."""
        leaders = [
            (broker, each)
            for broker in self.brokers.values()
            for each in broker.partitions
            if each.is_leader and broker.goes_on
        ]
        if leaders:
            broker, partition = leaders[one % len(leaders)]
            acks = -1 if two % 3 else 1
            _, nursery = self.network.handlers[broker.id]
            nursery.start_soon(self._produce, broker, partition, acks)

    async def _produce(self, broker: ReplicatingBroker, partition: Partition, acks: int) -> None:
        self.produced += 1
        value = b"<%d>" % self.produced
        records = build([Record(0, now_ms(), None, value)])
        data = [TopicProduceData(TOPIC, b"", [PartitionProduceData(partition.index, records)])]
        request = ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=data)
        epoch = partition.leader_epoch
        reply = await broker.produce(request)
        told = reply.responses[0].partition_responses[0]
        self.seen[ErrorCode(told.error_code).name] += 1
        if not told.error_code and acks == -1:
            self.seen["acknowledged"] += 1
            place = partition.index, epoch
            assert self.acknowledgers.setdefault(place, broker.id) == broker.id, place
            self.acknowledged.append(Acknowledged(partition.index, told.base_offset, value, epoch))

    # -- laws

    def check(self) -> None:
        for broker in self.brokers.values():
            for partition in broker.partitions:
                self._check_epoch(broker, partition)
                if partition.is_leader:
                    self._check_high_watermark(partition)

    def _check_epoch(self, broker: ReplicatingBroker, partition: Partition) -> None:
        """Neither the epoch goes back nor what counts, whoever leads and whoever only thinks so."""
        life = broker.id, id(broker.broker), partition.index
        epoch, high_watermark = self.epochs.get(life, (-1, 0))
        assert partition.leader_epoch >= epoch, (life, epoch, partition.leader_epoch)
        assert partition.high_watermark >= high_watermark, (life, high_watermark, self.state())
        self.epochs[life] = partition.leader_epoch, partition.high_watermark

    def _check_high_watermark(self, leader: Partition) -> None:
        known = self.cluster.store.image.topics[TOPIC].partitions[leader.index]
        if known.leader_epoch != leader.leader_epoch:
            return
        for broker_id in known.isr:
            for each in self.brokers[broker_id].partitions:
                if each.index == leader.index:
                    assert leader.high_watermark <= each.log_end_offset, (broker_id, self.state())

    def check_leader(self, partition: Partition) -> None:
        """It leads from now on, or no longer."""
        if partition.is_leader:
            self.seen["led"] += 1
            self.check_has_all(partition)

    def check_has_all(self, partition: Partition) -> None:
        assert self._has_all(partition), (
            partition.node_id,
            [each for each in self.acknowledged if each.index == partition.index],
            _values_of(partition.log),
            self.state(),
        )

    def _has_all(self, partition: Partition) -> bool:
        values = _values_of(partition.log)
        return all(
            each.value in values.get(each.offset, b"")
            for each in self.acknowledged
            if each.index == partition.index and each.leader_epoch <= partition.leader_epoch
        )


def _bytes_of(log: Log) -> bytes:
    return b"".join(segment.path.read_bytes() for segment in log.segments)


def _values_of(log: Log) -> dict[int, bytes]:
    """The batch at each offset: each has one record."""
    data = memoryview(_bytes_of(log))
    return {
        header.base_offset: bytes(data[position : position + header.size_bytes])
        for position, header in iter_batches(data)
    }


async def simulate(schedule: list[Step], base: Path, seed: int, clock: MockClock) -> Counter[str]:
    """Live through a schedule; gives what was seen."""
    world = World(base, random.Random(seed), clock)
    await world.run(schedule)
    return world.seen
