"""Controllers of Apache Kafka 4.4.0 write the same beside kwire's brokers as beside their own.

The recorded run is that of three brokers of Apache Kafka: `make metadata-records ARGS=aaa` writes
it to artifacts/metadata-records/aaa.json.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.kraft.outcome import RunOutcome, differences
from kwire.conformance.kraft.stage import RecordsStage
from kwire.conformance.kraft.steps import STEPS

RECORDED = Path(__file__).parents[1] / "data" / f"metadata-records-{VERSION}.json"


def test_recorded_run_has_all_steps() -> None:
    recorded = RunOutcome.from_json(RECORDED.read_text())
    assert [step.step for step in recorded.steps] == [step.name for step in STEPS]


@pytest.mark.long
@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["kkk", "kka"])
def test_controllers_write_the_same_records_beside_kwire(kinds: str, tmp_path: Path) -> None:
    stage = RecordsStage(tmp_path, kinds)
    try:
        outcome = stage.run(STEPS, print)
    finally:
        stage.end()
    recorded = RunOutcome.from_json(RECORDED.read_text())
    assert [*differences(outcome, recorded)] == []
