"""Plays every hostile case on two brokers at once and finds where their verdicts part."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import EncodeError
from kwire.conformance.hostile.allowed import Excuse, excuse_of
from kwire.conformance.hostile.case import HostileCase
from kwire.conformance.hostile.stage import SILENCE_S, HostileStage
from kwire.conformance.wire.broker import Broker, NotReady, common_versions
from kwire.conformance.wire.compare import StepDifference, shown, step_differences
from kwire.conformance.wire.peer import Peer, Silent
from kwire.conformance.wire.stage import Step, delete_topics
from kwire.testing.comparing.normal import Normaliser, Tree

PAIRS = 4
"""Cases under way at once: most of their time is waiting."""

PATIENCE = 5
"""How many times longer a case is waited for when it is played again: was it silence, or slow?"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case on both brokers; `found` is the first difference that nothing excuses."""

    case: HostileCase
    subject: Sequence[Step]
    oracle: Sequence[Step]
    found: StepDifference | None
    excuses: tuple[Excuse, ...] = ()
    problem: str | None = None
    """Why it did not come to its end, on either."""

    @property
    def agrees(self) -> bool:
        return self.found is None and self.problem is None

    @property
    def one_was_silent(self) -> bool:
        """Whether what differs may be a broker that needed longer than it was waited for."""
        return any(isinstance(s.outcome, Silent) for s in (*self.subject, *self.oracle))

    def __str__(self) -> str:
        lines = [self.case.name]
        if self.problem:
            lines.append(f"  not played to its end: {self.problem}")
        if self.found:
            number, difference = self.found
            lines.append(f"  at {difference.path or 'all'} of answer {number + 1}")
            lines.append(f"  subject: {difference.left!r:.1000}")
            lines.append(f"  oracle:  {difference.right!r:.1000}")
            for who, steps in (("subject", self.subject), ("oracle", self.oracle)):
                if number < len(steps):
                    lines.append(f"  all of the {who}'s: {shown(steps[number])!r:.600}")
        return "\n".join(lines)


class Runner:
    """`subject` is judged, `oracle` is right: both get the same bytes in the same way.

    Mutated requests may leave topics and groups of odd names behind: use brokers that can be
    thrown away.
    """

    def __init__(
        self,
        subject: Broker,
        oracle: Broker,
        pairs: int = PAIRS,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.subject = subject
        self.oracle = oracle
        self._pairs = pairs
        self._silence_s = silence_s
        self._tag = f"h{os.urandom(3).hex()}"
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
                broker.producers_ready(peer, f"{self._tag}-ready")
            finally:
                peer.close()

    def run(self, cases: Iterable[HostileCase]) -> Iterator[Verdict]:
        """A verdict for each, as they come, in their order."""
        try:
            with (
                ThreadPoolExecutor(self._pairs) as pairs,
                ThreadPoolExecutor(2 * self._pairs) as players,
            ):
                yield from pairs.map(lambda one: self._judge(players, *one), enumerate(cases))
        finally:
            for broker in (self.subject, self.oracle):
                _tidy(broker)

    def _judge(self, players: ThreadPoolExecutor, number: int, case: HostileCase) -> Verdict:
        verdict = self._play_both(players, f"{number}a", case, self._silence_s)
        if not verdict.agrees and verdict.one_was_silent and verdict.found is not None:
            patience_s = self._silence_s * PATIENCE
            return self._play_both(players, f"{number}b", case, patience_s)
        return verdict

    def _play_both(
        self, players: ThreadPoolExecutor, suffix: str, case: HostileCase, silence_s: float
    ) -> Verdict:
        stages = [self._stage(broker, suffix, silence_s) for broker in (self.subject, self.oracle)]
        sides = [players.submit(_play, case, stage) for stage in stages]
        problems = [
            f"{who}: {problem!r}"
            for who, side in zip(("subject", "oracle"), sides, strict=True)
            if (problem := side.result()) is not None
        ]
        left, right = (stage.steps for stage in stages)
        found, excuses = _first_difference(case.name, stages, self._tag)
        return Verdict(case, left, right, found, excuses, "; ".join(problems) or None)

    def _stage(self, broker: Broker, suffix: str, silence_s: float) -> HostileStage:
        # Two runs on one cluster, subject and oracle the same, still need names of their own;
        # names of the same length are hashed and sorted alike.
        same = self.subject.cluster_id == self.oracle.cluster_id
        side = "s" if same and broker is self.subject else "o"
        return HostileStage(
            broker,
            ApiKey.PRODUCE,
            broker.served[ApiKey.PRODUCE][1],
            f"{self._tag}{side}-{suffix}",
            self._now_ms,
            reply_timeout_s=silence_s,
            silence_s=silence_s,
        )


def _play(case: HostileCase, stage: HostileStage) -> Exception | None:
    """What kept the case from being played to its end."""
    try:
        case.play(stage)
    except (EncodeError, NotReady, OSError, AttributeError, LookupError) as problem:
        return problem
    finally:
        stage.finish()
    return None


def _first_difference(
    name: str, stages: Sequence[HostileStage], tag: str
) -> tuple[StepDifference | None, tuple[Excuse, ...]]:
    """The first difference without an excuse, and the excuses of those before it."""
    left, right = stages
    of_left, of_right = (
        Normaliser(s.prefix, s.broker.node_id, s.topics, set(s.broker.served), tag) for s in stages
    )
    excuses: list[Excuse] = []
    for found in step_differences(left.steps, right.steps, of_left, of_right):
        excuse = excuse_of(name, found.difference.path, _codes(right.steps, found.number))
        if excuse is None:
            return found, tuple(excuses)
        if excuse not in excuses:
            excuses.append(excuse)
    return None, tuple(excuses)


def _codes(steps: Sequence[Step], number: int) -> set[int]:
    """The error codes in one answer."""
    codes: set[int] = set()
    waiting: list[Tree] = [shown(steps[number])] if number < len(steps) else []
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, dict):
            code = tree.get("error_code")
            codes |= {code} if isinstance(code, int) else set()
            waiting += tree.values()
        elif isinstance(tree, list):
            waiting += tree
    return codes


def _tidy(broker: Broker) -> None:
    names = broker.shared_names()
    if names:
        peer = Peer(broker.address)
        try:
            delete_topics(broker, peer, names)
        finally:
            peer.close()
