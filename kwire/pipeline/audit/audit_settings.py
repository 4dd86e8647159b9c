"""The settings of an audit or a comparison, and the thresholds above which figures are findings."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.source import Kafka, Topics

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

PARTS = ("key", "value", "headers", "timestamp")
"""The parts of a record that can be compared.  Partition and offset are not parts."""
BATCHES = ("none", "sample", "all")


@dataclass(frozen=True)
class Field:
    """A field of each record: a header, or a field of a JSON value.

    source    `header` or `json`.
    path      The header's name, or a JSON path as Spark's get_json_object takes it.
    """

    source: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Field:
        """`header:NAME`, `json:$.path` or `json:name`."""
        source, colon, path = text.partition(":")
        if source not in ("header", "json") or not colon or not path:
            raise PipelineError(f"{text!r} is not like header:NAME or json:$.path")
        if source == "json" and not path.startswith("$"):
            path = f"$['{path}']" if re.search(r"\W", path) else f"$.{path}"
        return cls(source, path)

    def __str__(self) -> str:
        return f"{self.source}:{self.path}"


@dataclass(frozen=True)
class Thresholds:
    """Limits above which figures are findings, each with the reason for its default.

    back_ms           A timestamp may be this much earlier than an earlier record's.  Two minutes
                      are delivery.timeout.ms, the time in which a producer retries a record.
    future_ms         A timestamp may be this far in the future.  One hour is the default of
                      message.timestamp.after.max.ms in Kafka 4.
    apart_ms          A timestamp may be this far from both its neighbours.  One day, because
                      clocks and retries of producers differ only by seconds or minutes.
    partition_share   The largest partition may have this many times the mean.  At two, its
                      consumer has twice the work; a hash of many keys differs by a few per cent.
    key_share         One key may have this share of a topic's records beyond an even share.  With
                      many keys, a quarter is the work of one consumer in four, and more consumers
                      cannot take part of it.  With four keys, each has a quarter anyway.
    few               Topics with fewer records are not checked for shares: a thousand.
    size_share        A record may have this share of the topic's max.message.bytes.  Above 0.9,
                      one more field may make a producer's records too large.
    """

    back_ms: int = 2 * MINUTE_MS
    future_ms: int = HOUR_MS
    apart_ms: int = DAY_MS
    partition_share: float = 2.0
    key_share: float = 0.25
    few: int = 1000
    size_share: float = 0.9


@dataclass(frozen=True)
class Audit:
    """The settings of an audit.

    topics          The topics to read.
    since_ms        Only records from this time on, by the broker's time index; None: all.
    until_ms        Only records before this time; None: all.
    identity        A field whose value must differ in each record of a topic.
    sequence        A field with whole numbers that must rise by one in each partition.
    sequence_by_key Whether the sequence counts in each key instead of in each partition.
    unique_keys     Whether a key that occurs twice is a finding.
    batches         How much of the log is fetched again for facts that Spark cannot see (codecs,
                    sizes on disk, causes of gaps): `sample`, `all` or `none`.
    samples         With `sample`: number of fetches of up to 256 kB per topic, and of gaps.
    examples        Maximum number of examples per finding.
    thresholds      Figures above these are findings.
    """

    topics: Topics
    since_ms: int | None = None
    until_ms: int | None = None
    identity: Field | None = None
    sequence: Field | None = None
    sequence_by_key: bool = False
    unique_keys: bool = False
    batches: str = "sample"
    samples: int = 64
    examples: int = 5
    thresholds: Thresholds = field(default_factory=Thresholds)

    def __post_init__(self) -> None:
        """Raise PipelineError if `batches` is none of BATCHES."""
        if self.batches not in BATCHES:
            raise PipelineError(
                f"batches is {self.batches!r}, but must be one of {', '.join(BATCHES)}"
            )


@dataclass(frozen=True)
class Side:
    """One of the two topics that are compared."""

    kafka: Kafka
    topic: str

    def __str__(self) -> str:
        return f"{self.topic} at {self.kafka.bootstrap}"


@dataclass(frozen=True)
class Compare:
    """The settings of a comparison of two topics that should hold the same records.

    left            The expected topic.
    right           The actual topic.
    ignore          Parts of a record that may differ: `headers`, `timestamp`, ...
    by_partition    Whether records must be in the same partition and order; else the topics are
                    compared as multisets of records.
    examples        Maximum number of examples per kind of difference.
    """

    left: Side
    right: Side
    ignore: Collection[str] = ()
    by_partition: bool = True
    examples: int = 5

    def __post_init__(self) -> None:
        """Raise PipelineError if `ignore` has an unknown part or all parts, or if both sides are
        one topic."""
        if unknown := set(self.ignore) - set(PARTS):
            raise PipelineError(f"{min(unknown)!r} is none of {', '.join(PARTS)}")
        if not set(PARTS) - set(self.ignore):
            raise PipelineError("nothing is left to compare")
        if self.left == self.right:
            raise PipelineError(f"{self.left} would be compared with itself")

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that are compared."""
        return tuple(part for part in PARTS if part not in self.ignore)
