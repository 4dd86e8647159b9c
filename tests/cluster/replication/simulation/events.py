"""What may happen to brokers that replicate; three numbers make an event.

Some events wait for nothing by chance but bring about a moment in which faults show: an answer that
arrives after its caller has become the leader, a controller that changes with writes under way, a
follower that goes while the ISR shrinks or grows, a shutdown of which half was told.

The power goes only where Kafka promises something: while another in-sync replica that lives has
all that was acknowledged, and the controller hears of it at once.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from trio.testing import MockClock

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.elections import PREFERRED
from kwire.cluster.metadata.changes import Change, MarkForDeletion
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import ClusterImage
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from kwire.codecs.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.storage.partitions.partition import Partition
from tests.cluster.controller.requests import elect
from tests.cluster.replication.simulation.broker import CONTROLLER, ReplicatingBroker, now_ms
from tests.cluster.replication.simulation.common_events import CommonEvents
from tests.cluster.replication.simulation.laws import Acknowledged, place_of
from tests.cluster.replication.simulation.network import Call
from tests.cluster.replication.simulation.running import Step
from tests.cluster.replication.simulation.world import BROKERS, TOPIC, World

REPLICA_STATE_SINCE = 15
"""Fetch."""


class Events(CommonEvents):
    """The events of this simulation; see `CommonEvents`."""

    def __init__(self, base: Path, chance: random.Random, clock: MockClock) -> None:
        self.world = World(base, chance, clock)
        super().__init__(self.world)
        self.chance = chance
        self.cluster = self.world.cluster
        self.brokers = self.world.brokers
        self.topics_made = 0
        self._events = [
            *[self.control] * 10, *[self.deliver] * 4, *[self.net] * 10, *[self.calm] * 3,
            *[self.produce] * 8, *[self.tick] * 4, self.long_tick, self.lose, self.lose,
            self.kill, self.power, *[self.start] * 3, self.cut, self.mend, self.mend,
            self.elect, self.lose_answer, self.expire, self.lapse, self.come_to,
            self.read_late, self.read_late, self.repeat, self.old_deliver, self.old_work,
            self.ask_deposed, self.prefer, self.prefer, self.shut_down, self.create, self.delete,
            *[self.answer_after_the_role_changed] * 4, *[self.go_while_the_isr_changes] * 2,
            *[self.shut_down_in_halves] * 2, self.depose_with_writes_under_way,
            *[self.flow] * 4,
        ]  # fmt: skip

    def broker(self, number: int) -> ReplicatingBroker:
        return self.brokers[number % len(BROKERS) + 1]

    # -- the controller and its requests

    def control(self, one: int, two: int) -> None:
        self.world.control()

    def deliver(self, one: int, two: int) -> None:
        term, broker_id = self.cluster.term, self.broker(one).id
        if term is not None:
            term.work()
            if self.world.may_deliver(broker_id):
                self.cluster.deliver(term, broker_id)

    def lose_answer(self, one: int, two: int) -> None:
        term, broker_id = self.cluster.term, self.broker(one).id
        if term is not None and self.world.may_deliver(broker_id):
            self.cluster.deliver(term, broker_id, answer_arrives=False)

    def repeat(self, one: int, two: int) -> None:
        """A copy of what a controller has sent comes late, to this or the next life of a broker.

        It says which life it is for.  One that deletes would be obeyed again, as by Apache Kafka.
        """
        broker = self.broker(one)
        copies = [each for each in broker.obeyed if not hasattr(each, "delete_partitions")]
        if copies and self.world.may_deliver(broker.id):
            self.seen["repeated"] += 1
            broker.handle(copies[two % len(copies)])

    def old_deliver(self, one: int, two: int) -> None:
        broker_id = self.broker(one).id
        if self.cluster.deposed and self.world.may_deliver(broker_id):
            self.cluster.deliver(self.cluster.deposed[two % len(self.cluster.deposed)], broker_id)

    def old_work(self, one: int, two: int) -> None:
        if self.cluster.deposed:
            self.cluster.deposed[one % len(self.cluster.deposed)].work()

    def ask_deposed(self, one: int, two: int) -> None:
        self.world.asks_deposed = not self.world.asks_deposed

    def elect(self, one: int, two: int) -> None:
        live = self.cluster.live
        if live:
            self.cluster.elect(live[one % len(live)])

    def prefer(self, one: int, two: int) -> None:
        term, places = self.cluster.term, self.world.places()
        if term is not None and places:
            place = places[one % len(places)]
            term.take(term.machine.elect_leaders(elect(PREFERRED, place)))

    def create(self, one: int, two: int) -> None:
        replicas = [one % 3 + 1, (one + 1) % 3 + 1]
        self.topics_made += 1
        self.world.decide_topic(f"d{self.topics_made}", (unassigned_partition(tuple(replicas)),))

    def delete(self, one: int, two: int) -> None:
        image = self.cluster.store.image
        names = sorted(image.topics.keys() - image.deleting - {TOPIC})
        if not names or self.cluster.term is None:
            return
        name = names[one % len(names)]

        def mark(image: ClusterImage) -> Change | None:
            topic = image.topics.get(name)
            return None if topic is None else MarkForDeletion(name, topic.id)

        self.cluster.term.take(ControllerEffects(decisions=[mark]))

    def shut_down(self, one: int, two: int) -> None:
        """A controlled shutdown; the broker runs on until it is killed."""
        broker, term = self.broker(one), self.cluster.term
        if not broker.is_alive or term is None:
            return
        epoch = self.world.leaving[broker.id] = broker.epoch

        def learn(response: ControlledShutdownResponse | None) -> None:
            if response is None or response.error_code or response.remaining_partitions:
                return
            self.seen["let go"] += 1
            self.world.let_go[broker.id] = (term, epoch)

        request = ControlledShutdownRequest(broker.id, epoch)
        term.take(term.machine.controlled_shutdown(request), learn)

    # -- brokers

    def kill(self, one: int, two: int) -> None:
        broker = self.broker(one)
        if broker.is_alive:
            self.seen["killed"] += 1
            self._kill(broker)

    def _kill(self, broker: ReplicatingBroker) -> None:
        self.cluster.kill(broker.id)
        broker.end(power=False, chance=self.chance)

    def power(self, one: int, two: int) -> None:
        broker, term = self.broker(one), self.cluster.term
        if not broker.is_alive or term is None or term.node_id == broker.id:
            return
        if broker.version < REPLICA_STATE_SINCE:
            return  # leaders do not hear in which life a follower is
        self.world.be_quick()
        if term.is_over or not all(self._survives(each, broker.id) for each in self.world.places()):
            return
        self.seen["lost its power"] += 1
        self.cluster.kill(broker.id)
        broker.end(power=True, chance=self.chance)
        self.world.be_quick()
        for place in self.world.places():
            known = self.world.known(place)
            assert known is not None
            assert broker.id not in known.isr, known

    def _survives(self, place: tuple[str, int], without: int) -> bool:
        """Whether another in-sync replica that lives has all that was acknowledged."""
        known = self.world.known(place)
        assert known is not None
        return without not in known.replicas or any(
            self.world.laws.has_all(each)
            for each in self.world.copies(place)
            if each.node_id in known.isr
            and each.node_id != without
            and each.node_id in self.cluster.store.image.brokers
        )

    def start(self, one: int, two: int) -> None:
        broker = self.broker(one)
        if not broker.is_alive and not broker.goes_on:
            self.cluster.start(broker.id)

    def expire(self, one: int, two: int) -> None:
        """The broker's session is lost: it steps down, and is registered anew."""
        broker = self.broker(one)
        if broker.is_alive and broker.broker is not None:
            self.seen["expired"] += 1
            self.world.step_down(broker)

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
            self.world.step_down(broker)

    # -- clients

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
        self.world.produced += 1
        value = b"<%d>" % self.world.produced
        records = build([Record(0, now_ms(), None, value)])
        produced = PartitionProduceData(partition.index, records)
        data = [TopicProduceData(partition.topic, b"", [produced])]
        request = ProduceRequest(acks=acks, timeout_ms=3_600_000, topic_data=data)
        epoch, waiting = partition.leader_epoch, (broker.id, place_of(partition))
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
            record = Acknowledged(place_of(partition), result.base_offset, value, epoch)
            self.world.laws.note_acknowledged(record, broker.id)

    # -- moments

    async def answer_after_the_role_changed(self, one: int, two: int) -> None:
        """An answer to a follower arrives when somebody else, or the follower itself, leads."""
        asked = [
            each
            for each in self.network.movable
            if each.target != CONTROLLER and each.source in self.network.handlers
        ]
        asked.sort(key=lambda each: not isinstance(each.request, OffsetForLeaderEpochRequest))
        if not asked or self.cluster.term is None:
            return
        call = asked[0] if two % 2 else asked[one % len(asked)]
        if call.reply is None:
            self.network.arrive(call)
            await self.world.rest()
        leader = self.brokers[call.target]
        [self._kill_if_alive, self._lapse_if_alive, self._let_go, self._prefer_caller][one % 4](
            leader, call
        )
        self.world.be_quick()
        term = self.cluster.term
        count = 1 + two % 4  # of several partitions perhaps not all change their leader yet
        while term and count and self.world.may_deliver(call.source):
            count -= 1
            self.cluster.deliver(term, call.source)
        await self.world.rest()
        if call in self.network.movable:
            self.seen["answered after a change"] += 1
            self.network.arrive(call)

    def _kill_if_alive(self, leader: ReplicatingBroker, call: Call) -> None:
        if leader.is_alive:
            self._kill(leader)

    def _lapse_if_alive(self, leader: ReplicatingBroker, call: Call) -> None:
        if leader.is_alive and leader.goes_on:
            self.cluster.kill(leader.id)

    def _let_go(self, leader: ReplicatingBroker, call: Call) -> None:
        self.shut_down(leader.id - 1, 0)

    def _prefer_caller(self, leader: ReplicatingBroker, call: Call) -> None:
        term = self.cluster.term
        for place in self.world.places():
            known = self.world.known(place)
            if term and known and known.replicas[0] == call.source and known.leader == leader.id:
                term.take(term.machine.elect_leaders(elect(PREFERRED, place)))
                return

    async def go_while_the_isr_changes(self, one: int, two: int) -> None:
        """A follower goes, or is heard no longer, while a change of the ISR is under way."""
        changes = [each for each in self.network.movable if each.target == CONTROLLER]
        if not changes:
            self.produce(one, 1)
            broker = self.broker(two)
            self.network.cut |= {(broker.id, each) for each in BROKERS if each != broker.id}
            await self.world.rest()
            self.world.clock.jump(8.0)
            return
        call = changes[one % len(changes)]
        if call.reply is None and two % 2:
            self.network.arrive(call)
        follower = self.brokers[(call.source + two) % 3 + 1]
        self.seen["left while the ISR changed"] += 1
        [self._kill_if_alive, self._lapse_if_alive, self._let_go][one % 3](follower, call)
        self.produce(one, 1)
        self.world.be_quick()
        await self.world.rest()
        for each in changes:
            if each in self.network.movable:
                self.network.arrive(each)

    async def shut_down_in_halves(self, one: int, two: int) -> None:
        """A broker is let go, and not all have been told; it may be gone by then, or be back."""
        if self.cluster.term is None:
            return
        self.shut_down(one, two)
        self.cluster.term.work()
        broker = self.broker(one + 1 + two % 2)
        if self.world.may_deliver(broker.id):
            self.cluster.deliver(self.cluster.term, broker.id)
        await self.world.rest()
        if two % 3 == 0:
            self.kill(one, two)
        if two % 6 == 0:
            self.start(one, two)
        self.produce(two, 1)

    def depose_with_writes_under_way(self, one: int, two: int) -> None:
        """Another controller is elected; the old one has made some changes, and does not know."""
        term = self.cluster.term
        if term is None:
            return
        self.shut_down(one, two)
        if term.queue:
            term.work(made_at_most=two % 3)
        self.elect(one + 1, two)


async def simulate(schedule: list[Step], base: Path, seed: int, clock: MockClock) -> Counter[str]:
    """Run a schedule.  Returns how often each kind of event was seen."""
    events = Events(base, random.Random(seed), clock)
    await events.run(schedule)
    return events.seen
