"""Plays every case at every version on two brokers and judges the pair."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import request_class
from kwire.codecs.primitives import EncodeError
from kwire.conformance.wire.allowed import Excuse, excuse_of
from kwire.conformance.wire.broker import Broker, NotReady
from kwire.conformance.wire.case import Case
from kwire.conformance.wire.compare import StepDifference, step_differences
from kwire.conformance.wire.peer import REPLY_TIMEOUT_S, Peer
from kwire.conformance.wire.stage import NotApplicable, Stage, Step, delete_topics
from kwire.testing.comparing.normal import Normaliser

WORKERS = 4
"""Cases under way at once: enough to use the time in which a broker waits for its disk."""


class State(StrEnum):
    """What is known of a case, and, taken together, of a cell of the matrix."""

    GREEN = "green"
    RED = "red"
    GREY = "grey"


@dataclass
class Verdict:
    """One case at one version."""

    case: Case
    version: int
    state: State
    left: list[Step] = field(default_factory=list)
    right: list[Step] = field(default_factory=list)
    found: StepDifference | None = None
    """The first difference that nothing excuses, or else the first that something does."""
    excuses: tuple[Excuse, ...] = ()
    problem: str | None = None
    """Why it could not be played to the end, where it could not."""


class Cell(NamedTuple):
    """One API key at one version."""

    api_key: int
    version: int
    state: State
    why: str
    verdicts: tuple[Verdict, ...]


class Selection(NamedTuple):
    """`--only API[:version]`; a version of None is all of them."""

    api_key: ApiKey
    version: int | None

    @classmethod
    def parse(cls, text: str) -> Selection:
        """Names in any spelling, or numbers. Raises ValueError."""
        name, colon, version = text.partition(":")
        plain = name.replace("_", "").upper()
        for key in ApiKey:
            if plain == key.name.replace("_", "") or name == str(int(key)):
                return cls(key, int(version) if colon else None)
        raise ValueError(f"there is no API {name!r}")

    def takes(self, api_key: int, version: int) -> bool:
        return api_key == self.api_key and self.version in (None, version)


Progress = Callable[[Verdict, int], None]
"""Told each verdict as it comes, and how many there will be."""


class Runner:
    """`subject` is judged, `oracle` is right. Both keep running; what cases made is removed."""

    def __init__(
        self,
        subject: Broker,
        oracle: Broker,
        cases: Iterable[Case],
        workers: int = WORKERS,
        reply_timeout_s: float = REPLY_TIMEOUT_S,
    ) -> None:
        self.subject = subject
        self.oracle = oracle
        self._workers = workers
        self._reply_timeout_s = reply_timeout_s
        self._cases: dict[int, list[Case]] = {}
        for case in cases:
            self._cases.setdefault(case.api_key, []).append(case)
        self._tag = f"w{os.urandom(3).hex()}"
        self._now_ms = time.time_ns() // 1_000_000

    def run(
        self,
        only: Sequence[Selection] = (),
        progress: Progress = lambda *_: None,
        *,
        drawn: random.Random | None = None,
    ) -> list[Cell]:
        """All cells, in the order of keys and versions. Raises NotReady or OSError.

        `drawn`: each case at one version alone, drawn from its key's telling ones.
        """
        for broker in (self.subject, self.oracle):
            self._prepare(broker)
        cells = [c for c in self._versions() if not only or any(s.takes(*c) for s in only)]
        jobs = [
            (case, version)
            for key, version in cells
            if self._serves(self.subject, key, version) and self._serves(self.oracle, key, version)
            for case in self._cases.get(key, [])
            if case.applies_to(version)
        ]
        if drawn:
            jobs = self._one_of_each_case(jobs, drawn)
            cells = sorted({(int(case.api_key), version) for case, version in jobs})
        verdicts: dict[tuple[int, int], list[Verdict]] = {cell: [] for cell in cells}
        try:
            for verdict in self._verdicts(jobs):
                progress(verdict, len(jobs))
                verdicts[verdict.case.api_key, verdict.version].append(verdict)
        finally:
            self._tidy()
        return [self._cell(key, version, verdicts[key, version]) for key, version in cells]

    def _verdicts(self, jobs: Sequence[tuple[Case, int]]) -> Iterator[Verdict]:
        """As they come; of what is played alone, when all else has been."""
        pool = ThreadPoolExecutor(self._workers)
        try:
            together = [pool.submit(self._judge, *job) for job in jobs if not job[0].alone]
            for done in as_completed(together):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)
        for job in jobs:
            if job[0].alone:
                yield self._judge(*job)

    # -- the two brokers

    def _prefix(self, broker: Broker) -> str:
        """Names are the same on both, so that what is hashed from them is too; on one cluster
        each side has its own, of the same length."""
        same = self.subject.cluster_id == self.oracle.cluster_id
        return f"{self._tag}{'s' if same and broker is self.subject else 'o'}"

    def _prepare(self, broker: Broker) -> None:
        broker.meet()
        broker.ask_for_metrics()
        broker.meet()
        peer = Peer(broker.address)
        try:
            broker.coordinator_ready(peer, f"{self._prefix(broker)}-ready")
            broker.producers_ready(peer, f"{self._prefix(broker)}-ready")
        finally:
            peer.close()

    def _tidy(self) -> None:
        for broker in (self.subject, self.oracle):
            broker.ask_for_metrics(wanted=False)
            names = broker.shared_names()
            if names:
                peer = Peer(broker.address)
                delete_topics(broker, peer, names)
                peer.close()

    def _serves(self, broker: Broker, api_key: int, version: int) -> bool:
        low, high = broker.served.get(api_key, (0, -1))
        return low <= version <= high

    def _versions(self) -> list[tuple[int, int]]:
        """Every (key, version) that either serves."""
        found = {
            (key, version)
            for broker in (self.subject, self.oracle)
            for key, (low, high) in broker.served.items()
            for version in range(low, high + 1)
        }
        return sorted(found)

    def _one_of_each_case(
        self, jobs: Iterable[tuple[Case, int]], drawn: random.Random
    ) -> list[tuple[Case, int]]:
        """A telling version of each case, or where it applies to none of these, any."""
        versions: dict[Case, list[int]] = {}
        for case, version in jobs:
            versions.setdefault(case, []).append(version)
        chosen = []
        for case, played in versions.items():
            telling = self._telling_versions(case.api_key).intersection(played)
            chosen.append((case, drawn.choice(sorted(telling) or played)))
        return chosen

    def _telling_versions(self, api_key: int) -> set[int]:
        """Where most differs from the versions before and after: the lowest, the highest and the
        first flexible one."""
        ranges = [b.served[api_key] for b in (self.subject, self.oracle) if api_key in b.served]
        lowest, highest = max(low for low, _ in ranges), min(high for _, high in ranges)
        return {lowest, highest, request_class(api_key).FLEXIBLE_SINCE or lowest}

    # -- judging

    def _judge(self, case: Case, version: int) -> Verdict:
        number = self._cases[case.api_key].index(case)
        suffix = f"{int(case.api_key)}v{version}c{number}e"  # no name begins another
        stages = []
        for broker in (self.subject, self.oracle):
            prefix = f"{self._prefix(broker)}-{suffix}"
            told = (broker, case.api_key, version, prefix, self._now_ms, self._reply_timeout_s)
            stages.append(Stage(*told))
        problems = [self._play(case, stage) for stage in stages]
        left, right = (stage.steps for stage in stages)
        if any(isinstance(p, EncodeError | NotApplicable) for p in problems):
            return Verdict(case, version, State.GREY, problem=f"no such request: {problems}")
        common = self.subject.served.keys() & self.oracle.served.keys()
        normalisers = (
            Normaliser(s.prefix, s.broker.node_id, s.topics, common, self._prefix(s.broker))
            for s in stages
        )
        verdict = Verdict(case, version, State.GREEN, left, right)
        for found in step_differences(left, right, *normalisers):
            excuse = excuse_of(case.api_key, case.name, found.difference.path)
            if excuse is None:
                verdict.found, verdict.state = found, State.RED
                break
            verdict.found = verdict.found or found
            if excuse not in verdict.excuses:
                verdict.excuses += (excuse,)
        if verdict.found:
            return verdict
        if any(problems):
            said = "; ".join(
                f"{name}: {problem}"
                for name, problem in zip(("subject", "oracle"), problems, strict=True)
                if problem
            )
            verdict.state, verdict.problem = State.RED, said
        return verdict

    def _play(self, case: Case, stage: Stage) -> Exception | None:
        """What kept the case from being played to its end."""
        try:
            case.play(stage)
        except (EncodeError, NotApplicable, NotReady, OSError) as problem:
            return problem
        except (AttributeError, IndexError, KeyError) as problem:
            # A reply was not what the rest of the script builds on; which one, the steps show.
            return problem
        finally:
            stage.finish()
        return None

    def _cell(self, key: int, version: int, verdicts: list[Verdict]) -> Cell:
        order = {id(case): number for number, case in enumerate(self._cases.get(key, []))}
        verdicts.sort(key=lambda v: order[id(v.case)])
        judged = tuple(v for v in verdicts if v.state is not State.GREY)
        if not self._serves(self.oracle, key, version):
            return Cell(key, version, State.RED, "served, but not by the oracle", ())
        if not self._serves(self.subject, key, version):
            return Cell(key, version, State.GREY, "not served yet", ())
        if not judged:
            return Cell(key, version, State.GREY, "no case", ())
        red = sum(v.state is State.RED for v in judged)
        if red:
            return Cell(key, version, State.RED, f"{red} of {len(judged)} cases differ", judged)
        return Cell(key, version, State.GREEN, f"{len(judged)} cases", judged)
