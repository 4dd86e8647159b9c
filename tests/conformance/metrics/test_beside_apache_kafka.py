"""The metrics of kwire and of Apache Kafka after the same load: `make metrics` as a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.metrics.compared import rows_for
from kwire.conformance.metrics.comparing import compare, measure
from kwire.conformance.metrics.subjects import apache, kwire


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("brokers", [1, 3])
def test_metrics_that_mean_the_same_are_within_two_per_cent(brokers: int, tmp_path: Path) -> None:
    rows = rows_for(brokers)
    with kwire(tmp_path / "kwire", brokers) as cluster:
        subject = measure(cluster, rows)
    with apache(tmp_path / "apache", brokers) as cluster:
        oracle = measure(cluster, rows)
    verdicts = list(compare(subject, oracle, rows))
    assert len(verdicts) > 400
    assert [verdict for verdict in verdicts if verdict.problem] == []
