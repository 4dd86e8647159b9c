"""The wire part, on this broker and Apache Kafka: its first, last and first flexible versions."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.report import write
from kwire.conformance.wire.allowed import EXCUSED
from kwire.conformance.wire.broker import Broker, address_of
from kwire.conformance.wire.cases import all_cases, own_cases
from kwire.conformance.wire.report import Run, WirePart, what_differs
from kwire.conformance.wire.runner import Runner, State
from kwire.routes import ROUTES
from kwire.testing import BrokerProcess


def test_every_key_that_is_served_has_cases_of_its_own() -> None:
    missing = [route.api_key.name for route in ROUTES if not list(own_cases(route.api_key))]
    assert missing == []


def test_every_excuse_is_for_a_case_there_is() -> None:
    cases = {(case.api_key, case.name) for case in all_cases()}
    assert {(excuse.api_key, excuse.case) for excuse in EXCUSED} <= cases


@pytest.fixture(scope="module")
def run(shared_broker: BrokerProcess, apache_kafka: ApacheKafkaNode) -> Run:
    brokers = [Broker(address_of(b)) for b in (shared_broker.bootstrap, apache_kafka.bootstrap)]
    cells = Runner(brokers[0], brokers[1], all_cases()).run(short=True)
    return Run(1.0, tuple(cells))


def test_the_replies_are_those_of_apache_kafka(run: Run) -> None:
    found = [
        f"{ApiKey(cell.api_key).name} v{cell.version}, {verdict.case.name}: {what_differs(verdict)}"
        for cell in run.red
        for verdict in cell.verdicts
        if verdict.state is State.RED
    ]
    assert not found, "\n".join(found)
    assert not run.red


def test_all_that_is_served_is_green_and_the_rest_is_listed(run: Run) -> None:
    green = {cell.api_key for cell in run.cells if cell.state is State.GREEN}
    assert green == {route.api_key for route in ROUTES}
    grey = {(cell.api_key, cell.why) for cell in run.cells if cell.state is State.GREY}
    assert {why for _, why in grey} <= {"not served yet"}
    assert green.isdisjoint(key for key, _ in grey)


def test_every_excuse_is_used(run: Run) -> None:
    used = {e for cell in run.cells for verdict in cell.verdicts for e in verdict.excuses}
    idle = set(EXCUSED) - used
    assert not idle, "\n".join(sorted(f"{e.api_key.name}, {e.case}" for e in idle))


def test_the_reports_tell_it(run: Run, tmp_path: Path) -> None:
    write([WirePart(run)], "kwire", "Apache Kafka", tmp_path)
    cells = json.loads(tmp_path.joinpath("report.json").read_text())["wire"]["cells"]
    assert {(cell["api_key"], cell["version"]) for cell in cells} == {
        (cell.api_key, cell.version) for cell in run.cells
    }
    suites = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert len(suites) == len({cell.api_key for cell in run.cells})
    assert sum(int(suite.get("tests", "0")) for suite in suites) >= len(run.cells)
    page = tmp_path.joinpath("report.html").read_text()
    assert "Fetch" in page
    assert "src=" not in page  # it needs no other file
