"""What an audit or a comparison is asked to look at, and from where on a figure is a finding."""

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
"""What of a record is compared; where it stands is not part of what it says."""
BATCHES = ("none", "sample", "all")


@dataclass(frozen=True)
class Field:
    """A value that each record carries: in a header, or in a value that is JSON.

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
    """From where on a figure is a finding; each default has its reason.

    back_ms           A timestamp may lie this far before an earlier record's.  Two minutes: that
                      is delivery.timeout.ms, how long a producer tries to send what it stamped.
    future_ms         A timestamp may lie this far in the future.  One hour: Kafka 4's own default
                      of message.timestamp.after.max.ms.
    apart_ms          A timestamp may lie this far from both its neighbours.  One day: producers
                      that share a partition differ by clocks and retries, seconds to minutes.
    partition_share   The largest partition may have this many times the mean.  Twice: its consumer
                      then has twice the work, while a hash spreads many keys within some per cent.
    key_share         One key may have this share of a topic's records beyond what an even spread
                      over the keys would give it.  A quarter: of many keys that is the work of one
                      consumer in four, which more consumers cannot share, while each of four keys
                      has a quarter anyway.
    few               Shares of fewer records than this say nothing: a thousand.
    size_share        A record may have this share of the topic's max.message.bytes.  0.9: whoever
                      is that near is refused after the next field that is added.
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
    """What an audit looks at.

    topics          Those that are read, whole or between two times.
    since_ms        Records from this time on, by the broker's time index; None: from the start.
    until_ms        Records before this time; None: to the end.
    identity        A field that is to be another in each record of a topic.
    sequence        A field whose whole numbers are to rise by one ...
    sequence_by_key ... in each key, else in each partition.
    unique_keys     Whether a key that occurs twice is a finding.
    batches         How much of the log is fetched once more for what Spark cannot see (codecs,
                    sizes on disk, what is in a gap): `sample`, `all` or `none`.
    samples         Of `sample`: fetches of up to 256 kB for each topic, and gaps looked into.
    examples        How many cases of a finding are shown.
    thresholds      From where on a figure is a finding.
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
        if self.batches not in BATCHES:
            raise PipelineError(f"{self.batches!r} is none of {', '.join(BATCHES)}")


@dataclass(frozen=True)
class Side:
    """One of the two topics that are compared."""

    kafka: Kafka
    topic: str

    def __str__(self) -> str:
        return f"{self.topic} at {self.kafka.bootstrap}"


@dataclass(frozen=True)
class Compare:
    """Two topics that are to hold the same records.

    left            What it should be.
    right           What it is.
    ignore          Parts of a record that may differ: `headers`, `timestamp`, ...
    by_partition    Whether each record has to be in the partition of the same number, in the same
                    order; else the topics are compared as bags of records.
    examples        How many differences of each kind are shown.
    """

    left: Side
    right: Side
    ignore: Collection[str] = ()
    by_partition: bool = True
    examples: int = 5

    def __post_init__(self) -> None:
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
