"""Random schedules of members (join, leave, die, lose responses), topics, restarts and waits.

- Making a decision changes nothing.
- At most one member holds a partition.
- A machine that replays the log has the same group.
- The group settles: when topics and members do not change any more, each partition is owned by one
  subscriber, which has received it, and no member owns any other partition.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kwire.codecs.errors import ErrorCode
from kwire.groups.assigned.group import AssignedGroupState
from kwire.groups.effects import GroupEffects
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.surroundings import Surroundings
from tests.groups.consumer.simulation import Client, ConsumerSimulation, group_of

ROUNDS_MAX = 40
"""Of heartbeats, within which a group of four has settled."""

clients = st.sampled_from(range(5))
topics = st.sampled_from(["t", "u", "v"])
subscriptions = st.sampled_from([["t"], ["u"], ["t", "u"], ["t", "v", "gone"], []])
patterns = st.sampled_from([None, "", "t|u", "[uv]"])
times_ms = st.sampled_from([0, 300, 1_000, 5_000, 12_000, 46_000, 61_000])


class PureMachine(GroupMachine):
    """A machine that checks after each decision that nothing has changed yet."""

    def __init__(self, limits: GroupLimits, surroundings: Surroundings) -> None:
        super().__init__(limits, surroundings)
        for owner, name in ((self, "timer_fired"), (self.consumer, "heartbeat")):
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
        limits = GroupLimits(group_consumer_max_size=4)
        self.simulation = ConsumerSimulation(limits, kind=PureMachine)
        self.simulation.put_topic("t", 3)
        self.clients = [Client(self.simulation, name) for name in "abc"]
        self.clients += [Client(self.simulation, f"s{n}", f"i{n}") for n in range(2)]

    # -- members

    @rule(number=clients)
    def beat(self, number: int) -> None:
        self.clients[number].beat()

    @rule(number=clients)
    def beat_and_move(self, number: int) -> None:
        client = self.clients[number]
        client.beat()
        client.move()
        client.beat()

    @rule(number=clients)
    def lose_a_reply(self, number: int) -> None:
        self.clients[number].beat(lose_reply=True)

    @rule(number=clients, names=subscriptions, pattern=patterns)
    def subscribe(self, number: int, names: list[str], pattern: str | None) -> None:
        self.clients[number].topics = names
        self.clients[number].pattern = pattern

    @rule(number=clients)
    def leave(self, number: int) -> None:
        self.clients[number].leave()

    @rule(number=st.sampled_from([3, 4]))
    def leave_for_a_while(self, number: int) -> None:
        self.clients[number].leave(-2)

    @rule(number=clients)
    def die(self, number: int) -> None:
        self.clients[number].die()

    # -- the cluster

    @rule(name=topics, more=st.integers(1, 4))
    def put_topic(self, name: str, more: int) -> None:
        known = self.simulation.surroundings.image.topics.get(name)
        self.simulation.put_topic(name, more + (len(known.partitions) if known else 0))

    @rule(name=topics)
    def delete_topic(self, name: str) -> None:
        if name in self.simulation.surroundings.image.topics:
            self.simulation.delete_topic(name)

    # -- time and the coordinator

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
    def nothing_is_held_twice(self) -> None:
        group = self.simulation.group
        if group is None:
            return
        held = [place for member in group.members.values() for place in member.held]
        assert len(held) == len(set(held)) == len(group.owners)
        for place, member_id in group.owners.items():
            assert place in group.members[member_id].held

    @invariant()
    def log_tells_the_same(self) -> None:
        loaded, group = group_of(self.simulation.reloaded()), self.simulation.group
        assert (loaded is None) == (group is None)
        if loaded is not None and group is not None:
            assert loaded.topic_names == group.topic_names
            assert loaded == group

    @invariant()
    def members_are_waited_for(self) -> None:
        group = self.simulation.group
        for member_id in group.members if group is not None else ():
            assert ("session", "g", member_id) in self.simulation.timers

    def teardown(self) -> None:
        simulation = self.simulation
        simulation.append_error = None
        for _ in range(ROUNDS_MAX):
            for client in self.clients:
                client.beat()
                client.move()
            simulation.wait(1_500)
        group = simulation.group
        members = [client for client in self.clients if client.is_in]
        if group is None:
            return
        assert group.state is (AssignedGroupState.STABLE if members else AssignedGroupState.EMPTY)
        assert group.members.keys() == {client.member_id for client in members}, members
        image = simulation.surroundings.image
        wanted = {
            (image.topics[name].id, partition)
            for name in group.topic_names
            if name in image.topics
            for partition in range(len(image.topics[name].partitions))
        }
        owned = [place for client in members for place in client.owned]
        assert sorted(owned) == sorted(wanted)
        for client in members:
            names = group.topic_names_by(group.members[client.member_id])
            assert {image.names_by_id[topic_id] for topic_id, _ in client.owned} <= names


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=15, stateful_step_count=30)
