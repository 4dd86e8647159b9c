"""Invariants of a cluster, whoever changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.image import NO_LEADER, TOPIC_RESOURCE, ClusterImage, PartitionImage

UNCLEAN = "unclean.leader.election.enable"


@dataclass
class Laws:
    """The invariants; `check` sees each change of a partition."""

    leaders: dict[tuple[bytes, int, int], int] = field(default_factory=dict)
    """Who led a partition (topic id and index) in an epoch."""
    unclean: set[bytes] = field(default_factory=set)
    """Topics of which an administrator has asked for an unclean election."""
    seen: Counter[str] = field(default_factory=Counter)
    """What has happened, lest nothing does."""

    def check(self, before: ClusterImage, after: ClusterImage, names: Iterable[str]) -> None:
        for name in names:
            topic = after.topics.get(name)
            old = before.topics.get(name)
            for index, now in enumerate(() if topic is None else topic.partitions):
                was = None
                if old is not None and topic is not None and old.id == topic.id:
                    was = old.partitions[index] if index < len(old.partitions) else None
                if now is not was and topic is not None:
                    may_be_unclean = (
                        after.configs_of(TOPIC_RESOURCE, name).get(UNCLEAN) == "true"
                        or topic.id in self.unclean
                    )
                    self._check(topic.id, index, was, now, may_be_unclean)

    def _check(
        self,
        topic_id: bytes,
        index: int,
        was: PartitionImage | None,
        now: PartitionImage,
        may_be_unclean: bool,
    ) -> None:
        if is_new(now):
            return
        assert now.isr, now
        assert set(now.isr) <= set(now.replicas), now
        assert len(set(now.replicas)) == len(now.replicas), now
        assert now.leader == NO_LEADER or now.leader in now.isr, now
        assert set(now.adding) | set(now.removing) <= set(now.replicas), now
        self.led(topic_id, index, now.leader_epoch, now.leader)
        if was is None or is_new(was):
            self.seen["begun"] += 1
            return
        self.seen["led by another"] += now.leader not in (NO_LEADER, was.leader)
        self.seen["led by nobody"] += now.leader == NO_LEADER != was.leader
        self.seen["unclean"] += now.recovering and not was.recovering
        self.seen["reassigned"] += bool(was.adding) and not now.adding and not now.removing
        self.seen["in sync"] += len(now.isr) > len(was.isr)
        assert now.leader_epoch >= was.leader_epoch, (was, now)
        assert now.partition_epoch > was.partition_epoch, (was, now)
        if now.leader not in (NO_LEADER, was.leader):
            assert now.leader_epoch > was.leader_epoch, (was, now)
            assert now.leader in was.isr or may_be_unclean, (was, now)
        if now.leader_epoch > was.leader_epoch and not may_be_unclean:
            assert set(now.isr) <= set(was.isr), ("only a leader adds to the ISR", was, now)

    def led(self, topic_id: bytes, index: int, leader_epoch: int, leader: int) -> None:
        if leader != NO_LEADER:
            partition = self.leaders.setdefault((topic_id, index, leader_epoch), leader)
            assert partition == leader, (topic_id, index, leader_epoch, partition, leader)
