"""Walks over several swaps: see `walk`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance import apache_kafka
from kwire.conformance.pytest_apache import libs_or_skip
from tests.storage.takeover.walk import Walk

SWAPS = 6
VERSIONS = (apache_kafka.VERSION, apache_kafka.TOOLS_VERSION, "3.9.2")


@pytest.mark.java
@pytest.mark.slow
def test_data_survive_kwires_stay_between_two_runs_of_apache_kafka(
    apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """Two swaps, so that Apache Kafka runs after kwire's stay."""
    Walk(tmp_path, 1, apache_kafka.VERSION).swaps(2)


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 22))
def test_data_survive_many_swaps_of_both_brokers(seed: int, tmp_path: Path) -> None:
    """The walks alternate between the versions; one in five has two log directories."""
    version = VERSIONS[seed % len(VERSIONS)]
    libs_or_skip(version)
    Walk(tmp_path, seed, version, directories=2 if seed % 5 == 0 else 1).swaps(SWAPS)
