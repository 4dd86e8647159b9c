"""A consumer of given partitions, or of the partitions that a group assigns."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import BrokerRefused, Misuse
from kwire.client.fetcher import ConsumedRecord, Fetched, Fetcher, OffsetOutOfRange
from kwire.client.membership.classic import HEARTBEAT_INTERVAL_MS, GroupMember
from kwire.client.membership.membership import OUTDATED, Membership
from kwire.client.offsets import Isolation, end_offsets, start_offsets


class Reset(Enum):
    """Where to start without a position, or if it is out of range (auto.offset.reset)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class Consumer:
    """Reads partitions.  `poll` returns records, and advances the positions past them."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        reset: Reset = Reset.LATEST,
    ) -> None:
        """`isolation` decides whether records of open and aborted transactions are returned, and
        `reset` where a partition without a valid position begins."""
        self._cluster = cluster
        self._isolation = isolation
        self._reset = reset
        self._fetcher = Fetcher(cluster, isolation)
        self._member: Membership | None = None
        self._joined = False
        self._on_assigned: Callable[[list[TopicPartition]], None] | None = None
        self._fetched: deque[Fetched] = deque()
        self.positions: dict[TopicPartition, int] = {}
        """The offset of the next record of each partition that `poll` will return."""
        self.ends: dict[TopicPartition, int] = {}
        """The end offset of each partition in its last response."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on."""
        self.positions = dict(positions)
        self.ends = {}
        self._fetched.clear()

    def subscribe(
        self,
        group_id: str,
        topics: Iterable[str],
        *,
        instance_id: str | None = None,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        consumer_protocol: bool = False,
        on_assigned: Callable[[list[TopicPartition]], None] | None = None,
    ) -> None:
        """Read the partitions that the group assigns, from the committed offsets on.

        In the consumer protocol (KIP-848) the coordinator sets the heartbeat interval, and
        `instance_id` is not used.
        """
        if consumer_protocol:
            from kwire.client.membership.consumer import ConsumerProtocolMember

            self._member = ConsumerProtocolMember(self._cluster, group_id, topics)
        else:
            self._member = GroupMember(
                self._cluster,
                group_id,
                topics,
                instance_id=instance_id,
                heartbeat_interval_ms=heartbeat_interval_ms,
            )
        self._on_assigned = on_assigned

    def poll(self, timeout_s: float = 0.5, records_max: int | None = None) -> list[ConsumedRecord]:
        """The next records, at most `records_max`; empty if none arrive within the timeout."""
        if self._member is not None and not (self._joined and self._member.heartbeat()):
            self._rejoin(self._member)
        if not self._fetched:
            self._fetch(timeout_s)
        found: list[ConsumedRecord] = []
        while self._fetched and (records_max is None or len(found) < records_max):
            found += self._take(None if records_max is None else records_max - len(found))
        return found

    def _fetch(self, timeout_s: float) -> None:
        """Fetches records of all partitions, waiting at most `timeout_s` seconds.  If a position is
        out of range, it moves as `reset` says, or OffsetOutOfRange is raised for Reset.NONE."""
        try:
            knows_ends = self.ends.keys() >= self.positions.keys()
            fetched = self._fetcher.poll(self.positions, timeout_s, park=knows_ends)
            self._fetched.extend(fetched)
        except OffsetOutOfRange as error:
            if self._reset is Reset.NONE:
                raise
            self.positions |= self._begin([error.partition])

    def _take(self, count: int | None) -> list[ConsumedRecord]:
        """Up to `count` records of the oldest response.  Its other records stay for later."""
        first = self._fetched.popleft()
        self.ends[first.partition] = first.end_offset
        self.positions[first.partition] = first.next_offset
        if count is None or count >= len(first.records):
            return first.records
        rest = first.records[count:]
        self.positions[first.partition] = rest[0].offset
        self._fetched.appendleft(first._replace(records=rest))
        return first.records[:count]

    def commit(self) -> bool:
        """Commit the positions to the group; returns False if a rebalance came first.

        The partitions may then belong to another member, which reads from the last commit on.
        """
        if self._member is None:
            raise Misuse("only a member of a group can commit")
        try:
            self._member.commit(self.positions)
        except BrokerRefused as error:
            if error.code not in OUTDATED:
                raise
            self._joined = False
            return False
        return True

    @property
    def is_at_end(self) -> bool:
        """Whether each partition has been read up to the end offset in its last response."""
        return all(
            partition in self.ends and offset >= self.ends[partition]
            for partition, offset in self.positions.items()
        )

    @property
    def has_joined(self) -> bool:
        """Whether the group has assigned partitions to this member."""
        return self._joined

    def close(self) -> None:
        """Drop pending fetches and leave the group."""
        self._fetcher.close()
        if self._member is not None:
            self._member.leave()

    def _rejoin(self, member: Membership) -> None:
        """Commit the positions if the group still accepts that, then take part in a rebalance."""
        if self._joined:
            self.commit()
        assigned = member.join()
        committed = member.committed(assigned)
        fresh = [partition for partition in assigned if partition not in committed]
        self.assign(committed | self._begin(fresh))
        self._joined = True
        if self._on_assigned is not None:
            self._on_assigned(assigned)

    def _begin(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets at which partitions without a position begin, as `reset` says.
        Raises Misuse for Reset.NONE."""
        if not partitions:
            return {}
        if self._reset is Reset.NONE:
            names = ", ".join(map(str, partitions))
            raise Misuse(f"the group has committed no offset for {names}")
        if self._reset is Reset.EARLIEST:
            return start_offsets(self._cluster, partitions)
        return end_offsets(self._cluster, partitions, self._isolation)

    def wait_for_assignment(self, timeout_s: float) -> bool:
        """Poll until the group has assigned partitions; returns False after the timeout."""
        deadline = time.monotonic() + timeout_s
        while not self._joined and time.monotonic() < deadline:
            self.poll(0.0)
        return self._joined
