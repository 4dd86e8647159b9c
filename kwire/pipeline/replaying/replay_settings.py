"""The settings of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kwire.pipeline.source import Kafka, Topics


@dataclass(frozen=True)
class Range:
    """Offsets of one partition from `first` to `end` (exclusive); None is no bound."""

    topic: str
    partition: int
    first: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Replay:
    """A replay: which records of an archive are written to which topics.

    kafka      The target cluster.
    directory  Directory of the archive.
    topics     Topics of the archive; None: all.
    rename     Target topic by archived topic, where the names differ.
    since_ms   Only records with this timestamp or a later one; `until_ms`: only earlier records.
    ranges     Only these offsets; empty: all.
    speed      How many times faster than real time; None: as fast as possible.
    configs    Settings of created topics, in addition to NEW_TOPIC.
    name       Name under which the target stores the position: a replay with another name writes
               all records again.  None: a name derived from the archive and all of the above
               except speed and configs.
    """

    kafka: Kafka
    directory: Path
    topics: Topics | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    since_ms: int | None = None
    until_ms: int | None = None
    ranges: tuple[Range, ...] = ()
    speed: float | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None

    def target(self, topic: str) -> str:
        """The target topic of an archived topic."""
        return self.rename.get(topic, topic)
