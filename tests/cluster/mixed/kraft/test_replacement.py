"""Apache Kafka brokers are replaced by kwire brokers on their own directories, and back."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from kwire.conformance.kraft_cluster import APACHE, KWIRE
from tests.cluster.mixed.kraft.java_producer import java_loaded
from tests.cluster.mixed.kraft.stage import ALL, SAFE, on_kraft
from tests.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

LOG = logging.getLogger(__name__)


def test_rolling_replacement_by_kwire_and_back_loses_no_record(
    apache_kafka_tools: Path, tmp_path: Path
) -> None:
    """Three brokers are replaced one by one, and back, while clients write."""
    topics = ("t", "java")
    with on_kraft(tmp_path, APACHE, APACHE, APACHE, settings=SAFE) as cluster:
        for topic in topics:
            cluster.create(topic)
        with (
            cluster.loaded("t", 3) as acknowledged,
            java_loaded(cluster, "java", tmp_path) as from_java,
        ):
            for kind in (KWIRE, APACHE):
                for broker_id in (1, 2, 3):
                    until(lambda: all(cluster.in_sync(each, ALL) for each in topics), "in sync")
                    acknowledged.take_gap_s()
                    begun = time.monotonic()
                    cluster.stop(broker_id)
                    stopped_s = time.monotonic() - begun
                    cluster.become(broker_id, kind)
                    cluster.start(broker_id)
                    until(lambda: all(cluster.in_sync(each, ALL) for each in topics), "in sync")
                    LOG.info(
                        "broker %s became %s: stop %.1f s, in sync after %.1f s, pause %.1f s",
                        *(broker_id, kind, stopped_s, time.monotonic() - begun),
                        acknowledged.take_gap_s(),
                    )
        cluster.check_values("t", 3, acknowledged)
        cluster.check_values("java", 3, from_java)
        cluster.check_equal(*topics)
