"""The groups that Spark's consumers join."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.connector.cluster import Cluster
from tests.spark.connector.reading import Kafka, Query

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def groups_while_reading(
    kafka: Kafka, cluster: Cluster, topic: str, path: Path, option: dict[str, object]
) -> list[str]:
    """Groups with this test's name, while a query reads its topic."""
    cluster.create(topic)
    cluster.produce(topic, range(3))
    with Query(kafka.stream({"subscribe": topic} | option), path) as query:
        assert query.until(3) == [0, 1, 2]
        return cluster.groups(topic)


@pytest.fixture(params=["groupIdPrefix", "kafka.group.id"])
def option(request: pytest.FixtureRequest, unique: str) -> dict[str, object]:
    return {request.param: f"{unique}-group"}


@pytest.mark.parametrize("fetcher", ["consumer"], indirect=True)
@pytest.mark.usefixtures("fetcher")
def test_consumer_of_the_driver_joins_its_group(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path, option: dict[str, object]
) -> None:
    """The driver's consumer subscribes.  Spark makes a group name unique only if it is a prefix."""
    found = groups_while_reading(kafka, cluster, unique, tmp_path, option)
    if "kafka.group.id" in option:
        assert found == [f"{unique}-group"]
    else:
        assert len(found) == 1
        assert found[0].startswith(f"{unique}-group-")


@pytest.mark.parametrize("fetcher", ["admin"], indirect=True)
@pytest.mark.usefixtures("fetcher")
def test_admin_client_of_the_driver_joins_no_group(
    kafka: Kafka, cluster: Cluster, unique: str, tmp_path: Path, option: dict[str, object]
) -> None:
    """The executors' consumers, which have the group's name, commit nothing."""
    assert groups_while_reading(kafka, cluster, unique, tmp_path, option) == []
