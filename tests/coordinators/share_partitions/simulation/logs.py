"""The logs of the simulation: records that groups read, and records of share states.

Replication is not simulated here (see tests/cluster/replication/simulation): all brokers have the
records that groups read.  The log of share states has the committed records; a leader may have
appended more, and its successor finds a part of these.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kwire.cluster.metadata.topic_names import SHARE_GROUP_STATE_TOPIC
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.log import LogError
from tests.coordinators.share_partitions.simulation.reference import References

if TYPE_CHECKING:
    from kwire.storage.partitions.partition import FetchWaiter

_OFFSET = struct.Struct(">q")


class Bytes:
    """A region of a log."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        return self._data

    def __len__(self) -> int:
        return len(self._data)


class DataLog:
    """Records that groups read, as every broker has them."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.batches: list[tuple[int, bytes]] = []
        """(offset after the batch, its bytes) of each batch."""

    def append(self, records: int) -> None:
        batch = build([Record(at, 1000, None, b"x") for at in range(records)])
        _OFFSET.pack_into(batch, 0, self.end)
        self.end += records
        self.batches.append((self.end, bytes(batch)))


class DataPartition:
    """A replica of such a log on one broker, with the leader that the broker knows."""

    topic = "t"

    def __init__(self, log: DataLog, node_id: int, index: int = 0) -> None:
        self.log = log
        self.index = index
        self.node_id = node_id
        self.leader = -1
        self.leader_epoch = self.led_since_epoch = -1
        self.fetch_waiters: set[FetchWaiter] = set()

    def follow(self, leader: int, leader_epoch: int, led_since_epoch: int) -> None:
        """The broker learns the leader, which leads without a break since `led_since_epoch`."""
        if leader_epoch == self.leader_epoch:
            return
        self.leader, self.leader_epoch = leader, leader_epoch
        self.led_since_epoch = led_since_epoch
        for waiter in tuple(self.fetch_waiters):
            waiter.partition_changed()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def log_start_offset(self) -> int:
        return self.log.start

    @property
    def high_watermark(self) -> int:
        return self.log.end

    last_stable_offset = high_watermark

    def check_leads(self) -> None:
        if not self.is_leader:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def read(
        self, offset: int, size_bytes: int, *, max_offset: int, min_one_batch: bool
    ) -> Bytes | None:
        if not self.log.start <= offset <= self.log.end:
            raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE)
        found = b""
        for end, data in self.log.batches:
            if end <= offset or end > max_offset:
                continue
            if len(found) + len(data) > size_bytes and (found or not min_one_batch):
                break
            found += data
        return Bytes(found) if found else None


class StateLog:
    """The committed records of a partition of `__share_group_state`."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.epoch = 0
        self.batches: list[tuple[int, bytes]] = []
        """(offset, bytes) of each batch; each has one record."""
        self.leader: StatePartition | None = None

    def keep(self, batches: list[tuple[int, bytes]]) -> None:
        for offset, data in batches:
            assert offset == self.end
            self.batches.append((offset, data))
            self.end += 1

    def prune(self) -> bool:
        """Drop the records before the last snapshot of each partition, as share coordinators do."""
        keys = References()
        for offset, data in self.batches:
            keys.follow(data, offset)
        kept_from = min(keys.last_snapshots.values(), default=self.end)
        before = self.start
        self.batches = [each for each in self.batches if each[0] >= kept_from]
        self.start = max(self.start, kept_from)
        return self.start > before


class StatePartition:
    """A replica of such a log on the broker that leads it, or takes itself for the leader."""

    topic = SHARE_GROUP_STATE_TOPIC

    def __init__(self, index: int, truth: StateLog) -> None:
        self.index = index
        self._truth = truth
        self.epoch = truth.epoch
        self.log = SimpleNamespace(
            segments=SimpleNamespace(active=SimpleNamespace(size_bytes=0)),
            config=SimpleNamespace(max_message_bytes=1 << 20),
        )
        self.log_start_offset = truth.start
        self.log_end_offset = self.high_watermark = truth.end
        self._batches = list(truth.batches)
        self._waiters: list[tuple[int, Callable[[ErrorCode], None]]] = []
        self.is_lost = False
        self.references = References()
        for offset, data in self._batches:
            self.references.follow(data, offset)

    def append_own(self, batch: bytearray, records_count: int, **_: object) -> None:
        if self.is_lost:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        _OFFSET.pack_into(batch, 0, self.log_end_offset)
        self._batches.append((self.log_end_offset, bytes(batch)))
        self.references.follow(bytes(batch), self.log_end_offset)
        self.log_end_offset += 1

    @property
    def tail(self) -> list[tuple[int, bytes]]:
        """The batches that are not committed."""
        return [each for each in self._batches if each[0] >= self.high_watermark]

    @property
    def is_current(self) -> bool:
        return self._truth.leader is self

    def commit(self) -> None:
        """All in-sync replicas get all records, unless this is a leader of an earlier epoch."""
        if not self.is_current or self.is_lost:
            return
        self._truth.keep(self.tail)
        self.high_watermark = self.log_end_offset
        waiters, self._waiters = self._waiters, []
        for _, callback in waiters:
            callback(ErrorCode.NONE)

    def when_replicated(self, offset: int, callback: Callable[[ErrorCode], None]) -> None:
        if offset <= self.high_watermark:
            callback(ErrorCode.NONE)
        else:
            self._waiters.append((offset, callback))

    def lose(self) -> None:
        """The broker learns that another one leads."""
        self.is_lost = True
        waiters, self._waiters = self._waiters, []
        for _, callback in waiters:
            callback(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def read(
        self, offset: int, size_bytes: int, *, max_offset: int, min_one_batch: bool
    ) -> Bytes | None:
        data = b"".join(data for at, data in self._batches if offset <= at < max_offset)
        return Bytes(data) if data else None
