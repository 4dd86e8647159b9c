"""What must always hold where brokers replicate; see `ReplicationLaws.check`.

a record that was acknowledged to acks=all is in the log of each later leader
in one leader epoch only one broker acknowledges
the high watermark of a leader is not behind the end of the log of anyone in the ISR
what is below it is the same, byte by byte, in all logs of the ISR
it does not move while fewer are in sync than min.insync.replicas
a leader's log is not cut in the leader epoch in which it leads
what a broker knows as leader epoch, partition epoch and high watermark only grows
a broker that was let go by a controlled shutdown is in no ISR, except as the last one
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kwire.cluster.metadata.image import PartitionImage
from kwire.codecs.batches import iter_batches
from kwire.log import Log
from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from tests.cluster.replication.simulation.world import World

Place = tuple[str, int]


@dataclass(frozen=True)
class Acknowledged:
    """A record that a producer was promised."""

    place: Place
    offset: int
    value: bytes
    leader_epoch: int


class Known(NamedTuple):
    """What a broker knew of a partition after the step before."""

    leader_epoch: int = -1
    partition_epoch: int = -1
    registration: int = -1
    high_watermark: int = 0
    log_end_offset: int = 0
    leads: bool = False
    is_under_min_isr: bool = False


class ObservedBroker(Protocol):
    """A broker whose partitions are looked at."""

    @property
    def id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def run_count(self) -> int:
        """Tells apart the lives of its process."""

    @property
    def partitions(self) -> list[Partition]: ...


class ObservedWorld(Protocol):
    """Brokers that replicate, and the truth about their partitions."""

    @property
    def observed(self) -> Mapping[int, ObservedBroker]: ...

    @property
    def seen(self) -> Counter[str]: ...

    def known(self, place: Place) -> PartitionImage | None: ...

    def is_deleting(self, topic: str) -> bool: ...

    def state(self) -> str: ...


class ReplicationLaws:
    """Asked after each step."""

    def __init__(self, world: ObservedWorld) -> None:
        self._world = world
        self.acknowledged: list[Acknowledged] = []
        self._acknowledgers: dict[tuple[Place, int], int] = {}
        self._known: dict[tuple[int, int, Place], Known] = {}
        """By broker, the life of its process, and partition."""
        self._compared: dict[Place, object] = {}
        """As what the logs of the ISR were last compared."""

    def place_of(self, partition: Partition) -> Place:
        return place_of(partition)

    def note_acknowledged(self, record: Acknowledged, broker_id: int) -> None:
        self.acknowledged.append(record)
        place = record.place, record.leader_epoch
        assert self._acknowledgers.setdefault(place, broker_id) == broker_id, place

    def check(self) -> None:
        for broker in self._world.observed.values():
            for partition in broker.partitions:
                if self._world.is_deleting(partition.topic):
                    continue  # it may be made anew, by a controller that is to delete it again
                self._check_progress(broker, partition)
                if partition.is_leader:
                    self._check_isr(partition)

    def _check_progress(self, broker: ObservedBroker, partition: Partition) -> None:
        life = broker.id, broker.run_count, self.place_of(partition)
        before = self._known.get(life, Known())
        now = self._known[life] = Known(
            partition.leader_epoch,
            partition.partition_epoch,
            broker.epoch,
            partition.high_watermark,
            partition.log_end_offset,
            partition.is_leader,
            partition.is_under_min_isr,
        )
        if now == before:
            return
        facts = (life, before, now)
        assert now.leader_epoch >= before.leader_epoch, facts
        assert now.high_watermark >= before.high_watermark, facts
        assert now.high_watermark <= now.log_end_offset, facts
        if now.registration == before.registration:
            assert now.partition_epoch >= before.partition_epoch, facts
        if before.leads and now.leads and now.leader_epoch == before.leader_epoch:
            assert now.log_end_offset >= before.log_end_offset, ("a leader cut its log", facts)
            if before.is_under_min_isr and now.is_under_min_isr:
                assert now.high_watermark == before.high_watermark, facts

    def _check_isr(self, leader: Partition) -> None:
        known = self._world.known(self.place_of(leader))
        if known is None or known.leader_epoch != leader.leader_epoch:
            return
        members = self._members(known, leader)
        for each in members:
            assert leader.high_watermark <= each.log_end_offset, (
                each.node_id,
                self._world.state(),
            )
        self._compare_committed(leader, members)

    def _members(self, known: PartitionImage, leader: Partition) -> list[Partition]:
        """The replicas that must have what the leader has committed, if they run."""
        return self._copies(known.isr, leader)

    def _copies(self, broker_ids: Iterable[int], leader: Partition) -> list[Partition]:
        place = self.place_of(leader)
        return [
            each
            for broker_id in broker_ids
            for each in self._world.observed[broker_id].partitions
            if self.place_of(each) == place
        ]

    def _compare_committed(self, leader: Partition, members: list[Partition]) -> None:
        """The logs of the ISR, where something about them is new."""
        committed = leader.high_watermark
        seen = [
            (each.node_id, id(each.log), each.log_end_offset, each.leader_epoch) for each in members
        ]
        if self._compared.get(self.place_of(leader)) == (committed, seen):
            return
        self._compared[self.place_of(leader)] = (committed, seen)
        expected = committed_in(leader.log, committed)
        for each in members:
            assert committed_in(each.log, committed) == expected, (
                "the log of a member of the ISR differs below the high watermark",
                each.node_id,
                self._world.state(),
            )

    # -- what was acknowledged

    def check_leader(self, partition: Partition) -> None:
        """A broker leads from now on, or no longer."""
        if self._world.is_deleting(partition.topic):
            return
        if partition.is_leader:
            self._world.seen["led"] += 1
            self.check_has_all(partition)

    def check_has_all(self, partition: Partition) -> None:
        assert self.has_all(partition), (
            partition.node_id,
            [each for each in self.acknowledged if each.place == self.place_of(partition)],
            batches_in(partition.log),
            self._world.state(),
        )

    def has_all(self, partition: Partition) -> bool:
        batches = batches_in(partition.log)
        return all(
            each.value in batches.get(each.offset, b"")
            for each in self.acknowledged
            if each.place == self.place_of(partition)
            and each.leader_epoch <= partition.leader_epoch
        )


class DepartureLaws(ReplicationLaws):
    """Those of brokers that a controller lets go, too."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._departures = world

    def check(self) -> None:
        super().check()
        self._check_departed()

    def _check_departed(self) -> None:
        cluster = self._departures.cluster
        for broker_id, (term, epoch) in self._departures.let_go.items():
            if cluster.term is not term or self._departures.brokers[broker_id].epoch != epoch:
                continue
            for known in self._all_known():
                if len(known.isr) > 1 and len(known.replicas) > 1:
                    assert broker_id not in known.isr, ("it was let go", broker_id, known)

    def _all_known(self) -> list[PartitionImage]:
        image = self._departures.cluster.store.image
        return [each for topic in image.topics.values() for each in topic.partitions]


def place_of(partition: Partition) -> Place:
    return partition.topic, partition.index


def bytes_of(log: Log) -> bytes:
    return b"".join(segment.path.read_bytes() for segment in log.segments)


def batches_in(log: Log) -> dict[int, bytes]:
    """The batch at each offset: each has one record."""
    data = memoryview(bytes_of(log))
    return {
        header.base_offset: bytes(data[position : position + header.size_bytes])
        for position, header in iter_batches(data)
    }


def committed_in(log: Log, high_watermark: int) -> dict[int, bytes]:
    return {offset: batch for offset, batch in batches_in(log).items() if offset < high_watermark}
