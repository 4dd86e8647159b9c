"""A local Spark session with the Kafka connector, used as a client in tests and benchmarks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = "spark.jars.packages"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def installed_version() -> str:
    """The version of the installed PySpark, whose session this process starts."""
    return metadata.version("pyspark")


def connector() -> str:
    """The Kafka connector of PySpark's version, from Maven Central through spark.jars.packages."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{installed_version()}"


@contextmanager
def session(
    log: Path, settings: Mapping[str, str], master: str = "local[2]"
) -> Iterator[SparkSession]:
    """The process's Spark session, with its output in `log`; an existing session is returned as is.

    The caller that started the session stops it.  The Python workers use this Python unless
    PYSPARK_PYTHON names another: PySpark would take `python3` from PATH, which may lack packages.
    """
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("kwire conformance")
    for name, value in {PACKAGES: connector(), **SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    with _stderr_to(log):
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect this process' stderr to a file; Spark's Java process inherits it."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
