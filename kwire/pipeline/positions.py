"""How far a source has come in a target, as the target itself keeps it.

The position of a partition is a committed offset of the writer's group, with metadata:

    {"origin": "CLUSTER/TOPIC-ID", "target": "TOPIC-ID", "via": ["CLUSTER", ...], "batch": 12}

The map of offsets is a compacted topic with a record for each transaction:

    key    ["TOPIC", PARTITION, FIRST-OFFSET-IN-THE-SOURCE]
    value  {"origin": ..., "target": ..., "runs": [[SOURCE, TARGET, RECORDS], ...]}

Topic and partition are the target's, and each [SOURCE, TARGET, RECORDS] is a run of records that
follow each other in both.  Sent to Spark's executors by value: imports nothing of kwire.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple


class Run(NamedTuple):
    """So many records that follow each other in the source as in the target, from these offsets."""

    source: int
    target: int
    records: int


@dataclass(frozen=True)
class Position:
    """What is said with a position.

    origin   The source that it counts in.
    target   The id of the target's topic: of one that was made anew no position is known.
    via      The clusters that the source's records came through, the first one first.
    batch    The number of Spark's batch that came so far; -1 where none is told.
    """

    origin: str
    target: str = ""
    via: tuple[str, ...] = ()
    batch: int = -1

    def metadata(self) -> str:
        """As the metadata of a committed offset."""
        return json.dumps(asdict(self))


def position_of(metadata: str | None) -> Position:
    """What `Position.metadata` gave; of somebody else's metadata an origin that nobody has."""
    try:
        told = json.loads(metadata or "")
        return Position(told["origin"], told["target"], tuple(told["via"]), told["batch"])
    except (ValueError, TypeError, KeyError):
        return Position(f"unknown ({metadata or 'no metadata'})")


@dataclass(frozen=True)
class MapRecord:
    """A transaction's record in the map of offsets."""

    topic: str
    partition: int
    origin: str
    target: str
    runs: tuple[Run, ...]

    def encode(self) -> tuple[bytes, bytes]:
        """Key and value."""
        key = [self.topic, self.partition, self.runs[0].source]
        value = {"origin": self.origin, "target": self.target, "runs": self.runs}
        return _compact(key), _compact(value)

    @staticmethod
    def place(key: bytes) -> tuple[str, int]:
        """The target's topic and partition that a key is about."""
        topic, partition, _ = json.loads(key)
        return topic, partition

    @staticmethod
    def decode(key: bytes, value: bytes) -> MapRecord:
        """Of key and value."""
        topic, partition = MapRecord.place(key)
        told = json.loads(value)
        runs = tuple(Run(*run) for run in told["runs"])
        return MapRecord(topic, partition, told["origin"], told["target"], runs)


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
