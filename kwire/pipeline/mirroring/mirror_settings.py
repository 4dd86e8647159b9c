"""What a mirror is asked to do."""

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
    """What a topic is called on the other side: `{topic}` as it is, or `{source}.{topic}`.

    template   Holds {topic}, and maybe {source}: MirrorMaker's IdentityReplicationPolicy and
               DefaultReplicationPolicy are the two above.
    source     What stands for {source}.
    """

    template: str = "{topic}"
    source: str = ""

    def __post_init__(self) -> None:
        rest = self.template.replace("{topic}", "", 1).replace("{source}", "")
        if "{topic}" not in self.template or "{" in rest or "}" in rest:
            raise PipelineError(
                f"{self.template!r} is no name for topics: it needs {{topic}} once, and may have "
                "{source}"
            )
        if "{source}" in self.template and not self.source:
            raise PipelineError(f"{self.template!r} needs a name for the source")

    def __call__(self, topic: str) -> str:
        """Its name on the other side."""
        return self.template.format(source=self.source, topic=topic)


@dataclass(frozen=True)
class Mirror:
    """Topics of one cluster kept the same in another.

    source, target      The clusters.
    topics              Of the source: names, or a pattern, which takes topics that come later.
    name                Of the mirror; a target keeps how far each mirror has come by its name.
    rename              How topics are called on the other side.
    groups              Regular expression for the consumer groups whose offsets are translated.
    backwards           Whether a group's offset on the other side may go back.
    follow_configs      Whether topics' settings are followed; else they are taken over once.
    every_s             How often records are looked for; None: those there are now, and the end.
    sync_s              How often topics, settings and groups are looked at.
    batch_records       Offsets that a micro-batch takes at most.
    replication_factor  Of topics that are created; None is the target's default.
    compression         compression.type of the producers.
    skip_lost           Whether to go on where records were deleted before they were mirrored.
    checkpoint          A directory that all of Spark's machines see, for the time of a run.  The
                        target knows how far the mirror has come, so nothing in it is needed again.
    bounds              Of the transactions.
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
        if not NAME.fullmatch(self.name):
            raise PipelineError(f"{self.name!r} is no name for a mirror: letters, digits, . _ -")
        try:
            re.compile(self.groups)
        except re.error as error:
            raise PipelineError(f"{self.groups!r} is no regular expression: {error}") from error

    @property
    def job(self) -> str:
        """The name that the writer and its group go by."""
        return f"mirror-{self.name}"

    @property
    def map_topic(self) -> str:
        """The target's topic that maps offsets."""
        return f"{OWN_PREFIX}{self.job}-offsets"
