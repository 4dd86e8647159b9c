"""Whether what every job imports is there."""

from __future__ import annotations

from importlib.util import find_spec

from kwire.client.extras import how_to_install
from kwire.pipeline.errors import SparkMissing

SPARK = {"pyspark": "PySpark", "confluent_kafka": "confluent-kafka"}
"""What every job imports of the extra `spark`, and what people call it."""


def require_spark() -> None:
    """Raises SparkMissing, with what to type, before something is imported that is not there."""
    missing = [name for module, name in SPARK.items() if find_spec(module) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        named = " and ".join(missing)
        raise SparkMissing(f"{named} {verb} not installed: {how_to_install('spark')}")
