"""Runs each case in each version on two brokers and compares the results."""

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
from kwire.conformance.wire.allowed import CaseExcuse, excuse_of
from kwire.conformance.wire.broker import NotReady, RemoteBroker
from kwire.conformance.wire.case import Case
from kwire.conformance.wire.compare import StepDifference, step_differences
from kwire.conformance.wire.peer import REPLY_TIMEOUT_S, ClientConnection
from kwire.conformance.wire.stage import CaseStep, NotApplicable, Stage, delete_shared_topics
from kwire.testing.comparing.normal import Normaliser

WORKERS = 4
"""Cases that run at the same time; more of them fill the time in which a broker waits for its
disk."""


class CellState(StrEnum):
    """The result of a case, or of all cases of one cell of the matrix."""

    GREEN = "green"
    RED = "red"
    GREY = "grey"


@dataclass
class CaseVerdict:
    """The result of one case in one version."""

    case: Case
    version: int
    state: CellState
    left: list[CaseStep] = field(default_factory=list)
    right: list[CaseStep] = field(default_factory=list)
    first_difference: StepDifference | None = None
    """The first difference that is not allowed; if all are allowed, the first one."""
    excuses: tuple[CaseExcuse, ...] = ()
    problem: str | None = None
    """Why the case stopped before its end, or None."""


class Cell(NamedTuple):
    """The result of one API key in one version."""

    api_key: int
    version: int
    state: CellState
    why: str
    verdicts: tuple[CaseVerdict, ...]


class Selection(NamedTuple):
    """What `--only API[:version]` selects; a version of None selects all."""

    api_key: ApiKey
    version: int | None

    @classmethod
    def parse(cls, text: str) -> Selection:
        """Return a selection by an API's name in any spelling, or by its number.

        Raises ValueError.
        """
        name, colon, version = text.partition(":")
        plain = name.replace("_", "").upper()
        for key in ApiKey:
            if plain == key.name.replace("_", "") or name == str(int(key)):
                return cls(key, int(version) if colon else None)
        raise ValueError(f"there is no API {name!r}")

    def takes(self, api_key: int, version: int) -> bool:
        return api_key == self.api_key and self.version in (None, version)


Progress = Callable[[CaseVerdict, int], None]
"""Called with each verdict, and with the number of all verdicts."""


