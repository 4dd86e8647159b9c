"""Runs one part of the suite on two brokers and returns its results for the report."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from kwire.conformance import report
from kwire.conformance.behaviour.runner import ScenarioRunner, ScenarioVerdict
from kwire.conformance.behaviour.scenarios import SCENARIOS
from kwire.conformance.hostile.cases import hostile_cases
from kwire.conformance.hostile.runner import HostileRunner, HostileVerdict
from kwire.conformance.report import ListPart, ReportLine, ReportPart
from kwire.conformance.selection import BEHAVIOUR, HOSTILE, WIRE, Chosen
from kwire.conformance.wire.allowed import CaseExcuse
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.cases import all_cases
from kwire.conformance.wire.report import WirePart, WireRun, name_of
from kwire.conformance.wire.runner import WireRunner

Progress = Callable[[str, int], None]
"""Called with the name of each finished case and the number of all cases."""


class Suite:
    """The parts of the suite for two brokers, given as HOST:PORT; for `brisk` see BRISK."""

    def __init__(
        self,
        subject: str,
        oracle: str,
        *,
        brisk: bool,
        short: bool,
        workers: int,
        seed: str,
        excuses: Sequence[CaseExcuse] = (),
    ) -> None:
        """Prepare a run on two brokers, given as HOST:PORT.

        `brisk` says that both check retention often, `short` that each case runs in one drawn
        version.  `excuses` are allowed differences of the wire part beside EXCUSED.
        """
        self._addresses = (address_of(subject), address_of(oracle))
        self._brisk = brisk
        self._short = short
        self._workers = workers
        self._seed = seed
        self._excuses = excuses

    def run(self, part: str, chosen: Chosen, progress: Progress) -> ReportPart:
        """Run one part. Raises NotReady or OSError."""
        runs = {WIRE: self._wire, BEHAVIOUR: self._behaviour, HOSTILE: self._hostile}
        return runs[part](chosen, progress)

    def _brokers(self) -> tuple[RemoteBroker, RemoteBroker]:
        subject, oracle = self._addresses
        return RemoteBroker(subject), RemoteBroker(oracle)

    def _wire(self, chosen: Chosen, progress: Progress) -> ReportPart:
        """Run the wire cases of the chosen API keys; a short run plays each case in one version."""
        start = time.monotonic()
        cells = WireRunner(*self._brokers(), all_cases(), self._workers, excuses=self._excuses).run(
            chosen.apis,
            lambda verdict, total: progress(
                f"{name_of(verdict.case.api_key)} v{verdict.version}", total
            ),
            drawn=random.Random(self._seed) if self._short else None,
        )
        return WirePart(WireRun(time.monotonic() - start, tuple(cells)))

    def _behaviour(self, chosen: Chosen, progress: Progress) -> ReportPart:
        """Run the chosen scenarios; those that wait for retention need brisk brokers."""
        start = time.monotonic()
        runner = ScenarioRunner(*self._brokers(), self._workers)
        runner.prepare()
        scenarios = [
            scenario
            for scenario in SCENARIOS
            if chosen.takes(BEHAVIOUR, scenario.name) and (self._brisk or not scenario.brisk)
        ]
        lines = []
        for verdict in runner.run(scenarios):
            lines.append(_line_of_scenario(verdict))
            progress(verdict.scenario.name, len(scenarios))
        title = "Behaviour: scenarios over several requests"
        return ListPart(BEHAVIOUR, title, lines, time.monotonic() - start)

    def _hostile(self, chosen: Chosen, progress: Progress) -> ReportPart:
        """Run the chosen hostile cases, with mutations that follow from the seed."""
        start = time.monotonic()
        runner = HostileRunner(*self._brokers(), self._workers)
        runner.prepare()
        served = runner.subject.served
        cases = [
            case for case in hostile_cases(served, self._seed) if chosen.takes(HOSTILE, case.name)
        ]
        lines = []
        for verdict in runner.run(cases):
            lines.append(_line_of_case(verdict))
            progress(verdict.case.name, len(cases))
        title = f"Hostile: bytes that no client should send (seed {self._seed})"
        return ListPart(HOSTILE, title, lines, time.monotonic() - start)


def _line_of_scenario(verdict: ScenarioVerdict) -> ReportLine:
    """Return the report's line; a difference with an excuse is not red."""
    scenario = verdict.scenario
    differs = verdict.difference is not None or verdict.problem is not None
    state = report.LineState.EXCUSED if differs else report.LineState.GREEN
    if not verdict.agrees:
        state = report.LineState.RED
    detail = str(verdict).partition("\n")[2] if differs else ""
    reason = (scenario.excuse or "") if differs else ""
    return ReportLine(scenario.name, scenario.about, state, detail, reason)


def _line_of_case(verdict: HostileVerdict) -> ReportLine:
    """Return the report's line; a difference that is allowed is not red."""
    name = verdict.case.name
    if not verdict.agrees:
        return ReportLine(name, "", report.LineState.RED, str(verdict).partition("\n")[2])
    if verdict.excuses:
        reason = "; ".join(dict.fromkeys(excuse.reason for excuse in verdict.excuses))
        return ReportLine(name, "", report.LineState.EXCUSED, "", reason)
    return ReportLine(name, "", report.LineState.GREEN)
