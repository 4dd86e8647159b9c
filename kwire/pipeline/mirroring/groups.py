"""Translates the committed offsets of consumer groups and commits them in the target cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from kwire.pipeline.cluster import (
    ClusterAdmin,
    CommittedPosition,
    GroupOffsets,
    PartitionId,
)
from kwire.pipeline.mirroring.mirror_progress import GroupState
from kwire.pipeline.mirroring.mirror_settings import OWN_PREFIX, Mirror
from kwire.pipeline.mirroring.offset_map import MirrorOffsetMap
from kwire.pipeline.mirroring.topics import TopicSync

PRUNE_S = 600.0
"""The interval at which records of the offset map that no group needs are removed."""


class Ends(NamedTuple):
    """The end offsets of partitions in the source and in the target."""

    source: Mapping[PartitionId, int]
    target: Mapping[PartitionId, int]


class GroupSync:
    """Commits translated offsets, so that groups can move from the source to the target.

    The translation is exact: in the target, the group continues with the first record that it has
    not read in the source.  No offset is committed for a group that has members in the target.  An
    offset does not move back unless the mirror allows it (`backwards`).
    """

    def __init__(self, options: Mirror, topics: TopicSync, offset_map: MirrorOffsetMap) -> None:
        """`topics` knows which topics are mirrored, and `offset_map` translates source offsets."""
        self.options = options
        self.topics = topics
        self.source: ClusterAdmin = topics.source
        self.target: ClusterAdmin = topics.target
        self.map = offset_map
        self._wanted = re.compile(options.groups)
        self._prune_at_s = 0.0

    def sync(
        self, mirrored: Mapping[PartitionId, int], written: Mapping[PartitionId, int]
    ) -> list[GroupState]:
        """Translate and commit the offsets of all groups.

        `mirrored` has the position of the mirror in each source partition, and `written` the
        position after the last record of each target partition.
        """
        offsets = self._offsets()
        if time.monotonic() >= self._prune_at_s:
            self._prune(offsets)
            self._prune_at_s = time.monotonic() + PRUNE_S
        if not offsets:
            return []
        self.map.read()
        partitions = {partition for committed in offsets.values() for partition in committed}
        ends = Ends(
            self.source.ends(partitions),
            self.target.ends({self._renamed(partition) for partition in partitions}),
        )
        active = self.target.active_groups(sorted(offsets))
        return [
            self._sync_group(
                group,
                committed,
                self._translated(committed, mirrored, written),
                ends,
                group in active,
            )
            for group, committed in offsets.items()
        ]

    def _prune(self, offsets: Mapping[str, Mapping[PartitionId, CommittedPosition]]) -> None:
        """Remove records of the map below the source's log start and all committed offsets."""
        needed = self.source.ends(
            (place for topic in self.topics.mirrored.values() for place in topic.places()),
            earliest=True,
        )
        for of_group in offsets.values():
            for place, committed in of_group.items():
                if place in needed:  # a topic may be deleted at any time
                    needed[place] = min(needed[place], committed.offset)
        self.map.read()
        self.map.prune({self._renamed(place): first for place, first in needed.items()})

    def _sync_group(
        self,
        group: str,
        committed: dict[PartitionId, CommittedPosition],
        translated: dict[PartitionId, CommittedPosition],
        ends: Ends,
        is_active: bool,
    ) -> GroupState:
        """Commits the translated offsets of a group in the target, unless the group has members
        there, and returns its state and its lag on both sides. "waiting": some offsets cannot be
        translated yet."""
        with self.target.member(group) as offsets:
            present = offsets.read([self._renamed(partition) for partition in committed])
            state = "active" if is_active else self._commit(offsets, translated, present)
        if state == "same":
            present |= translated
            state = state if len(translated) == len(committed) else "waiting"
        return GroupState(
            group, state, len(committed), _lag(committed, ends.source), _lag(present, ends.target)
        )

    def _offsets(self) -> dict[str, dict[PartitionId, CommittedPosition]]:
        """The committed offsets of the selected groups in mirrored topics."""
        by_group = {}
        places = [place for topic in self.topics.mirrored.values() for place in topic.places()]
        for group in self.source.groups():
            if group.startswith(OWN_PREFIX) or not self._wanted.fullmatch(group):
                continue
            with self.source.member(group) as offsets:
                if committed := offsets.read(places):
                    by_group[group] = committed
        return by_group

    def _renamed(self, partition: PartitionId) -> PartitionId:
        return self.options.rename(partition[0]), partition[1]

    def _translated(
        self,
        offsets: Mapping[PartitionId, CommittedPosition],
        mirrored: Mapping[PartitionId, int],
        written: Mapping[PartitionId, int],
    ) -> dict[PartitionId, CommittedPosition]:
        """The offsets in the target; those that the mirror has not reached are left out."""
        translated = {}
        for partition, committed in offsets.items():
            target = self._renamed(partition)
            runs = self.map.partitions[target]
            is_complete = runs.position >= written.get(target, 0)
            offset = runs.translate(
                committed.offset, mirrored.get(partition, 0) if is_complete else 0
            )
            if offset is not None:
                translated[target] = CommittedPosition(offset, committed.metadata)
        return translated

    def _commit(
        self,
        offsets: GroupOffsets,
        translated: Mapping[PartitionId, CommittedPosition],
        present: Mapping[PartitionId, CommittedPosition],
    ) -> str:
        """Commit the changed offsets.  Returns the state of the group."""
        back = {
            partition
            for partition, committed in translated.items()
            if partition in present and present[partition].offset > committed.offset
        }
        changed = {
            partition: committed
            for partition, committed in translated.items()
            if (partition not in present or present[partition].offset != committed.offset)
            and (self.options.backwards or partition not in back)
        }
        if changed and not offsets.commit(changed):
            return "active"
        return "ahead" if back and not self.options.backwards else "same"


def _lag(offsets: Mapping[PartitionId, CommittedPosition], ends: Mapping[PartitionId, int]) -> int:
    """The lag of a group: offsets between its committed offsets and the ends of partitions."""
    return sum(
        max(0, ends[partition] - committed.offset) for partition, committed in offsets.items()
    )
