"""What must always hold where brokers replicate by metadata records.

All of ReplicationLaws holds, and this:

an eligible leader replica has all that its leader has committed, byte by byte, unless an election
    was unclean
an unclean election loses only records that the elected leader lacks
"""

from __future__ import annotations

from kwire.cluster.metadata.image import PartitionImage
from kwire.storage.partitions.partition import Partition
from tests.cluster.replication.simulation.laws import (
    Acknowledged,
    ObservedBroker,
    ObservedWorld,
    Place,
    ReplicationLaws,
    batches_in,
)


class MetadataLaws(ReplicationLaws):
    """Asked after each step."""

    def __init__(self, world: ObservedWorld) -> None:
        super().__init__(world)
        self._lossy: dict[Place, int] = {}
        """The leader epoch of the last unclean election of each partition that had one."""
        self._followed: dict[tuple[int, int, Place], Partition] = {}

    def place_of(self, partition: Partition) -> Place:
        """Topics of one name that were created one after the other are different."""
        return f"{partition.topic} {partition.topic_id.hex()}", partition.index

    def note_lossy(self, place: Place, leader_epoch: int, elected: Partition | None) -> None:
        """Note an unclean election; `elected` is the partition on the leader, if it runs."""
        self._world.seen["unclean election"] += 1
        self._lossy[place] = leader_epoch
        batches = {} if elected is None else batches_in(elected.log)
        self.acknowledged = [
            each
            for each in self.acknowledged
            if each.place != place or each.value in batches.get(each.offset, b"")
        ]

    def note_acknowledged(self, record: Acknowledged, broker_id: int) -> None:
        """A leader that does not know of an unclean election acknowledges what is lost."""
        lost = record.leader_epoch < self._lossy.get(record.place, 0)
        super().note_acknowledged(record, broker_id)
        if lost:
            self.acknowledged.pop()

    def _check_progress(self, broker: ObservedBroker, partition: Partition) -> None:
        """Nothing is compared with a replica that was deleted, nor after an unclean election.

        A broker may hear of several records in one step; between them enough may be in sync.
        """
        life = broker.id, broker.run_count, self.place_of(partition)
        if self._followed.get(life) is not partition or life[2] in self._lossy:
            self._followed[life] = partition
            self._known.pop(life, None)
        before = self._known.get(life)
        if before is not None and partition.partition_epoch > before.partition_epoch + 1:
            self._known[life] = before._replace(is_under_min_isr=False)
        super()._check_progress(broker, partition)

    def _members(self, known: PartitionImage, leader: Partition) -> list[Partition]:
        """Who was eligible before an unclean election may have what the elected leader lacks."""
        members = super()._members(known, leader)
        if self.place_of(leader) in self._lossy:
            return members
        eligible = self._copies(known.eligible, leader)
        self._world.seen["eligible replica compared"] += len(eligible)
        return members + eligible
