"""The cluster and topics that a job reads, and Spark's Kafka source with kwire's defaults."""

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
"""Offset by topic and partition; -2 stands for the earliest offset, -1 for the latest."""


@dataclass(frozen=True)
class Kafka:
    """A cluster, and the properties of clients that connect to it.

    bootstrap    HOST:PORT, or several separated by commas.
    properties   Settings of Kafka's Java clients by name (security, timeouts, ...).
    """

    bootstrap: str = "localhost:9092"
    properties: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, str]:
        """The cluster as options of Spark's Kafka source and sink."""
        named = {f"kafka.{name}": value for name, value in self.properties.items()}
        return named | {"kafka.bootstrap.servers": self.bootstrap}


def must_answer(kafka: Kafka) -> None:
    """Raise PipelineError if no bootstrap server accepts a connection.

    Without this check, Java would start for seconds, and Spark's clients would retry for minutes.
    """
    for server in kafka.bootstrap.split(","):
        host, _, port = server.strip().rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            return
    raise PipelineError(
        f"nothing answers on {kafka.bootstrap}: start a broker (kwire serve), or give its address"
    )


@dataclass(frozen=True)
class Topics:
    """Topics by their names, or all topics whose whole name matches a Java regular expression."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        if bool(self.names) == bool(self.pattern):
            raise PipelineError("name topics, or give a pattern for their names, and not both")

    def options(self) -> dict[str, str]:
        """The topics as an option of Spark's Kafka source."""
        if self.pattern:
            return {"subscribePattern": f"^(?:{self.pattern})$"}  # Spark would match a part, too
        return {"subscribe": ",".join(self.names)}

    def __str__(self) -> str:
        return self.pattern or ", ".join(self.names)


def offsets_option(offsets: Offsets | str) -> str:
    """`earliest`, `latest` or offsets by partition, as the value of a Spark option."""
    if isinstance(offsets, str):
        return offsets
    return json.dumps(
        {topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()}
    )


def _common(kafka: Kafka, topics: Topics, more: Mapping[str, object]) -> dict[str, str]:
    """Return the options of Spark's Kafka source: the defaults, overridden by those of the
    cluster, of the topics, and by `more`."""
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
    """All records up to now as a batch DataFrame: the columns of Spark's Kafka source, and headers.

    `more` are further options of Spark's Kafka source by name; None leaves an option out.
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
    """The records as a streaming DataFrame, see `read`.

    If the query has a checkpoint, it continues there instead of at `starting`.
    """
    options = _common(kafka, topics, more) | {"startingOffsets": offsets_option(starting)}
    return spark.readStream.format("kafka").options(**options).load()
