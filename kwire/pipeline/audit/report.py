"""The results of audits and comparisons: figures and findings, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

SEVERITIES = ("info", "warning", "error")
"""A useful fact; something that is probably a mistake; lost, repeated or changed records."""


@dataclass(frozen=True)
class Example:
    """One case of a finding, with its place and a detail."""

    partition: int
    offset: int
    key: str | None
    detail: str


@dataclass(frozen=True)
class Finding:
    """Something that is or may be wrong with a topic.

    kind        A stable word for programs.
    severity    One of SEVERITIES.
    count       Number of affected records, offsets, keys or partitions.
    says        A sentence for people.
    """

    kind: str
    severity: str
    topic: str
    count: int
    says: str
    examples: Sequence[Example] = ()


@dataclass(frozen=True)
class PartitionFigures:
    """The figures of one partition, for the range that was read.

    start, end               The range; `end` is excluded.
    missing, gaps            The numbers of offsets without a record, and of their ranges.
    back, back_far           Records that are earlier than the record before, and those that are
                             earlier by more than the threshold.
    negative, future, apart, old   Records with such a timestamp.
    stepped, repeated, skipped     Records whose sequence decreases; records that repeat the
                             previous number; missing numbers.
    """

    partition: int
    start: int
    end: int
    log_start: int
    last_stable: int
    high_watermark: int
    records: int = 0
    size_bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    gaps: int = 0
    missing: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    back: int = 0
    back_far: int = 0
    back_ms_max: int = 0
    negative: int = 0
    future: int = 0
    apart: int = 0
    old: int = 0
    null_keys: int = 0
    tombstones: int = 0
    with_headers: int = 0
    append_times: int = 0
    record_bytes_max: int = 0
    record_bytes_max_offset: int | None = None
    no_identity: int = 0
    no_sequence: int = 0
    stepped: int = 0
    repeated: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Gap:
    """Offsets without a record, from `start` up to `end`, which is excluded."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start


@dataclass(frozen=True)
class Keys:
    """The keys of a topic.

    distinct, repeated       The numbers of keys, and of keys that occur more than once.
    records                  Records with a key.
    scattered                Keys that occur in more than one partition.
    murmur2, crc32           Records in the partition that Java's default partitioner chooses, and
                             librdkafka's.
    hashed                   Records whose key is short enough to be hashed.
    top                      The most frequent keys with their numbers of records.
    """

    distinct: int = 0
    repeated: int = 0
    records: int = 0
    scattered: int = 0
    murmur2: int = 0
    crc32: int = 0
    hashed: int = 0
    top: Sequence[tuple[str, int]] = ()
    scattered_examples: Sequence[Example] = ()
    misplaced_examples: Sequence[Example] = ()

    @property
    def partitioner(self) -> str | None:
        """The partitioner that nearly all keys follow: `murmur2`, `crc32` or None."""
        name, placed = max(("murmur2", self.murmur2), ("crc32", self.crc32), key=lambda x: x[1])
        return name if self.hashed and placed >= USUAL_SHARE * self.hashed else None

    @property
    def misplaced(self) -> int:
        """Records in another partition than the partitioner of the others chooses."""
        return 0 if self.partitioner is None else self.hashed - max(self.murmur2, self.crc32)


USUAL_SHARE = 0.95
"""The share of records that identifies a partitioner.  By chance, 1 in `partitions` would match."""


@dataclass(frozen=True)
class Duplicates:
    """Records that occur more than once.

    groups     The number of groups of equal records.
    extra      The number of records without the first one of each group.
    """

    groups: int = 0
    extra: int = 0
    examples: Sequence[Example] = ()


@dataclass(frozen=True)
class Codec:
    """The batches with one codec.  `ratio` is measured on some of them."""

    name: str
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    ratio: float | None = None


@dataclass(frozen=True)
class Batches:
    """Figures of fetched batches of the log.

    looked          `all`, `sample`, or the reason why none were fetched.
    gap_kinds       Numbers of missing offsets by cause; see `kwire.pipeline.audit.batches`.
    """

    looked: str
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    transactional: int = 0
    idempotent: int = 0
    old_formats: int = 0
    corrupt: int = 0
    codecs: Sequence[Codec] = ()
    gap_kinds: Mapping[str, int] = field(default_factory=dict)
    hole_examples: Sequence[Gap] = ()


@dataclass(frozen=True)
class TopicReport:
    """All figures of a topic."""

    name: str
    configs: Mapping[str, str]
    partitions: Sequence[PartitionFigures]
    size_percentiles: Mapping[str, int]
    size_histogram: Sequence[tuple[int, int]]
    over_time: Sequence[tuple[int, int]]
    bucket_ms: int
    headers: Sequence[tuple[str, int]]
    keys: Keys
    duplicates: Duplicates
    identities: Duplicates
    largest_gaps: Sequence[Gap]
    batches: Batches
    examples: Mapping[str, Sequence[Example]] = field(default_factory=dict)

    def sum(self, name: str) -> int:
        """A figure over all partitions."""
        return sum(getattr(partition, name) for partition in self.partitions)

    @property
    def records(self) -> int:
        """The number of records in all partitions."""
        return self.sum("records")


@dataclass(frozen=True)
class Report:
    """The report of an audit."""

    cluster: str
    made_at_ms: int
    duration_s: float
    topics: Sequence[TopicReport]
    findings: Sequence[Finding]

    def worst(self) -> str | None:
        """The highest severity of all findings."""
        return worst(self.findings)

    def as_json(self) -> dict[str, Any]:
        """The whole report, in types of JSON."""
        return asdict(self)


@dataclass(frozen=True)
class AuditDifference:
    """One difference as an example.  A side without the record has None as its place.

    parts      The parts that differ, if both sides have the record.
    """

    kind: str
    left: tuple[int, int] | None
    right: tuple[int, int] | None
    key: str | None
    parts: Sequence[str]
    detail: str


@dataclass(frozen=True)
class PartitionDifferences:
    """The number of differences of each kind in a partition; partition -1 stands for all."""

    partition: int
    left_records: int = 0
    right_records: int = 0
    missing: int = 0
    extra: int = 0
    doubled: int = 0
    changed: int = 0
    order: int = 0


@dataclass(frozen=True)
class Comparison:
    """The report of a comparison of two topics."""

    left: str
    right: str
    made_at_ms: int
    duration_s: float
    compared: Sequence[str]
    by_partition: bool
    partitions: Sequence[PartitionDifferences]
    differences: Sequence[AuditDifference]
    findings: Sequence[Finding]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.findings

    def worst(self) -> str | None:
        """The highest severity of all findings."""
        return worst(self.findings)

    def as_json(self) -> dict[str, Any]:
        """The whole report, in types of JSON."""
        return asdict(self)


def worst(findings: Sequence[Finding]) -> str | None:
    """The highest severity of some findings, or None if there are none."""
    return max((finding.severity for finding in findings), key=SEVERITIES.index, default=None)
