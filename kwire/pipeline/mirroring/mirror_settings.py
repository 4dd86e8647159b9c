"""The settings of a mirror."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.exactly_once import Bounds
from kwire.pipeline.source import Kafka, Topics

NAME = re.compile(r"[A-Za-z0-9._-]+")
OWN_PREFIX = "kwire-"
"""Of the groups that hold positions, and of the topics that map offsets; never mirrored."""


@dataclass(frozen=True)
class Rename:
    """How topics are named in the target: `{topic}` (unchanged), or `{source}.{topic}`.

    template   Contains {topic}, and optionally {source}.  The two above are those of MirrorMaker's
               IdentityReplicationPolicy and DefaultReplicationPolicy.
    source     The value of {source}.
    """

    template: str = "{topic}"
    source: str = ""

    def __post_init__(self) -> None:
        """Raise PipelineError unless the template has {topic} exactly once and nothing but
        {source} besides, which needs a name for the source."""
        rest = self.template.replace("{topic}", "", 1).replace("{source}", "")
        if "{topic}" not in self.template or "{" in rest or "}" in rest:
            raise PipelineError(
                f"{self.template!r} is no name for topics: it needs {{topic}} once, and may have "
                "{source}"
            )
        if "{source}" in self.template and not self.source:
            raise PipelineError(f"{self.template!r} needs a name for the source")

    def __call__(self, topic: str) -> str:
        """The name of a topic in the target."""
        return self.template.format(source=self.source, topic=topic)


@dataclass(frozen=True)
class Mirror:
    """A mirror of topics from one cluster to another.

    source, target      The clusters.
    topics              Topics of the source: names, or a pattern that also matches later topics.
    name                Name of the mirror; the target stores its position under this name.
    rename              How topics are named in the target.
    groups              Regular expression of the consumer groups whose offsets are translated.
    backwards           Whether a group's offset in the target may move back.
    follow_configs      Whether changes of topic settings are copied; else only at creation.
    every_s             Interval of micro-batches; None: mirror the records up to now, then end.
    sync_s              Interval for copying topics, settings and group offsets.
    batch_records       Maximum number of offsets in a micro-batch.
    replication_factor  Replication factor of created topics; None: the target's default.
    compression         compression.type of the producers.
    skip_lost           Whether to continue after records that were deleted before the mirror read
                        them.
    checkpoint          A directory that all of Spark's machines can access, for the duration of a
                        run.  The position is in the target, so later runs do not need it.
    bounds              Limits of the transactions.
    """

    source: Kafka
    target: Kafka
    topics: Topics
    name: str = "mirror"
    rename: Rename = Rename()
    groups: str = ".*"
    backwards: bool = False
    follow_configs: bool = False
    every_s: float | None = None
    sync_s: float = 10.0
    batch_records: int = 1_000_000
    replication_factor: int | None = None
    compression: str = "lz4"
    skip_lost: bool = False
    checkpoint: str | None = None
    bounds: Bounds = field(default_factory=Bounds)

    def __post_init__(self) -> None:
        """Raise PipelineError for an invalid name, or for groups that are not a regular
        expression."""
        if not NAME.fullmatch(self.name):
            raise PipelineError(f"{self.name!r} is no name for a mirror: letters, digits, . _ -")
        try:
            re.compile(self.groups)
        except re.error as error:
            raise PipelineError(f"{self.groups!r} is no regular expression: {error}") from error

    @property
    def job(self) -> str:
        """The name of the writer, which is part of its group and transactional ids."""
        return f"mirror-{self.name}"

    @property
    def map_topic(self) -> str:
        """The topic in the target for the map of offsets."""
        return f"{OWN_PREFIX}{self.job}-offsets"
