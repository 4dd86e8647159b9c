"""The tasks and answers of a cleaning worker: plain values, which are sent as JSON lines."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """One pass over one log: its files when the pass began, and the settings.

    `segments` are (base offset, bytes) of all segments that begin before `upper_bound`, the first
    offset that must not be touched; records from `first_dirty` on have never been cleaned.  This
    pass takes the keys before `end_offset`, which is `upper_bound` unless an earlier pass of the
    round had no memory for them all.
    `later_segments` are the base offsets of those behind, whose transaction indexes may name
    transactions that began before.  `producers` has (producer id, last data offset or -1, epoch) of
    the producers whose state must survive.
    A record of a compressed batch with more than `record_bytes_max` fails the pass.
    """

    directory: str
    segments: list[tuple[int, int]]
    later_segments: list[int]
    first_dirty: int
    end_offset: int
    upper_bound: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: list[tuple[int, int, int]]
    map_bytes_max: int
    record_bytes_max: int | None = None
    read_bytes: int = 262_144
    bytes_per_second: float = sys.float_info.max

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> CleaningTask:
        fields = json.loads(line)
        for name in ("segments", "producers"):
            fields[name] = [tuple(each) for each in fields[name]]
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class GroupCleaned:
    """The segments `sources` (base offsets) were cleaned into one segment of `size_bytes`.

    It has the first one's base offset and is on disk; `files` are the names of its files, the log
    file first, and `max_timestamp` with `max_timestamp_offset` what its time index ends with.
    """

    sources: list[int]
    size_bytes: int
    files: list[str]
    max_timestamp: int
    max_timestamp_offset: int


@dataclass(frozen=True, slots=True)
class PassDone:
    """The pass is done, with all keys from `first_offset` on; the other numbers are logged.

    If that is above the task's `first_dirty`, another pass must continue from there.
    """

    first_offset: int
    keys: int
    bytes_read: int
    bytes_written: int
    index_ms: int
    rewrite_ms: int


@dataclass(frozen=True, slots=True)
class PassFailed:
    """The pass has failed: with an OSError of number `errno`, or (0) at an unreadable batch."""

    errno: int
    reason: str


Answer = GroupCleaned | PassDone | PassFailed

_KINDS: dict[str, type[Answer]] = {kind.__name__: kind for kind in (GroupCleaned, PassDone)}
_KINDS[PassFailed.__name__] = PassFailed


def encode_answer(answer: Answer) -> bytes:
    return json.dumps([type(answer).__name__, asdict(answer)]).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    kind, fields = json.loads(line)
    return _KINDS[kind](**fields)
