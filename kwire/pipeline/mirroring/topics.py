"""Creates the topics, partitions and settings that a mirror's target lacks, and detects loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kwire.pipeline.cluster import BACKOFF_S, PATIENCE_S, ClusterAdmin, PipelineTopic
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.exactly_once import WritePlan
from kwire.pipeline.mirroring.mirror_progress import Mirrored
from kwire.pipeline.mirroring.mirror_settings import OWN_PREFIX, Mirror
from kwire.pipeline.positions import position_of

INTERNAL_PREFIXES = ("__", OWN_PREFIX)
NOT_TAKEN = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
NOT_TAKEN_PREFIXES = ("remote.", "local.retention.", "confluent.")
"""Settings that are about the brokers and not about the data, as MirrorMaker leaves them out; and
message.timestamp.type: the records keep the timestamps that they have."""


@dataclass(frozen=True)
class MirrorOrigin:
    """Where a topic's records come from.

    id    Cluster id and topic id of the source topic, which identify a position's source.
    via   Ids of the clusters that the records came through; the last one is the source.
    """

    id: str
    via: tuple[str, ...]


class TopicSync:
    """Selects the topics of a mirror, and keeps the target's topics in line with the source's."""

    def __init__(
        self, options: Mirror, source: ClusterAdmin, target: ClusterAdmin, done: Mirrored
    ) -> None:
        """`done` is the result of the mirror, to which created and skipped topics are added."""
        self.options = options
        self.source = source
        self.target = target
        self.done = done
        self.read: dict[str, PipelineTopic] = {}
        self.ids: dict[str, str] = {}
        self.origins: dict[str, MirrorOrigin] = {}
        self._examined: set[str] = set()  # topics whose origin is known
        self.passed_over: set[str] = set()

    @property
    def mirrored(self) -> dict[str, PipelineTopic]:
        """Topics of the source that are written to the target."""
        return {name: topic for name, topic in self.read.items() if name not in self.passed_over}

    def select(self, matches: Callable[[str], bool]) -> None:
        """Select topics of the source; `matches` applies the pattern like Spark's source.

        Raises PipelineError if a named topic does not exist, or comes from the target.
        """
        topics = self.source.topics()
        names = self.options.topics.names
        if missing := [name for name in names if name not in topics]:
            raise PipelineError(f"{self.options.source.bootstrap} has no topic {missing[0]}")
        chosen = names or [
            name for name in topics if not name.startswith(INTERNAL_PREFIXES) and matches(name)
        ]
        if new := [name for name in chosen if name not in self._examined]:
            self._examine(new, topics)
        self.read = {name: topics[name] for name in chosen}

    def _examine(self, names: list[str], topics: dict[str, PipelineTopic]) -> None:
        """Find the origins of new topics.  A topic that comes from the target would be a loop."""
        mine, theirs = self.source.id, self.target.id
        mirrored_via = self._mirrors_in_source(topics)
        for name in names:
            before = mirrored_via.get(name, ())
            into_itself = mine == theirs and self.options.rename(name) == name
            if theirs in before or into_itself:
                self._pass_over(name, into_itself=into_itself)
            self.origins[name] = MirrorOrigin(f"{mine}/{topics[name].id}", (*before, mine))
            self._examined.add(name)

    def _pass_over(self, name: str, *, into_itself: bool) -> None:
        """Skips a topic whose mirroring would never end.  Raises PipelineError instead if the user
        named the topics, since then it was asked for."""
        why = (
            f"{name} would be mirrored into itself: both sides are the cluster {self.target.id}"
            if into_itself
            else f"{name} is mirrored from the target: mirroring it back would never end"
        )
        if self.options.topics.names:
            raise PipelineError(why)
        self.passed_over.add(name)
        self.done.passed_over.append(name)

    def _mirrors_in_source(self, topics: dict[str, PipelineTopic]) -> dict[str, tuple[str, ...]]:
        """The clusters through which each topic of the source was mirrored."""
        via: dict[str, tuple[str, ...]] = {}
        places = [place for topic in topics.values() for place in topic.places()]
        for group in self.source.groups():
            if not group.startswith(f"{OWN_PREFIX}mirror-"):
                continue
            with self.source.member(group) as offsets:
                for (topic, _), committed in offsets.read(places).items():
                    via[topic] = via.get(topic, ()) + position_of(committed.metadata).via
        return via

    def sync(self) -> None:
        """Create missing topics and partitions in the target.

        With `follow_configs`, it also updates the configs of existing topics.
        """
        existing = self.target.topics()
        new = [name for name in self.mirrored if self.options.rename(name) not in existing]
        old = [name for name in self.mirrored if self.options.rename(name) in existing]
        copied = [*new, *old] if self.options.follow_configs else new
        settings = self._settings(self.source, copied)
        for name in new:
            self._create(name, settings[name])
        for name in old:
            target, partitions = self.options.rename(name), self.mirrored[name].partitions
            if existing[target].partitions < partitions:
                self.target.add_partitions(target, partitions)
                self.done.partitions += partitions - existing[target].partitions
        if self.options.follow_configs:
            self._follow(old, settings)
        if new:
            existing = self._target_with([self.options.rename(name) for name in new])
        self.ids = {name: topic.id for name, topic in existing.items()}

    def _target_with(self, names: list[str]) -> dict[str, PipelineTopic]:
        """The target's topics, once they include these new ones.

        A broker may get the metadata of a new topic late.  Raises PipelineError after PATIENCE_S.
        """
        deadline = time.monotonic() + PATIENCE_S
        while missing := set(names) - (topics := self.target.topics()).keys():
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"the metadata of {self.options.target.bootstrap} lack the new topic"
                    f" {min(missing)}"
                )
            time.sleep(BACKOFF_S)
        return topics

    def _create(self, name: str, settings: dict[str, str]) -> None:
        """Creates the target topic with as many partitions as the source topic."""
        target = self.options.rename(name)
        partitions, replication = self.mirrored[name].partitions, self.options.replication_factor
        if self.target.create_topic(target, partitions, settings, replication):
            self.done.topics.append(target)

    def _follow(self, names: list[str], wanted: dict[str, dict[str, str]]) -> None:
        """Set, change or reset configs in the target so that they equal those of the source."""
        renamed = {name: self.options.rename(name) for name in names}
        present = self._settings(self.target, list(renamed.values()))
        for name, target in renamed.items():
            changes: dict[str, str | None] = dict.fromkeys(present[target].keys() - wanted[name])
            changes |= dict(wanted[name].items() - present[target].items())
            if changes:
                self.target.change_settings(target, changes)
                self.done.settings += len(changes)

    def _settings(self, cluster: ClusterAdmin, names: list[str]) -> dict[str, dict[str, str]]:
        """Return the configs of topics that a mirror copies, without those that belong to one
        cluster."""
        return {
            name: {
                setting: value
                for setting, value in settings.items()
                if setting not in NOT_TAKEN and not setting.startswith(NOT_TAKEN_PREFIXES)
            }
            for name, settings in cluster.settings_of_topics(names).items()
        }

    def plan(self, batch: int, known: dict[tuple[str, int], int]) -> WritePlan:
        """The plan by which a batch is written."""
        return WritePlan(
            targets={name: self.options.rename(name) for name in self.mirrored},
            ids=self.ids,
            origins={name: origin.id for name, origin in self.origins.items()},
            via={name: origin.via for name, origin in self.origins.items()},
            known=known,
            batch=batch,
        )
