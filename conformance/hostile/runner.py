"""Runs each hostile case on two brokers at once and finds the first difference."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import EncodeError
from kwire.conformance.hostile.allowed import HostileExcuse, excuse_of
from kwire.conformance.hostile.case import HostileCase
from kwire.conformance.hostile.stage import SILENCE_S, HostileStage
from kwire.conformance.wire.broker import NotReady, RemoteBroker, common_versions
from kwire.conformance.wire.compare import StepDifference, shown, step_differences
from kwire.conformance.wire.peer import ClientConnection, Silent
from kwire.conformance.wire.stage import CaseStep, delete_shared_topics
from kwire.testing.comparing.normal import Normaliser, Tree

PAIRS = 4
"""Cases that run at the same time; most of their time is waiting."""

PATIENCE = 5
"""The factor of the timeout in the second run of a case, which distinguishes slow from silent."""


@dataclass(frozen=True, slots=True)
class HostileVerdict:
    """The result of one case on both brokers; `difference` is the first one that is not allowed."""

    case: HostileCase
    subject: Sequence[CaseStep]
    oracle: Sequence[CaseStep]
    difference: StepDifference | None
    excuses: tuple[HostileExcuse, ...] = ()
    problem: str | None = None
    """Why the case stopped before its end on either broker, or None."""

    @property
    def agrees(self) -> bool:
        return self.difference is None and self.problem is None

    @property
    def one_was_silent(self) -> bool:
        """Whether a broker was silent, which may explain a difference if it was only slow."""
        return any(isinstance(s.outcome, Silent) for s in (*self.subject, *self.oracle))

    def __str__(self) -> str:
        """Return the verdict as text, with the first difference and both responses."""
        lines = [self.case.name]
        if self.problem:
            lines.append(f"  stopped before its end: {self.problem}")
        if self.difference:
            number, difference = self.difference
            lines.append(f"  at {difference.path or 'all'} of response {number + 1}")
            lines.append(f"  subject: {difference.left!r:.1000}")
            lines.append(f"  oracle:  {difference.right!r:.1000}")
            for who, steps in (("subject", self.subject), ("oracle", self.oracle)):
                if number < len(steps):
                    lines.append(f"  whole response of the {who}: {shown(steps[number])!r:.600}")
        return "\n".join(lines)


class HostileRunner:
    """Runs cases on `subject`, which is tested, and on `oracle`, which counts as correct.

    Both get the same bytes in the same way. Mutated requests may leave topics and groups with
    strange names, so the brokers should be disposable.
    """

    def __init__(
        self,
        subject: RemoteBroker,
        oracle: RemoteBroker,
        pairs: int = PAIRS,
        silence_s: float = SILENCE_S,
    ) -> None:
        """Prepare a run in which `pairs` cases run at once.

        No response within `silence_s` seconds counts as none.
        """
        self.subject = subject
        self.oracle = oracle
        self._pairs = pairs
        self._silence_s = silence_s
        self._tag = f"h{os.urandom(3).hex()}"
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
                broker.wait_for_producer_ids(peer, f"{self._tag}-ready")
            finally:
                peer.close()

    def run(self, cases: Iterable[HostileCase]) -> Iterator[HostileVerdict]:
        """Yield verdicts in the order of the cases."""
        try:
            with (
                ThreadPoolExecutor(self._pairs) as pairs,
                ThreadPoolExecutor(2 * self._pairs) as players,
            ):
                yield from pairs.map(lambda pair: self._judge(players, *pair), enumerate(cases))
        finally:
            for broker in (self.subject, self.oracle):
                delete_shared_topics(broker)

    def _judge(self, players: ThreadPoolExecutor, number: int, case: HostileCase) -> HostileVerdict:
        """Return the verdict; if one broker was silent, that of a second play with more
        patience."""
        verdict = self._play_both(players, f"{number}a", case, self._silence_s)
        if not verdict.agrees and verdict.one_was_silent and verdict.difference is not None:
            patience_s = self._silence_s * PATIENCE
            return self._play_both(players, f"{number}b", case, patience_s)
        return verdict

    def _play_both(
        self, players: ThreadPoolExecutor, suffix: str, case: HostileCase, silence_s: float
    ) -> HostileVerdict:
        """Play the case on both brokers at once, and return the first difference."""
        stages = [self._stage(broker, suffix, silence_s) for broker in (self.subject, self.oracle)]
        sides = [players.submit(_play, case, stage) for stage in stages]
        problems = [
            f"{who}: {problem!r}"
            for who, side in zip(("subject", "oracle"), sides, strict=True)
            if (problem := side.result()) is not None
        ]
        left, right = (stage.steps for stage in stages)
        difference, excuses = _first_difference(case.name, stages, self._tag)
        return HostileVerdict(case, left, right, difference, excuses, "; ".join(problems) or None)

    def _stage(self, broker: RemoteBroker, suffix: str, silence_s: float) -> HostileStage:
        """Return a stage with names that no other play on this broker uses."""
        # If subject and oracle are the same cluster, the two runs need different names.  The names
        # have the same length, so that both brokers hash and sort them alike.
        same = self.subject.is_in_cluster_of(self.oracle)
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
    """Run the case on one broker; return the error that stopped it before its end, or None."""
    try:
        case.play(stage)
    except (EncodeError, NotReady, OSError, AttributeError, LookupError) as problem:
        return problem
    finally:
        stage.finish()
    return None


def _first_difference(
    name: str, stages: Sequence[HostileStage], tag: str
) -> tuple[StepDifference | None, tuple[HostileExcuse, ...]]:
    """Return the first difference that is not allowed, and the excuses of those before it."""
    left, right = stages
    of_left, of_right = (
        Normaliser(s.prefix, s.broker.node_id, s.topics, set(s.broker.served), tag) for s in stages
    )
    excuses: list[HostileExcuse] = []
    for step_difference in step_differences(left.steps, right.steps, of_left, of_right):
        number, difference = step_difference
        excuse = excuse_of(name, difference.path, _codes(right.steps, number))
        if excuse is None:
            return step_difference, tuple(excuses)
        if excuse not in excuses:
            excuses.append(excuse)
    return None, tuple(excuses)


def _codes(steps: Sequence[CaseStep], number: int) -> set[int]:
    """Return all error codes in one response."""
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
