"""The wire part, on this broker and Apache Kafka.

For every change each case is played at one version, drawn from the run's order; before a release
(`long`) all of them at all versions.
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
from kwire.conformance.wire.allowed import EXCUSED
from kwire.conformance.wire.broker import Broker, address_of
from kwire.conformance.wire.cases import all_cases, own_cases
from kwire.conformance.wire.report import Run, WirePart, what_differs
from kwire.conformance.wire.runner import Runner, State
from kwire.requests.routes import ROUTES
from kwire.testing import BrokerProcess


def test_every_key_that_is_served_has_cases_of_its_own() -> None:
    missing = [route.api_key.name for route in ROUTES if not list(own_cases(route.api_key))]
    assert missing == []


def test_every_excuse_is_for_a_case_there_is() -> None:
    cases = {(case.api_key, case.name) for case in all_cases()}
    assert {(excuse.api_key, excuse.case) for excuse in EXCUSED} <= cases


@pytest.fixture(scope="module")
def runner(shared_broker: BrokerProcess, apache_kafka: ApacheKafkaNode) -> Runner:
    brokers = [Broker(address_of(b)) for b in (shared_broker.bootstrap, apache_kafka.bootstrap)]
    return Runner(brokers[0], brokers[1], all_cases())


@pytest.fixture(scope="module")
def drawn(runner: Runner, request: pytest.FixtureRequest) -> Run:
    rng = random.Random(f"versions of the wire's cases:{request.config.option.order}")
    return Run(1.0, tuple(runner.run(drawn=rng)))


@pytest.fixture(scope="module")
def whole(runner: Runner) -> Run:
    return Run(1.0, tuple(runner.run()))


def differences(run: Run) -> list[str]:
    return [
        f"{ApiKey(cell.api_key).name} v{cell.version}, {verdict.case.name}: {what_differs(verdict)}"
        for cell in run.red
        for verdict in cell.verdicts
        if verdict.state is State.RED
    ]


def test_the_replies_are_those_of_apache_kafka(drawn: Run) -> None:
    found = differences(drawn)
    assert not found, "\n".join(found)
    assert not drawn.red


def test_all_that_is_served_is_green(drawn: Run) -> None:
    """Nothing is known of a key's version that has no form for the only request drawn for it."""
    green = {cell.api_key for cell in drawn.cells if cell.state is State.GREEN}
    assert green == {route.api_key for route in ROUTES}
    assert {cell.why for cell in drawn.cells if cell.state is State.GREY} <= {"no case"}


@pytest.mark.long
def test_the_replies_are_those_of_apache_kafka_at_all_versions(whole: Run) -> None:
    found = differences(whole)
    assert not found, "\n".join(found)
    grey = {(cell.api_key, cell.why) for cell in whole.cells if cell.state is State.GREY}
    assert {why for _, why in grey} <= {"not served yet"}
    green = {cell.api_key for cell in whole.cells if cell.state is State.GREEN}
    assert green == {route.api_key for route in ROUTES}
    assert green.isdisjoint(key for key, _ in grey)


@pytest.mark.long
def test_every_excuse_is_used(whole: Run) -> None:
    used = {e for cell in whole.cells for verdict in cell.verdicts for e in verdict.excuses}
    idle = set(EXCUSED) - used
    assert not idle, "\n".join(sorted(f"{e.api_key.name}, {e.case}" for e in idle))


def test_the_reports_tell_it(drawn: Run, tmp_path: Path) -> None:
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
    assert "src=" not in page  # it needs no other file
