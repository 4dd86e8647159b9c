"""Which topics of which cluster a job reads, and Spark's Kafka source set up for it."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECT_TIMEOUT_S = 5.0

Offsets = Mapping[str, Mapping[int, int]]
"""An offset for each partition of each topic; -2 is the earliest, -1 the latest."""


@dataclass(frozen=True)
class Kafka:
    """A cluster: where it is, and the properties of its clients.

    bootstrap    HOST:PORT, several with commas.
    properties   Settings of Kafka's Java clients by their names (security, timeouts, ...).
    """

    bootstrap: str = "localhost:9092"
    properties: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, str]:
        """The options of Spark's Kafka source and sink that say so."""
        named = {f"kafka.{name}": value for name, value in self.properties.items()}
        return named | {"kafka.bootstrap.servers": self.bootstrap}


def must_answer(kafka: Kafka) -> None:
    """Raise PipelineError where no bootstrap server takes a connection.

    Spark's own clients try for minutes, and Java takes seconds to start before.
    """
    for server in kafka.bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            return
    raise PipelineError(
        f"nothing answers on {kafka.bootstrap}: start a broker (kwire serve), or say where one is"
    )


@dataclass(frozen=True)
class Topics:
    """Topics by their names, or all whose whole name matches a (Java) regular expression."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        if bool(self.names) == bool(self.pattern):
            raise PipelineError("name topics, or give a pattern for their names, and not both")

    def options(self) -> dict[str, str]:
        """The option of Spark's Kafka source that says so."""
        if self.pattern:
            return {"subscribePattern": f"^(?:{self.pattern})$"}  # Spark looks for it anywhere
        return {"subscribe": ",".join(self.names)}

    def __str__(self) -> str:
        return self.pattern or ", ".join(self.names)


def offsets_option(offsets: Offsets | str) -> str:
    """An option's value for `earliest`, `latest` or an offset for each partition."""
    if isinstance(offsets, str):
        return offsets
    return json.dumps(
        {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()}
    )


def _common(kafka: Kafka, topics: Topics, more: Mapping[str, object]) -> dict[str, str]:
    defaults = {
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "groupIdPrefix": "kwire-pipeline",
        "failOnDataLoss": "true",
    }
    given = {name: str(value) for name, value in more.items() if value is not None}
    return defaults | kafka.options() | topics.options() | given


def read(
    spark: SparkSession,
    kafka: Kafka,
    topics: Topics,
    *,
    starting: Offsets | str = "earliest",
    ending: Offsets | str = "latest",
    **more: object,
) -> DataFrame:
    """All records there are now, as a batch: Spark's own columns, with headers.

    `more` are further options of Spark's Kafka source by name; those that are None are left out.
    """
    options = _common(kafka, topics, more)
    options |= {
        "startingOffsets": offsets_option(starting),
        "endingOffsets": offsets_option(ending),
    }
    return spark.read.format("kafka").options(**options).load()


def read_stream(
    spark: SparkSession,
    kafka: Kafka,
    topics: Topics,
    *,
    starting: Offsets | str = "earliest",
    **more: object,
) -> DataFrame:
    """The records as a stream, see `read`; a checkpoint's offsets go before `starting`."""
    options = _common(kafka, topics, more) | {"startingOffsets": offsets_option(starting)}
    return spark.readStream.format("kafka").options(**options).load()
