"""Runs one part of the suite on two brokers and returns its results for the report."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from kwire.conformance import report
from kwire.conformance.behaviour.runner import Runner as BehaviourRunner
from kwire.conformance.behaviour.runner import Verdict as Played
from kwire.conformance.behaviour.scenarios import SCENARIOS
from kwire.conformance.hostile.cases import hostile_cases
from kwire.conformance.hostile.runner import Runner as HostileRunner
from kwire.conformance.hostile.runner import Verdict as Attacked
from kwire.conformance.report import ListPart, ReportLine, ReportPart
from kwire.conformance.selection import BEHAVIOUR, HOSTILE, WIRE, Chosen
from kwire.conformance.wire.broker import Broker, address_of
from kwire.conformance.wire.cases import all_cases
from kwire.conformance.wire.report import Run, WirePart, name_of
from kwire.conformance.wire.runner import Runner as WireRunner

Progress = Callable[[str, int], None]
"""Called with the name of each finished case and the number of all cases."""


class Suite:
    """The parts for two brokers, given as HOST:PORT; `brisk`: see `behaviour.scenario.BRISK`."""

    def __init__(
        self, subject: str, oracle: str, *, brisk: bool, short: bool, workers: int, seed: str
    ) -> None:
        self._addresses = (address_of(subject), address_of(oracle))
        self._brisk = brisk
        self._short = short
        self._workers = workers
        self._seed = seed

    def run(self, part: str, chosen: Chosen, progress: Progress) -> ReportPart:
        """One part. Raises NotReady or OSError."""
        runs = {WIRE: self._wire, BEHAVIOUR: self._behaviour, HOSTILE: self._hostile}
        return runs[part](chosen, progress)

    def _brokers(self) -> tuple[Broker, Broker]:
        subject, oracle = self._addresses
        return Broker(subject), Broker(oracle)

    def _wire(self, chosen: Chosen, progress: Progress) -> ReportPart:
        began = time.monotonic()
        cells = WireRunner(*self._brokers(), all_cases(), self._workers).run(
            chosen.apis,
            lambda verdict, total: progress(
                f"{name_of(verdict.case.api_key)} v{verdict.version}", total
            ),
            drawn=random.Random(self._seed) if self._short else None,
        )
        return WirePart(Run(time.monotonic() - began, tuple(cells)))

    def _behaviour(self, chosen: Chosen, progress: Progress) -> ReportPart:
        began = time.monotonic()
        runner = BehaviourRunner(*self._brokers(), self._workers)
        runner.prepare()
        scenarios = [
            scenario
            for scenario in SCENARIOS
            if chosen.takes(BEHAVIOUR, scenario.name) and (self._brisk or not scenario.brisk)
        ]
        lines = []
        for played in runner.run(scenarios):
            lines.append(_of_scenario(played))
            progress(played.scenario.name, len(scenarios))
        title = "Behaviour: scenarios over several requests"
        return ListPart(BEHAVIOUR, title, lines, time.monotonic() - began)

    def _hostile(self, chosen: Chosen, progress: Progress) -> ReportPart:
        began = time.monotonic()
        runner = HostileRunner(*self._brokers(), self._workers)
        runner.prepare()
        served = runner.subject.served
        cases = [
            case for case in hostile_cases(served, self._seed) if chosen.takes(HOSTILE, case.name)
        ]
        lines = []
        for attacked in runner.run(cases):
            lines.append(_of_case(attacked))
            progress(attacked.case.name, len(cases))
        title = f"Hostile: bytes that no client should send (seed {self._seed})"
        return ListPart(HOSTILE, title, lines, time.monotonic() - began)


def _of_scenario(played: Played) -> ReportLine:
    scenario = played.scenario
    differs = played.found is not None or played.problem is not None
    state = report.LineState.EXCUSED if differs else report.LineState.GREEN
    if not played.agrees:
        state = report.LineState.RED
    detail = str(played).partition("\n")[2] if differs else ""
    reason = (scenario.excuse or "") if differs else ""
    return ReportLine(scenario.name, scenario.about, state, detail, reason)


def _of_case(attacked: Attacked) -> ReportLine:
    name = attacked.case.name
    if not attacked.agrees:
        return ReportLine(name, "", report.LineState.RED, str(attacked).partition("\n")[2])
    if attacked.excuses:
        reason = "; ".join(dict.fromkeys(excuse.reason for excuse in attacked.excuses))
        return ReportLine(name, "", report.LineState.EXCUSED, "", reason)
    return ReportLine(name, "", report.LineState.GREEN)
