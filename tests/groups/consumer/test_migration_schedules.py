"""Random schedules of members that join, leave, die and change protocol; restarts, failed appends.

- Making a decision changes nothing.
- In a consumer group, at most one member holds a partition.
- A machine that replays the log has the same consumer group, or the same members of a classic one.
- The group settles in either protocol: each subscribed partition is owned by one subscriber.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kwire.codecs.errors import ErrorCode
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.state import ClassicState
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.effects import GroupEffects
from kwire.groups.limits import GroupLimits, MigrationPolicy
from kwire.groups.machine import GroupMachine
from kwire.groups.surroundings import Surroundings
from tests.groups.consumer.classic import ClassicClient
from tests.groups.consumer.simulation import GROUP_ID, Client, ConsumerSimulation

ROUNDS_MAX = 60
"""Of steps, 1.5 s each, within which a group of four has settled, whoever has died before."""

STATIC = {2: "i2", 3: "i3"}
"""Number of a client -> its group instance id."""

numbers = st.sampled_from(range(4))
subscriptions = st.sampled_from([["t"], ["u"], ["t", "u"]])
times_ms = st.sampled_from([0, 300, 1_000, 12_000, 31_000, 61_000])
policies = st.sampled_from([MigrationPolicy.BIDIRECTIONAL, *MigrationPolicy, MigrationPolicy(0)])


class PureMachine(GroupMachine):
    """A machine that checks after each decision that nothing has changed yet."""

    def __init__(self, limits: GroupLimits, surroundings: Surroundings) -> None:
        super().__init__(limits, surroundings)
        decisions = [(self, "timer_fired"), (self.consumer, "heartbeat")]
        decisions += [(self.classic, name) for name in ("join", "sync", "heartbeat", "leave")]
        for owner, name in decisions:
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
        self.begun = 0

    @initialize(policy=policies)
    def start(self, policy: MigrationPolicy) -> None:
        limits = GroupLimits(
            group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy
        )
        self.simulation = ConsumerSimulation(limits, kind=PureMachine)
        self.simulation.put_topic("t", 3)
        self.simulation.put_topic("u", 2)
        self.clients: list[Client | ClassicClient] = []
        for number in range(4):
            self.clients.append(self.process(number, classic=number % 2 == 0))

    def process(self, number: int, *, classic: bool) -> Client | ClassicClient:
        """A client that is started."""
        self.begun += 1
        kind = ClassicClient if classic else Client
        return kind(self.simulation, f"p{self.begun}", STATIC.get(number))

    def step(self, number: int) -> None:
        client = self.clients[number]
        if isinstance(client, Client):
            client.beat()
            client.move()
        else:
            client.step()

    # -- members

    @rule(number=numbers)
    def go_on(self, number: int) -> None:
        self.step(number)

    @rule(number=numbers)
    def say_without_having_moved(self, number: int) -> None:
        client = self.clients[number]
        if isinstance(client, Client) or (client.waits is None and not client.wants_to_join):
            client.beat()

    @rule(number=numbers, topics=subscriptions)
    def subscribe(self, number: int, topics: list[str]) -> None:
        client = self.clients[number]
        client.topics = topics
        if isinstance(client, ClassicClient) and client.waits is None:
            client.wants_to_join = True

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if isinstance(client, Client) or client.member_id:
            client.leave()

    @rule(number=numbers, classic=st.booleans(), leaves=st.booleans())
    def restart_client(self, number: int, classic: bool, leaves: bool) -> None:
        """Another process in its place, maybe of the other protocol; the old one leaves or dies."""
        old = self.clients[number]
        if leaves and (isinstance(old, Client) or old.member_id):
            old.leave()
        new = self.process(number, classic=classic)
        new.topics = old.topics
        self.clients[number] = new
        self.step(number)

    @rule(number=st.sampled_from(sorted(STATIC)))
    def leave_for_a_while(self, number: int) -> None:
        client = self.clients[number]
        if isinstance(client, Client):
            client.leave(-2)

    # -- time and the coordinator

    @rule(time_ms=times_ms)
    def wait(self, time_ms: int) -> None:
        self.simulation.wait(time_ms)

    @rule()
    def restart(self) -> None:
        self.simulation.restart()
        for client in self.clients:
            if isinstance(client, ClassicClient) and client.waits is not None:
                client.waits, client.wants_to_join = None, True

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

    @invariant()
    def log_tells_the_same(self) -> None:
        loaded = self.simulation.reloaded().groups.get(GROUP_ID)
        group = self.simulation.machine.groups.get(GROUP_ID)
        assert type(loaded) is type(group)
        if isinstance(group, ConsumerGroup):
            assert loaded == group
        elif isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE:
            assert isinstance(loaded, ClassicGroup)
            assert loaded.generation_id == group.generation_id
            told = {m.member_id: m.assignment for m in loaded.members.values()}
            assert told == {m.member_id: m.assignment for m in group.members.values()}

    @invariant()
    def members_are_waited_for(self) -> None:
        group = self.simulation.group
        for member_id in group.members if group is not None else ():
            assert ("session", GROUP_ID, member_id) in self.simulation.timers

    def teardown(self) -> None:
        simulation = self.simulation
        simulation.append_error = None
        for _ in range(ROUNDS_MAX):
            for number in range(len(self.clients)):
                self.step(number)
            simulation.wait(1_500)
        members = [client for client in self.clients if client.is_in]
        assert members
        group = simulation.machine.groups[GROUP_ID]
        assert group.state_name == "Stable"
        if simulation.limits.group_consumer_migration_policy is MigrationPolicy.BIDIRECTIONAL:
            assert len(members) == len(self.clients)
        image = simulation.surroundings.image
        topics = {topic for client in members for topic in client.topics}
        wanted = {
            (image.topics[name].id, partition)
            for name in topics
            for partition in range(len(image.topics[name].partitions))
        }
        assert sorted(place for client in members for place in client.owned) == sorted(wanted)
        for client in members:
            names = {image.names_by_id[topic_id] for topic_id, _ in client.owned}
            assert names <= set(client.topics)


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=15, stateful_step_count=30)
