"""The simulated brokers of share groups, and the driver of a schedule.

laws.py has the invariants, events.py the events.  At the end of a schedule all brokers run, all
messages arrive, locks end, and one member accepts all records that it gets.  Then each record is in
a terminal state, and the next leader delivers none.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.promise import answered
from kwire.coordinators.share.batches import NO_OFFSET
from kwire.coordinators.share.partition import AcknowledgeType
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share_partitions.led import RETRY_MS
from kwire.coordinators.share_partitions.states import RETRY_PAUSES_S
from tests.cluster.replication.simulation.network import Network
from tests.coordinators.share_partitions.simulation.broker import (
    BROKERS,
    DELIVERIES,
    GROUP,
    LOCK_MS,
    TOPIC_ID,
    UPDATES_PER_SNAPSHOT,
    SharingBroker,
)
from tests.coordinators.share_partitions.simulation.dead_topic import DeadTopic
from tests.coordinators.share_partitions.simulation.laws import Instance, SharingLaws
from tests.coordinators.share_partitions.simulation.logs import DataLog, StateLog, StatePartition
from tests.coordinators.share_partitions.simulation.members import Member

PARTITIONS = STATE_PARTITIONS = 2
KEYS = [ShareKey(GROUP, TOPIC_ID, index) for index in range(PARTITIONS)]
MEMBERS = ("a", "b", "c")

ROUNDS_MAX = 400
"""Until it must have come to an end."""


class Led(NamedTuple):
    """The leader of a partition."""

    leader: int
    epoch: int
    since_epoch: int
    """The first epoch since which this broker leads without a break."""

    def moved_to(self, broker_id: int) -> Led:
        epoch = self.epoch + 1
        return Led(broker_id, epoch, self.since_epoch if broker_id == self.leader else epoch)


class World:
    """See the module."""

    def __init__(self, chance: random.Random, clock: MockClock) -> None:
        self.chance = chance
        self.clock = clock
        self.network = Network()
        self.keys = KEYS
        self.dead_topic = DeadTopic(self)
        self.data_logs = [DataLog() for _ in range(PARTITIONS)]
        self.state_logs = [StateLog() for _ in range(STATE_PARTITIONS)]
        self.data_leaders = [Led(1 + index, 1, 1) for index in range(PARTITIONS)]
        self.state_leaders = [Led(3 - index, 0, 0) for index in range(STATE_PARTITIONS)]
        logs = dict(zip(KEYS, self.data_logs, strict=True))
        self.laws = SharingLaws(logs, DELIVERIES, LOCK_MS, self.dead_topic)
        self.brokers = {each: SharingBroker(each, self) for each in BROKERS}
        self.members: dict[tuple[str, int], Member] = {}
        """(name, broker id) -> member, until the broker is killed."""
        self.state_epochs: Counter[ShareKey] = Counter()
        self.begun: set[ShareKey] = set()
        """The share partitions that the group may read."""
        self._beginning: set[ShareKey] = set()

    @property
    def seen(self) -> Counter[str]:
        return self.laws.seen

    @property
    def now_ms(self) -> int:
        return int(trio.current_time() * 1000)

    @property
    def alive(self) -> list[SharingBroker]:
        return [each for each in self.brokers.values() if each.is_alive]

    # -- driving

    async def run(self, steps: list[tuple[str, Any, int, int]]) -> None:
        async with self.begun_group():
            for number, (name, event, one, two) in enumerate(steps):
                try:
                    going_on = event(one, two)
                    if going_on is not None:
                        await going_on
                    await self.rest()
                except BaseException as problem:
                    problem.add_note(f"step {number}: {name}({one}, {two})")
                    raise
            await self.settle()

    @asynccontextmanager
    async def begun_group(self) -> AsyncIterator[None]:
        """Start brokers with records, and a group that begins to read them."""
        async with trio.open_nursery() as self.nursery:
            for broker in self.brokers.values():
                await self.nursery.start(broker.run)
            for index in range(STATE_PARTITIONS):
                self.move_state(index, self.state_leaders[index].leader)
            for log in self.data_logs:
                for _ in range(4):
                    log.append(6)
            await self.rest()
            for broker in self.brokers.values():
                if self.chance.random() < 0.7:
                    broker.learn()
            self.begin_at_first()
            if self.chance.random() < 0.7:
                await self.calm_down()
            yield
            self.nursery.cancel_scope.cancel()

    async def rest(self) -> None:
        await wait_all_tasks_blocked()
        led = (self.instance(broker, key) for broker in self.alive for key in KEYS)
        self.laws.check_locks([each for each in led if each is not None], self.now_ms)
        for member in self.members.values():
            member.check_waits_for_nothing()

    async def calm_down(self) -> None:
        """Let every message arrive and every append commit."""
        while True:
            self.commit()
            await self.rest()
            movable, dead = self.network.movable, list(self.dead_topic.calls)
            if not movable and not dead:
                return
            for call in movable:
                self.network.arrive(call)
            for dead_call in dead:
                self.dead_topic.move(dead_call)
            await self.rest()

    def commit(self) -> None:
        for log in self.state_logs:
            if log.leader is not None:
                log.leader.commit()

    async def pass_time(self, time_ms: float) -> None:
        self.clock.jump(time_ms / 1000)
        await self.rest()

    @property
    def is_writing(self) -> bool:
        """Whether a write of a share partition is under way."""
        led = (self.instance(broker, key) for broker in self.alive for key in KEYS)
        return any(
            run.is_changing for each in led if each is not None for run in each.led.records._runs
        )

    def check_no_lock_has_ended(self) -> None:
        """Check that no record is held past its lock; call this when nothing is under way."""
        for broker in self.alive:
            for key in KEYS:
                instance = self.instance(broker, key)
                if instance is not None:
                    self.laws.check_no_lock_has_ended(instance, self.now_ms)

    # -- brokers

    def move_data(self, index: int, broker_id: int) -> None:
        self.data_leaders[index] = self.data_leaders[index].moved_to(broker_id)

    def move_state(self, index: int, broker_id: int) -> None:
        """Another share coordinator leads; it has a part of the records that were not committed."""
        log, before = self.state_logs[index], self.state_leaders[index]
        self.state_leaders[index] = led = before.moved_to(broker_id)
        if log.leader is not None and led.since_epoch == before.since_epoch:
            return  # the same broker leads in a later epoch
        if log.leader is not None:
            tail = log.leader.tail
            log.keep(tail[: self.chance.randint(0, len(tail))])
        log.epoch = led.epoch
        log.leader = StatePartition(index, log)

    async def start(self, broker: SharingBroker) -> None:
        await wait_all_tasks_blocked()
        await self.nursery.start(broker.run)

    def kill(self, broker: SharingBroker) -> None:
        """Kill a broker; others become the leaders of its partitions."""
        others = [each.node_id for each in self.alive if each is not broker]
        if not others:
            return
        broker.kill()
        self.network.gone(broker.node_id)
        self.dead_topic.gone(broker.node_id, self.chance.random())
        for key in [key for key in self.members if key[1] == broker.node_id]:
            del self.members[key]
        for index, led in enumerate(self.data_leaders):
            if led.leader == broker.node_id:
                self.move_data(index, self.chance.choice(others))
        for index, led in enumerate(self.state_leaders):
            if led.leader == broker.node_id:
                self.move_state(index, self.chance.choice(others))

    def begin_at_first(self) -> None:
        """Initialize the share partitions; no member reads one before that has succeeded."""
        for key in KEYS:
            if key in self.begun or key in self._beginning:
                continue
            self._beginning.add(key)
            broker = self.chance.choice(self.alive)
            epoch = self._next_epoch(key, NO_OFFSET)
            broker.running_nursery.start_soon(self._begin, key, epoch, broker)

    async def _begin(self, key: ShareKey, epoch: int, broker: SharingBroker) -> None:
        try:
            answer = await answered(broker.shares.states.initialize(key, epoch, NO_OFFSET))
        finally:
            self._beginning.remove(key)
        if answer.error is ErrorCode.NONE:
            self.begun.add(key)

    def begin_anew(self, key: ShareKey, start_offset: int) -> None:
        """Initialize a share partition again.  The request is sent once, answered or not.

        Sent twice in the same state epoch it would begin again, and drop the acknowledgements in
        between.  Apache Kafka does the same: there no member reads the partition until its group
        has the answer.
        """
        if key not in self.begun:
            return
        for broker in self.alive:
            shard = broker.share.serving(key)
            if shard is not None and shard.is_current:
                epoch = self._next_epoch(key, start_offset)
                broker.share.initialize(key, epoch, start_offset)
                return

    def _next_epoch(self, key: ShareKey, start_offset: int) -> int:
        self.state_epochs[key] += 1
        self.laws.begins(key, self.state_epochs[key], start_offset)
        return self.state_epochs[key]

    def instance(self, broker: SharingBroker, key: ShareKey) -> Instance | None:
        """The open share partition of a broker, or None."""
        led = broker.shares._led.get(key)
        return None if led is None else self.laws.instances[id(led)]

    def member(self, name: str, broker: SharingBroker) -> Member:
        member = self.members.get((name, broker.node_id))
        if member is None:
            member = self.members[name, broker.node_id] = Member(name, broker, self)
        return member

    # -- the end

    async def settle(self) -> None:
        for broker in self.brokers.values():
            if not broker.is_alive:
                await self.start(broker)
            broker.learn()
        for _ in range(len(RETRY_PAUSES_S)):
            await self.calm_down()
            await self.pass_time(max(RETRY_PAUSES_S) * 1000)
        await self.calm_down()
        for name, broker_id in list(self.members):
            if self.chance.random() < 0.5:
                self.members[name, broker_id].disconnect()
        await self.calm_down()
        for log in self.data_logs:
            log.append(1)
        self.begin_at_first()
        await self.calm_down()
        for key in KEYS:
            await self._read_all(key)
        for states in self.state_logs:
            assert states.leader is not None
            assert states.leader.references.updates_max <= UPDATES_PER_SNAPSHOT
        for key in KEYS:
            await self._check_end(key)

    async def _summary(self, key: ShareKey) -> Any:  # noqa: ANN401 - an Answer
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await answered(self.brokers[1].shares.states.summary(key)))

        self.nursery.start_soon(ask)
        await self.rest()
        await self.calm_down()
        assert len(answers) == 1, "the request was not answered"
        return answers[0]

    async def _read_all(self, key: ShareKey) -> None:
        """One member accepts all records that are left."""
        broker = self.brokers[self.data_leaders[key.partition].leader]
        member = self.member("z", broker)
        log = self.data_logs[key.partition]
        for _ in range(ROUNDS_MAX):
            member.fetch(100, strict=False, max_wait_ms=0)
            await self.rest()
            await self.calm_down()
            instance = self.instance(broker, key)
            held = [] if instance is None else member.held(instance, locked_at_ms=self.now_ms)
            if instance is not None and held:
                member.acknowledge(instance, dict.fromkeys(held, AcknowledgeType.ACCEPT))
                await self.rest()
                await self.calm_down()
            elif instance is not None and instance.led.records.start_offset == log.end:
                break
            else:
                await self.pass_time(self.chance.choice([RETRY_MS + 1, LOCK_MS + 1]))
                await self.calm_down()
        else:
            raise AssertionError(f"{key} is never read to its end: {self.state(key)}")

    async def _check_end(self, key: ShareKey) -> None:
        led, log = self.data_leaders[key.partition], self.data_logs[key.partition]
        instance = self.instance(self.brokers[led.leader], key)
        assert instance is not None
        ledger = instance.ledger
        for offset in range(ledger.first, log.end):
            assert ledger.is_done(offset), ("lost", key, offset)
        state = (await self._summary(key)).state
        end = state.start_offset + state.delivery_complete_count
        assert end == log.end, ("wrong delivery complete count", state, log.end)
        self.move_data(key.partition, led.leader % len(BROKERS) + 1)
        for broker in self.brokers.values():
            broker.learn()
        broker = self.brokers[self.data_leaders[key.partition].leader]
        member = self.member("y", broker)
        for _ in range(2):
            member.fetch(100, strict=False, max_wait_ms=0)
            await self.rest()
            await self.calm_down()
        instance = self.instance(broker, key)
        assert instance is not None, "the share partition does not open"
        assert instance.led.records.start_offset == log.end, self.state(key)

    def state(self, key: ShareKey) -> str:
        return "; ".join(
            f"{broker.node_id}: {list(instance.led.records._runs)}"
            for broker in self.alive
            if (instance := self.instance(broker, key)) is not None
        )
