"""The continuous trigger: tasks read without end, and commit epochs instead of micro-batches.

Spark has it for maps from topics to topics.  Real-time Mode, which is newer, has its own tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.connector.cluster import Cluster
from tests.spark.connector.copying import Copy
from tests.spark.connector.reading import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TRIGGER = {"continuous": "200 milliseconds"}


def test_continuous_query_copies_records_before_and_after_a_restart(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    source, sink = cluster.create(f"{unique}-source"), cluster.create(f"{unique}-sink")
    cluster.produce(source, range(10))
    with Copy(kafka, cluster, source, sink, tmp_path, TRIGGER) as copy:
        copy.comes_to(10)
        cluster.produce(source, range(10, 20))
        copy.comes_to(20)
    cluster.produce(source, range(20, 30))
    with Copy(kafka, cluster, source, sink, tmp_path, TRIGGER) as copy:
        copy.comes_to(30)
