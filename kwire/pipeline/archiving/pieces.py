"""Writes and merges the Parquet files of an archive, in Spark's Python workers.

This module is sent to the workers by value: it uses pyarrow and numpy, and nothing of kwire.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
    ]
)
"""The columns of every file, by the names of Spark's Kafka source; topic and date are in its
path."""

DAY_MS = 86_400_000
COMPRESSION = "zstd"

ROW_GROUP_BYTES = 64 << 20
"""Of records in memory, before compression: what a reader takes in one piece."""
BUFFERED_BYTES = 128 << 20
"""Of records that one task keeps for all its files together."""
OPEN_FILES = 200
"""At once in one task, where timestamps are all over the calendar; 1,024 is a usual limit."""

PIECE_COLUMNS = (
    "topic string, date string, path string, records bigint, size_bytes bigint, offsets string"
)


class PieceFile(NamedTuple):
    """A file that is whole, as a row of PIECE_COLUMNS.

    offsets   JSON: of each partition in it the first and the last offset.
    """

    topic: str
    date: str
    path: str
    records: int
    size_bytes: int
    offsets: str


class File:
    """A Parquet file that is being written, with the final columns and bounded row groups."""

    def __init__(self, path: str) -> None:
        """Creates the file `path`."""
        self.path = path
        self.records = 0
        self.offsets: dict[int, list[int]] = {}
        self._sink = pa.OSFile(path, "wb")
        self._writer = pq.ParquetWriter(self._sink, SCHEMA, compression=COMPRESSION)

    @property
    def size_bytes(self) -> int:
        """The present size of the file in bytes."""
        return int(self._sink.tell())

    def write(self, table: pa.Table) -> None:
        """Append a row group."""
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.records += table.num_rows
        ends = table.group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
        for row in ends.to_pylist():
            bounds = self.offsets.setdefault(row["partition"], [row["offset_min"], 0])
            bounds[0] = min(bounds[0], row["offset_min"])
            bounds[1] = max(bounds[1], row["offset_max"])

    def close(self) -> None:
        """Write the footer, which makes it a complete Parquet file."""
        self._writer.close()
        self._sink.close()


class Pieces:
    """The files of one task: one for each topic and date, with records in the order of arrival.

    Memory is limited: when all buffers together are too large, the largest one is written.
    """

    def __init__(self, directory: str, file_size_bytes: int) -> None:
        """Files are written to `directory` and ended at `file_size_bytes`.  Rows are buffered by
        group (topic and day) until they fill a row group."""
        self.directory = directory
        self.file_size_bytes = file_size_bytes
        self.row_group_bytes = min(ROW_GROUP_BYTES, file_size_bytes)
        self._buffers: dict[tuple[str, str], list[pa.Table]] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._files: OrderedDict[tuple[str, str], File] = OrderedDict()
        self._done: list[PieceFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records with Spark's column names."""
        for group, table in split(pa.Table.from_batches([batch])):
            self._buffers.setdefault(group, []).append(table)
            self._sizes[group] = self._sizes.get(group, 0) + table.nbytes
            if self._sizes[group] >= self.row_group_bytes:
                self._flush(group)
        while sum(self._sizes.values()) > BUFFERED_BYTES:
            self._flush(max(self._sizes, key=self._sizes.__getitem__))

    def close(self) -> list[PieceFile]:
        """Write the remaining records.  Returns all files."""
        for group in list(self._buffers):
            self._flush(group)
        for group in list(self._files):
            self._end(group)
        return self._done

    def _flush(self, group: tuple[str, str]) -> None:
        """Writes the buffered rows of a group to its open file as one row group, and ends the file
        if it is large enough.  Of too many open files, the least recently written one is ended
        first."""
        table = pa.concat_tables(self._buffers.pop(group))
        del self._sizes[group]
        if group not in self._files:
            if len(self._files) >= OPEN_FILES:
                self._end(next(iter(self._files)))
            self._files[group] = File(os.path.join(self.directory, new_name()))
        self._files.move_to_end(group)
        self._files[group].write(table)
        if self._files[group].size_bytes >= self.file_size_bytes:
            self._end(group)

    def _end(self, group: tuple[str, str]) -> None:
        """Closes the open file of a group, and records its size and its offsets for the driver."""
        file = self._files.pop(group)
        file.close()
        size_bytes = os.path.getsize(file.path)
        self._done.append(
            PieceFile(*group, file.path, file.records, size_bytes, json.dumps(file.offsets))
        )


def new_name() -> str:
    """The name of a hidden file.  Readers of Parquet skip it by its first and last characters."""
    return f"_{uuid.uuid4().hex}.piece"


def split(table: pa.Table) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    """The records of each topic and date in their order, with the columns of SCHEMA."""
    topics = pc.dictionary_encode(table["topic"]).combine_chunks()
    if isinstance(topics, pa.ChunkedArray):
        topics = topics.chunk(0)
    timestamps = table["timestamp"].cast(SCHEMA.field("timestamp").type)
    days = np.floor_divide(timestamps.cast(pa.int64()).to_numpy(), DAY_MS)
    columns = [
        timestamps if field.name == "timestamp" else table[field.name].cast(field.type)
        for field in SCHEMA
    ]
    records = pa.table(columns, schema=SCHEMA)
    groups = np.stack([topics.indices.to_numpy().astype(np.int64), days])
    distinct, which = np.unique(groups, axis=1, return_inverse=True)
    for number, (topic, day) in enumerate(distinct.T):
        name = topics.dictionary[int(topic)].as_py(), date_of(int(day))
        if distinct.shape[1] == 1:
            yield name, records
        else:
            yield name, records.take(pa.array(np.flatnonzero(which.ravel() == number)))


def date_of(day: int) -> str:
    """`2013-01-31` by the number of days since 1970.  Years after 9999 have more digits."""
    return str(np.datetime64(day, "D"))


def write_pieces(
    batches: Iterable[pa.RecordBatch], directory: str, file_size_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The function for DataFrame.mapInArrow: takes records, and yields a row for each file."""
    pieces = Pieces(directory, file_size_bytes)
    for batch in batches:
        if batch.num_rows:
            pieces.add(batch)
    rows = [written._asdict() for written in pieces.close()]
    yield pa.RecordBatch.from_pylist(rows, schema=PIECE_SCHEMA)


PIECE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("date", pa.string()),
        ("path", pa.string()),
        ("records", pa.int64()),
        ("size_bytes", pa.int64()),
        ("offsets", pa.string()),
    ]
)


def merge(sources: Iterable[str], path: str) -> tuple[int, int]:
    """Join files in their order.  Returns the number of records and the size in bytes."""
    file = File(path)
    waiting: list[pa.Table] = []
    size_bytes = 0
    for source in sources:
        with pq.ParquetFile(source) as reader:
            for number in range(reader.num_row_groups):
                table = reader.read_row_group(number)
                if waiting and size_bytes + table.nbytes > ROW_GROUP_BYTES:
                    file.write(pa.concat_tables(waiting))
                    waiting, size_bytes = [], 0
                waiting.append(table)
                size_bytes += table.nbytes
    if waiting:
        file.write(pa.concat_tables(waiting))
    file.close()
    return file.records, os.path.getsize(path)


def merge_one(job: tuple[Iterable[str], str]) -> tuple[str, int]:
    """`merge` as a Spark task.  Returns the new path and its size in bytes."""
    sources, path = job
    return path, merge(sources, path)[1]
