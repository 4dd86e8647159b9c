"""Runs the scenarios on kwire and Apache Kafka, and checks that the comparison can fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.behaviour.runner import ScenarioRunner, ScenarioVerdict
from kwire.conformance.behaviour.scenario import BRISK, Scenario
from kwire.conformance.behaviour.scenarios import SCENARIOS
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.testing import BrokerProcess


@pytest.fixture(scope="module")
def runner(
    apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ScenarioRunner]:
    """Runs scenarios on a kwire and an Apache Kafka that check retention often."""
    directory = tmp_path_factory.mktemp("behaviour")
    subject = BrokerProcess(directory / "kwire", BRISK)
    with ApacheKafka(directory / "apache", settings=BRISK) as oracle:
        subject.start()
        try:
            both = ScenarioRunner(
                RemoteBroker(address_of(subject.bootstrap)),
                RemoteBroker(address_of(oracle.bootstrap)),
            )
            both.prepare()
            yield both
        finally:
            subject.stop()


@pytest.fixture(scope="module")
def verdicts(runner: ScenarioRunner) -> dict[str, ScenarioVerdict]:
    """The verdicts of all scenarios, which run at the same time since they mostly wait."""
    return {verdict.scenario.name: verdict for verdict in runner.run(SCENARIOS)}


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_scenario_has_the_same_outcome_on_kwire_and_kafka(
    verdicts: dict[str, ScenarioVerdict], name: str
) -> None:
    verdict = verdicts[name]
    assert verdict.agrees, str(verdict)
    assert verdict.subject, "nothing was compared"


def test_scenario_that_differs_does_not_agree(runner: ScenarioRunner) -> None:
    def note_who(stage: ScenarioStage) -> None:
        """Notes the broker's address, which differs."""
        stage.note("same", 1)
        stage.note("who", stage.broker.bootstrap)

    (verdict,) = runner.run([Scenario("planted", note_who)])
    assert not verdict.agrees
    assert verdict.difference is not None
    assert verdict.difference.path.startswith("line 2, who")


def test_scenario_that_takes_too_long_on_one_broker_is_repeated(runner: ScenarioRunner) -> None:
    plays = Counter[str]()

    def late(stage: ScenarioStage, times: int = 1) -> None:
        """Exceeds its limit on the subject in the first `times` runs."""
        plays[stage.broker.bootstrap] += 1
        is_late = stage.broker is runner.subject and plays[stage.broker.bootstrap] <= times
        with stage.lasts("a moment", 0.0, 0.0 if is_late else 3600.0):
            stage.pause()

    def always_late(stage: ScenarioStage) -> None:
        late(stage, 1000)

    (verdict,) = runner.run([Scenario("planted", late)])
    assert verdict.agrees, str(verdict)
    assert [*plays.values()] == [2, 2]
    (verdict,) = runner.run([Scenario("planted", always_late)])
    assert not verdict.agrees
    assert "too late" in str(verdict)


def test_scenario_that_stops_early_does_not_agree(runner: ScenarioRunner) -> None:
    def stop(stage: ScenarioStage) -> None:
        """Expects a field that no response has."""
        raise LookupError("no such field")

    (verdict,) = runner.run([Scenario("planted", stop)])
    assert not verdict.agrees
    assert "no such field" in str(verdict)


def test_scenarios_have_unique_names_and_docstrings() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    for scenario in SCENARIOS:
        assert scenario.about, scenario.name
