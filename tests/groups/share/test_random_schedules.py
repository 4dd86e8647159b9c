"""Random schedules of members (join, leave, die, lose responses), topics, restarts and waits.

- Making a decision changes nothing.
- A machine that replays the log has the same group.
- No member gets a partition whose share state is not initialized.
- The group settles: when topics and members do not change any more, each partition is read by a
  subscriber, and the numbers of members of a topic's partitions differ by at most one.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kwire.codecs.errors import ErrorCode
from kwire.groups.effects import GroupEffects
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.surroundings import ShareSettings, Surroundings
from tests.groups.share.simulation import Client, ShareSimulation, group_of

clients = st.sampled_from(range(4))
topics = st.sampled_from(["t", "u", "v"])
subscriptions = st.sampled_from([["t"], ["u"], ["t", "u"], ["t", "v", "gone"]])
times_ms = st.sampled_from([0, 300, 1_000, 12_000, 31_000, 46_000])
RETRY_MS = GroupLimits().group_share_initialize_retry_interval_ms
DECISIONS = ("heartbeat", "initialized", "not_initialized")


class PureMachine(GroupMachine):
    """A machine that checks after each decision that nothing has changed yet."""

    def __init__(self, limits: GroupLimits, surroundings: Surroundings) -> None:
        super().__init__(limits, surroundings)
        checked = [(self, "timer_fired"), *((self.share, name) for name in DECISIONS)]
        for owner, name in checked:
            setattr(owner, name, self._checked(name, getattr(owner, name)))

    def _checked(
        self, name: str, decide: Callable[..., GroupEffects]
    ) -> Callable[..., GroupEffects]:
        def check(*arguments: object) -> GroupEffects:
            before = deepcopy(self.groups)
            effects = decide(*arguments)
            assert self.groups == before, f"{name} changed something"
            return effects

        return check


class Schedule(RuleBasedStateMachine):
    """One group, its members and its coordinator."""

    def __init__(self) -> None:
        super().__init__()
        limits = GroupLimits(group_share_max_size=3)
        self.simulation = ShareSimulation(limits, ShareSettings(), kind=PureMachine)
        self.simulation.put_topic("t", 3)
        self.clients = [Client(self.simulation, name) for name in "abcd"]

    # -- members

    @rule(number=clients, full=st.booleans())
    def beat(self, number: int, full: bool) -> None:
        self.clients[number].beat(full=full)

    @rule(number=clients)
    def lose_a_reply(self, number: int) -> None:
        self.clients[number].beat(lose_reply=True)

    @rule(number=clients, names=subscriptions)
    def subscribe(self, number: int, names: list[str]) -> None:
        self.clients[number].topics = names

    @rule(number=clients)
    def leave(self, number: int) -> None:
        self.clients[number].leave()

    @rule(number=clients)
    def die(self, number: int) -> None:
        self.clients[number].die()

    # -- the cluster

    @rule(name=topics, more=st.integers(1, 4))
    def put_topic(self, name: str, more: int) -> None:
        known = self.simulation.image.topics.get(name)
        self.simulation.put_topic(name, more + (len(known.partitions) if known else 0))

    @precondition(lambda self: self.simulation.append_error is None)
    @rule(name=topics)
    def delete_topic(self, name: str) -> None:
        if name in self.simulation.image.topics:
            self.simulation.delete_topic(name)

    # -- time and the coordinators

    @rule(succeeded=st.booleans())
    def answer(self, succeeded: bool) -> None:
        self.simulation.answer(succeeded=succeeded)

    @rule(time_ms=times_ms)
    def wait(self, time_ms: int) -> None:
        self.simulation.wait(time_ms)

    @rule()
    def restart(self) -> None:
        self.simulation.restart()

    @rule()
    def fail_appends(self) -> None:
        self.simulation.append_error = ErrorCode.NOT_ENOUGH_REPLICAS

    @precondition(lambda self: self.simulation.append_error is not None)
    @rule()
    def append_again(self) -> None:
        self.simulation.append_error = None

    # -- what holds

    @invariant()
    def log_tells_the_same(self) -> None:
        loaded, group = group_of(self.simulation.reloaded()), self.simulation.group
        assert loaded == group

    @invariant()
    def members_are_waited_for(self) -> None:
        group = self.simulation.group
        for member_id in group.members if group is not None else ():
            assert ("session", "g", member_id) in self.simulation.timers

    def teardown(self) -> None:
        simulation = self.simulation
        simulation.append_error = None
        for _ in range(6):
            for client in self.clients:
                client.beat(full=True)
                while simulation.asked:
                    simulation.answer()
            simulation.wait(RETRY_MS // 2)
        self._settled()

    def _settled(self) -> None:
        group, image = self.simulation.group, self.simulation.image
        if group is None:
            return
        members = [client for client in self.clients if client.is_in]
        assert group.members.keys() == {client.member_id for client in members}
        assert group.target_epoch == group.epoch
        for client in members:
            assert client.epoch == group.epoch
            assert {image.names_by_id[topic_id] for topic_id, _ in client.reads} <= {*client.topics}
        for name in group.topic_names & image.topics.keys():
            self._is_shared_out(name, [client for client in members if name in client.topics])

    def _is_shared_out(self, name: str, members: list[Client]) -> None:
        topic = self.simulation.image.topics[name]
        counts = [
            sum((topic.id, partition) in client.reads for client in members)
            for partition in range(len(topic.partitions))
        ]
        assert min(counts) >= 1, (name, counts)


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=15, stateful_step_count=30)
