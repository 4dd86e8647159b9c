"""One Spark session for all tests of the jobs, and topics with records in them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire import pipeline
from kwire.pipeline.session import AVRO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that is taken and on which nobody listens, so that nobody comes to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


LOCAL = pipeline.SparkOptions(
    master="local[2]",
    settings={
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
    },
    modules=(AVRO,),
)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on two cores with the connector and Avro; one for the run: it starts slowly."""
    log = Path(tmp_path_factory.mktemp("spark") / "spark.log")
    options = replace(LOCAL, log=log)
    with pipeline.session("tests", options) as session:
        yield session
