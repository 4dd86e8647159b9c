"""Kafka's checkpoint files: small text files, replaced whole and atomically.

    0                   version
    2                   number of lines that follow
    topic 0 42          one entry a line

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint` and
`replication-offset-checkpoint` (the high watermarks), in the log directory, hold `topic partition
offset`; a partition's `leader-epoch-checkpoint` holds `epoch start-offset`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.error import CorruptFile

if TYPE_CHECKING:
    from kwire.log.directory.files import Files

VERSION = 0

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

OF_PARTITIONS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)
"""The checkpoints of a log directory.  Their lines have no topic id: see `LogDir.departed`."""

TopicPartition = tuple[str, int]


def encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (VERSION, len(entries), *entries)).encode()


def decode(data: bytes, fields: int) -> list[list[str]]:
    """Return the entries, with `fields` fields each.  Raises CorruptFile for any other content.

    An empty file has none: Kafka makes its checkpoints so before it first writes them.
    """
    if not data:
        return []
    try:
        lines = data.decode().splitlines()
        version, count, entries = int(lines[0]), int(lines[1]), lines[2:]
    except (ValueError, IndexError) as error:
        raise CorruptFile("a checkpoint must open with its version and its size") from error
    if version != VERSION:
        raise CorruptFile(f"unknown checkpoint version {version}")
    split = [line.split(" ") for line in entries]
    if len(entries) != count or any(len(entry) != fields for entry in split):
        raise CorruptFile(f"a checkpoint of {count} entries holds {len(entries)}")
    if not data.endswith(b"\n"):
        raise CorruptFile("a checkpoint is cut short: its last number may lack digits")
    return split


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """Return the offset of each (topic, partition), empty without a file; raises CorruptFile."""
    try:
        data = files.read(path)
    except FileNotFoundError:
        return {}
    try:
        return {
            (topic, int(partition)): int(offset) for topic, partition, offset in decode(data, 3)
        }
    except ValueError as error:
        raise CorruptFile(f"{path} holds something else than numbers") from error


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file; a thread may call it if nobody else writes the same file."""
    files.replace(path, encode_offsets(offsets))


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode(f"{topic} {index} {offset}" for (topic, index), offset in offsets.items())


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """The (epoch, start offset) of a leader-epoch-checkpoint.  CorruptFile if it is bad."""
    try:
        return [(int(epoch), int(offset)) for epoch, offset in decode(data, 2)]
    except ValueError as error:
        raise CorruptFile("a leader epoch checkpoint holds something else than numbers") from error


def encode_epochs(epochs: Sequence[tuple[int, int]]) -> bytes:
    return encode(f"{epoch} {offset}" for epoch, offset in epochs)
