"""The position of a source in a target, and the map of offsets; both are stored in the target.

The position of a partition is a committed offset of the writer's group, with metadata:

    {"origin": "CLUSTER/TOPIC-ID", "target": "TOPIC-ID", "via": ["CLUSTER", ...], "batch": 12}

The map of offsets is a compacted topic with a record for each transaction:

    key    ["TOPIC", PARTITION, FIRST-OFFSET-IN-THE-SOURCE]
    value  {"origin": ..., "target": ..., "runs": [[SOURCE, TARGET, RECORDS], ...]}

Topic and partition are the target's.  Each [SOURCE, TARGET, RECORDS] is a run: RECORDS records with
consecutive offsets in both, from these offsets on.  This module is sent to Spark's executors by
value: it imports nothing of kwire.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple


class Run(NamedTuple):
    """`records` records with consecutive offsets, from offset `source` in the source and from
    offset `target` in the target."""

    source: int
    target: int
    records: int


@dataclass(frozen=True)
class Position:
    """The metadata of a position.

    origin   Identity of the source.
    target   Topic id of the target: the position is not valid for a topic that was created again.
    via      Ids of the clusters that the source's records came through, in order.
    batch    Number of the Spark batch that committed the position; -1 if unknown.
    """

    origin: str
    target: str = ""
    via: tuple[str, ...] = ()
    batch: int = -1

    def metadata(self) -> str:
        """The position as the metadata of a committed offset."""
        return json.dumps(asdict(self))


def position_of(metadata: str | None) -> Position:
    """Parse the text of `Position.metadata`; other text gives an origin that no source has."""
    try:
        fields = json.loads(metadata or "")
        return Position(fields["origin"], fields["target"], tuple(fields["via"]), fields["batch"])
    except (ValueError, TypeError, KeyError):
        return Position(f"unknown ({metadata or 'no metadata'})")


@dataclass(frozen=True)
class MapRecord:
    """The record of one transaction in the map of offsets."""

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
        """The target's topic and partition in a key."""
        topic, partition, _ = json.loads(key)
        return topic, partition

    @staticmethod
    def decode(key: bytes, value: bytes) -> MapRecord:
        """Parse a key and value."""
        topic, partition = MapRecord.place(key)
        fields = json.loads(value)
        runs = tuple(Run(*run) for run in fields["runs"])
        return MapRecord(topic, partition, fields["origin"], fields["target"], runs)


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
