"""Creates the topics, partitions and settings that a mirror's target lacks, and detects loops."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kwire.pipeline.cluster import BACKOFF_S, PATIENCE_S, ClusterAdmin, Topic
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
class Origin:
    """Where a topic's records come from.

    id    Cluster id and topic id of the source topic, which identify a position's source.
    via   Ids of the clusters that the records came through; the last one is the source.
    """

    id: str
    via: tuple[str, ...]


class TopicSync:
    """Selects the topics of a mirror, and keeps the target's topics in line with the source's."""

    def __init__(
        self, asked: Mirror, source: ClusterAdmin, target: ClusterAdmin, done: Mirrored
    ) -> None:
        self.asked = asked
        self.source = source
        self.target = target
        self.done = done
        self.read: dict[str, Topic] = {}
        self.ids: dict[str, str] = {}
        self.origins: dict[str, Origin] = {}
        self._looked_at: set[str] = set()  # for where their records come from
        self.passed_over: set[str] = set()

    @property
    def mirrored(self) -> dict[str, Topic]:
        """Topics of the source that are written to the target."""
        return {name: topic for name, topic in self.read.items() if name not in self.passed_over}

    def select(self, matches: Callable[[str], bool]) -> None:
        """Look at the source's topics; `matches` is how Spark's source takes a pattern.

        Raises PipelineError for a named topic that is not there, or comes from the target.
        """
        there = self.source.topics()
        names = self.asked.topics.names
        if missing := [name for name in names if name not in there]:
            raise PipelineError(f"{self.asked.source.bootstrap} has no topic {missing[0]}")
        chosen = names or [
            name for name in there if not name.startswith(INTERNAL_PREFIXES) and matches(name)
        ]
        if new := [name for name in chosen if name not in self._looked_at]:
            self._look_at(new, there)
        self.read = {name: there[name] for name in chosen}

    def _look_at(self, names: list[str], there: dict[str, Topic]) -> None:
        """Find out where new topics come from; a topic from the target would be a loop."""
        mine, theirs = self.source.id, self.target.id
        came_via = self._mirrors_in_source(there)
        for name in names:
            before = came_via.get(name, ())
            into_itself = mine == theirs and self.asked.rename(name) == name
            if theirs in before or into_itself:
                self._pass_over(name, into_itself=into_itself)
            self.origins[name] = Origin(f"{mine}/{there[name].id}", (*before, mine))
            self._looked_at.add(name)

    def _pass_over(self, name: str, *, into_itself: bool) -> None:
        why = (
            f"{name} would be mirrored into itself: both sides are the cluster {self.target.id}"
            if into_itself
            else f"{name} comes from the target itself: mirroring it back would never end"
        )
        if self.asked.topics.names:
            raise PipelineError(why)
        self.passed_over.add(name)
        self.done.passed_over.append(name)

    def _mirrors_in_source(self, there: dict[str, Topic]) -> dict[str, tuple[str, ...]]:
        """The clusters that each mirrored topic of the source came through."""
        found: dict[str, tuple[str, ...]] = {}
        places = [place for topic in there.values() for place in topic.places()]
        for group in self.source.groups():
            if not group.startswith(f"{OWN_PREFIX}mirror-"):
                continue
            with self.source.member(group) as offsets:
                for (topic, _), committed in offsets.read(places).items():
                    found[topic] = found.get(topic, ()) + position_of(committed.metadata).via
        return found

    def sync(self) -> None:
        """Create missing topics and partitions in the target; update settings if asked to."""
        there = self.target.topics()
        new = [name for name in self.mirrored if self.asked.rename(name) not in there]
        old = [name for name in self.mirrored if self.asked.rename(name) in there]
        looked_at = [*new, *old] if self.asked.follow_configs else new
        settings = self._settings(self.source, looked_at)
        for name in new:
            self._create(name, settings[name])
        for name in old:
            target, partitions = self.asked.rename(name), self.mirrored[name].partitions
            if there[target].partitions < partitions:
                self.target.add_partitions(target, partitions)
                self.done.partitions += partitions - there[target].partitions
        if self.asked.follow_configs:
            self._follow(old, settings)
        if new:
            there = self._target_with([self.asked.rename(name) for name in new])
        self.ids = {name: topic.id for name, topic in there.items()}

    def _target_with(self, names: list[str]) -> dict[str, Topic]:
        """The target's topics, once it tells of these: a broker may hear late of a new one.

        Raises PipelineError.
        """
        deadline = time.monotonic() + PATIENCE_S
        while missing := set(names) - (there := self.target.topics()).keys():
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"{self.asked.target.bootstrap} made {min(missing)}, and does not tell of it"
                )
            time.sleep(BACKOFF_S)
        return there

    def _create(self, name: str, settings: dict[str, str]) -> None:
        target = self.asked.rename(name)
        partitions, replication = self.mirrored[name].partitions, self.asked.replication_factor
        if self.target.create_topic(target, partitions, settings, replication):
            self.done.topics.append(target)

    def _follow(self, names: list[str], wanted: dict[str, dict[str, str]]) -> None:
        """Have settings on the other side that are those of the source: set, changed or reset."""
        renamed = {name: self.asked.rename(name) for name in names}
        found = self._settings(self.target, list(renamed.values()))
        for name, target in renamed.items():
            changes: dict[str, str | None] = dict.fromkeys(found[target].keys() - wanted[name])
            changes |= dict(wanted[name].items() - found[target].items())
            if changes:
                self.target.change_settings(target, changes)
                self.done.settings += len(changes)

    def _settings(self, cluster: ClusterAdmin, names: list[str]) -> dict[str, dict[str, str]]:
        return {
            name: {
                setting: value
                for setting, value in settings.items()
                if setting not in NOT_TAKEN and not setting.startswith(NOT_TAKEN_PREFIXES)
            }
            for name, settings in cluster.settings_of_topics(names).items()
        }

    def plan(self, batch: int, known: dict[tuple[str, int], int]) -> WritePlan:
        """How a batch is written."""
        return WritePlan(
            targets={name: self.asked.rename(name) for name in self.mirrored},
            ids=self.ids,
            origins={name: origin.id for name, origin in self.origins.items()},
            via={name: origin.via for name, origin in self.origins.items()},
            known=known,
            batch=batch,
        )
