"""Jobs on a broker that requires TLS and a login."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from kwire.cli.app import app
from tests.conftest import finish
from tests.security.secured import WAIT_S, SaslSsl, java, librdkafka, write_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's own
]
COUNT = 200
SCRAM = "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslSsl]:
    broker = SaslSsl(tmp_path_factory.mktemp("secured"))
    broker.start()
    yield broker
    finish(broker)


@pytest.fixture
def topic(secured: SaslSsl, unique: str) -> str:
    producer = Producer(librdkafka(secured, SCRAM))
    for number in range(COUNT):
        producer.produce(unique, str(number).encode(), str(number % 7).encode())
    assert producer.flush(WAIT_S) == 0
    return unique


def options(secured: SaslSsl) -> dict[str, str]:
    named = {f"kafka.{name}": value for name, value in java(secured, SCRAM).items()}
    return {**named, "kafka.bootstrap.servers": secured.address}


def test_spark_stream_reads_and_writes_with_tls_and_login(
    secured: SaslSsl, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    copied = f"{topic}-copy"
    reading = {**options(secured), "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("kafka").options(**reading).load()
    query = (
        stream.selectExpr("key", "value")
        .writeStream.format("kafka")
        .options(**options(secured), topic=copied, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(600)
    assert query.exception() is None
    read = {**options(secured), "subscribe": copied}
    values = [row.value for row in spark.read.format("kafka").options(**read).load().collect()]
    assert sorted(map(int, values)) == list(range(COUNT))


def kwire(secured: SaslSsl, tmp_path: Path, *words: str) -> Result:
    properties = write_properties(tmp_path / "client.properties", java(secured, SCRAM))
    where = ["-b", secured.address, "--command-config", str(properties)]
    done = CliRunner().invoke(app, ["pipeline", *words, *where], prog_name="kwire")
    assert done.exit_code == 0, done.output
    return done


@pytest.mark.long
def test_audit_archive_and_replay_work_with_tls_and_login(
    secured: SaslSsl, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The audit fetches batches; the replay writes with librdkafka."""
    archive = str(tmp_path / "archive")
    audited = kwire(secured, tmp_path, "audit", topic, "--batches", "all", "--json", "-q")
    found = json.loads(audited.stdout)["topics"][0]
    assert found["batches"]["looked"] == "all", found["batches"]
    kwire(secured, tmp_path, "archive", topic, "--to", archive, "-q")
    renamed = f"{topic}={topic}-again"
    kwire(secured, tmp_path, "replay", topic, "--from", archive, "--rename", renamed, "-q")
    read = {**options(secured), "subscribe": f"{topic}-again"}
    assert spark.read.format("kafka").options(**read).load().count() == COUNT
