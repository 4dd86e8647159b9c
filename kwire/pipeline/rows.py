"""Rows of Spark's Kafka source as Arrow batches in a task, and their offsets in the target topic.

This module is sent to Spark's executors by value, so it may only import modules that are sent too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kwire.pipeline.positions import Run

if TYPE_CHECKING:
    import pyarrow
    from confluent_kafka import KafkaError, Message

Headers: TypeAlias = "list[tuple[str, str | bytes | None]]"
Report: TypeAlias = "Callable[[KafkaError | None, Message], None]"

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""The columns that are written, with the names and types of Spark's Kafka source."""


class Size(NamedTuple):
    """A number of records and their size in bytes."""

    records: int = 0
    size_bytes: int = 0

    def plus(self, rows: pyarrow.RecordBatch) -> Size:
        """This size plus that of `rows`."""
        return Size(self.records + rows.num_rows, self.size_bytes + rows.nbytes)

    def exceeds(self, limit: Size) -> bool:
        """Whether this is more than `limit` in records or in bytes."""
        return self.records > limit.records or self.size_bytes > limit.size_bytes


def by_partition(
    batches: Iterable[pyarrow.RecordBatch],
) -> Iterator[tuple[str, int, pyarrow.RecordBatch]]:
    """(topic, partition, rows) for each run of consecutive rows of one partition."""
    import numpy

    for batch in batches:
        if not batch.num_rows:
            continue
        topics = batch.column("topic").dictionary_encode()
        indices = topics.indices.to_numpy(zero_copy_only=False)
        partitions = batch.column("partition").to_numpy(zero_copy_only=False)
        other = (numpy.diff(indices) != 0) | (numpy.diff(partitions) != 0)
        starts = [0, *(numpy.flatnonzero(other) + 1).tolist(), batch.num_rows]
        for start, end in pairwise(starts):
            topic = topics.dictionary[int(indices[start])].as_py()
            yield topic, int(partitions[start]), batch.slice(start, end - start)


def slices(rows: pyarrow.RecordBatch, limit: Size) -> Iterator[pyarrow.RecordBatch]:
    """The rows in slices that do not exceed the limit, if all rows have about the same size."""
    pieces = max(-(-rows.num_rows // limit.records), -(-rows.nbytes // limit.size_bytes), 1)
    length = max(1, -(-rows.num_rows // pieces))
    for start in range(0, rows.num_rows, length):
        yield rows.slice(start, length)


@dataclass(frozen=True)
class Columns:
    """The columns of some rows as Python objects."""

    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: Iterable[Headers | None]

    @staticmethod
    def of(rows: pyarrow.RecordBatch) -> Columns:
        """The columns of an Arrow batch."""
        import pyarrow
        import pyarrow.compute

        micros = rows.column("timestamp").cast(pyarrow.timestamp("us", tz="UTC")).cast("int64")
        return Columns(
            rows.column("offset").to_pylist(),
            pyarrow.compute.divide(
                micros, 1000
            ).to_pylist(),  # Kafka's timestamps have no microseconds
            rows.column("key").to_pylist(),
            rows.column("value").to_pylist(),
            _headers(rows),
        )


def _headers(rows: pyarrow.RecordBatch) -> Iterable[Headers | None]:
    """The headers of each row, as pairs of name and value.  Rows without headers cost nothing."""
    if "headers" not in rows.schema.names:
        return repeat(None)
    column = rows.column("headers")
    if not len(column.flatten()):
        return repeat(None)
    return [
        [(header["key"], header["value"]) for header in headers] if headers else None
        for headers in column.to_pylist()
    ]


@dataclass
class Reports:
    """The offsets of a transaction's rows in the target, and the rows that were refused.

    Without `every`, the producer reports only the first and the last row.  If the offsets between
    them are as many as the rows, they give the offset of each row.  With `every`, the producer
    calls back for each row, which is slower.
    """

    every: bool
    sources: list[int] = field(default_factory=list)
    targets: dict[int, int] = field(default_factory=dict)
    refused: dict[int, KafkaError] = field(default_factory=dict)

    def watched(
        self, offsets: Sequence[int], *, first: bool, last: bool
    ) -> Iterable[Report | None]:
        """The producer's delivery callback for each row, or None."""
        self.sources += offsets
        if self.every:
            return [self._report(offset) for offset in offsets]
        callbacks: list[Report | None] = [None] * len(offsets)
        if first:
            callbacks[0] = self._report(offsets[0])
        if last:
            callbacks[-1] = self._report(offsets[-1])
        return callbacks

    def _report(self, offset: int) -> Report:
        """Return the delivery callback for the record with the source offset `offset`.  It stores
        the record's offset in the target, or its error."""

        def report(error: KafkaError | None, message: Message) -> None:
            """Stores the record's offset in the target topic, or why the broker refused it."""
            if error is not None:
                self.refused[offset] = error
            else:
                self.targets[offset] = int(message.offset() or 0)

        return report

    @property
    def first(self) -> int:
        """The offset of the first row in the target."""
        return self.targets[self.sources[0]]

    @property
    def last(self) -> int:
        """The offset of the last row in the target."""
        return self.targets[self.sources[-1]]

    @property
    def complete(self) -> bool:
        """Whether the target offset of each row is known, at least from the first and the last."""
        return self.every or self.last - self.first == len(self.sources) - 1

    def runs(self) -> list[Run]:
        """The offsets of the source with their offsets in the target, as runs."""
        import numpy

        sources = numpy.array(self.sources)
        targets = (
            numpy.array([self.targets[offset] for offset in self.sources])
            if self.every
            else numpy.arange(self.first, self.first + len(sources))
        )
        breaks = numpy.flatnonzero((numpy.diff(sources) != 1) | (numpy.diff(targets) != 1)) + 1
        starts = [0, *breaks.tolist(), len(sources)]
        return [
            Run(int(sources[start]), int(targets[start]), end - start)
            for start, end in pairwise(starts)
        ]
