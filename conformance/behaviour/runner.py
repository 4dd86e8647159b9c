"""Runs each scenario on two brokers at once and finds the first difference of their transcripts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import EncodeError
from kwire.conformance.behaviour.scenario import Scenario
from kwire.conformance.behaviour.stage import TOO_LATE, ScenarioStage, TranscriptEntry
from kwire.conformance.wire.broker import NotReady, RemoteBroker, common_versions
from kwire.conformance.wire.peer import ClientConnection
from kwire.testing.comparing.differences import Difference, differences
from kwire.testing.comparing.normal import Tree

PAIRS = 4
"""Scenarios that run at the same time; most of their time is waiting."""
ATTEMPTS = 5
"""Attempts if something takes too long on one broker.

A broker that is really too slow is so in each attempt; a busy machine is not.
"""


@dataclass(frozen=True, slots=True)
class ScenarioVerdict:
    """The result of one scenario on both brokers; `difference` is the first one."""

    scenario: Scenario
    subject: list[TranscriptEntry]
    oracle: list[TranscriptEntry]
    difference: Difference | None
    problem: str | None
    """Why the scenario stopped before its end on either broker, or None."""

    @property
    def agrees(self) -> bool:
        excused = self.difference is None or bool(self.scenario.excuse)
        return self.problem is None and excused

    @property
    def too_late(self) -> bool:
        """Whether the brokers differ and something took longer than its limit."""
        entries = [*self.subject, *self.oracle]
        return not self.agrees and any(entry.value == TOO_LATE for entry in entries)

    def __str__(self) -> str:
        """Return the verdict as text; each value is cut off at 2000 characters."""
        lines = [f"{self.scenario.name}: {self.scenario.about}"]
        if self.problem:
            lines.append(f"  stopped before its end: {self.problem}")
        if self.difference:
            lines.append(f"  at {self.difference.path}")
            lines.append(f"  subject: {self.difference.left!r:.2000}")
            lines.append(f"  oracle:  {self.difference.right!r:.2000}")
        return "\n".join(lines)


class ScenarioRunner:
    """Runs scenarios on `subject`, which is tested, and on `oracle`, which counts as correct.

    Topics of the scenarios are deleted at the end, groups are not.
    """

    def __init__(self, subject: RemoteBroker, oracle: RemoteBroker, pairs: int = PAIRS) -> None:
        self.subject = subject
        self.oracle = oracle
        self._pairs = pairs
        self._tag = f"b{os.urandom(3).hex()}"
        self._now_ms = time.time_ns() // 1_000_000

    def prepare(self) -> None:
        """Read what both brokers serve; later requests use only that. Raises NotReady or
        OSError."""
        for broker in (self.subject, self.oracle):
            broker.read_versions_and_ids()
        served = common_versions(self.subject.served, self.oracle.served)
        for broker in (self.subject, self.oracle):
            broker.served = served
            peer = ClientConnection(broker.address)
            try:
                broker.wait_for_coordinators(peer, f"{self._tag}-ready")
            finally:
                peer.close()

    def run(self, scenarios: Iterable[Scenario]) -> Iterator[ScenarioVerdict]:
        """Yield verdicts in the order of the scenarios, but those that run alone come last."""
        numbered = list(enumerate(scenarios))
        together = [pair for pair in numbered if not pair[1].alone]
        with (
            ThreadPoolExecutor(self._pairs) as pairs,
            ThreadPoolExecutor(2 * self._pairs) as players,
        ):
            yield from pairs.map(lambda pair: self._judge(players, *pair), together)
            for number, scenario in numbered:
                if scenario.alone:
                    yield self._judge(players, number, scenario)

    def _judge(
        self, players: ThreadPoolExecutor, number: int, scenario: Scenario
    ) -> ScenarioVerdict:
        """Return the verdict, from another attempt if the scenario came too late for its own
        times."""
        for attempt in range(ATTEMPTS):
            verdict = self._compare(players, f"{number}a{attempt}", scenario)
            if not verdict.too_late:
                break
        return verdict

    def _compare(
        self, players: ThreadPoolExecutor, play: str, scenario: Scenario
    ) -> ScenarioVerdict:
        """Play the scenario on both brokers at once, and return the first difference."""
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
        difference = _first_difference(left, right)
        return ScenarioVerdict(scenario, left, right, difference, "; ".join(problems) or None)

    def _stage(self, broker: RemoteBroker, play: str) -> ScenarioStage:
        """Return a stage with names that no other play on this broker uses."""
        # If subject and oracle are the same cluster, the two runs need different names.  The names
        # have the same length, so that both brokers hash and sort them alike.
        side = "s" if broker is self.subject and self._same_cluster else "o"
        prefix = f"{self._tag}{side}-{play}e"
        newest = broker.served[ApiKey.PRODUCE][1]
        return ScenarioStage(broker, ApiKey.PRODUCE, newest, prefix, self._now_ms)

    @property
    def _same_cluster(self) -> bool:
        return self.subject.is_in_cluster_of(self.oracle)

    def _play(
        self, scenario: Scenario, stage: ScenarioStage
    ) -> tuple[list[TranscriptEntry], Exception | None]:
        """Return the transcript of a play, and the error that ended it early, if any."""
        problem: Exception | None = None
        try:
            scenario.play(stage)
        except (EncodeError, NotReady, OSError, AttributeError, LookupError, ValueError) as error:
            # A response lacks what the rest of the script needs; the transcript shows which one.
            problem = error
        finally:
            stage.finish()
        common = set(stage.broker.served)
        return stage.transcript(common, self._tag), problem


def _first_difference(
    left: list[TranscriptEntry], right: list[TranscriptEntry]
) -> Difference | None:
    """Return the first difference of two transcripts, or None if they are equal."""
    for number, (a, b) in enumerate(zip(left, right, strict=False), 1):
        if a.what != b.what:
            return Difference(f"line {number}", a.what, b.what)
        difference = next(differences(a.value, b.value), None)
        if difference:
            return difference._replace(path=f"line {number}, {a.what}: {difference.path}")
    if len(left) != len(right):
        extra: Tree = [entry.what for entry in (left + right)[min(len(left), len(right)) :][:1]]
        return Difference(f"after line {min(len(left), len(right))}", len(left), extra)
    return None
