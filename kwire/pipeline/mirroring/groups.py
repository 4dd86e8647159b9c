"""Translates the committed offsets of consumer groups and commits them in the target cluster."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from kwire.pipeline.cluster import (
    ClusterAdmin,
    Committed,
    GroupOffsets,
    PartitionId,
)
from kwire.pipeline.mirroring.mirror_progress import GroupState
from kwire.pipeline.mirroring.mirror_settings import OWN_PREFIX, Mirror
from kwire.pipeline.mirroring.offset_map import OffsetMap
from kwire.pipeline.mirroring.topics import TopicSync

PRUNE_S = 600.0
"""How often records of the map are removed that no group needs."""


class Ends(NamedTuple):
    """Where partitions end, on either side."""

    source: Mapping[PartitionId, int]
    target: Mapping[PartitionId, int]


class GroupSync:
    """Commits translated offsets, so that groups can move from the source to the target.

    The translation is exact: in the target, the group continues with the first record that it has
    not read in the source.  No offset is committed for a group that has members in the target.  An
    offset does not move back unless the mirror allows it (`backwards`).
    """

    def __init__(self, asked: Mirror, topics: TopicSync, offset_map: OffsetMap) -> None:
        self.asked = asked
        self.topics = topics
        self.source: ClusterAdmin = topics.source
        self.target: ClusterAdmin = topics.target
        self.map = offset_map
        self._wanted = re.compile(asked.groups)
        self._prune_at_s = 0.0

    def sync(
        self, mirrored: Mapping[PartitionId, int], written: Mapping[PartitionId, int]
    ) -> list[GroupState]:
        """Translate and commit all.

        `mirrored` is how far each partition of the source has come, and `written` the position
        behind the last record of each partition of the target.
        """
        offsets = self._offsets()
        if time.monotonic() >= self._prune_at_s:
            self._prune(offsets)
            self._prune_at_s = time.monotonic() + PRUNE_S
        if not offsets:
            return []
        self.map.read()
        partitions = {partition for found in offsets.values() for partition in found}
        ends = Ends(
            self.source.ends(partitions),
            self.target.ends({self._renamed(partition) for partition in partitions}),
        )
        active = self.target.active_groups(sorted(offsets))
        return [
            self._sync_group(
                group, found, self._translated(found, mirrored, written), ends, group in active
            )
            for group, found in offsets.items()
        ]

    def _prune(self, offsets: Mapping[str, Mapping[PartitionId, Committed]]) -> None:
        """Have the map begin where the source does, or with a group that is still before that."""
        needed = self.source.ends(
            (place for topic in self.topics.mirrored.values() for place in topic.places()),
            earliest=True,
        )
        for found in offsets.values():
            for place, committed in found.items():
                if place in needed:  # a topic may go at any time
                    needed[place] = min(needed[place], committed.offset)
        self.map.read()
        self.map.prune({self._renamed(place): first for place, first in needed.items()})

    def _sync_group(
        self,
        group: str,
        found: dict[PartitionId, Committed],
        translated: dict[PartitionId, Committed],
        ends: Ends,
        is_active: bool,
    ) -> GroupState:
        with self.target.member(group) as offsets:
            there = offsets.read([self._renamed(partition) for partition in found])
            state = "active" if is_active else self._commit(offsets, translated, there)
        if state == "same":
            there |= translated
            state = state if len(translated) == len(found) else "waiting"
        return GroupState(
            group, state, len(found), _lag(found, ends.source), _lag(there, ends.target)
        )

    def _offsets(self) -> dict[str, dict[PartitionId, Committed]]:
        """Of the groups that are wanted, the offsets in topics that are mirrored."""
        found = {}
        places = [place for topic in self.topics.mirrored.values() for place in topic.places()]
        for group in self.source.groups():
            if group.startswith(OWN_PREFIX) or not self._wanted.fullmatch(group):
                continue
            with self.source.member(group) as offsets:
                if committed := offsets.read(places):
                    found[group] = committed
        return found

    def _renamed(self, partition: PartitionId) -> PartitionId:
        return self.asked.rename(partition[0]), partition[1]

    def _translated(
        self,
        offsets: Mapping[PartitionId, Committed],
        mirrored: Mapping[PartitionId, int],
        written: Mapping[PartitionId, int],
    ) -> dict[PartitionId, Committed]:
        """The offsets on the other side; those are missing that the mirror has not come to."""
        translated = {}
        for partition, committed in offsets.items():
            target = self._renamed(partition)
            runs = self.map.partitions[target]
            is_complete = runs.position >= written.get(target, 0)
            offset = runs.translate(
                committed.offset, mirrored.get(partition, 0) if is_complete else 0
            )
            if offset is not None:
                translated[target] = Committed(offset, committed.metadata)
        return translated

    def _commit(
        self,
        offsets: GroupOffsets,
        translated: Mapping[PartitionId, Committed],
        there: Mapping[PartitionId, Committed],
    ) -> str:
        """Commit what has changed; returns how the group stands."""
        back = {
            partition
            for partition, committed in translated.items()
            if partition in there and there[partition].offset > committed.offset
        }
        changed = {
            partition: committed
            for partition, committed in translated.items()
            if (partition not in there or there[partition].offset != committed.offset)
            and (self.asked.backwards or partition not in back)
        }
        if changed and not offsets.commit(changed):
            return "active"
        return "ahead" if back and not self.asked.backwards else "same"


def _lag(offsets: Mapping[PartitionId, Committed], ends: Mapping[PartitionId, int]) -> int:
    """Offsets between a group's place and the end, over its partitions."""
    return sum(max(0, ends[partition] - found.offset) for partition, found in offsets.items())
