"""Fetches batches of the log for facts that Spark's rows do not show.

These are the codecs and their ratios, damaged batches, and the causes of missing offsets.  kwire's
own client fetches the batches on the driver.  It reads their headers, and decompresses only a few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import check
from kwire.client.fetcher import Aborted, fetch_request, received
from kwire.client.offsets import Isolation
from kwire.codecs.batches import (
    HEADER_SIZE,
    INFLATED_SIZE_BYTES_MAX,
    BatchHeader,
    Compression,
    CorruptBatch,
    check_crc,
    inner_bytes,
    iter_batches,
    records,
)
from kwire.codecs.messages.fetch import FetchResponse, PartitionData
from kwire.pipeline.audit.cluster import AuditedRange
from kwire.pipeline.audit.report import Batches, Codec, Gap

FETCH_SIZE_BYTES: Final = 256 * 1024
FETCHES_PER_GAP: Final = 8
"""The most fetches for one gap; the rest of a longer gap is counted as unknown."""
INFLATED_PER_CODEC: Final = 64
"""The number of batches of each codec that are decompressed to measure the ratio."""
HOLES_SHOWN: Final = 20
MAX_WAIT_MS: Final = 100

MARKERS: Final = "transaction markers"
ABORTED: Final = "aborted transactions"
COMPACTED: Final = "compacted within a batch"
HOLE: Final = "no batch"
DELETED: Final = "deleted while it was read"
UNKNOWN: Final = "not looked into"
"""The causes of offsets without a record."""


class FetchedBatch(NamedTuple):
    """A fetched batch, and whether it belongs to an aborted transaction."""

    header: BatchHeader
    data: memoryview
    position: int
    is_aborted: bool

    @property
    def first_offset(self) -> int:
        """The first offset of the batch.  Headers of old formats have the last offset instead."""
        # Format 2 of batches, since Kafka 0.11.
        if self.header.magic == 2:
            return self.header.base_offset
        return next((r.offset for r in records(self.data, self.position)), self.header.base_offset)

    @property
    def records_count(self) -> int:
        """The number of records."""
        if self.header.records_count >= 0:
            return self.header.records_count
        return sum(1 for _ in records(self.data, self.position))


class LogReader:
    """Fetches batches of partitions from their leaders."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def batches(
        self, partition: TopicPartition, start: int, end: int, fetches_max: int | None = None
    ) -> Iterator[FetchedBatch]:
        """The batches with offsets from `start` up to `end`, with at most `fetches_max` fetches."""
        made = 0
        while start < end and (fetches_max is None or made < fetches_max):
            made += 1
            before = start
            for piece in self._pieces(self._fetched(partition, start)):
                if piece.first_offset >= end:
                    return
                yield piece
                start = max(start, piece.header.last_offset + 1)
            if start == before:
                return

    def _fetched(self, partition: TopicPartition, offset: int) -> PartitionData:
        """Return the response for one partition from `offset` on.  Retries until the timeout of
        the cluster."""

        def ask() -> PartitionData:
            """Sends one Fetch to the leader.  After an error, the leader is looked up again on the
            next attempt."""
            connection = self._cluster.node(self._cluster.leader_id(partition))
            request = fetch_request(
                self._cluster,
                {partition: offset},
                Isolation.READ_COMMITTED,
                max_wait_ms=MAX_WAIT_MS,
                size_bytes_max=FETCH_SIZE_BYTES,
                partition_size_bytes_max=FETCH_SIZE_BYTES,
            )
            reply: FetchResponse = connection.call(request)
            check(reply.error_code, f"fetch from {connection.address}")
            data: PartitionData = reply.responses[0].partitions[0]
            if data.error_code:
                self._cluster.forget_leader(partition.topic)
            check(data.error_code, f"fetch of {partition} at {offset}")
            return data

        return self._cluster.retrying(ask)

    def _pieces(self, data: PartitionData) -> Iterator[FetchedBatch]:
        """Yield the batches of a response; each says whether its transaction was aborted.  A
        marker ends the aborted transaction of its producer, so the batches must be taken in
        order."""
        view = received(data)
        aborted = Aborted(data)
        for position, header in iter_batches(view):
            is_aborted = not header.is_control and aborted.hides(header)
            if header.is_control:
                aborted.see_marker(header, view[position:])
            yield FetchedBatch(header, view, position, is_aborted)


@dataclass
class _Ratio:
    """The sizes of the decompressed batches of one codec."""

    looked: int = 0
    packed_bytes: int = 0
    plain_bytes: int = 0


@dataclass
class Tally:
    """Counts the batches of a topic in constant memory."""

    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    transactional: int = 0
    idempotent: int = 0
    old_formats: int = 0
    corrupt: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    holes: list[Gap] = field(default_factory=list)
    _codecs: dict[Compression, list[int]] = field(default_factory=dict)
    _ratios: dict[Compression, _Ratio] = field(default_factory=dict)

    def add(self, piece: FetchedBatch) -> None:
        """Count a batch of records.  Markers are not counted."""
        header = piece.header
        if header.is_control:
            return
        try:
            check_crc(piece.data, piece.position, header)
            count, codec = piece.records_count, header.compression
        except CorruptBatch:
            self.corrupt += 1
            return
        self.batches += 1
        self.records += count
        self.size_bytes += header.size_bytes
        self.transactional += header.is_transactional
        self.idempotent += header.producer_id >= 0
        self.old_formats += header.magic < 2
        for place, number in enumerate((1, count, header.size_bytes)):
            self._codecs.setdefault(codec, [0, 0, 0])[place] += number
        self._inflate(codec, piece)

    def hole(self, gap: Gap) -> None:
        """Count offsets that no batch covers."""
        self.kinds[HOLE] += gap.size
        if len(self.holes) < HOLES_SHOWN:
            self.holes.append(gap)

    def _inflate(self, codec: Compression, piece: FetchedBatch) -> None:
        """Decompresses a batch to measure the compression ratio of its codec, for the first few
        batches of each codec only."""
        ratio = self._ratios.setdefault(codec, _Ratio())
        # Formats before magic 2 compress the records as messages, so sizes would not be comparable.
        is_wanted = ratio.looked < INFLATED_PER_CODEC and piece.header.magic == 2
        if codec == Compression.NONE or not is_wanted:
            return
        plain = inner_bytes(piece.data, piece.position, piece.header, INFLATED_SIZE_BYTES_MAX)
        ratio.looked += 1
        ratio.packed_bytes += piece.header.size_bytes - HEADER_SIZE
        ratio.plain_bytes += len(plain)

    def figures(self, looked: str) -> Batches:
        """All counts, in the form of a report."""
        return Batches(
            looked=looked,
            batches=self.batches,
            records=self.records,
            size_bytes=self.size_bytes,
            transactional=self.transactional,
            idempotent=self.idempotent,
            old_formats=self.old_formats,
            corrupt=self.corrupt,
            codecs=[self._codec(codec) for codec in sorted(self._codecs)],
            gap_kinds={kind: count for kind, count in self.kinds.items() if count},
            hole_examples=self.holes,
        )

    def _codec(self, codec: Compression) -> Codec:
        """Return the figures of a codec.  The ratio is None if no batch of it was decompressed."""
        ratio = self._ratios[codec]
        shown = ratio.plain_bytes / ratio.packed_bytes if ratio.packed_bytes else None
        batches, count, size_bytes = self._codecs[codec]
        return Codec(codec.name.lower(), batches, count, size_bytes, shown)


def explain(
    pieces: Iterator[FetchedBatch], gap: Gap, tally: Tally, *, is_cut: bool = False
) -> None:
    """Count the causes of a gap's offsets, by the batches that cover them.

    With `is_cut`, the batches may end before the gap does; the rest is counted as unknown.
    """
    at = gap.start
    for piece in pieces:
        first, after_batch = piece.first_offset, piece.header.last_offset + 1
        if first > at:
            tally.hole(Gap(gap.partition, at, min(first, gap.end)))
        covered = min(after_batch, gap.end) - max(first, at)
        if covered > 0:
            tally.kinds[_kind(piece)] += covered
        at = max(at, after_batch)
        if at >= gap.end:
            return
    if at < gap.end and is_cut:
        tally.kinds[UNKNOWN] += gap.end - at
    elif at < gap.end:
        tally.hole(Gap(gap.partition, at, gap.end))


def _kind(piece: FetchedBatch) -> str:
    if piece.header.is_control:
        return MARKERS
    return ABORTED if piece.is_aborted else COMPACTED


@dataclass(frozen=True)
class Missing:
    """The offsets of a topic for which Spark got no record.

    count      Their number.
    gaps       The largest gaps.
    deleted    The number of offsets that retention deleted while the topic was read.
    """

    count: int
    gaps: Sequence[Gap] = ()
    deleted: int = 0


def sampled(
    cluster: Cluster, name: str, ranges: Sequence[AuditedRange], missing: Missing, samples: int
) -> Batches:
    """Fetch batches at evenly spread offsets of the partitions, and in the largest gaps."""
    reader, tally = LogReader(cluster), Tally()
    counted: dict[int, int] = {}
    for partition, start, end in spread(ranges, samples):
        start = max(start, counted.get(partition, start))
        for piece in reader.batches(TopicPartition(name, partition), start, end, fetches_max=1):
            tally.add(piece)
            counted[partition] = piece.header.last_offset + 1
    for gap in missing.gaps[:samples]:
        place = TopicPartition(name, gap.partition)
        pieces = reader.batches(place, gap.start, gap.end, FETCHES_PER_GAP)
        explain(pieces, gap, tally, is_cut=True)
    tally.kinds[DELETED] += missing.deleted
    tally.kinds[UNKNOWN] += missing.count - sum(tally.kinds.values())
    return tally.figures("sample")


def spread(ranges: Sequence[AuditedRange], samples: int) -> list[tuple[int, int, int]]:
    """(partition, start, end) of the ranges to sample, evenly spread over the partitions."""
    filled = [r for r in ranges if r.end > r.start]
    per_partition = max(1, samples // max(1, len(filled)))
    sampled_ranges = []
    for r in filled[:samples]:
        size = r.end - r.start
        edges = [r.start + size * i // per_partition for i in range(per_partition + 1)]
        sampled_ranges += [(r.partition, a, b) for a, b in pairwise(edges) if a < b]
    return sampled_ranges


def walked(
    cluster: Cluster, name: str, ranges: Sequence[AuditedRange], missing: Missing
) -> Batches:
    """Fetch every batch of a topic, which gives the cause of every missing offset."""
    reader, tally = LogReader(cluster), Tally()
    for r in ranges:
        pieces = reader.batches(TopicPartition(name, r.partition), r.start, r.end)
        _walk(pieces, Gap(r.partition, r.start, r.end), tally)
    tally.kinds[DELETED] += missing.deleted
    return tally.figures("all")


def _walk(pieces: Iterator[FetchedBatch], whole: Gap, tally: Tally) -> None:
    """Counts in `tally` which offsets of the range `whole` have no record, by cause: markers,
    aborted transactions, compaction, or no batch at all (a hole)."""
    at = whole.start
    for piece in pieces:
        first, after_batch = piece.first_offset, piece.header.last_offset + 1
        tally.add(piece)
        if first > at:
            tally.hole(Gap(whole.partition, at, first))
        covered = min(after_batch, whole.end) - max(first, at)
        if piece.header.is_control or piece.is_aborted:
            tally.kinds[_kind(piece)] += covered
        else:
            tally.kinds[COMPACTED] += max(
                0, min(after_batch - first - piece.records_count, covered)
            )
        at = max(at, after_batch)
    if at < whole.end:
        tally.hole(Gap(whole.partition, at, whole.end))
