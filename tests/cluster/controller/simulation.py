"""A simulated cluster without time, sockets and disks: a store, brokers, and controllers.

`Store` takes the place of ZooKeeper: brokers are members of it, one of them is the controller, and
the controller's epoch and the version of what is changed fence changes.  `Term` drives one
`ClusterController`; a deposed one continues until it notices.  `SimulatedBroker` answers as a
broker of 3.9 does.  Nothing happens by itself: the test chooses each next step, so requests and
commits may be delayed as long as it likes.  `Laws` are checked after each change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.controller.state import TopicPartition
from kwire.cluster.metadata.changes import (
    Change,
    Conflict,
    Decision,
    DeleteTopic,
    RegisterBroker,
    SetController,
    UnregisterBroker,
    apply_all,
    decide_all,
)
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage
from kwire.codecs.errors import ErrorCode
from kwire.settings import BrokerConfig
from kwire.settings.live import LiveSettings
from tests.cluster.controller.laws import Laws
from tests.cluster.controller.requests import alter_partition
from tests.cluster.controller.simulated_broker import Local, SimulatedBroker

Waiting = Callable[[Any], None]
"""Who asked, and is given the reply; None where there is no controller any longer."""


class Fenced(Exception):
    """Another broker is the controller."""


class Host(LiveSettings):
    """The settings of the broker with this id, whatever id `static_config` has."""

    def __init__(self, node_id: int, config: BrokerConfig, static_config: BrokerConfig) -> None:
        super().__init__(static_config)
        self.config = config
        self.node_id = node_id


class Store:
    """The committed metadata, and the watchers that learn of it."""

    def __init__(self, laws: Laws) -> None:
        self.image = ClusterImage("simulated", controller_epoch=1)
        self.laws = laws
        self.watchers: list[Term] = []
        self.deleted: Callable[[str, ClusterImage], None] = lambda _name, _image: None
        self._epoch = 100

    def next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def make(self, changes: Sequence[Change]) -> None:
        """Commit changes that nothing fences; watchers learn of them later."""
        before = self.image
        for change in changes:
            if isinstance(change, DeleteTopic):
                self.laws.seen["deleted"] += 1
                self.deleted(change.topic, self.image)
        self.image = apply_all(before, changes)
        delta = delta_of(before, self.image, changes)
        self.laws.check(before, self.image, delta.topics)
        for watcher in self.watchers:
            watcher.unseen.extend(changes)

    def commit(self, term: Term, changes: Sequence[Change]) -> None:
        """Commit changes.  Raises Conflict, Fenced."""
        if term.epoch != self.image.controller_epoch:
            raise Fenced
        for made, change in enumerate(changes):
            try:
                change.apply_to(self.image)
            except Conflict as conflict:
                raise Conflict(str(conflict), made) from conflict
            self.make([change])


@dataclass
class Queued:
    decisions: list[Decision]
    then: Callable[[], ControllerEffects] | None
    waiting: Waiting | None


class Term:
    """One controller with its queued decisions and requests."""

    def __init__(self, store: Store, host: Host) -> None:
        self.store = store
        self.view = store.image
        """What it has been told of the truth; `unseen` is what it has not."""
        self.unseen: list[Change] = []
        self.epoch = store.image.controller_epoch
        self.node_id = host.node_id
        self.queue: deque[Queued] = deque()
        self.outbox: dict[int, deque[BrokerRequest]] = {}
        self.timers: set[str] = set()
        self.is_over = False
        self.sees_one_by_one = False
        """Whether it is told of each change by itself, as of a store that publishes them so."""
        store.watchers.append(self)
        self.machine = ClusterController(host, self.view)
        self.take(self.machine.start())

    def take(self, effects: ControllerEffects, waiting: Waiting | None = None) -> None:
        if self.is_over:
            if waiting is not None:
                waiting(None)
            return
        for sent in effects.requests:
            self.outbox.setdefault(sent.broker_id, deque()).append(sent)
        self.timers.update(name for name, _ in effects.timers)
        if effects.decisions or effects.then is not None:
            self.queue.append(Queued(effects.decisions, effects.then, waiting))
        elif waiting is not None:
            waiting(effects.reply)

    def see(self, count: int | None = None) -> None:
        """Learn of the next few changes in the store, or of all."""
        seen, self.unseen = self.unseen[:count], self.unseen[len(self.unseen[:count]) :]
        batches = [[each] for each in seen] if self.sees_one_by_one else [seen] if seen else []
        for seen in batches:
            before, self.view = self.view, apply_all(self.view, seen)
            self.take(self.machine.image_changed(self.view, delta_of(before, self.view, seen)))

    def work(
        self,
        made_at_most: int | None = None,
        *,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        """Commit the next step; after `made_at_most` changes another broker is the controller.

        `meanwhile` runs after the decision, and the controller sees its changes before the commit:
        commits wait for their turn.
        """
        if not self.queue or self.is_over:
            return
        first = self.queue[0]
        self.see()  # a store publishes what others did before what is committed next
        changes, deciders = decide_all(self.view, first.decisions)
        meanwhile()
        self.see()
        if not self.queue:  # it is over
            return
        if made_at_most is not None and made_at_most < len(changes):
            self.store.commit(self, changes[:made_at_most]) if made_at_most else None
            self.end()
            return
        try:
            if changes:
                self.store.commit(self, changes)
        except Fenced:
            self.end()
            return
        except Conflict as conflict:
            del first.decisions[: deciders[conflict.made]]
            self.see()
            return
        self.see()
        assert self.queue.popleft() is first
        if first.then is not None:
            following, waiting = first.then(), first.waiting
            followers = len(self.queue)
            self.take(following, waiting)
            if len(self.queue) > followers:
                self.queue.rotate(1)  # what follows goes before what was asked for later
        elif first.waiting is not None:
            first.waiting(None)

    def end(self) -> None:
        self.is_over = True
        if self in self.store.watchers:
            self.store.watchers.remove(self)
        for each in self.queue:
            if each.waiting is not None:
                each.waiting(None)
        self.queue.clear()


class Cluster:
    """The whole cluster; each method is one possible next step."""

    sees_one_by_one = False
    """Whether controllers are told of each change by itself."""

    def __init__(self, size: int, config: BrokerConfig) -> None:
        self.config = config
        self.laws = Laws()
        self.store = Store(self.laws)
        self.store.deleted = self._check_deleted
        self.brokers = {each: SimulatedBroker(each, self.laws) for each in range(1, size + 1)}
        self.term: Term | None = None
        self.deposed: list[Term] = []
        self.terms = 0
        for broker_id in self.brokers:
            self.start(broker_id)
        self.elect(1)

    def _check_deleted(self, name: str, image: ClusterImage) -> None:
        topic = image.topics[name]
        for index, partition in enumerate(topic.partitions):
            for broker_id in partition.replicas:
                log = (topic.id, index)
                assert log not in self.brokers[broker_id].logs, (name, index, broker_id)

    @property
    def live(self) -> list[int]:
        return [each.id for each in self.brokers.values() if each.is_alive]

    # -- membership

    def start(self, broker_id: int) -> None:
        """Start a broker, or restart it before its session has expired."""
        broker = self.brokers[broker_id]
        made: list[Change] = []
        if broker_id in self.store.image.brokers:
            made.append(UnregisterBroker(broker_id))
        made.append(RegisterBroker(broker.start(self.store.next_epoch())))
        self.store.make(made)
        if self.term is not None and self.term.node_id == broker_id:
            self.depose()

    def kill(self, broker_id: int) -> None:
        self.brokers[broker_id].is_alive = False
        if broker_id in self.store.image.brokers:
            self.store.make([UnregisterBroker(broker_id)])
        if self.term is not None and self.term.node_id == broker_id:
            self.depose()

    def depose(self) -> None:
        """Make another broker the controller; the former one does not notice yet."""
        if self.term is not None:
            self.deposed.append(self.term)
            self.term = None

    def elect(self, broker_id: int) -> None:
        self.depose()
        self.terms += 1
        image = self.store.image
        epoch = image.controller_epoch + 1
        self.store.make([SetController(image.controller_id, broker_id, epoch)])
        for deposed in self.deposed:
            if deposed in self.store.watchers:
                self.store.watchers.remove(deposed)
        self.term = Term(self.store, Host(broker_id, self.config, self.config))
        self.term.sees_one_by_one = self.sees_one_by_one

    # -- the network

    def deliver(self, term: Term, broker_id: int, *, answer_arrives: bool = True) -> bool:
        """Let a broker handle its next request; False if it has none."""
        waiting = term.outbox.get(broker_id)
        broker = self.brokers[broker_id]
        if not waiting:
            return False
        sent = waiting[0]
        partition = term.view.brokers.get(broker_id)
        if partition is None or partition.epoch != sent.broker_epoch:
            waiting.popleft()  # it has gone, or is registered anew
            return True
        if not broker.is_alive or broker.epoch != sent.broker_epoch:
            return False
        response = broker.handle(sent.request)
        if answer_arrives:
            waiting.popleft()
            if not term.is_over:
                term.take(term.machine.response_received(sent, response))
        return True

    # -- disks

    def fail_disk(self, broker: SimulatedBroker, log: tuple[bytes, int]) -> None:
        """Fail the disk of one log; it may be only full, see `make_room`."""
        broker.failed.add(log)
        self._tell_of_disks(broker)

    def make_room(self, broker: SimulatedBroker) -> None:
        """Free space on a broker's full disks: all its failed logs can be written again."""
        if broker.is_alive and broker.failed:
            broker.failed.clear()
            self._tell_of_disks(broker)

    def _tell_of_disks(self, broker: SimulatedBroker) -> None:
        if self.term is not None:
            self.term.take(self.term.machine.log_dirs_failed([broker.id]))

    # -- leaders

    def propose_isr(self, topic_partition: TopicPartition, isr: Sequence[int]) -> None:
        """The broker that believes to lead a partition proposes an ISR."""
        for broker in self.brokers.values():
            local = broker.hosted.get(topic_partition)
            if not broker.is_alive or local is None or local.leader != broker.id:
                continue
            wanted = tuple(each for each in local.replicas if each == broker.id or each in isr)
            if self.term is None or wanted == local.isr:
                continue
            request = alter_partition(broker.id, broker.epoch, topic_partition[1], local, wanted)
            epoch = local.leader_epoch

            def learn(response: Any, local: Local = local, epoch: int = epoch) -> None:  # noqa: ANN401 - any reply
                if response is None or response.error_code:
                    return
                answer = response.topics[0].partitions[0]
                if answer.error_code == ErrorCode.NONE and local.leader_epoch == epoch:
                    local.isr = tuple(answer.isr)
                    local.partition_epoch = answer.partition_epoch

            self.term.take(self.term.machine.alter_partition(request), learn)

    # -- the end

    def check_members(self) -> None:
        """Check that after all commits only members lead or are in sync.

        The last in-sync replica of a partition is the exception.
        """
        if self.term is None:
            return
        self.term.see()
        while self.term.queue:
            self.term.work()
        image = self.store.image
        for name, topic in image.topics.items():
            for index, partition in enumerate(topic.partitions):
                gone = {*partition.isr, partition.leader} - {NO_LEADER, *image.brokers}
                is_last = partition.leader == NO_LEADER and len(partition.isr) == 1
                if not self.term.is_over and name not in image.deleting and not is_new(partition):
                    assert not gone or is_last, (name, index, partition, set(image.brokers))

    def settle(self, *, anew: bool) -> None:
        """Start all brokers and do all steps until none is left.  Asserts that this ends.

        With `anew` all brokers restart, and there is a new controller.  Otherwise running brokers
        and the controller stay as they are.
        """
        for broker in self.brokers.values():
            if anew or not broker.is_alive:
                broker.failed.clear()
                self.start(broker.id)
            elif self.term is not None and broker.id in self.term.machine.state.shutting_down:
                self.start(broker.id)
        self.deposed.clear()
        if anew or self.term is None:
            self.elect(min(self.brokers))
        for broker in self.brokers.values():
            self.make_room(broker)
        for _ in range(60):
            if not self._settle_once():
                return
        raise AssertionError("it never comes to rest")

    def _settle_once(self) -> bool:
        term, before = self.term, self.store.image
        assert term is not None
        busy = bool(term.unseen or term.queue)
        term.see()
        while term.queue:
            term.work()
        for broker_id in self.brokers:
            while self.deliver(term, broker_id):
                busy = True
        for topic in list(self.store.image.topics):
            for index in range(len(self.store.image.topics[topic].partitions)):
                self.propose_isr((topic, index), self.live)
        return busy or bool(term.queue) or self.store.image is not before

    def check_settled(self) -> None:
        """Check what must hold when all brokers run and no step is left."""
        image = self.store.image
        assert not image.deleting, image.deleting
        expected = {}
        for name, topic in image.topics.items():
            for index, partition in enumerate(topic.partitions):
                topic_partition = (name, index)
                assert partition.leader in self.live, (topic_partition, partition)
                assert not partition.adding, (topic_partition, partition)
                assert not partition.removing, (topic_partition, partition)
                assert set(partition.isr) == set(partition.replicas), (topic_partition, partition)
                expected[topic_partition] = partition
        for broker in self.brokers.values():
            assert broker.shown_brokers == set(self.live)
            shown = {
                topic_partition: (partition.leader, partition.leader_epoch, partition.isr)
                for topic_partition, partition in expected.items()
            }
            assert broker.shown | shown == broker.shown, broker.id
            hosted = [
                topic_partition
                for topic_partition in shown
                if broker.id in expected[topic_partition].replicas
            ]
            for topic_partition in hosted:
                local, partition = broker.hosted[topic_partition], expected[topic_partition]
                assert (local.leader, local.leader_epoch) == (
                    partition.leader,
                    partition.leader_epoch,
                )
            if self.terms == 1:  # what an earlier controller did not get sent is known to nobody
                assert broker.shown == shown, broker.id
                assert broker.hosted.keys() == set(hosted), broker.id
