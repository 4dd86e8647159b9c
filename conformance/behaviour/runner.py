"""Plays each scenario on two brokers at once and finds where their transcripts part."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import EncodeError
from kwire.conformance.behaviour.scenario import Scenario
from kwire.conformance.behaviour.stage import TOO_LATE, Entry, ScenarioStage
from kwire.conformance.wire.broker import Broker, NotReady, common_versions
from kwire.conformance.wire.peer import Peer
from kwire.testing.comparing.differences import Difference, differences
from kwire.testing.comparing.normal import Tree

PAIRS = 4
"""Scenarios under way at once: most of their time is waiting."""
ATTEMPTS = 5
"""At what comes too late at one of the two: a broker that is slow is so each time, and a machine
that has other things to do is not."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One scenario on both brokers; `found` is the first difference."""

    scenario: Scenario
    subject: list[Entry]
    oracle: list[Entry]
    found: Difference | None
    problem: str | None
    """Why it did not come to its end, on either."""

    @property
    def agrees(self) -> bool:
        return self.problem is None and (self.found is None or bool(self.scenario.excuse))

    @property
    def came_too_late(self) -> bool:
        """Whether they differ, and something took longer than it may."""
        entries = [*self.subject, *self.oracle]
        return not self.agrees and any(each.value == TOO_LATE for each in entries)

    def __str__(self) -> str:
        lines = [f"{self.scenario.name}: {self.scenario.about}"]
        if self.problem:
            lines.append(f"  not played to its end: {self.problem}")
        if self.found:
            lines.append(f"  at {self.found.path}")
            lines.append(f"  subject: {self.found.left!r:.2000}")
            lines.append(f"  oracle:  {self.found.right!r:.2000}")
        return "\n".join(lines)


class Runner:
    """`subject` is judged, `oracle` is right. Topics are removed afterwards, groups are not."""

    def __init__(self, subject: Broker, oracle: Broker, pairs: int = PAIRS) -> None:
        self.subject = subject
        self.oracle = oracle
        self._pairs = pairs
        self._tag = f"b{os.urandom(3).hex()}"
        self._now_ms = time.time_ns() // 1_000_000

    def prepare(self) -> None:
        """Meet both; from then on only what both serve is sent. Raises NotReady or OSError."""
        for broker in (self.subject, self.oracle):
            broker.meet()
        served = common_versions(self.subject.served, self.oracle.served)
        for broker in (self.subject, self.oracle):
            broker.served = served
            peer = Peer(broker.address)
            try:
                broker.coordinator_ready(peer, f"{self._tag}-ready")
            finally:
                peer.close()

    def run(self, scenarios: Iterable[Scenario]) -> Iterator[Verdict]:
        """A verdict for each, as they come: in their order, but those that are alone last."""
        numbered = list(enumerate(scenarios))
        together = [one for one in numbered if not one[1].alone]
        with (
            ThreadPoolExecutor(self._pairs) as pairs,
            ThreadPoolExecutor(2 * self._pairs) as players,
        ):
            yield from pairs.map(lambda one: self._judge(players, *one), together)
            for number, scenario in numbered:
                if scenario.alone:
                    yield self._judge(players, number, scenario)

    def _judge(self, players: ThreadPoolExecutor, number: int, scenario: Scenario) -> Verdict:
        for attempt in range(ATTEMPTS):
            verdict = self._compared(players, f"{number}a{attempt}", scenario)
            if not verdict.came_too_late:
                break
        return verdict

    def _compared(self, players: ThreadPoolExecutor, play: str, scenario: Scenario) -> Verdict:
        sides = [
            players.submit(self._play, scenario, self._stage(broker, play))
            for broker in (self.subject, self.oracle)
        ]
        (left, left_problem), (right, right_problem) = (side.result() for side in sides)
        problems = [
            f"{who}: {problem!r}"
            for who, problem in (("subject", left_problem), ("oracle", right_problem))
            if problem is not None
        ]
        found = _first_difference(left, right)
        return Verdict(scenario, left, right, found, "; ".join(problems) or None)

    def _stage(self, broker: Broker, play: str) -> ScenarioStage:
        # Two runs on one cluster, subject and oracle the same, still need names of their own;
        # names of the same length are hashed and sorted alike.
        side = "s" if broker is self.subject and self._same_cluster else "o"
        prefix = f"{self._tag}{side}-{play}e"
        newest = broker.served[ApiKey.PRODUCE][1]
        return ScenarioStage(broker, ApiKey.PRODUCE, newest, prefix, self._now_ms)

    @property
    def _same_cluster(self) -> bool:
        return self.subject.cluster_id == self.oracle.cluster_id

    def _play(
        self, scenario: Scenario, stage: ScenarioStage
    ) -> tuple[list[Entry], Exception | None]:
        problem: Exception | None = None
        try:
            scenario.play(stage)
        except (EncodeError, NotReady, OSError, AttributeError, LookupError, ValueError) as error:
            # A reply was not what the rest of the script builds on: the transcript shows which.
            problem = error
        finally:
            stage.finish()
        common = set(stage.broker.served)
        return stage.transcript(common, self._tag), problem


def _first_difference(left: list[Entry], right: list[Entry]) -> Difference | None:
    for number, (a, b) in enumerate(zip(left, right, strict=False), 1):
        if a.what != b.what:
            return Difference(f"line {number}", a.what, b.what)
        found = next(differences(a.value, b.value), None)
        if found:
            return found._replace(path=f"line {number}, {a.what}: {found.path}")
    if len(left) != len(right):
        more: Tree = [entry.what for entry in (left + right)[min(len(left), len(right)) :][:1]]
        return Difference(f"after line {min(len(left), len(right))}", len(left), more)
    return None
