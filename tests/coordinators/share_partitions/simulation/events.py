"""The events of the simulation of share groups; three random numbers choose an event.

Some events create a moment that chance rarely finds: a share coordinator moves with an uncommitted
write; a write arrives after its connection was lost and its sender has retried; a leader changes
while its successor reads the state; a member leaves while its acknowledgement is being written.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable

from trio.testing import MockClock

from kwire.codecs.api_keys import ApiKey
from kwire.coordinators.share.batches import NO_OFFSET
from kwire.coordinators.share.partition import AcknowledgeType
from kwire.coordinators.share_partitions.dead_letter_queue import ATTEMPTS
from kwire.coordinators.share_partitions.led import RETRY_MS
from kwire.coordinators.share_partitions.states import RETRY_PAUSES_S
from tests.cluster.replication.simulation.network import Call
from tests.coordinators.share_partitions.simulation.broker import BROKERS, LOCK_MS, SharingBroker
from tests.coordinators.share_partitions.simulation.laws import Instance
from tests.coordinators.share_partitions.simulation.members import Kinds, Member
from tests.coordinators.share_partitions.simulation.world import (
    KEYS,
    MEMBERS,
    PARTITIONS,
    STATE_PARTITIONS,
    World,
)

Step = tuple[int, int, int]
Event = Callable[[int, int], Awaitable[object] | None]

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
KINDS = [
    *[ACCEPT] * 4, *[RELEASE] * 4,
    *[AcknowledgeType.REJECT] * 3, AcknowledgeType.GAP, AcknowledgeType.RENEW,
]  # fmt: skip
QUIET_STEP_MS = 4_000
"""Longer than the longest pause before a request to a share coordinator is repeated."""

QUEUED_WRITES_MAX = 12
"""Steps of quiet after which no write of a share partition waits any more."""

RECORDS_MAX = 240
"""Of a partition."""


class Events:
    """Turns three numbers into an event, so that a schedule can be drawn, shrunk and repeated."""

    def __init__(self, chance: random.Random, clock: MockClock) -> None:
        self.world = World(chance, clock)
        self.chance = chance
        self.network = self.world.network
        self._events: list[Event] = [
            *[self.fetch] * 10, *[self.acknowledge] * 12, *[self.net] * 10, *[self.commit] * 12,
            *[self.learn] * 8, *[self.tick] * 4, *[self.strike] * 8,
            *[self.fetch_and_acknowledge] * 4,
            self.claim, self.produce, self.produce, self.lose, self.lose, *[self.read_late] * 4,
            self.lock_ends, self.lock_ends, self.leave, self.disconnect,
            self.move_data, self.move_state, self.kill, self.begin_anew, self.delete_records,
            self.prune, self.all_learn, self.wait_for_locks, self.fail_writes, self.fail_writes,
            self.disconnect_at_rest, self.disconnect_at_rest, self.reconnect, *[self.see_ends] * 2,
            *[self.overtake_a_write] * 3, *[self.dead] * 8, self.lose_dead, *[self.reject] * 2,
            *[self.lose_dead_letters] * 3,
            *[self.read_dead_late] * 2, *[self.kill_between_topic_and_state] * 3,
        ]  # fmt: skip

    async def run(self, schedule: list[Step]) -> None:
        events = [self._events[number % len(self._events)] for number, _, _ in schedule]
        steps = [
            (event.__name__, event, one, two)
            for event, (_, one, two) in zip(events, schedule, strict=True)
        ]
        await self.world.run(steps)

    # -- members

    def _leader(self, one: int) -> SharingBroker | None:
        """A broker, mostly one that takes itself for the leader of a partition."""
        alive = self.world.alive
        leaders = [each for each in alive if any(led.is_leader for led in each.partitions)]
        brokers = alive if one % 13 == 0 else leaders
        return brokers[one % len(brokers)] if brokers else None

    def fetch(self, one: int, two: int) -> None:
        if len(self.world.begun) < PARTITIONS:
            self.world.begin_at_first() if two % 4 == 0 else self.net(one, two)
        broker = self._leader(one)
        if broker is not None and len(self.world.begun) == PARTITIONS:
            self.world.member(MEMBERS[two % len(MEMBERS)], broker).fetch(
                (1, 4, 9, 100)[one % 4],
                strict=two % 2 == 0,
                max_wait_ms=(0, 700, LOCK_MS + 5_000)[one % 3],
            )

    def _holders(self) -> list[tuple[Member, Instance]]:
        return [
            (member, instance)
            for member in self.world.members.values()
            for instance in member._instances
            if not member.is_busy and member.epoch and member.held(instance)
        ]

    def _kinds(self, offsets: list[int], one: int, two: int) -> Kinds:
        """Acknowledgements of some neighbouring offsets, of one type or two."""
        at = one % len(offsets)
        some = offsets[at : at + 1 + two % 8] if two % 5 else offsets
        kind = KINDS[(one + two) % len(KINDS)]
        kinds = dict.fromkeys(some, kind)
        if kind is not AcknowledgeType.RENEW and two % 3 == 0:
            kinds[some[0]] = RELEASE if kind is ACCEPT else ACCEPT
        return kinds

    def acknowledge(self, one: int, two: int) -> None:
        holders = self._holders()
        if holders:
            member, instance = holders[one % len(holders)]
            kinds = self._kinds(member.held(instance), one, two)
            # A session that ends releases the records whose locks the same request renews.
            leaves = two % 11 == 0 and AcknowledgeType.RENEW not in kinds.values()
            member.acknowledge(instance, kinds, leaves=leaves)

    def acknowledge_all(self, two: int) -> None:
        """Every member that has records and no request under way accepts some of them."""
        for member, instance in self._holders():
            held = member.held(instance)
            member.acknowledge(instance, dict.fromkeys(held[: 1 + two % len(held)], ACCEPT))

    def fetch_and_acknowledge(self, one: int, two: int) -> None:
        holders = self._holders()
        if not holders:
            return
        member, instance = holders[one % len(holders)]
        kinds = self._kinds(member.held(instance), one, two)
        if AcknowledgeType.RENEW not in kinds.values():
            acknowledged = {instance.key.partition: (instance, kinds)}
            member.fetch(9, strict=False, max_wait_ms=500, acknowledged=acknowledged)

    def claim(self, one: int, two: int) -> None:
        """Acknowledge records, whoever has them."""
        members = list(self.world.members.values())
        if not members:
            return
        member = members[one % len(members)]
        for instance in member._instances:
            at = instance.led.records.start_offset + two % 12
            offsets = list(range(at, at + 1 + one % 4))
            member.acknowledge(instance, dict.fromkeys(offsets, KINDS[two % len(KINDS)]))

    def leave(self, one: int, two: int) -> None:
        members = [each for each in self.world.members.values() if each._instances]
        if members:
            member = members[one % len(members)]
            member.acknowledge(member._instances[0], {}, leaves=True)

    def disconnect(self, one: int, two: int) -> None:
        members = list(self.world.members.values())
        if members:
            members[one % len(members)].disconnect()

    async def disconnect_at_rest(self, one: int, two: int) -> None:
        """A member's connection ends while nothing is under way: its records are released."""
        await self.world.calm_down()
        idle = [member for member, _ in self._holders()]
        if not idle:
            return
        member = idle[one % len(idle)]
        member.disconnect()
        await self.world.calm_down()
        for instance in member._instances:
            self.world.laws.check_has_nothing(instance, member.name)
        self.world.seen["disconnected at rest"] += 1

    def reconnect(self, one: int, two: int) -> None:
        """A member changes its connection; the broker sees the end of the first one later."""
        members = list(self.world.members.values())
        if members:
            members[one % len(members)].reconnect()

    def see_ends(self, one: int, two: int) -> None:
        for member in self.world.members.values():
            member.broker_sees_end()

    # -- time and records

    def tick(self, one: int, two: int) -> None:
        self.world.clock.jump((1, 60, 450, RETRY_MS, 4_000)[one % 5] / 1000)

    def lock_ends(self, one: int, two: int) -> None:
        self.world.clock.jump((LOCK_MS - 1, LOCK_MS, LOCK_MS + 1)[one % 3] / 1000)

    async def wait_for_locks(self, one: int, two: int) -> None:
        """Every message arrives, and time passes until each lock has ended."""
        self.all_learn(one, two)
        await self.world.calm_down()
        for _ in range(-(-(LOCK_MS + RETRY_MS) // QUIET_STEP_MS) + 1):
            await self.world.pass_time(QUIET_STEP_MS)
            await self.world.calm_down()
        for _ in range(QUEUED_WRITES_MAX):  # a write waits behind earlier ones, each repeated
            if not self.world.is_writing:
                break
            await self.world.pass_time(QUIET_STEP_MS)
            await self.world.calm_down()
        self.world.check_no_lock_has_ended()
        self.world.seen["waited for locks"] += 1

    async def fail_writes(self, one: int, two: int) -> None:
        """The brokers do not reach each other for longer than a leader repeats its writes.

        The writes are acknowledgements, or records whose lock has ended.
        """
        if one % 2:
            self.world.clock.jump(LOCK_MS / 1000)
        else:
            self.acknowledge_all(two)
        await self.world.rest()
        for _ in range(len(RETRY_PAUSES_S) + 1):
            for call in self.network.movable:
                self._lose(call)
            await self.world.pass_time(max(RETRY_PAUSES_S) * 1000)
        self.world.seen["writes failed"] += 1

    def produce(self, one: int, two: int) -> None:
        log = self.world.data_logs[one % PARTITIONS]
        if log.end > RECORDS_MAX:
            return
        log.append(1 + two % 30)
        for broker in self.world.alive:
            for waiter in tuple(broker.partitions[one % PARTITIONS].fetch_waiters):
                waiter.data_arrived(1 << 20)

    def delete_records(self, one: int, two: int) -> None:
        """As DeleteRecords does, or retention."""
        log = self.world.data_logs[one % PARTITIONS]
        log.start = min(log.start + two % 9, log.end)

    # -- messages

    def net(self, one: int, two: int) -> None:
        movable = self.network.movable
        for _ in range(1 + two % 3):
            if movable:
                self.network.arrive(movable.pop(one % len(movable)))

    def lose(self, one: int, two: int) -> None:
        movable = self.network.movable
        if movable:
            self._lose(movable[one % len(movable)])

    def _lose(self, call: Call) -> None:
        self.world.seen["lost"] += 1
        if call.request.API_KEY == ApiKey.INITIALIZE_SHARE_GROUP_STATE:
            call.fail()  # see World.begin_anew
        else:
            self.network.lose(call)

    def read_late(self, one: int, two: int) -> None:
        """A request of a lost connection is read after all; it may be a write that is too late."""
        if self.network.read_late(one):
            self.world.seen["read late"] += 1

    # -- the dead-letter topic

    def dead(self, one: int, two: int) -> None:
        """Appends to the dead-letter topic, and their answers, arrive."""
        calls = self.world.dead_topic.calls
        for _ in range(1 + two % 3):
            if calls:
                self.world.dead_topic.move(calls[one % len(calls)])

    def lose_dead(self, one: int, two: int) -> None:
        """The connection to the topic is lost, but not in so many attempts that one gives up."""
        calls = self.world.dead_topic.calls
        if not calls:
            return
        call = calls[one % len(calls)]
        lanes = self.world.brokers[call.source].shares.dead_letters._lanes
        if all(entry.attempts < ATTEMPTS - 1 for lane in lanes.values() for entry in lane):
            self.world.dead_topic.lose(call, is_late=two % 2 == 0)
            self.world.seen["dead letters lost"] += 1

    def read_dead_late(self, one: int, two: int) -> None:
        self.world.dead_topic.read_late()

    async def reject(self, one: int, two: int) -> bool:
        """A member rejects records; returns whether their dead letters are on their way.

        All other messages arrive.
        """
        holders = self._holders()
        if holders:
            member, instance = holders[one % len(holders)]
            held = member.held(instance)
            kinds = dict.fromkeys(held[: 1 + two % len(held)], AcknowledgeType.REJECT)
            member.acknowledge(instance, kinds)
        calls = self.world.dead_topic.calls
        while not calls:
            self.world.commit()
            await self.world.rest()
            movable = self.network.movable
            if not movable:
                break
            for call in movable:
                self.network.arrive(call)
            await self.world.rest()
        return bool(calls)

    async def lose_dead_letters(self, one: int, two: int) -> None:
        """Dead letters are lost on their way, or their answer is."""
        if await self.reject(one, two):
            if one % 3:
                self.dead(one, 0)
            self.lose_dead(one, two)

    async def kill_between_topic_and_state(self, one: int, two: int) -> None:
        """A broker is killed when dead letters are on their way, or written and not archived."""
        if not await self.reject(one, two):
            return
        call = self.world.dead_topic.calls[0]
        broker = self.world.brokers[call.source]
        for _ in range(two % 3):
            self.world.dead_topic.move(call)
        await self.world.rest()
        if all(each.is_alive for each in self.world.brokers.values()):
            self.world.kill(broker)
            self.world.seen["killed with dead letters"] += 1

    # -- leaders

    def commit(self, one: int, two: int) -> None:
        if one % 3:
            self.world.commit()
        else:
            leader = self.world.state_logs[two % STATE_PARTITIONS].leader
            assert leader is not None
            leader.commit()

    def learn(self, one: int, two: int) -> None:
        alive = self.world.alive
        alive[one % len(alive)].learn()

    def all_learn(self, one: int, two: int) -> None:
        for broker in self.world.alive:
            broker.learn()

    def _someone(self, two: int) -> int:
        alive = self.world.alive
        return alive[two % len(alive)].node_id

    def move_data(self, one: int, two: int) -> None:
        """The new leader learns it first, or the old one, or no broker."""
        before = self.world.data_leaders[one % PARTITIONS].leader
        after = self._someone(two)
        self.world.move_data(one % PARTITIONS, after)
        heard = self.world.brokers[after if two % 3 else before]
        if heard.is_alive and one % 4:
            heard.learn()

    def move_state(self, one: int, two: int) -> None:
        after = self._someone(two)
        self.world.move_state(one % STATE_PARTITIONS, after)
        if two % 3:
            self.world.brokers[after].learn()

    def kill(self, one: int, two: int) -> None:
        """Kill a broker, or start all that were killed."""
        dead = [each for each in self.world.brokers.values() if not each.is_alive]
        if dead:
            for broker in dead:
                self.world.nursery.start_soon(self.world.start, broker)
        else:
            self.world.kill(self.world.brokers[BROKERS[one % len(BROKERS)]])

    def begin_anew(self, one: int, two: int) -> None:
        key = KEYS[one % len(KEYS)]
        log = self.world.data_logs[key.partition]
        start_offset = (NO_OFFSET, 0, log.start + two % max(log.end - log.start, 1))[two % 3]
        self.world.begin_anew(key, start_offset)

    def prune(self, one: int, two: int) -> None:
        if self.world.state_logs[one % STATE_PARTITIONS].prune():
            self.world.seen["pruned"] += 1

    # -- moments that matter

    def strike(self, one: int, two: int) -> None:
        moments = [self._while_a_write_is_under_way, self._while_a_successor_reads]
        moments += [self._while_an_acknowledgement_is_under_way, self._between_append_and_commit]
        for moment in moments[one % len(moments) :][:2]:
            if moment(one // len(moments), two):
                self.world.seen[moment.__name__.strip("_")] += 1
                return

    def _between_append_and_commit(self, one: int, two: int) -> bool:
        """The share coordinator moves."""
        indexes = [
            index
            for index, log in enumerate(self.world.state_logs)
            if log.leader is not None and log.leader.tail
        ]
        if indexes:
            self.world.move_state(indexes[one % len(indexes)], self._someone(two))
            if two % 3:
                self.all_learn(one, two)
        return bool(indexes)

    def _calls(self, api_key: ApiKey) -> list[Call]:
        return [each for each in self.network.movable if api_key == each.request.API_KEY]

    def _while_a_write_is_under_way(self, one: int, two: int) -> bool:
        """Its request or its response is lost, or its sender stops leading."""
        writes = self._calls(ApiKey.WRITE_SHARE_GROUP_STATE)
        if writes:
            if two % 3:
                self._lose(writes[one % len(writes)])
            else:
                self.move_data(one, two)
        return bool(writes)

    async def overtake_a_write(self, one: int, two: int) -> None:
        """A leader's write arrives after its successor has read the share state."""
        writes = self._calls(ApiKey.WRITE_SHARE_GROUP_STATE)
        if not writes:
            return
        write = writes[one % len(writes)]
        others = [broker for broker in self.world.alive if broker.node_id != write.source]
        if not others:
            return
        index = write.request.topics[0].partitions[0].partition  # type: ignore[attr-defined]  # its own
        successor = others[two % len(others)]
        self.world.move_data(index, successor.node_id)
        self.all_learn(one, two)
        self.world.member(MEMBERS[two % len(MEMBERS)], successor).fetch(
            9, strict=False, max_wait_ms=500
        )
        for _ in range(3):
            await self.world.rest()
            for call in self.network.movable:
                if call is not write:
                    self.network.arrive(call)
            self.world.commit()
        if write in self.network.movable:
            self.network.arrive(write)
            self.world.seen["overtook a write"] += 1

    def _while_a_successor_reads(self, one: int, two: int) -> bool:
        reads = self._calls(ApiKey.READ_SHARE_GROUP_STATE)
        for call in reads[:1]:
            index = call.request.topics[0].partitions[0].partition  # type: ignore[attr-defined]  # its own
            self.world.move_data(index, self._someone(two))
            if two % 2:
                self.all_learn(one, two)
                self.world.move_data(index, call.source)  # it may lead again before the answer
                self.all_learn(one, two)
        return bool(reads)

    def _while_an_acknowledgement_is_under_way(self, one: int, two: int) -> bool:
        """Its member disconnects, its lock ends, or the log start offset rises."""
        busy = [
            member
            for member in self.world.members.values()
            if any(hold.pending for each in member._instances for hold in each.holds.values())
        ]
        if busy:
            if two % 3 == 0:
                busy[one % len(busy)].disconnect()
            elif two % 3 == 1:
                self.world.clock.jump(LOCK_MS / 1000)
            else:
                self.delete_records(one, two)
        return bool(busy)


async def simulate(schedule: list[Step], seed: int, clock: MockClock) -> Counter[str]:
    """Run a schedule; returns how often each thing happened."""
    events = Events(random.Random(seed), clock)
    await events.run(schedule)
    return events.world.seen
