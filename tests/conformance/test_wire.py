"""Runs the wire part on kwire and Apache Kafka.

`make test` runs each case in one version, which it draws from the run's order.  Tests marked `long`
run all cases in all versions.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.report import write
from kwire.conformance.wire.allowed import BESIDE_CONTROLLERS, EXCUSED
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.cases import all_cases, own_cases
from kwire.conformance.wire.report import WirePart, WireRun, what_differs
from kwire.conformance.wire.runner import CellState, WireRunner
from kwire.requests.routes import ROUTES
from kwire.testing import BrokerProcess

SILENCE_TIMEOUT_S = 3.0
"""Where Apache Kafka is known not to answer, minutes of waiting prove nothing more."""


def test_every_served_api_key_has_wire_cases() -> None:
    missing = [route.api_key.name for route in ROUTES if not list(own_cases(route.api_key))]
    assert missing == []


def test_every_wire_excuse_names_an_existing_case() -> None:
    cases = {(case.api_key, case.name) for case in all_cases()}
    every = (*EXCUSED, *BESIDE_CONTROLLERS)
    assert {(excuse.api_key, excuse.case) for excuse in every} <= cases


@pytest.fixture(scope="module")
def runner(shared_broker: BrokerProcess, apache_kafka: ApacheKafkaNode) -> WireRunner:
    brokers = [
        RemoteBroker(address_of(b)) for b in (shared_broker.bootstrap, apache_kafka.bootstrap)
    ]
    return WireRunner(brokers[0], brokers[1], all_cases(), silence_timeout_s=SILENCE_TIMEOUT_S)


@pytest.fixture(scope="module")
def drawn(runner: WireRunner, request: pytest.FixtureRequest) -> WireRun:
    rng = random.Random(f"versions of the wire's cases:{request.config.option.order}")
    return WireRun(1.0, tuple(runner.run(drawn=rng)))


@pytest.fixture(scope="module")
def whole(runner: WireRunner) -> WireRun:
    return WireRun(1.0, tuple(runner.run()))


def differences(run: WireRun) -> list[str]:
    return [
        f"{ApiKey(cell.api_key).name} v{cell.version}, {verdict.case.name}: {what_differs(verdict)}"
        for cell in run.red
        for verdict in cell.verdicts
        if verdict.state is CellState.RED
    ]


def test_wire_responses_equal_kafka_in_drawn_versions(drawn: WireRun) -> None:
    unexplained = differences(drawn)
    assert not unexplained, "\n".join(unexplained)
    assert not drawn.red


def test_every_served_api_key_is_green_in_a_drawn_run(drawn: WireRun) -> None:
    """A version is grey if the only case drawn for it cannot be encoded in that version."""
    green = {cell.api_key for cell in drawn.cells if cell.state is CellState.GREEN}
    assert green == {route.api_key for route in ROUTES}
    assert {cell.why for cell in drawn.cells if cell.state is CellState.GREY} <= {"no case"}


@pytest.mark.long
def test_wire_responses_equal_kafka_in_all_versions(whole: WireRun) -> None:
    unexplained = differences(whole)
    assert not unexplained, "\n".join(unexplained)
    grey = {(cell.api_key, cell.why) for cell in whole.cells if cell.state is CellState.GREY}
    assert {why for _, why in grey} <= {"not served yet"}
    green = {cell.api_key for cell in whole.cells if cell.state is CellState.GREEN}
    assert green == {route.api_key for route in ROUTES}
    assert green.isdisjoint(key for key, _ in grey)


@pytest.mark.long
def test_every_wire_excuse_is_used(whole: WireRun) -> None:
    used = {e for cell in whole.cells for verdict in cell.verdicts for e in verdict.excuses}
    unused = set(EXCUSED) - used
    assert not unused, "\n".join(sorted(f"{e.api_key.name}, {e.case}" for e in unused))


def test_wire_reports_contain_every_cell(drawn: WireRun, tmp_path: Path) -> None:
    write([WirePart(drawn)], "kwire", "Apache Kafka", tmp_path)
    cells = json.loads(tmp_path.joinpath("report.json").read_text())["wire"]["cells"]
    assert {(cell["api_key"], cell["version"]) for cell in cells} == {
        (cell.api_key, cell.version) for cell in drawn.cells
    }
    suites = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert len(suites) == len({cell.api_key for cell in drawn.cells})
    assert sum(int(suite.get("tests", "0")) for suite in suites) >= len(drawn.cells)
    page = tmp_path.joinpath("report.html").read_text()
    assert "Fetch" in page
    assert "src=" not in page, "the page must not need other files"
