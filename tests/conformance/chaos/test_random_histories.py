"""Tests the checks on random correct histories, and on the same ones with one planted error."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import hypothesis
from hypothesis import strategies as st

from kwire.conformance.chaos.checks import violations
from kwire.conformance.chaos.history import Event, History, Type
from kwire.conformance.chaos.workloads.stream import Stream
from tests.conformance.chaos.script import GROUP, TP, Script

PRODUCERS = ("a", "b")
STEPS = ("produce", "unknown", "poll", "commit", "look", "rebalance")


class World:
    """A model of one partition, two producers, and a group with one reading member at a time."""

    def __init__(self, rng: random.Random) -> None:
        self.script = Script()
        self._rng = rng
        self._log: list[tuple[int, str, int]] = []
        self._sent = dict.fromkeys(PRODUCERS, 0)
        self._read = self._committed = self._members = 0
        self._join()

    def _join(self) -> None:
        self._members += 1
        self._member = f"r{self._members}"
        self._read = self._committed
        self.script.assign(self._member)

    def step(self, name: str) -> None:
        getattr(self, f"_{name}")()

    def _produce(self) -> None:
        who = self._rng.choice(PRODUCERS)
        self.script.produce(self._sent[who], len(self._log), process=who)
        self._append(who)

    def _unknown(self) -> None:
        """Produce a record whose response is lost; the record may be in the log or not."""
        who = self._rng.choice(PRODUCERS)
        self.script.produce(
            self._sent[who], -1, process=who, type_=Type.INFO, error="CLOSED", idempotent=False
        )
        if self._rng.random() < 0.5:
            self._append(who)
        else:
            self._sent[who] += 1

    def _append(self, who: str) -> None:
        self._log.append((len(self._log), who, self._sent[who]))
        self._sent[who] += 1

    def _poll(self) -> None:
        end = self._rng.randint(self._read, len(self._log))
        if end > self._read:
            self.script.poll(*self._log[self._read : end], process=self._member)
            self._read = end

    def _commit(self) -> None:
        outcome = self._rng.choice([Type.OK, Type.OK, Type.INFO, Type.FAIL])
        if self._read > self._committed:
            self.script.commit(self._read, outcome, self._member)
            applied = outcome is Type.OK or (outcome is Type.INFO and self._rng.random() < 0.5)
            self._committed = self._read if applied else self._committed

    def _look(self) -> None:
        self.script.ends(len(self._log))
        if self._committed:
            self.script.committed(self._committed)

    def _rebalance(self) -> None:
        self.script.revoke(self._member)
        self._join()

    def finish(self) -> list[Event]:
        if self._read < len(self._log):
            self.script.poll(*self._log[self._read :], process=self._member)
            self.script.commit(len(self._log), process=self._member)
        self.script.log(*self._log)
        return self.script.events


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Event], random.Random]:
    rng = random.Random(draw(st.integers(0, 2**32)))
    world = World(rng)
    world.step("produce")
    world.step("produce")
    for name in draw(st.lists(st.sampled_from(STEPS), max_size=60)):
        world.step(name)
    return world.finish(), rng


def kinds(events: list[Event]) -> set[str]:
    return {violation.kind for violation in violations(History(events), Stream.checks)}


def final_records(events: list[Event]) -> list[tuple[int, str, int]]:
    return list(events[-1].value["records"])


def with_log(events: list[Event], records: list[tuple[int, str, int]]) -> list[Event]:
    """The same history with another end state, whose offsets are contiguous."""
    numbered = [(offset, who, number) for offset, (_, who, number) in enumerate(records)]
    value = {"start": 0, "end": len(numbered), "records": numbered}
    return [*events[:-1], replace(events[-1], value=value)]


def lose_the_last(events: list[Event], rng: random.Random) -> list[Event]:
    return with_log(events, final_records(events)[:-1])


def repeat_one(events: list[Event], rng: random.Random) -> list[Event]:
    records = final_records(events)
    return with_log(events, [*records, rng.choice(records)])


def swap_two(events: list[Event], rng: random.Random) -> list[Event]:
    records = final_records(events)
    at = rng.randrange(len(records) - 1)
    records[at], records[at + 1] = records[at + 1], records[at]
    return with_log(events, records)


def invent_one(events: list[Event], rng: random.Random) -> list[Event]:
    return with_log(events, [*final_records(events), (0, "a", 10_000)])


def forget_commits(events: list[Event], rng: random.Random) -> list[Event]:
    """A client reads and commits all records, and then gets 0 as the committed offset."""
    script = Script()
    script.events = list(events)
    end, now_ns = len(final_records(events)), events[-1].time_ns
    for step, (f, arguments, result) in enumerate(
        [("commit", {"offsets": [(TP, end)]}, {}), ("committed", {}, {"offsets": [(TP, 0)]})]
    ):
        begun = now_ns + 1 + 2 * step
        op = len(script.events)
        script.events.append(Event(begun, "x", Type.INVOKE, f, op, {"group": GROUP, **arguments}))
        script.events.append(Event(begun + 1, "x", Type.OK, f, op, result))
    return script.events


def skip_in_reading(events: list[Event], rng: random.Random) -> list[Event]:
    """A poll that returned several records is recorded without the first one."""
    for at, event in enumerate(events):
        records = event.value.get("records", [])
        if event.f == "poll" and len(records) > 2:
            value = {"records": [records[0], *records[2:]]}
            return [*events[:at], replace(event, value=value), *events[at + 1 :]]
    hypothesis.reject()


Plant = Callable[[list[Event], random.Random], list[Event]]

PLANTS: dict[Plant, set[str]] = {
    lose_the_last: {"lost", "read differs"},
    repeat_one: {"twice"},
    swap_two: {"moved", "order", "read differs"},
    invent_one: {"never sent"},
    forget_commits: {"commit went back"},
    skip_in_reading: {"not contiguous"},
}
"""For each planted error, the violations of which the checks must find at least one."""


@hypothesis.given(histories())
def test_checks_find_nothing_in_random_correct_histories(
    made: tuple[list[Event], random.Random],
) -> None:
    assert kinds(made[0]) == set()


@hypothesis.given(histories(), st.sampled_from(sorted(PLANTS, key=lambda plant: plant.__name__)))
def test_checks_find_a_planted_error_in_random_histories(
    made: tuple[list[Event], random.Random], plant: Plant
) -> None:
    events, rng = made
    assert kinds(plant(events, rng)) & PLANTS[plant], plant.__name__


@hypothesis.given(histories())
def test_order_of_lines_does_not_change_the_result(made: tuple[list[Event], random.Random]) -> None:
    """Threads write lines late, so only their times count."""
    events, rng = made
    shuffled = rng.sample(events, len(events))
    assert kinds(shuffled) == set()
