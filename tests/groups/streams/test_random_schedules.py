"""Random schedules of members (join, leave, die, lose responses), topics, restarts and waits.

- Making a decision changes nothing.
- A machine that replays the log has the same group.
- No task is active in two members, by the responses they got; no process has a task twice.
- The group settles: when topics and members do not change any more, each task is active in one
  member, and has its standbys if there are enough processes.
"""

from __future__ import annotations

from collections import Counter
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
from kwire.groups.streams.group import StreamsGroup, StreamsSession
from kwire.groups.surroundings import StreamsSettings, Surroundings
from tests.groups.streams.simulation import (
    CHANGELOG,
    REPARTITION,
    Client,
    StreamsSimulation,
    group_of,
)

clients = st.sampled_from(range(4))
times_ms = st.sampled_from([0, 300, 1_000, 3_000, 12_000, 46_000])
topics = st.sampled_from(["t", REPARTITION, CHANGELOG])


class PureMachine(GroupMachine):
    """A machine that checks after each decision that nothing has changed yet."""

    def __init__(self, limits: GroupLimits, surroundings: Surroundings) -> None:
        super().__init__(limits, surroundings)
        for owner, name in ((self, "timer_fired"), (self.streams, "heartbeat")):
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


def durable(group: StreamsGroup | None) -> StreamsGroup | None:
    """Without its session, which no record has."""
    group = deepcopy(group)
    if group is not None:
        group.session = StreamsSession()
    return group


class Schedule(RuleBasedStateMachine):
    """One group, its members and its coordinator."""

    def __init__(self) -> None:
        super().__init__()
        self.simulation = StreamsSimulation(
            GroupLimits(group_streams_max_size=4), StreamsSettings(), kind=PureMachine
        )
        self.simulation.put_topic("t", 3)
        processes = {"a": "p", "b": "p", "c": "q", "d": "r"}
        self.clients = [Client(self.simulation, *each) for each in processes.items()]

    # -- members

    @rule(number=clients, mute=st.booleans())
    def beat(self, number: int, mute: bool) -> None:
        self.simulation.create(self.clients[number].beat(mute=mute))

    @rule(number=clients)
    def beat_all(self, number: int) -> None:
        for client in self.clients[: number + 1]:
            self.simulation.create(client.beat())

    @rule(number=clients)
    def lose_a_reply(self, number: int) -> None:
        self.clients[number].beat(lose_reply=True)

    @rule(number=clients, shutdown=st.booleans())
    def leave(self, number: int, shutdown: bool) -> None:
        self.clients[number].leave(shutdown=shutdown)

    @rule(number=clients)
    def die(self, number: int) -> None:
        self.clients[number].die()

    # -- the cluster

    @rule(more=st.integers(1, 2))
    def grow(self, more: int) -> None:
        """All that is there, as an administrator would."""
        image = self.simulation.image
        counts = {name: len(image.topics[name].partitions) for name in image.topics}
        if counts.get("t", 9) < 9:
            for name, count in counts.items():
                self.simulation.put_topic(name, count + more)

    @precondition(lambda self: self.simulation.append_error is None)
    @rule(name=topics)
    def delete_topic(self, name: str) -> None:
        if name in self.simulation.image.topics:
            self.simulation.delete_topic(name)

    @rule(partitions=st.integers(1, 4))
    def put_source(self, partitions: int) -> None:
        if "t" not in self.simulation.image.topics:
            self.simulation.put_topic("t", partitions)

    @rule(number=st.integers(0, 2), delay_ms=st.sampled_from([0, 3_000]))
    def configure(self, number: int, delay_ms: int) -> None:
        self.simulation.surroundings.streams = StreamsSettings(
            num_standby_replicas=number, initial_rebalance_delay_ms=delay_ms
        )

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
    def log_tells_the_same(self) -> None:
        loaded = group_of(self.simulation.reloaded())
        assert durable(loaded) == durable(self.simulation.group)

    @invariant()
    def tasks_have_one_owner(self) -> None:
        group = self.simulation.group
        for owners in () if group is None else group.active_owners.values():
            assert len(owners) == 1, group

    @invariant()
    def processes_have_a_task_once(self) -> None:
        """Of one process only one member has a task; it may change its role meanwhile."""
        group = self.simulation.group
        held = Counter(
            (process_id, subtopology, partition)
            for process_id, _, subtopology, partition in {
                (member.process_id, member.member_id, subtopology, partition)
                for member in (group.members.values() if group is not None else ())
                for has in (member.assigned, member.revoking)
                for tasks in (has.active, has.standby)
                for subtopology, partitions in tasks.items()
                for partition in partitions
            }
        )
        assert all(count == 1 for count in held.values()), held

    @invariant()
    def members_are_waited_for(self) -> None:
        group = self.simulation.group
        for member_id in group.members if group is not None else ():
            assert ("session", "g", member_id) in self.simulation.timers

    def teardown(self) -> None:
        simulation = self.simulation
        simulation.append_error = None
        for name in ("t", REPARTITION, CHANGELOG):
            simulation.put_topic(name, 3)
        for _ in range(30):  # those who died are missed first
            for client in self.clients:
                client.beat()
                self.tasks_have_one_owner()
                self.processes_have_a_task_once()
            simulation.wait(5_000)
        self._settled()

    def _settled(self) -> None:
        group = self.simulation.there
        members = [client for client in self.clients if client.is_in]
        assert group.members.keys() == {client.member_id for client in members}
        assert group.state is AssignedGroupState.STABLE, group
        active = Counter(task for client in members for task in client.active)
        assert active == {(name, p): 1 for name in ("0", "1") for p in range(3)}
        standby = Counter(task for client in members for task in client.standby)
        wanted = self.simulation.surroundings.streams.num_standby_replicas
        possible = min(wanted, len({client.process for client in members}) - 1)
        assert standby == ({("1", p): possible for p in range(3)} if possible else {})


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=15, stateful_step_count=30)
