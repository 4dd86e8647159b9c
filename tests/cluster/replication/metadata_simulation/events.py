"""What may happen to brokers that replicate by metadata records; three numbers make an event.

Brokers hear of records one by one, late, and each for itself.  As in the simulation of a controller
that sends requests, some events bring about a moment in which faults show, and the power goes only
where Kafka promises something: while another in-sync replica that lives has all that was
acknowledged, and the controllers fence the broker at once.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.metadata_simulation.brokers import MetadataBroker
from tests.cluster.replication.metadata_simulation.controllers import Where
from tests.cluster.replication.metadata_simulation.world import BROKERS, TOPIC, World
from tests.cluster.replication.simulation.broker import CONTROLLER, now_ms
from tests.cluster.replication.simulation.common_events import CommonEvents
from tests.cluster.replication.simulation.laws import Acknowledged
from tests.cluster.replication.simulation.network import Call
from tests.cluster.replication.simulation.running import Step


class Events(CommonEvents):
    """The events of this simulation; see `CommonEvents`."""

    def __init__(self, base: Path, chance: random.Random, clock: MockClock) -> None:
        self.world = World(base, chance, clock)
        super().__init__(self.world)
        self.chance = chance
        self.controllers = self.world.controllers
        self.brokers = self.world.brokers
        self._events = [
            *[self.hear] * 10, *[self.learn] * 6, *[self.beat] * 3, *[self.assign] * 3,
            *[self.net] * 10, *[self.calm] * 3, *[self.flow] * 8, *[self.produce] * 16,
            *[self.tick] * 4, self.long_tick, self.lose, self.lose, self.read_late, self.cut,
            *[self.mend] * 2, self.kill, self.power, *[self.start] * 3, self.lapse, self.lapse,
            self.unregister, *[self.shut_down] * 3, self.fail_directory, *[self.prefer] * 2,
            self.elect_unclean, *[self.reassign] * 2, self.create, self.delete,
            *[self.answer_after_the_role_changed] * 4, *[self.go_while_the_isr_changes] * 2,
        ]  # fmt: skip

    def broker(self, number: int) -> MetadataBroker:
        return self.brokers[number % len(BROKERS) + 1]

    def where(self, number: int) -> Where:
        wheres = self.controllers.wheres()
        return wheres[number % len(wheres)]

    # -- records, and what brokers tell the controllers

    def hear(self, one: int, two: int) -> None:
        self.world.hear(self.broker(one))

    def learn(self, one: int, two: int) -> None:
        self.broker(one).learn(1 + two % 4)

    def beat(self, one: int, two: int) -> None:
        self.broker(one).beat()

    def assign(self, one: int, two: int) -> None:
        self.broker(one).assign()

    # -- brokers

    def kill(self, one: int, two: int) -> None:
        """The controllers notice it now, or when its session is over."""
        broker = self.broker(one)
        if broker.process is not None:
            self.seen["killed"] += 1
            broker.kill()
            if two % 3:
                self._fence(broker)

    def _fence(self, broker: MetadataBroker) -> None:
        if broker.id in self.controllers.image.brokers:
            self.controllers.fence(broker.id)

    def lapse(self, one: int, two: int) -> None:
        """A session is over, and the broker does not know: it goes on, and leads as before."""
        broker = self.broker(one)
        self.seen["lapsed"] += broker.is_counted
        self._fence(broker)

    def power(self, one: int, two: int) -> None:
        broker = self.broker(one)
        if not broker.is_counted:
            return
        if not all(self._survives(each, broker.id) for each in self.controllers.wheres()):
            return
        self.seen["lost its power"] += 1
        broker.kill(power=True, chance=self.chance)
        self._fence(broker)

    def _survives(self, where: Where, without: int) -> bool:
        """Whether another in-sync replica that lives has all that was acknowledged."""
        known = self.controllers.partition(where)
        return without not in known.replicas or any(
            self.world.laws.has_all(each)
            for each in self.world.copies(where)
            if each.node_id in known.isr
            and each.node_id != without
            and self.brokers[each.node_id].is_counted
            and not each.log.offline
        )

    async def start(self, one: int, two: int) -> None:
        broker = self.broker(one)
        if broker.process is None:
            await self.world.start(broker)

    def unregister(self, one: int, two: int) -> None:
        """An administrator removes a broker, which lives on or does not."""
        broker = self.broker(one)
        if broker.id in self.controllers.image.registered:
            self.seen["unregistered"] += 1
            self.controllers.unregister(broker.id)

    def shut_down(self, one: int, two: int) -> None:
        """A heartbeat of a broker that wants to stop: it stops once the controllers let it."""
        broker = self.broker(one)
        if broker.process is None or not broker.is_counted:
            return
        broker.process.is_leaving = True
        broker.process.roles.begin_shutdown()
        if self.controllers.shut_down(broker.id):
            self.seen["let go"] += 1
            broker.stop()

    def fail_directory(self, one: int, two: int) -> None:
        broker = self.broker(one)
        if broker.process is not None and broker.process.has_roles and broker.fail_directory(two):
            self.seen["directory failed"] += 1

    # -- administrators

    def prefer(self, one: int, two: int) -> None:
        self.controllers.elect(self.where(one))

    def elect_unclean(self, one: int, two: int) -> None:
        if self.world.may_lose:
            for where in self.controllers.wheres():
                self.controllers.elect(where, unclean=True)

    def reassign(self, one: int, two: int) -> None:
        where = self.where(one)
        first = two % 3 + 1
        others = [each for each in BROKERS if each != first]
        targets = [(first, *others), (first, others[0]), (first,), (first, others[1])]
        self.seen["reassigned"] += 1
        self.controllers.reassign(where, targets[two // 3 % len(targets)])

    def create(self, one: int, two: int) -> None:
        """A topic, whose name may have been that of another."""
        replicas = (one % 3 + 1, (one + 1) % 3 + 1)
        self.controllers.create(f"d{two % 2}", [replicas])

    def delete(self, one: int, two: int) -> None:
        """A topic is deleted; it may be created anew before any broker hears of that."""
        names = sorted(self.controllers.image.topics.keys() - {TOPIC})
        if names:
            name = names[one % len(names)]
            self.controllers.delete(name)
            if two % 2:
                self.seen["created anew"] += 1
                self.controllers.create(name, [(two % 3 + 1, (two + 1) % 3 + 1)])

    # -- clients

    def produce(self, one: int, two: int) -> None:
        """To a broker that thinks that it leads; acks=all, or 1."""
        leaders = [
            (broker, each)
            for broker in self.brokers.values()
            for each in broker.partitions
            if each.is_leader
        ]
        if leaders:
            broker, partition = leaders[one % len(leaders)]
            acks = -1 if two % 3 else 1
            _, nursery = self.network.handlers[broker.id]
            nursery.start_soon(self._produce, broker, partition, acks)

    async def _produce(self, broker: MetadataBroker, partition: Partition, acks: int) -> None:
        self.world.produced += 1
        value = b"<%d>" % self.world.produced
        records = build([Record(0, now_ms(), None, value)])
        produced = PartitionProduceData(partition.index, records)
        data = [TopicProduceData(partition.topic, b"", [produced])]
        request = ProduceRequest(acks=acks, timeout_ms=3_600_000, topic_data=data)
        place = self.world.laws.place_of(partition)
        epoch, waiting = partition.leader_epoch, (broker.id, place)
        if broker.process is None or broker.process.broker.hosted.get(*_key(partition)) is None:
            return
        self.world.pending[waiting] += 1
        try:
            reply = await broker.produce(request)
        finally:
            self.world.pending[waiting] -= 1
        if reply is None:
            return
        result = reply.responses[0].partition_responses[0]
        self.seen[ErrorCode(result.error_code).name] += 1
        if not result.error_code and acks == -1:
            self.seen["acknowledged"] += 1
            record = Acknowledged(place, result.base_offset, value, epoch)
            self.world.laws.note_acknowledged(record, broker.id)

    # -- moments

    async def answer_after_the_role_changed(self, one: int, two: int) -> None:
        """An answer to a follower arrives when somebody else, or the follower itself, leads."""
        asked = [
            each
            for each in self.network.movable
            if each.target != CONTROLLER and each.source in self.network.handlers
        ]
        if not asked:
            return
        call = asked[one % len(asked)]
        if call.reply is None:
            self.network.arrive(call)
            await wait_all_tasks_blocked()
        leader = self.brokers[call.target]
        [self._kill, self._fence, self._leave, self._prefer_all][two % 4](leader)
        self.brokers[call.source].learn(1 + two % 3)
        await wait_all_tasks_blocked()
        if call in self.network.movable:
            self.seen["answered after a change"] += 1
            self.network.arrive(call)

    def _kill(self, broker: MetadataBroker) -> None:
        broker.kill()
        self._fence(broker)

    def _leave(self, broker: MetadataBroker) -> None:
        self.shut_down(broker.id - 1, 0)

    def _prefer_all(self, broker: MetadataBroker) -> None:
        for where in self.controllers.wheres():
            self.controllers.elect(where)

    async def go_while_the_isr_changes(self, one: int, two: int) -> None:
        """A follower goes, or is heard no longer, while a change of the ISR is under way."""
        changes = [each for each in self.network.movable if each.target == CONTROLLER]
        if not changes:
            self.produce(one, 1)
            broker = self.broker(two)
            self.network.cut |= {(broker.id, each) for each in BROKERS if each != broker.id}
            await wait_all_tasks_blocked()
            self.world.clock.jump(8.0)
            return
        call: Call = changes[one % len(changes)]
        if call.reply is None and two % 2:
            self.network.arrive(call)
        follower = self.brokers[(call.source + two) % 3 + 1]
        self.seen["left while the ISR changed"] += 1
        [self._kill, self._fence, self._leave][one % 3](follower)
        self.produce(one, 1)
        await wait_all_tasks_blocked()
        for each in changes:
            if each in self.network.movable:
                self.network.arrive(each)


def _key(partition: Partition) -> tuple[str, int]:
    return partition.topic, partition.index


async def simulate(schedule: list[Step], base: Path, seed: int, clock: MockClock) -> Counter[str]:
    """Run a schedule.  Returns how often each kind of event was seen."""
    events = Events(base, random.Random(seed), clock)
    await events.run(schedule)
    return events.seen
