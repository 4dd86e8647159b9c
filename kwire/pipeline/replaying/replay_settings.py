"""What of an archive is written where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kwire.pipeline.source import Kafka, Topics


@dataclass(frozen=True)
class Range:
    """Offsets of one partition: from `first` up to, without, `end`; None is no bound."""

    topic: str
    partition: int
    first: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Replay:
    """What of an archive is written where.

    kafka      The target's cluster.
    directory  Of the archive.
    topics     Of the archive; None: all.
    rename     The target's topic of an archived one, where it is another.
    since_ms   Only records with a timestamp from this on, and `until_ms`: before that.
    ranges     Only these offsets; empty: all.
    speed      How many times faster than the records were made; None: as fast as can be.
    configs    Settings of topics that have to be created, beside NEW_TOPIC.
    name       What is there already is known by it: another name writes all of it once more.
               None: one that belongs to the archive and to all of the above but speed and configs.
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
        """Where a topic's records go."""
        return self.rename.get(topic, topic)
