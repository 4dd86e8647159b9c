"""Files of records in the format of `kwire consume --format json`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kwire.cli.text.records import BadLine, from_json, to_json
from kwire.testing.values import NotARecord, Path, Record

if TYPE_CHECKING:
    from kwire.client.fetcher import ConsumedRecord


def saved_records(path: Path) -> Iterator[Record]:
    """The records of a file.  Raises NotARecord."""
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                read = from_json(line, keep_partition=True)
            except BadLine as problem:
                raise NotARecord(f"{path}, line {number}: {problem}") from None
            yield Record(read.value, read.key, read.headers, read.partition, read.timestamp_ms)


def saved_lines(records: Iterable[ConsumedRecord]) -> Iterator[str]:
    """The lines of a file, each with its newline."""
    for record in records:
        yield f"{to_json(record)}\n"
