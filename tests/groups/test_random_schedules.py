"""Random schedules of classic groups: requests, waits and failing appends.

- Making a decision changes no group and no offset.
- Each request is answered once; a parked one is answered in the end.
- The generation of a group never falls.
- Exactly the members that could vanish have a timer.
- A machine that replays the log has the same offsets and groups, and the same generation, members
  and assignments of a stable or empty group.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.join_group import JoinGroupResponse
from kwire.conformance.group_script import GroupScript
from kwire.groups.classic.group import ClassicGroup
from kwire.groups.classic.state import ClassicState
from kwire.groups.effects import GroupEffects
from kwire.groups.limits import GroupLimits
from kwire.groups.machine import GroupMachine
from kwire.groups.surroundings import NOWHERE, Surroundings
from tests.groups.simulation import GroupSimulation, classic_groups

CLIENTS = ["a", "b", "c", "s1", "s2"]
GROUP_ID = "g"
SETTLED = (ClassicState.STABLE, ClassicState.EMPTY)

clients = st.sampled_from(CLIENTS)
versions = st.sampled_from([3, 5, 9])
protocols = st.sampled_from(["range:x", "range:x,sticky:y", "sticky:y,range:x", "range:@t", "z:1"])
times_ms = st.sampled_from([0, 500, 1_500, 3_000, 9_000, 40_000])


OPERATIONS = ("commit_offsets", "delete_offsets", "topics_deleted", "delete_group", "timer_fired")
OF_CLASSIC = ("join", "sync", "heartbeat", "leave")


class PureMachine(GroupMachine):
    """A machine that checks after each decision that nothing has changed yet."""

    def __init__(self, limits: GroupLimits, surroundings: Surroundings = NOWHERE) -> None:
        super().__init__(limits, surroundings)
        for owner, names in ((self, OPERATIONS), (self.classic, OF_CLASSIC)):
            for name in names:
                setattr(owner, name, self._checked(name, getattr(owner, name)))

    def _checked(
        self, name: str, decide: Callable[..., GroupEffects]
    ) -> Callable[..., GroupEffects]:
        def check(*arguments: object) -> GroupEffects:
            before = deepcopy((self.groups, self.offsets.by_group))
            effects = decide(*arguments)
            assert (self.groups, self.offsets.by_group) == before, f"{name} changed something"
            return effects

        return check


class Schedule(RuleBasedStateMachine):
    """One group, its clients and its coordinator."""

    def __init__(self) -> None:
        super().__init__()
        limits = GroupLimits(
            group_initial_rebalance_delay_ms=1_000,
            group_max_size=3,
            offsets_retention_ms=60_000,
            offsets_retention_check_interval_ms=20_000,
        )
        self.simulation = GroupSimulation(limits, PureMachine)
        self.script = GroupScript(self.simulation, GROUP_ID)
        self.generation_id = 0
        self.answered = 0
        self.lost_appends = False
        """An empty generation whose record could not be written stands all the same."""

    def run_line(self, line: str) -> None:
        if GROUP_ID not in self.simulation.machine.groups:
            self.generation_id = 0  # a group that was deleted starts anew
        for name, response in self._replies(line):
            self.answered += 1
            if isinstance(response, JoinGroupResponse) and not response.error_code:
                assert response.generation_id >= self.generation_id, name
                self.generation_id = response.generation_id

    def _replies(self, line: str) -> list[tuple[str, Any]]:
        seen: list[tuple[str, Any]] = []
        replies = self.simulation.replies

        def watch() -> list[tuple[str, Any]]:
            found = replies()
            seen.extend(found)
            return found

        self.simulation.replies = watch  # type: ignore[method-assign]  # to see what is formatted
        try:
            self.script.run(line)
        finally:
            self.simulation.replies = replies  # type: ignore[method-assign]  # as it was
        return seen

    # -- what clients do

    @rule(client=clients, version=versions, chosen=protocols)
    def join(self, client: str, version: int, chosen: str) -> None:
        instance = f" instance=i{client[1]}" if client[0] == "s" and version >= 5 else ""
        line = f"join {client} v={version} protocols={chosen} session=10000 rebalance=5000"
        self.run_line(line + instance)

    @rule(client=clients)
    def join_without_id(self, client: str) -> None:
        self.run_line(f"join {client} id= session=10000 rebalance=5000")

    @rule(client=clients)
    def sync(self, client: str) -> None:
        assignments = ",".join(f"{name}:{name}" for name in CLIENTS)
        self.run_line(f"sync {client} v=4 assign={assignments}")

    @rule(count=st.integers(1, len(CLIENTS)))
    def all_join(self, count: int) -> None:
        """Else a group would seldom come to rest."""
        for client in CLIENTS[:count]:
            self.run_line(f"join {client} v=3 session=10000 rebalance=5000")
        self.run_line("wait 2000")

    @rule()
    def all_sync(self) -> None:
        for client in CLIENTS:
            self.sync(client)

    @rule(client=clients)
    def heartbeat(self, client: str) -> None:
        self.run_line(f"heartbeat {client}")

    @rule(client=clients)
    def leave(self, client: str) -> None:
        self.run_line(f"leave {client}")

    @rule(client=st.sampled_from([*CLIENTS, "-"]), partition=st.integers(0, 2))
    def commit(self, client: str, partition: int) -> None:
        self.run_line(f"commit {client} t:{partition}=1 u:{partition}=2")

    @rule(command=st.sampled_from(["delete", "delete-offsets t:0 u:1", "describe", "fetch"]))
    def administer(self, command: str) -> None:
        self.run_line(command)

    @rule(time_ms=times_ms)
    def wait(self, time_ms: int) -> None:
        self.run_line(f"wait {time_ms}")

    # -- what happens to the coordinator

    @rule()
    def fail_appends(self) -> None:
        self.simulation.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        self.lost_appends = True

    @precondition(lambda self: self.simulation.append_error is not None)
    @rule()
    def append_again(self) -> None:
        self.simulation.append_error = None

    @rule()
    def delete_topic(self) -> None:
        deleted = [("t", bytes(16))]
        machine = self.simulation.machine
        self.simulation.carry_out(machine.topics_deleted(deleted, self.simulation.now_ms))
        if self.simulation.append_error is None:
            assert not any(topic == "t" for topic, _, _ in machine.offsets.all_of(GROUP_ID))

    # -- what holds

    @invariant()
    def parked_are_members(self) -> None:
        group = self.simulation.groups.get(GROUP_ID)
        if group is None:
            return
        parked = {*group.awaiting_join.values(), *group.awaiting_sync.values()}
        assert parked == set(self.simulation.waiting), "who waits is known to the group"
        assert group.awaiting_join.keys() <= group.members.keys()
        assert group.awaiting_sync.keys() <= group.members.keys()
        assert not group.pending_joins.keys() & group.members.keys()
        # Those who have not rejoined may be as many again.
        assert len(group.awaiting_join) <= self.simulation.limits.group_max_size
        check_group(group)

    @invariant()
    def who_is_waited_for(self) -> None:
        self.simulation.check_timers()

    @invariant()
    def log_tells_the_same(self) -> None:
        reloaded = self.simulation.reloaded()
        groups, again = self.simulation.groups, classic_groups(reloaded)
        assert reloaded.offsets.by_group == self.simulation.machine.offsets.by_group
        assert again.keys() == groups.keys()
        for group_id, group in groups.items():
            lost = group.state is ClassicState.EMPTY and self.lost_appends
            if group.state in SETTLED and not lost:
                compare(group, again[group_id])

    def teardown(self) -> None:
        """Everything that waits ends once time passes."""
        self.simulation.append_error = None
        self.simulation.wait(600_000)
        self.simulation.replies()
        assert not self.simulation.waiting


def check_group(group: ClassicGroup) -> None:
    for name, supporters in group.supporters.items():
        supporting = [m for m in group.members.values() if name in dict(m.protocols)]
        assert supporters == len(supporting)
    instances = {m.group_instance_id: m.member_id for m in group.members.values() if m.is_static}
    assert group.static_members == instances
    assert (group.leader_id in group.members) == bool(group.members)
    if group.state in SETTLED or group.state is ClassicState.COMPLETING_REBALANCE:
        assert not group.awaiting_join
    if group.state is ClassicState.EMPTY:
        assert not group.members
    if group.state is ClassicState.STABLE:
        assert not group.awaiting_sync


def compare(group: ClassicGroup, loaded: ClassicGroup) -> None:
    assert loaded.state is group.state
    assert loaded.generation_id == group.generation_id
    assert loaded.protocol_type == group.protocol_type
    assert loaded.protocol_name == group.protocol_name
    assert loaded.leader_id == group.leader_id
    assert loaded.static_members == group.static_members
    assert loaded.subscribed_topics == group.subscribed_topics
    assignments = {m.member_id: m.assignment for m in group.members.values()}
    assert {m.member_id: m.assignment for m in loaded.members.values()} == assignments


TestSchedule = Schedule.TestCase
TestSchedule.settings = settings(max_examples=30, stateful_step_count=40)