class WireRunner:
    """Runs cases on `subject`, which is tested, and on `oracle`, which counts as correct.

    Both brokers keep running; topics of the cases are deleted.
    """

    def __init__(
        self,
        subject: RemoteBroker,
        oracle: RemoteBroker,
        cases: Iterable[Case],
        workers: int = WORKERS,
        reply_timeout_s: float = REPLY_TIMEOUT_S,
        excuses: Sequence[CaseExcuse] = (),
        silence_timeout_s: float = REPLY_TIMEOUT_S,
    ) -> None:
        """Group the cases by API key.  `excuses` are allowed differences beside EXCUSED.

        `silence_timeout_s` is how long the oracle has for each response in the cases whose excuse
        allows that it never answers.  With less than `reply_timeout_s`, a run takes minutes less,
        and does not notice an oracle that answers later than that.
        """
        self.subject = subject
        self.oracle = oracle
        self._workers = workers
        self._reply_timeout_s = reply_timeout_s
        self._excuses = excuses
        self._silence_timeout_s = silence_timeout_s
        self._cases: dict[int, list[Case]] = {}
        for case in cases:
            self._cases.setdefault(case.api_key, []).append(case)
        self._tag = ""
        self._now_ms = 0

    def run(
        self,
        only: Sequence[Selection] = (),
        progress: Progress = lambda *_: None,
        *,
        drawn: random.Random | None = None,
    ) -> list[Cell]:
        """Return all cells, in the order of keys and versions. Raises NotReady or OSError.

        A random tag keeps the names of this run apart from those of earlier runs on the brokers.

        With `drawn`, each case runs in one version only, drawn from the versions that differ most.
        """
        self._tag = f"w{os.urandom(3).hex()}"
        self._now_ms = time.time_ns() // 1_000_000
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
        verdicts: dict[tuple[int, int], list[CaseVerdict]] = {cell: [] for cell in cells}
        try:
            for verdict in self._verdicts(jobs):
                progress(verdict, len(jobs))
                verdicts[verdict.case.api_key, verdict.version].append(verdict)
        finally:
            self._tidy()
        return [self._cell(key, version, verdicts[key, version]) for key, version in cells]

    def _verdicts(self, jobs: Sequence[tuple[Case, int]]) -> Iterator[CaseVerdict]:
        """Yield verdicts as they come; cases that run alone follow after all others."""
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

    # The two brokers

    def _prefix(self, broker: RemoteBroker) -> str:
        """Return the prefix of all names on a broker.

        It is the same on both brokers, so that hashes of names are equal. If both are the same
        cluster, each side has its own prefix, of the same length.
        """
        same = self.subject.is_in_cluster_of(self.oracle)
        return f"{self._tag}{'s' if same and broker is self.subject else 'o'}"

    def _prepare(self, broker: RemoteBroker) -> None:
        """Read the broker's versions and ids, and wait until it can serve groups and transactions.

        The versions are read again because the metrics subscription changes them.
        """
        broker.read_versions_and_ids()
        broker.set_metrics_subscription()
        broker.read_versions_and_ids()
        peer = ClientConnection(broker.address)
        try:
            broker.wait_for_coordinators(peer, f"{self._prefix(broker)}-ready")
            broker.wait_for_producer_ids(peer, f"{self._prefix(broker)}-ready")
        finally:
            peer.close()

    def _tidy(self) -> None:
        """Remove what the cases shared on both brokers: the subscription and the topics."""
        for broker in (self.subject, self.oracle):
            broker.set_metrics_subscription(wanted=False)
            delete_shared_topics(broker)

    def _serves(self, broker: RemoteBroker, api_key: int, version: int) -> bool:
        low, high = broker.served.get(api_key, (0, -1))
        return low <= version <= high

    def _versions(self) -> list[tuple[int, int]]:
        """Return every (key, version) that at least one of the brokers serves."""
        versions = {
            (key, version)
            for broker in (self.subject, self.oracle)
            for key, (low, high) in broker.served.items()
            for version in range(low, high + 1)
        }
        return sorted(versions)

    def _one_of_each_case(
        self, jobs: Iterable[tuple[Case, int]], drawn: random.Random
    ) -> list[tuple[Case, int]]:
        """Return each case with one version, drawn from `_distinct_versions` if it applies to one
        of them."""
        versions: dict[Case, list[int]] = {}
        for case, version in jobs:
            versions.setdefault(case, []).append(version)
        chosen = []
        for case, played in versions.items():
            distinct = self._distinct_versions(case.api_key).intersection(played)
            chosen.append((case, drawn.choice(sorted(distinct) or played)))
        return chosen

    def _distinct_versions(self, api_key: int) -> set[int]:
        """Return the versions that differ most from their neighbours: lowest, highest and first
        flexible."""
        ranges = [b.served[api_key] for b in (self.subject, self.oracle) if api_key in b.served]
        lowest, highest = max(low for low, _ in ranges), min(high for _, high in ranges)
        return {lowest, highest, request_class(api_key).FLEXIBLE_SINCE or lowest}

    # Verdicts

    def _judge(self, case: Case, version: int) -> CaseVerdict:
        """Play a case on both brokers and return the verdict.

        It is grey if the version has no such request, and red at the first difference without an
        excuse.
        """
        number = self._cases[case.api_key].index(case)
        suffix = (
            f"{int(case.api_key)}v{version}c{number}e"  # so that no name is a prefix of another
        )
        may_be_silent = excuse_of(case.api_key, case.name, "", self._excuses) is not None
        oracle_timeout_s = self._silence_timeout_s if may_be_silent else self._reply_timeout_s
        stages = []
        for broker, timeout_s in (
            (self.subject, self._reply_timeout_s),
            (self.oracle, oracle_timeout_s),
        ):
            prefix = f"{self._prefix(broker)}-{suffix}"
            arguments = (broker, case.api_key, version, prefix, self._now_ms, timeout_s)
            stages.append(Stage(*arguments))
        problems = [self._play(case, stage) for stage in stages]
        left, right = (stage.steps for stage in stages)
        if any(isinstance(p, EncodeError | NotApplicable) for p in problems):
            return CaseVerdict(
                case, version, CellState.GREY, problem=f"no such request: {problems}"
            )
        common = self.subject.served.keys() & self.oracle.served.keys()
        normalisers = (
            Normaliser(s.prefix, s.broker.node_id, s.topics, common, self._prefix(s.broker))
            for s in stages
        )
        verdict = CaseVerdict(case, version, CellState.GREEN, left, right)
        for step_difference in step_differences(left, right, *normalisers):
            path = step_difference.difference.path
            excuse = excuse_of(case.api_key, case.name, path, self._excuses)
            if excuse is None:
                verdict.first_difference, verdict.state = step_difference, CellState.RED
                break
            verdict.first_difference = verdict.first_difference or step_difference
            if excuse not in verdict.excuses:
                verdict.excuses += (excuse,)
        if verdict.first_difference:
            return verdict
        if any(problems):
            texts = "; ".join(
                f"{name}: {problem}"
                for name, problem in zip(("subject", "oracle"), problems, strict=True)
                if problem
            )
            verdict.state, verdict.problem = CellState.RED, texts
        return verdict

    def _play(self, case: Case, stage: Stage) -> Exception | None:
        """Run the case on one broker; return the error that stopped it before its end, or None."""
        try:
            case.play(stage)
        except (EncodeError, NotApplicable, NotReady, OSError) as problem:
            return problem
        except (AttributeError, IndexError, KeyError) as problem:
            # A response lacks what the rest of the script needs; the recorded steps show which one.
            return problem
        finally:
            stage.finish()
        return None

    def _cell(self, key: int, version: int, verdicts: list[CaseVerdict]) -> Cell:
        """Return the result of one version of an API key, with the verdicts in the order of the
        cases."""
        order = {id(case): number for number, case in enumerate(self._cases.get(key, []))}
        verdicts.sort(key=lambda v: order[id(v.case)])
        judged = tuple(v for v in verdicts if v.state is not CellState.GREY)
        if not self._serves(self.oracle, key, version):
            return Cell(key, version, CellState.RED, "served, but not by the oracle", ())
        if not self._serves(self.subject, key, version):
            return Cell(key, version, CellState.GREY, "not served yet", ())
        if not judged:
            return Cell(key, version, CellState.GREY, "no case", ())
        red = sum(v.state is CellState.RED for v in judged)
        if red:
            return Cell(key, version, CellState.RED, f"{red} of {len(judged)} cases differ", judged)
        return Cell(key, version, CellState.GREEN, f"{len(judged)} cases", judged)
