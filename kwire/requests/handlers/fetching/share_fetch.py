"""The work of a ShareFetch: records for one member, in the order of its session.

Each partition is read from where something is available.  The member gets whole batches, and is
told which of their records it has; it passes over the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from kwire.codecs import batches as record_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchRequest,
)
from kwire.coordinators.share.partition import (
    AcknowledgedBatch,
    AcknowledgeType,
    Acquired,
    ShareLimits,
)
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import Place
from kwire.coordinators.share_partitions.led import LedPartition
from kwire.coordinators.share_partitions.limits import GroupSettings
from kwire.coordinators.share_partitions.manager import Opening, ShareManager
from kwire.log import LogError, Region, aborted_in
from kwire.storage.partitions.purgatory import ParkedFetch

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.storage.partitions.partition import FetchWaiter

RECORD_LIMIT = 1
"""`ShareAcquireMode`: `MaxRecords` is strict."""

Found = dict[Place, PartitionData]


class ShareFetch:
    """One request being answered."""

    def __init__(
        self,
        broker: Broker,
        shares: ShareManager,
        request: ShareFetchRequest,
        places: Iterable[Place],
    ) -> None:
        self._broker = broker
        self._shares = shares
        self._request = request
        self._group_id = request.group_id or ""
        self._member_id = request.member_id or ""
        self._places = list(places)
        self._led: dict[Place, LedPartition] = {}
        self._openings: dict[Place, Opening] = {}
        self.found: Found = {}
        self.open: list[Place] = []
        """Partitions of which the member could have had something."""

    async def run(self) -> Found:
        """Wait until there is something for the member, or its time is up.

        Partitions that nobody has read yet come in one by one, as the share coordinator tells their
        state: who has enough by then is answered, and the others are for a later fetch.  Apache
        Kafka answers its first fetch so, and clients count on a part of their partitions there.

        Whoever asks for no bytes at all (`min_bytes`) is answered at once, unless no partition has
        room for another record on its way.  What the share coordinator has not said in time is said
        to a later fetch, and what it refuses is told in the end.
        """
        self._begin()
        if not self._led and not self._openings:
            return self.found
        with trio.move_on_after(self._request.max_wait_ms / 1000):
            while not self._is_answered():
                if self._take_opened():
                    continue
                with ParkedFetch(self._waiters()) as parked:
                    await parked.arrival(0)
                if parked.changed and not self._drop_deleted():
                    break
            else:
                return self.found
        while self._take_opened():
            pass
        self._read()
        return self.found

    def _begin(self) -> None:
        """What is known of partitions that nobody has read yet is asked for at the same time."""
        for place in self._places:
            key = ShareKey(self._group_id, *place)
            led, refusal = self._shares.find(key), self._shares.refusal(key)
            if led is not None:
                self._led[place] = led
            elif refusal is not None:
                self.found[place] = self._refused(place, refusal)
            else:
                self._openings[place] = self._shares.opening(key)

    def _take_opened(self) -> bool:
        """Take in partitions whose state is known by now, until these may be enough to answer.

        Returns whether there was one.
        """
        opened = [place for place, opening in self._openings.items() if opening.found is not None]
        size_bytes = 0
        for place in opened:
            outcome = self._openings.pop(place).found
            if not isinstance(outcome, LedPartition):
                assert outcome is not None
                self.found[place] = self._refused(place, outcome)
                continue
            self._led[place] = outcome
            if outcome.records.may_acquire(self._limits):
                size_bytes += self._bytes_of(outcome)
                if size_bytes >= self._request.min_bytes:
                    break
        if opened:
            self._led = {place: self._led[place] for place in self._places if place in self._led}
        return bool(opened)

    def _drop_deleted(self) -> bool:
        """Read no longer partitions of topics that were deleted meanwhile.

        Returns whether there were any.  As on Apache Kafka the member hears of that when it asks
        again.
        """
        deleted = [
            place for place in self._led if self._broker.metadata.topic_name(place[0]) is None
        ]
        for place in deleted:
            del self._led[place]
        return bool(deleted)

    def _waiters(self) -> list[set[FetchWaiter]]:
        waiters = [opening.waiters for opening in self._openings.values()]
        for led in self._led.values():
            waiters += [led.waiters, led.partition.fetch_waiters]
        return waiters

    def _is_answered(self) -> bool:
        if not self._openings and self.found.keys() >= set(self._places):
            return True  # the share coordinator refuses all of them: nothing is left to wait for
        least = self._request.min_bytes
        if least > 1 and self._available_bytes() < least:
            return False
        return self._read() or (least <= 0 and bool(self.open))

    def _available_bytes(self) -> int:
        """What the member could have of all partitions that are read here."""
        return sum(self._bytes_of(led) for led in self._led.values())

    def _bytes_of(self, led: LedPartition) -> int:
        """From where there is something to acquire, as far as one reply may have."""
        if not led.records.may_acquire(self._limits):
            return 0
        region = self._region(led, self._request.max_bytes)
        return 0 if region is None else len(region)

    def _refused(self, place: Place, error: ErrorCode) -> PartitionData:
        data = PartitionData(partition_index=place[1], error_code=error, records=b"")
        name = self._broker.metadata.topic_name(place[0])
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and name is not None:
            partition = self._broker.image.topics[name].partitions[place[1]]
            data.current_leader = LeaderIdAndEpoch(partition.leader, partition.leader_epoch)
        return data

    def _read(self) -> bool:
        """Whether there is something for the member."""
        room = self._request.max_bytes
        most = self._request.max_records
        self.open, something = [], False
        for place, led in self._led.items():
            try:
                data = self._acquire(place, led, room, most)
            except LogError as problem:
                data = self._refused(place, problem.error)
            if data is not None:
                something = True
                self.found[place] = data
                room -= len(data.records) if isinstance(data.records, bytes) else 0
                most -= sum(
                    each.last_offset - each.first_offset + 1 for each in data.acquired_records
                )
        return something

    def _acquire(
        self, place: Place, led: LedPartition, room: int, most: int
    ) -> PartitionData | None:
        partition, records, limits = led.partition, led.records, self._limits
        partition.check_leads()
        if led.has_stopped or not led.is_current:
            return self._refused(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        records.begin_at(partition.log_start_offset)
        if not records.may_acquire(limits):
            return None
        self.open.append(place)
        region = self._region(led, room) if room > 0 and most > 0 else None
        if region is None:
            return None
        data = region.read()
        headers = list(record_batches.iter_batches(data))
        read = [(header.base_offset, header.last_offset) for _, header in headers]
        request = self._request
        acquired = records.acquire(
            self._member_id,
            read,
            most,
            request.batch_size,
            led.now_ms,
            limits,
            at_most=request.share_acquire_mode == RECORD_LIMIT,
        )
        led.watch_locks()
        if self._settings.committed_only and acquired:
            aborted = _aborted(headers, aborted_in(partition.log, region))
            acquired = self._without(led, acquired, aborted)
            if not acquired:  # what follows may be for the member
                return self._acquire(place, led, room, most)
        if not acquired:
            return None
        return PartitionData(
            partition_index=place[1],
            records=_cut(data, headers, acquired[0].first, acquired[-1].last),
            acquired_records=[AcquiredRecords(*each) for each in acquired],
        )

    @property
    def _settings(self) -> GroupSettings:
        return self._shares.settings.of(self._group_id)

    @property
    def _limits(self) -> ShareLimits:
        return self._settings.limits

    def _region(self, led: LedPartition, room: int) -> Region | None:
        """What is read next, `room` bytes of it or one batch."""
        partition, offset = led.partition, led.records.next_fetch_offset
        committed = self._settings.committed_only
        end = partition.last_stable_offset if committed else partition.high_watermark
        if offset >= end:
            return None
        return partition.read(offset, room, max_offset=end, min_one_batch=True)

    def _without(
        self, led: LedPartition, acquired: list[Acquired], aborted: list[tuple[int, int]]
    ) -> list[Acquired]:
        """Records of aborted transactions are done with, before anybody has seen them."""
        left: list[Acquired] = []
        for each in acquired:
            at = each.first
            for first, last in aborted:
                first, last = max(first, at), min(last, each.last)
                if first > last:
                    continue
                done = AcknowledgedBatch(first, last, [AcknowledgeType.REJECT])
                led.acknowledge(self._member_id, [done], lambda _: None)
                if at < first:
                    left.append(each._replace(first=at, last=first - 1))
                at = last + 1
            if at <= each.last:
                left.append(each._replace(first=at))
        return left


def _aborted(
    headers: list[tuple[int, record_batches.BatchHeader]], transactions: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The batches of producers whose transaction was aborted, until its marker."""
    begins = sorted(transactions, key=lambda each: each[1])
    producers: set[int] = set()
    found = []
    for _, header in headers:
        while begins and begins[0][1] <= header.last_offset:
            producers.add(begins.pop(0)[0])
        if header.producer_id in producers and header.is_transactional:
            found.append((header.base_offset, header.last_offset))
            if header.is_control:
                producers.discard(header.producer_id)
    return found


def _cut(
    data: bytes, headers: list[tuple[int, record_batches.BatchHeader]], first: int, last: int
) -> bytes:
    """The batches that hold what is acquired."""
    starts = [at for at, header in headers if header.last_offset >= first]
    ends = [at for at, header in headers if header.base_offset > last]
    return data[starts[0] if starts else 0 : ends[0] if ends else len(data)]
