"""A partition that broker 1 leads, on a real log; the test makes its followers fetch."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.replication.isr import IsrChanges
from kwire.cluster.replication.leading import LeaderContext, Leading
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.log import LogManager
from kwire.storage.partitions.flushing import Flusher
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.progress import Follower
from tests.log.configs import DEFAULTS, log_config

TOPIC_ID = b"t" * 16
LAG_MAX_MS = 10_000


class RecordedProposals:
    """Stands in for IsrChanges: records the proposals."""

    def __init__(self) -> None:
        self.proposals: list[tuple[int, ...]] = []

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.proposals.append(isr)


class IdleFlusher:
    """A flusher that never flushes."""

    def request(self, partition: Partition) -> None:
        return


class LeaderStage:
    """See the module."""

    def __init__(
        self,
        folder: Path,
        *,
        isr: tuple[int, ...] = (1, 2, 3),
        records: int = 0,
        min_isr: int = 1,
        flush_messages: int = DEFAULTS.flush_messages,
    ) -> None:
        self.now_ms = 1_000_000
        self.alive = {1, 2, 3}
        self.isr_changes = RecordedProposals()
        logs = LogManager([folder], defaults=DEFAULTS, clock=lambda: self.now_ms)
        logs.load()
        config = log_config(min_insync_replicas=min_isr, flush_messages=flush_messages)
        log = logs.create("t", TOPIC_ID, 0, config)
        self.partition = Partition(log, 1, cast(Flusher, IdleFlusher()), 0)
        self.state = PartitionImage(1, 0, 0, (1, 2, 3), isr)
        self.partition.follow(PartitionImage(1, 0, 0, (1,), (1,)))
        for _ in range(records):
            self.append()
        self.partition.high_watermark = 0
        self.partition.leader = 2
        self.state = PartitionImage(1, 1, 1, (1, 2, 3), isr)
        self.context = LeaderContext(
            cast(IsrChanges, self.isr_changes),
            now_ms=lambda: self.now_ms,
            is_alive=lambda each: each in self.alive,
            is_eligible=lambda each: each.broker_id in self.alive,
            is_stale=lambda _id, _epoch: False,
            lag_max_ms=LAG_MAX_MS,
        )
        self.leading = self.lead()

    def lead(self) -> Leading:
        self.partition.follow(self.state)
        leading = self.partition.leading = Leading(self.partition, self.context)
        leading.follow(self.state, new_leader=True, new_epoch=True)
        return leading

    def append(self) -> None:
        self.partition.append(build([Record(0, 0, None, b"v")]), now_ms=self.now_ms)

    def follower(self, broker_id: int) -> Follower:
        follower = self.leading.follower(broker_id)
        assert follower is not None
        return follower

    def fetch(self, broker_id: int, offset: int, *, epoch: int = 100) -> None:
        """The follower fetches from `offset` on: it has all records before it."""
        self.leading.fetched(self.follower(broker_id), offset, 0, epoch)

    def wait_for(self, offset: int) -> list[ErrorCode]:
        """Errors that a producer with acks=all gets, once it is answered."""
        outcomes: list[ErrorCode] = []
        self.partition.when_replicated(offset, outcomes.append)
        return outcomes

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark
