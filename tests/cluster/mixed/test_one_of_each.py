"""A cluster of one kwire and one Apache Kafka 3.9.2 broker, with either as controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.testing import ZooKeeperProcess
from tests.cluster.mixed.clusters import APACHE, KWIRE, mixed
from tests.cluster.mixed.topics import OURS, THEIRS, life_of_a_topic

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_cluster_of_both_kinds_works_with_either_as_controller(
    zookeeper: ZooKeeperProcess, zookeeper_libs: Path, tmp_path: Path, unique: str
) -> None:
    with mixed(zookeeper, tmp_path, f"/{unique}", KWIRE, APACHE) as cluster:
        for controller in (OURS, THEIRS):
            cluster.lead(controller)
            life_of_a_topic(cluster, f"t{controller}")
