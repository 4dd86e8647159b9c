"""Brokers that replicate by metadata records, their controllers, a network, clients.

events.py says what may happen; laws.py what must hold.  In the end first all but one broker are
well, and what can be acknowledged without it must be; then all come back: replicas are equal,
deleted topics are gone, and preferred leaders lead.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.metadata.image import NO_LEADER, PartitionImage
from kwire.codecs.messages.alter_partition import AlterPartitionRequest
from kwire.codecs.primitives import Message
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.metadata_simulation.brokers import MetadataBroker
from tests.cluster.replication.metadata_simulation.controllers import Controllers, Where
from tests.cluster.replication.metadata_simulation.deciding import Rules
from tests.cluster.replication.metadata_simulation.laws import MetadataLaws
from tests.cluster.replication.simulation.broker import CONTROLLER
from tests.cluster.replication.simulation.laws import Place, bytes_of
from tests.cluster.replication.simulation.network import Network

TOPIC = "t"
BROKERS = (1, 2, 3)
REPLICAS = ((1, 2, 3), (2, 3, 1), (3, 1, 2))

ROUNDS_MAX = 80
"""Until it must have come to rest."""
PATIENCE = 20
"""Rounds after which an operator elects leaders."""

Happening = Callable[[int, int], Awaitable[None]]


class World:
    """All of it, and how it is driven."""

    def __init__(self, base: Path, chance: random.Random, clock: MockClock) -> None:
        self.chance = chance
        self.clock = clock
        self.network = Network()
        self.seen: Counter[str] = Counter()
        self.laws = MetadataLaws(self)
        self.rules = Rules(chance.random() < 0.7, chance.choice([1, 2, 2]))
        self.may_lose = chance.random() < 0.25
        self._looked_at = 0
        """How often the end was looked at."""
        """Whether administrators ask for unclean elections."""
        self.controllers = Controllers(self.rules, self._elected_lossy)
        settings = {
            "min.insync.replicas": str(self.rules.min_isr),
            "log.flush.interval.messages": str(chance.choice([1, 3, 1 << 40])),
        }
        self.brokers = {
            each: MetadataBroker(
                each, base, self.network, self.controllers, settings, self.laws.check_leader
            )
            for each in BROKERS
        }
        self.pending: Counter[tuple[int, Place]] = Counter()
        """Producers that wait for an answer, by broker and partition."""
        self.produced = 0

    # -- driving

    async def run(self, steps: list[tuple[str, Happening, int, int]]) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.network.handlers[CONTROLLER] = (self._ask_controllers, nursery)
            await self.begin()
            for number, (name, event, one, two) in enumerate(steps):
                try:
                    await event(one, two)
                    await wait_all_tasks_blocked()
                    self.laws.check()
                except Exception as problem:
                    problem.add_note(f"step {number}: {name}({one}, {two})")
                    raise
            await self.settle()
            nursery.cancel_scope.cancel()

    async def _ask_controllers(self, request: Message, version: int) -> Message | None:
        assert isinstance(request, AlterPartitionRequest)
        return self.controllers.alter_partition(request)

    async def begin(self) -> None:
        for broker in self.brokers.values():
            await self.start(broker)
        await self.calm_down(3)
        self.controllers.create(TOPIC, REPLICAS)
        await self.calm_down()

    async def start(self, broker: MetadataBroker) -> None:
        """Start a process, whose earlier session is over by then."""
        await wait_all_tasks_blocked()
        await self._nursery.start(broker.run)
        if broker.id in self.controllers.image.brokers:
            self.controllers.fence(broker.id)
        assert broker.register()

    async def come_back(self, broker: MetadataBroker) -> None:
        """A broker is well: one that wanted to go goes, and one that is gone starts."""
        process = broker.process
        if process is not None and (process.logs.offline_dirs or process.is_leaving):
            broker.kill()
        if broker.process is None:
            await self.start(broker)

    async def calm_down(self, rounds: int = 12) -> None:
        """What is under way happens."""
        for _ in range(rounds):
            for broker in self.brokers.values():
                self.hear(broker)
            for each in self.network.movable:
                self.network.arrive(each)
            await wait_all_tasks_blocked()

    def hear(self, broker: MetadataBroker) -> None:
        """A broker that reaches the controllers hears of all that they wrote."""
        if (broker.id, CONTROLLER) not in self.network.cut:
            broker.learn()
            broker.beat()
            broker.assign()

    # -- what there is

    @property
    def observed(self) -> Mapping[int, MetadataBroker]:
        return self.brokers

    def is_deleting(self, topic: str) -> bool:
        return False

    def place(self, where: Where) -> Place:
        return f"{where[0]} {self.controllers.image.topics[where[0]].id.hex()}", where[1]

    def known(self, place: Place) -> PartitionImage | None:
        """The truth about a partition; None if its topic is deleted."""
        where = place[0].partition(" ")[0], place[1]
        if where[0] not in self.controllers.image.topics or self.place(where) != place:
            return None
        return self.controllers.partition(where)

    def copies(self, where: Where) -> list[Partition]:
        place = self.place(where)
        return [
            each
            for broker in self.brokers.values()
            for each in broker.partitions
            if self.laws.place_of(each) == place
        ]

    def state(self) -> str:
        return (
            "; ".join(
                f"{broker.id}: {each.topic}-{each.index} leader {each.leader} epoch"
                f" {each.leader_epoch}/{each.partition_epoch} isr {each.isr}"
                f" hw {each.high_watermark} end {each.log_end_offset}"
                for broker in self.brokers.values()
                for each in broker.partitions
            )
            + f" | {dict(self.controllers.image.topics)}"
            f" | live {list(self.controllers.image.brokers)} | {self.rules}"
        )

    def _elected_lossy(self, topic_id: bytes, index: int, leader: int) -> None:
        topic = self.controllers.image.topic_by_id(topic_id)
        assert topic is not None
        where = topic.name, index
        epoch = self.controllers.partition(where).leader_epoch + 1
        log = next((each for each in self.copies(where) if each.node_id == leader), None)
        self.laws.note_lossy(self.place(where), epoch, log)

    # -- the end

    async def settle(self) -> None:
        self.network.cut.clear()
        away = self.chance.choice([None, *BROKERS])
        if away is not None:
            await self._go_on_without(away)
        self.network.cut.clear()
        for broker in self.brokers.values():
            await self.come_back(broker)
        await self._until(self._is_settled_with_help, "it never comes to rest")
        for where in self.controllers.wheres():
            copies = self.copies(where)
            assert len({bytes_of(each.log) for each in copies}) == 1, ("replicas differ", where)
            for partition in copies:
                self.laws.check_has_all(partition)
        await self._lead_again()

    async def _go_on_without(self, away: int) -> None:
        """All others are well: what can be acknowledged without it is."""
        broker, others = self.brokers[away], [each for each in BROKERS if each != away]
        if self.chance.random() < 0.5:
            broker.kill()
        else:
            self.network.cut |= {(away, each) for each in (*others, CONTROLLER)}
            self.network.cut |= {(each, away) for each in others}
        if away in self.controllers.image.brokers:
            self.controllers.fence(away)
        for each in others:
            await self.come_back(self.brokers[each])
        await self._until(self._goes_on, "what could be acknowledged is not")

    async def _until(self, is_so: Callable[[], bool], otherwise: str) -> None:
        for _ in range(ROUNDS_MAX):
            await self.calm_down(4)
            self.clock.jump(0.7)
            await wait_all_tasks_blocked()
            self.laws.check()
            if is_so():
                return
        raise AssertionError(f"{otherwise}: {self.state()}")

    def _goes_on(self) -> bool:
        """Whether all that a living leader may count does, and who waited for that is answered."""
        for where in self.controllers.wheres():
            known = self.controllers.partition(where)
            if known.leader == NO_LEADER:
                continue
            leader = self._leader(where, known)
            if leader is None:
                return False
            if leader.is_under_min_isr:
                continue
            if leader.high_watermark != leader.log_end_offset:
                return False
            if self.pending[leader.node_id, self.place(where)]:
                return False
        return True

    def _leader(self, where: Where, known: PartitionImage) -> Partition | None:
        for each in self.copies(where):
            if each.node_id == known.leader and each.leader_epoch == known.leader_epoch:
                return each if each.is_leader else None
        return None

    def _is_settled_with_help(self) -> bool:
        """After a while, an operator elects a leader of each partition that still has none.

        All brokers are back.  The controllers elect none without an event if the last known leader
        is not the only candidate, or has got its log directory meanwhile.
        """
        self._looked_at += 1
        if self._looked_at > PATIENCE:
            for where in self.controllers.wheres():
                if self.controllers.partition(where).leader == NO_LEADER:
                    self.controllers.elect(where, unclean=True)
        return self._is_settled()

    def _is_settled(self) -> bool:
        if self.pending.total():
            return False
        wanted = set()
        for where in self.controllers.wheres():
            known, copies = self.controllers.partition(where), self.copies(where)
            wanted |= {(self.place(where), each) for each in known.replicas}
            ends = {each.log_end_offset for each in copies}
            counted = {each.high_watermark for each in copies}
            if set(known.isr) != set(known.replicas) or len(copies) != len(known.replicas):
                return False
            if len(ends) != 1 or counted != ends or known.adding or known.removing:
                return False
            if not all(self._is_placed(each, known) for each in copies):
                return False
        hosted = {
            (self.laws.place_of(each), broker.id)
            for broker in self.brokers.values()
            for each in broker.partitions
        }
        return hosted == wanted

    def _is_placed(self, partition: Partition, known: PartitionImage) -> bool:
        """Whether the controllers know the log directory of a replica."""
        process = self.brokers[partition.node_id].process
        assert process is not None
        directory = known.directories[known.replicas.index(partition.node_id)]
        return process.directory_ids[partition.log.dir.parent] == directory

    async def _lead_again(self) -> None:
        """Who should lead a partition, and was away, does when it is asked to."""
        for where in self.controllers.wheres():
            self.controllers.elect(where)
        await self.calm_down()
        for where in self.controllers.wheres():
            known = self.controllers.partition(where)
            assert known.leader == known.replicas[0], (where, known)
            assert self._leader(where, known) is not None, (where, self.state())
