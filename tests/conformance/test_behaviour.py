"""The scenarios, played on kwire and on Apache Kafka; and that the comparison can fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.behaviour.runner import Runner, Verdict
from kwire.conformance.behaviour.scenario import BRISK, Scenario
from kwire.conformance.behaviour.scenarios import SCENARIOS
from kwire.conformance.behaviour.stage import ScenarioStage
from kwire.conformance.wire.broker import Broker, address_of
from kwire.testing import BrokerProcess


@pytest.fixture(scope="module")
def runner(apache_kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    """A kwire against an Apache Kafka, both of their own: they look after their logs briskly."""
    directory = tmp_path_factory.mktemp("behaviour")
    subject = BrokerProcess(directory / "kwire", BRISK)
    with ApacheKafka(directory / "apache", settings=BRISK) as oracle:
        subject.start()
        try:
            both = Runner(
                Broker(address_of(subject.bootstrap)), Broker(address_of(oracle.bootstrap))
            )
            both.prepare()
            yield both
        finally:
            subject.stop()


@pytest.fixture(scope="module")
def verdicts(runner: Runner) -> dict[str, Verdict]:
    """All scenarios are played together: most of their time is waiting."""
    return {verdict.scenario.name: verdict for verdict in runner.run(SCENARIOS)}


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_brokers_agree(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    assert verdict.agrees, str(verdict)
    assert verdict.subject, "nothing was compared"


def test_a_difference_is_found(runner: Runner) -> None:
    def note_who(stage: ScenarioStage) -> None:
        """Each broker by its own port."""
        stage.note("same", 1)
        stage.note("who", stage.broker.bootstrap)

    (verdict,) = runner.run([Scenario("planted", note_who)])
    assert not verdict.agrees
    assert verdict.found is not None
    assert verdict.found.path.startswith("line 2, who")


def test_what_comes_too_late_is_played_again(runner: Runner) -> None:
    plays = Counter[str]()

    def late(stage: ScenarioStage, times: int = 1) -> None:
        """By the clock of who plays, on one of both."""
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


def test_a_scenario_that_stops_is_found(runner: Runner) -> None:
    def stop(stage: ScenarioStage) -> None:
        """Expects what neither broker says."""
        raise LookupError("no such field")

    (verdict,) = runner.run([Scenario("planted", stop)])
    assert not verdict.agrees
    assert "no such field" in str(verdict)


def test_names_and_docstrings() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    for scenario in SCENARIOS:
        assert scenario.about, scenario.name
        for trap in scenario.traps:
            assert str(trap) in scenario.about, f"{scenario.name} does not name trap {trap}"
