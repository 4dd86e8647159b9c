"""Checks that the packages that every job imports are installed."""

from __future__ import annotations

from importlib.util import find_spec

from kwire.client.extras import how_to_install
from kwire.pipeline.errors import SparkMissing

SPARK = {"pyspark": "PySpark", "confluent_kafka": "confluent-kafka"}
"""Modules of the extra `spark` that every job imports, and the names of their packages."""


def require_spark() -> None:
    """Raise SparkMissing, with the command to install them, if packages are missing."""
    missing = [name for module, name in SPARK.items() if find_spec(module) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        named = " and ".join(missing)
        raise SparkMissing(f"{named} {verb} not installed: {how_to_install('spark')}")
