"""Random events in a cluster: invariants that hold throughout and at the end.

After each change (laws.py): each epoch has at most one leader, also in the view of brokers; leader
epochs only grow; the ISR consists of replicas, and only a leader adds to it; an out-of-sync replica
leads only if that is allowed.  Once all is committed, only members lead or are in sync, except for
the last in-sync replica.  When all brokers are back and nothing is left to do, every broker has the
state of the image, and all deletions and reassignments have ended.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cluster.controller.elections import UNCLEAN as UNCLEAN_ELECTION
from kwire.cluster.controller.state import TopicPartition
from kwire.cluster.metadata.changes import (
    AddPartitions,
    Change,
    CreateTopic,
    Decision,
    MarkForDeletion,
    SetConfigs,
)
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from kwire.cluster.metadata.placement import new_partition
from kwire.codecs.messages.controlled_shutdown import ControlledShutdownRequest
from kwire.settings import BrokerConfig
from tests.cluster.controller.laws import UNCLEAN
from tests.cluster.controller.requests import elect, reassign
from tests.cluster.controller.simulation import Cluster, Term

BROKERS = 4
TOPICS = ("a", "b")
CONFIG = BrokerConfig({"node.id": "1"})

Step = tuple[int, int, int]


class Events:
    """Turns three numbers into an event, so that schedules can be drawn, shrunk and repeated."""

    def __init__(self) -> None:
        self.cluster = Cluster(BROKERS, CONFIG)
        self.made = 0
        self._events = [
            *[self.deliver] * 8,
            *[self.work] * 8,
            *[self.see] * 3,
            *[self.isr] * 4,
            self.kill, self.kill, self.start, self.start, self.start,
            self.create, self.create, self.grow, self.delete,
            self.elect, self.depose, self.work_and_lose,
            self.fail_disk, self.make_room, self.shut_down, self.balance,
            *[self.reassign] * 2, self.cancel, self.elect_leaders,
            self.set_unclean, self.old_work, self.old_deliver,
            self.loses_answer, self.isr_by_store, self.work_while_one_dies,
        ]  # fmt: skip

    def happen(self, step: Step, *, one_controller: bool = False) -> None:
        """Do one event; `one_controller` skips those that would end the present controller."""
        kind, one, two = step
        event = self._events[kind % len(self._events)]
        term = self.cluster.term
        if one_controller and term is not None:
            if event in (self.elect, self.depose, self.work_and_lose):
                return
            if event in (self.kill, self.start, self.work_while_one_dies):
                one += self.broker(one) == term.node_id
        event(one, two)

    # -- what there is

    @property
    def image(self) -> ClusterImage:
        return self.cluster.store.image

    def broker(self, number: int) -> int:
        return number % BROKERS + 1

    def topic_partition(self, number: int) -> TopicPartition | None:
        topic_partitions = [
            (name, index)
            for name in sorted(self.image.topics)
            for index in range(len(self.image.topics[name].partitions))
        ]
        return topic_partitions[number % len(topic_partitions)] if topic_partitions else None

    def replicas(self, number: int) -> list[int]:
        drawn = random.Random(number)
        return drawn.sample(range(1, BROKERS + 1), drawn.randint(1, 3))

    def decide(self, decision: Decision) -> None:
        from kwire.cluster.controller.effects import ControllerEffects

        if self.cluster.term is not None:
            self.cluster.term.take(ControllerEffects(decisions=[decision]))

    def working(self, term: Term) -> None:
        if term.is_over and self.cluster.term is term:
            self.cluster.term = None

    # -- events

    def deliver(self, one: int, two: int) -> None:
        if self.cluster.term is not None:
            self.cluster.deliver(self.cluster.term, self.broker(one))

    def loses_answer(self, one: int, two: int) -> None:
        if self.cluster.term is not None:
            self.cluster.deliver(self.cluster.term, self.broker(one), answer_arrives=False)

    def old_deliver(self, one: int, two: int) -> None:
        if self.cluster.deposed:
            self.cluster.deliver(
                self.cluster.deposed[two % len(self.cluster.deposed)], self.broker(one)
            )

    def work(self, one: int, two: int) -> None:
        if self.cluster.term is not None:
            self.cluster.term.work()
            self.working(self.cluster.term)

    def work_and_lose(self, one: int, two: int) -> None:
        if self.cluster.term is not None:
            self.cluster.term.work(made_at_most=one % 3)
            self.working(self.cluster.term)

    def work_while_one_dies(self, one: int, two: int) -> None:
        term = self.cluster.term
        if term is not None:
            term.work(meanwhile=lambda: self.cluster.kill(self.broker(one)))
            self.working(term)

    def old_work(self, one: int, two: int) -> None:
        if self.cluster.deposed:
            self.cluster.deposed[one % len(self.cluster.deposed)].work()

    def see(self, one: int, two: int) -> None:
        if self.cluster.term is not None:
            self.cluster.term.see(1 + one % 3)

    def kill(self, one: int, two: int) -> None:
        self.cluster.kill(self.broker(one))

    def start(self, one: int, two: int) -> None:
        self.cluster.start(self.broker(one))

    def elect(self, one: int, two: int) -> None:
        if self.cluster.live:
            self.cluster.elect(self.cluster.live[one % len(self.cluster.live)])

    def depose(self, one: int, two: int) -> None:
        self.cluster.depose()

    def create(self, one: int, two: int) -> None:
        name = TOPICS[one % len(TOPICS)]
        self.made += 1
        topic_id = self.made.to_bytes(16, "big")
        partitions = [self._partition(two + each) for each in range(1 + one % 3)]

        def create(image: ClusterImage) -> Change | None:
            if name in image.topics:
                return None
            return CreateTopic(TopicImage(name, topic_id, tuple(partitions)))

        self.decide(create)

    def _partition(self, number: int) -> PartitionImage:
        replicas = self.replicas(number)
        if number % 2 and set(replicas) <= self.image.brokers.keys():
            return new_partition(replicas)
        return unassigned_partition(tuple(replicas))

    def grow(self, one: int, two: int) -> None:
        name = TOPICS[one % len(TOPICS)]
        partition = unassigned_partition(tuple(self.replicas(two)))

        def grow(image: ClusterImage) -> Change | None:
            topic = image.topics.get(name)
            if topic is None or len(topic.partitions) > 4 or name in image.deleting:
                return None
            return AddPartitions(name, topic.id, len(topic.partitions), (partition,))

        self.decide(grow)

    def delete(self, one: int, two: int) -> None:
        name = TOPICS[one % len(TOPICS)]

        def mark(image: ClusterImage) -> Change | None:
            topic = image.topics.get(name)
            return None if topic is None else MarkForDeletion(name, topic.id)

        self.decide(mark)

    def set_unclean(self, one: int, two: int) -> None:
        name = TOPICS[one % len(TOPICS)]
        if name in self.image.topics:
            before = self.image.configs_of(TOPIC_RESOURCE, name)
            self.cluster.laws.unclean.add(self.image.topics[name].id)
            configs = {} if two % 3 == 0 else {UNCLEAN: "true"}
            self.cluster.store.make([SetConfigs(TOPIC_RESOURCE, name, before, configs)])

    def isr(self, one: int, two: int) -> None:
        topic_partition = self.topic_partition(one)
        if topic_partition is not None:
            self.cluster.propose_isr(
                topic_partition, [*self.replicas(two), *self.replicas(two + 1)]
            )

    def isr_by_store(self, one: int, two: int) -> None:
        topic_partition = self.topic_partition(one)
        if topic_partition is not None and self.cluster.term is not None:
            self.cluster.term.take(self.cluster.term.machine.isr_changed([topic_partition]))

    def reassign(self, one: int, two: int) -> None:
        topic_partition = self.topic_partition(one)
        if topic_partition is not None and self.cluster.term is not None:
            request = reassign(topic_partition, self.replicas(two))
            self.cluster.term.take(self.cluster.term.machine.alter_reassignments(request))

    def cancel(self, one: int, two: int) -> None:
        topic_partition = self.topic_partition(one)
        if topic_partition is not None and self.cluster.term is not None:
            request = reassign(topic_partition, None)
            self.cluster.term.take(self.cluster.term.machine.alter_reassignments(request))

    def elect_leaders(self, one: int, two: int) -> None:
        topic_partition = self.topic_partition(one)
        if topic_partition is not None and self.cluster.term is not None:
            if two % 2 == UNCLEAN_ELECTION:
                self.cluster.laws.unclean.add(self.image.topics[topic_partition[0]].id)
            request = elect(two % 2, topic_partition)
            self.cluster.term.take(self.cluster.term.machine.elect_leaders(request))

    def shut_down(self, one: int, two: int) -> None:
        broker = self.cluster.brokers[self.broker(one)]
        if broker.is_alive and self.cluster.term is not None:
            request = ControlledShutdownRequest(broker.id, broker.epoch)
            self.cluster.term.take(self.cluster.term.machine.controlled_shutdown(request))

    def balance(self, one: int, two: int) -> None:
        if self.cluster.term is not None and self.cluster.term.timers:
            self.cluster.term.take(self.cluster.term.machine.timer_fired("balancing"))

    def fail_disk(self, one: int, two: int) -> None:
        broker = self.cluster.brokers[self.broker(one)]
        logs = sorted(broker.logs)
        if logs and broker.is_alive:
            self.cluster.fail_disk(broker, logs[two % len(logs)])

    def make_room(self, one: int, two: int) -> None:
        self.cluster.make_room(self.cluster.brokers[self.broker(one)])


def run(schedule: list[Step], *, anew: bool = False) -> Events:
    """Run a schedule, then settle; see Cluster.settle for `anew`.

    Without it one controller sees the last half of the events.
    """
    events = Events()
    last_half = len(schedule) // 2
    for number, step in enumerate(schedule):
        if number == last_half and not anew and events.cluster.term is None:
            events.start(0, 0)
            events.cluster.elect(1)
        events.happen(step, one_controller=number >= last_half and not anew)
    events.cluster.check_members()
    events.cluster.settle(anew=anew)
    events.cluster.check_settled()
    return events


numbers = st.integers(0, 999)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=120), st.booleans())
def test_random_schedule_keeps_the_laws(schedule: list[Step], anew: bool) -> None:
    run(schedule, anew=anew)


def drawn(seed: int) -> list[Step]:
    draw = random.Random(seed)
    length = draw.randint(1, 400)
    return [(draw.randrange(999), draw.randrange(999), draw.randrange(999)) for _ in range(length)]


@pytest.mark.slow
def test_seeded_schedules_keep_the_laws_and_cover_all_events() -> None:
    """The count of each kind of event shows that the schedules do something."""
    seen: Counter[str] = Counter()
    for seed in range(100):
        seen += run(drawn(seed), anew=seed % 2 == 0).cluster.laws.seen
    assert seen.keys() == {
        "begun",
        "led by another",
        "led by nobody",
        "unclean",
        "reassigned",
        "in sync",
        "deleted",
    }
    assert min(seen.values()) >= 5, seen


@pytest.mark.long
def test_ten_thousand_schedules_keep_the_laws(rng: random.Random) -> None:
    first = rng.getrandbits(40)
    for seed in range(first, first + 10_000):
        try:
            run(drawn(seed), anew=seed % 2 == 0)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
