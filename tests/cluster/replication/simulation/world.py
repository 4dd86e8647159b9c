"""Brokers that replicate, their controller, a network, clients; laws.py says what must hold.

The controller is that of tests/cluster/controller/simulation.py.  events.py says what may happen.

In the end first all but one broker are well, and what can be acknowledged without it must be; then
all come back: replicas are equal, deleted topics are gone, and preferred leaders lead.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.elections import PREFERRED
from kwire.cluster.metadata.changes import Change, CreateTopic
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.placement import new_partition
from kwire.codecs.messages.alter_partition import AlterPartitionRequest
from kwire.codecs.primitives import Message
from kwire.settings import BrokerConfig
from kwire.storage.partitions.partition import Partition
from tests.cluster.controller.laws import Laws
from tests.cluster.controller.requests import elect
from tests.cluster.controller.simulation import Cluster, Store, Term
from tests.cluster.replication.simulation.broker import CONTROLLER, ReplicatingBroker
from tests.cluster.replication.simulation.laws import DepartureLaws, Place, bytes_of, place_of
from tests.cluster.replication.simulation.network import Network

TOPIC = "t"
CONFIG = BrokerConfig({"node.id": "1"})
BROKERS = (1, 2, 3)
REPLICAS = ([1, 2, 3], [2, 3, 1], [3, 1, 2])

ROUNDS_MAX = 80
"""Until it must have come to rest."""


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
    """All of it, and how it is driven."""

    def __init__(self, base: Path, chance: random.Random, clock: MockClock) -> None:
        self.chance = chance
        self.clock = clock
        self.network = Network()
        self.min_isr = chance.choice([1, 2, 2])
        settings = {
            "min.insync.replicas": str(self.min_isr),
            "log.flush.interval.messages": str(chance.choice([1, 3, 1 << 40])),
        }
        version = chance.choice([17, 11])  # with and without truncation on Fetch
        self.cluster = Replicated(base, self.network, settings, version)
        self.cluster.sees_one_by_one = chance.random() < 0.5
        self.brokers = self.cluster.replicating
        self.laws = DepartureLaws(self)
        self.let_go: dict[int, tuple[Term, int]] = {}
        """Brokers that may go by a controlled shutdown: by whose word, in which epoch."""
        self.leaving: dict[int, int] = {}
        """Brokers that have asked to go, in which epoch: each ends then, whatever it is told."""
        self.asks_deposed = False
        """Whether brokers take a controller for one that is none any longer."""
        self.pending: Counter[tuple[int, Place]] = Counter()
        """Producers that wait for an answer, by broker and partition."""
        self.seen: Counter[str] = Counter()
        self.produced = 0
        for broker in self.brokers.values():
            broker.led = self.laws.check_leader

    # -- driving

    async def run(self, steps: list[tuple[str, Any, int, int]]) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.network.handlers[CONTROLLER] = (self._ask_controller, nursery)
            await self.begin()
            for number, (name, event, one, two) in enumerate(steps):
                try:
                    await event(one, two)
                    await self.rest()
                    self.laws.check()
                except Exception as problem:
                    problem.add_note(f"step {number}: {name}({one}, {two})")
                    raise
            await self.settle()
            nursery.cancel_scope.cancel()

    async def _ask_controller(self, request: Message, version: int) -> Message | None:
        """AlterPartition; None where the controller goes before it has answered."""
        term = self.cluster.term
        if self.asks_deposed and self.cluster.deposed:
            term = self.cluster.deposed[-1]
        if term is None:
            return None
        assert isinstance(request, AlterPartitionRequest)
        replies: list[Message | None] = []
        heard = trio.Event()

        def learn(response: Message | None) -> None:
            replies.append(response)
            heard.set()

        term.take(term.machine.alter_partition(request), learn)
        await heard.wait()
        return replies[0]

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
        self.decide_topic(TOPIC, tuple(new_partition(each) for each in REPLICAS))
        await self.calm_down()

    def decide_topic(self, name: str, partitions: tuple[PartitionImage, ...]) -> None:
        image = TopicImage(name, name.encode().ljust(16, b"-"), partitions)

        def create(known: ClusterImage) -> Change | None:
            return None if name in known.topics else CreateTopic(image)

        if self.cluster.term is not None:
            self.cluster.term.take(ControllerEffects(decisions=[create]))

    # -- what there is

    @property
    def observed(self) -> Mapping[int, ReplicatingBroker]:
        return self.brokers

    def is_deleting(self, topic: str) -> bool:
        return topic in self.cluster.store.image.deleting

    def known(self, place: Place) -> PartitionImage | None:
        """The truth about a partition."""
        topic = self.cluster.store.image.topics.get(place[0])
        return None if topic is None else topic.partitions[place[1]]

    def places(self) -> list[Place]:
        """All partitions that stay."""
        image = self.cluster.store.image
        return [
            (name, index)
            for name in sorted(image.topics.keys() - image.deleting)
            for index in range(len(image.topics[name].partitions))
        ]

    def copies(self, place: Place) -> list[Partition]:
        return [
            each
            for broker in self.brokers.values()
            for each in broker.partitions
            if place_of(each) == place
        ]

    def state(self) -> str:
        return (
            "; ".join(
                f"{broker.id}: {each.topic}-{each.index} leader {each.leader} epoch"
                f" {each.leader_epoch} isr {each.isr} hw {each.high_watermark} end"
                f" {each.log_end_offset}"
                for broker in self.brokers.values()
                for each in broker.partitions
            )
            + f" | {self.cluster.store.image.topics}"
        )

    # -- what the controller does

    def control(self) -> None:
        """The controller does what it has to, and brokers what it tells them."""
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
                while self.may_deliver(broker.id) and self.cluster.deliver(term, broker.id):
                    pass

    def be_quick(self) -> None:
        """The controller decides all that it has to."""
        term = self.cluster.term
        for _ in range(5):
            if term is not None:
                term.see()
                while term.queue and not term.is_over:
                    term.work()

    def may_deliver(self, broker_id: int) -> bool:
        broker = self.brokers[broker_id]
        if broker.broker is None or broker.unstarted:
            return False
        return (broker_id, CONTROLLER) not in self.network.cut

    async def calm_down(self, rounds: int = 12) -> None:
        """What is under way happens."""
        for _ in range(rounds):
            self.control()
            for each in self.network.movable:
                self.network.arrive(each)
            await self.rest()

    def come_back(self, broker: ReplicatingBroker) -> None:
        """A broker starts, or learns that its session was lost."""
        if not broker.is_alive and broker.goes_on:
            self.step_down(broker)
        elif not broker.is_alive:
            self.cluster.start(broker.id)

    def step_down(self, broker: ReplicatingBroker) -> None:
        requests = broker.requests
        requests.step_down()
        self.cluster.start(broker.id)
        broker.unstarted = False  # it is the same process
        requests._host.broker_epoch = broker.epoch

    # -- the end

    async def settle(self) -> None:
        self.network.cut.clear()
        self.asks_deposed = False
        self.cluster.deposed.clear()
        term = self.cluster.term
        if term is None or term.is_over or self.chance.random() < 0.3:
            self.cluster.elect(1)
        away = self.chance.choice([None, *BROKERS])
        if away is not None:
            await self._go_on_without(away)
        self.network.cut.clear()
        for broker in self.brokers.values():
            self.come_back(broker)
        await self._until(self._is_settled, "it never comes to rest")
        logs = {
            (place_of(each), bytes_of(each.log))
            for place in self.places()
            for each in self.copies(place)
        }
        assert len(logs) == len(self.places()), "replicas differ"
        for place in self.places():
            for partition in self.copies(place):
                self.laws.check_has_all(partition)
        await self._lead_again()

    async def _go_on_without(self, away: int) -> None:
        """All others are well: what can be acknowledged without it is."""
        broker, others = self.brokers[away], [each for each in BROKERS if each != away]
        if self.chance.random() < 0.5:
            self.cluster.kill(away)
            broker.end(power=False, chance=self.chance)
        else:
            self.network.cut |= {(away, each) for each in others} | {
                (each, away) for each in others
            }
        for each in others:
            self.come_back(self.brokers[each])
        await self._until(self._goes_on, "what could be acknowledged is not")

    async def _until(self, is_so: Any, otherwise: str) -> None:  # noqa: ANN401 - a question
        for _ in range(ROUNDS_MAX):
            self._restart_those_that_shut_down()
            if self.cluster.term is None:
                self.cluster.elect(self.cluster.live[0])
            await self.calm_down(4)
            self.clock.jump(0.7)
            await self.rest()
            self.laws.check()
            if is_so():
                return
        raise AssertionError(f"{otherwise}: {self.state()}")

    def _restart_those_that_shut_down(self) -> None:
        for broker_id, epoch in self.leaving.items():
            broker = self.brokers[broker_id]
            if broker.is_alive and broker.epoch == epoch:
                self.cluster.start(broker_id)

    def _goes_on(self) -> bool:
        """Whether all that a living leader may count does, and who waited for that is answered."""
        for place in self.places():
            known = self.known(place)
            assert known is not None
            if known.leader not in self.cluster.live:
                continue
            leader = self._leader(place, known)
            if leader is None:
                return False
            if leader.is_under_min_isr:
                continue
            if leader.high_watermark != leader.log_end_offset:
                return False
            if self.pending[leader.node_id, place]:
                return False
        return True

    def _leader(self, place: Place, known: PartitionImage) -> Partition | None:
        for each in self.copies(place):
            if each.node_id == known.leader and each.leader_epoch == known.leader_epoch:
                return each if each.is_leader else None
        return None

    def _is_settled(self) -> bool:
        image = self.cluster.store.image
        if image.deleting or self.pending.total():
            return False
        for place in self.places():
            known, copies = self.known(place), self.copies(place)
            assert known is not None
            ends = {each.log_end_offset for each in copies}
            counted = {each.high_watermark for each in copies}
            if set(known.isr) != set(known.replicas) or len(copies) != len(known.replicas):
                return False
            if len(ends) != 1 or counted != ends:
                return False
        hosted = {place_of(each) for broker in self.brokers.values() for each in broker.partitions}
        return hosted == set(self.places())

    async def _lead_again(self) -> None:
        """Who should lead a partition, and was away, does when it is asked to."""
        term = self.cluster.term
        assert term is not None
        term.take(term.machine.elect_leaders(elect(PREFERRED, *self.places())))
        await self.calm_down()
        for place in self.places():
            known = self.known(place)
            assert known is not None
            assert known.leader == known.replicas[0], (place, known)
            assert self._leader(place, known) is not None, (place, self.state())
