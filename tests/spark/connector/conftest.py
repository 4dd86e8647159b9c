"""A broker whose upkeep does not dawdle, and Spark reading from it.

On another broker (`--bootstrap HOST:PORT`) what waits for the upkeep takes as long as that lets it
wait; Apache Kafka keeps up with the settings of UPKEEP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.testing import BrokerProcess
from tests.conftest import finish
from tests.spark.connector.cluster import Cluster
from tests.spark.connector.reading import Kafka, run

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

FETCHING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
UPKEEP = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """PySpark leaves the sockets that rows come through to the garbage collector."""
    item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The broker that `--bootstrap` names, else a kwire for these tests."""
    given: str | None = request.config.option.bootstrap
    if given:
        yield given
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("spark-broker"), UPKEEP)
    broker.start()
    yield broker.bootstrap
    finish(broker)


@pytest.fixture
def unique(unique: str) -> str:
    """A name that is new in all runs: a broker of `--bootstrap` outlives a run."""
    return f"{unique}-{time.time_ns() // 1_000_000:x}"


@pytest.fixture(scope="session")
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap)


@pytest.fixture(scope="session")
def kafka(spark: SparkSession, bootstrap: str) -> Kafka:
    return Kafka(spark, bootstrap)


@pytest.fixture(params=["admin", pytest.param("consumer", marks=pytest.mark.long)])
def fetcher(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """How the driver looks up offsets: with an admin client, or with a consumer as before."""
    spark.conf.set(FETCHING, str(request.param == "consumer").lower())
    yield request.param
    spark.conf.unset(FETCHING)


Read = Callable[[Mapping[str, object]], list["Row"]]


@pytest.fixture(params=["batch", "stream"])
def read(request: pytest.FixtureRequest, kafka: Kafka, fetcher: str, tmp_path: Path) -> Read:
    """Read what the options say, as a batch or as a stream, with either offset fetcher."""
    if request.param == "batch":
        return lambda options: kafka.batch(options).collect()
    return lambda options: run(kafka.stream(options), tmp_path / "checkpoint").rows
