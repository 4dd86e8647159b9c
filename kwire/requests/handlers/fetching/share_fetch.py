"""ShareFetch of one member: acquire records of its partitions, in the order of its share session.

Each partition is read from its first available record.  The member gets whole batches, and the
response says which of their records it has acquired; the member skips the others.
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
    AcquiredBatch,
    ShareLimits,
)
from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.session import TopicIdPartition
from kwire.coordinators.share_partitions.led import LedPartition
from kwire.coordinators.share_partitions.limits import ShareDeliverySettings
from kwire.coordinators.share_partitions.manager import Opening, ShareManager
from kwire.log import LogError, Region, aborted_in
from kwire.storage.partitions.purgatory import ParkedFetch

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.storage.partitions.partition import FetchWaiter

RECORD_LIMIT = 1
"""The `ShareAcquireMode` with `MaxRecords` as a strict limit; the other acquires whole batches."""

SharePartitionAnswers = dict[TopicIdPartition, PartitionData]


class ShareFetch:
    """One ShareFetch request: `run` acquires records, or waits for them."""

    def __init__(
        self,
        broker: Broker,
        shares: ShareManager,
        request: ShareFetchRequest,
        places: Iterable[TopicIdPartition],
    ) -> None:
        """Prepare to read `places`, the partitions of the share session in their order."""
        self._broker = broker
        self._shares = shares
        self._request = request
        self._group_id = request.group_id or ""
        self._member_id = request.member_id or ""
        self._places = list(places)
        self._led: dict[TopicIdPartition, LedPartition] = {}
        self._openings: dict[TopicIdPartition, Opening] = {}
        self.answers: SharePartitionAnswers = {}
        self.open: list[TopicIdPartition] = []
        """Partitions that have an available record, whether or not this request acquires it."""

    async def run(self) -> SharePartitionAnswers:
        """Acquire records, or wait for some up to `max_wait_ms`; return the answers.

        The state of partitions that nobody has read yet arrives one by one from the share
        coordinator.  As soon as the partitions read so far have enough, the response is sent, and
        the others are left to a later fetch.  Apache Kafka answers a first fetch in the same way,
        and clients expect only a part of their partitions in it.

        With a `min_bytes` of 0 the response is sent at once, unless no partition may have another
        record acquired.  A state that does not arrive in time is left to a later fetch.  Errors of
        the share coordinator are in the response.
        """
        self._begin()
        if not self._led and not self._openings:
            return self.answers
        with trio.move_on_after(self._request.max_wait_ms / 1000) as time:
            while not self._is_answered():
                if self._take_opened():
                    continue
                with ParkedFetch(self._waiters()) as parked:
                    await parked.arrival(0)
                if parked.changed and not self._drop_deleted():
                    break
            else:
                return self.answers
        if time.cancelled_caught:
            self._broker.hosted.expired.share_fetches += 1
        while self._take_opened():
            pass
        self._read()
        return self.answers

    def _begin(self) -> None:
        """Sort the partitions into led, refused, and those whose state has to be loaded first.

        The states are loaded at the same time.
        """
        for place in self._places:
            key = ShareKey(self._group_id, *place)
            led, refusal = self._shares.find(key), self._shares.refusal(key)
            if led is not None:
                self._led[place] = led
            elif refusal is not None:
                self.answers[place] = self._refused(place, refusal)
            else:
                self._openings[place] = self._shares.opening(key)

    def _take_opened(self) -> bool:
        """Add partitions whose state has arrived, until they may have `min_bytes`.

        Returns whether there was one.
        """
        opened = [place for place, opening in self._openings.items() if opening.result is not None]
        size_bytes = 0
        for place in opened:
            outcome = self._openings.pop(place).result
            if not isinstance(outcome, LedPartition):
                assert outcome is not None
                self.answers[place] = self._refused(place, outcome)
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
        """Drop the partitions of topics that were deleted during the wait.

        Returns whether there were any.  As on Apache Kafka the response says nothing about them;
        the member's next fetch gets the error.
        """
        deleted = [
            place for place in self._led if self._broker.metadata.topic_name(place[0]) is None
        ]
        for place in deleted:
            del self._led[place]
        return bool(deleted)

    def _waiters(self) -> list[set[FetchWaiter]]:
        """Return the sets of waiting requests that this one joins while it waits.

        New records, released records and arriving share states all end the wait.
        """
        waiters = [opening.waiters for opening in self._openings.values()]
        for led in self._led.values():
            waiters += [led.waiters, led.partition.fetch_waiters]
        return waiters

    def _is_answered(self) -> bool:
        """Acquire records if `min_bytes` are available; return whether the response may be sent."""
        if not self._openings and self.answers.keys() >= set(self._places):
            return True  # the share coordinator refused all of them: there is nothing to wait for
        min_bytes = self._request.min_bytes
        # Acquiring has effects, so look at the sizes first.
        if min_bytes > 1 and self._available_bytes() < min_bytes:
            return False
        return self._read() or (min_bytes <= 0 and bool(self.open))

    def _available_bytes(self) -> int:
        """Bytes that the member could get from all partitions led here."""
        return sum(self._bytes_of(led) for led in self._led.values())

    def _bytes_of(self, led: LedPartition) -> int:
        """Bytes from the first record that may be acquired, up to `max_bytes`."""
        if not led.records.may_acquire(self._limits):
            return 0
        region = self._region(led, self._request.max_bytes)
        return 0 if region is None else len(region)

    def _refused(self, place: TopicIdPartition, error: ErrorCode) -> PartitionData:
        """Return the answer of a partition with `error`; it names the leader if that is another."""
        data = PartitionData(partition_index=place[1], error_code=error, records=b"")
        name = self._broker.metadata.topic_name(place[0])
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and name is not None:
            partition = self._broker.image.topics[name].partitions[place[1]]
            data.current_leader = LeaderIdAndEpoch(partition.leader, partition.leader_epoch)
        return data

    def _read(self) -> bool:
        """Acquire records from each partition; return whether there is an answer for the member."""
        room = self._request.max_bytes
        max_records = self._request.max_records
        self.open, has_answer = [], False
        for place, led in self._led.items():
            try:
                data = self._acquire(place, led, room, max_records)
            except LogError as problem:
                data = self._refused(place, problem.error)
            if data is not None:
                has_answer = True
                self.answers[place] = data
                room -= len(data.records) if isinstance(data.records, bytes) else 0
                max_records -= sum(
                    acquired.last_offset - acquired.first_offset + 1
                    for acquired in data.acquired_records
                )
        return has_answer

    def _acquire(
        self, place: TopicIdPartition, led: LedPartition, room: int, max_records: int
    ) -> PartitionData | None:
        """Acquire at most `max_records` records of one partition; None if there is none for it."""
        partition, records, limits = led.partition, led.records, self._limits
        partition.check_leads()
        if led.is_stopped or not led.is_current:
            return self._refused(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        records.raise_start_to(partition.log_start_offset)
        if not records.may_acquire(limits):
            return None
        self.open.append(place)
        region = self._region(led, room) if room > 0 and max_records > 0 else None
        if region is None:
            return None
        data = region.read()
        headers = list(record_batches.iter_batches(data))
        read = [(header.base_offset, header.last_offset) for _, header in headers]
        request = self._request
        acquired = records.acquire(
            self._member_id,
            read,
            max_records,
            request.batch_size,
            led.now_ms,
            limits,
            at_most=request.share_acquire_mode == RECORD_LIMIT,
        )
        led.watch_locks()
        if self._settings.committed_only and acquired:
            aborted = _aborted(headers, aborted_in(partition.log, region))
            acquired = self._without(led, acquired, aborted)
            if not acquired:  # all of them were aborted: try the records that follow
                return self._acquire(place, led, room, max_records)
        if not acquired:
            return None
        return PartitionData(
            partition_index=place[1],
            records=_cut(data, headers, acquired[0].first, acquired[-1].last),
            acquired_records=[AcquiredRecords(*offsets) for offsets in acquired],
        )

    @property
    def _settings(self) -> ShareDeliverySettings:
        return self._shares.settings.of(self._group_id)

    @property
    def _limits(self) -> ShareLimits:
        return self._settings.limits

    def _region(self, led: LedPartition, room: int) -> Region | None:
        """The next records to read, up to `room` bytes but at least one batch; None at the end."""
        partition, offset = led.partition, led.records.next_fetch_offset
        committed = self._settings.committed_only
        end = partition.last_stable_offset if committed else partition.high_watermark
        if offset >= end:
            return None
        return partition.read(offset, room, max_offset=end, min_one_batch=True)

    def _without(
        self, led: LedPartition, acquired: list[AcquiredBatch], aborted: list[tuple[int, int]]
    ) -> list[AcquiredBatch]:
        """Archive the acquired records of aborted transactions; return the acquired rest.

        `aborted` are inclusive ranges of offsets.  Nobody may read these records, so they must not
        come back when the acquisition lock ends.  They get no dead letter.
        """
        remaining: list[AcquiredBatch] = []
        for batch in acquired:
            next_offset = batch.first
            for first, last in aborted:
                first, last = max(first, next_offset), min(last, batch.last)
                if first > last:
                    continue
                no_records = AcknowledgedBatch(first, last, [AcknowledgeType.GAP])
                led.acknowledge(self._member_id, [no_records], lambda _: None)
                if next_offset < first:
                    remaining.append(batch._replace(first=next_offset, last=first - 1))
                next_offset = last + 1
            if next_offset <= batch.last:
                remaining.append(batch._replace(first=next_offset))
        return remaining


def _aborted(
    headers: list[tuple[int, record_batches.BatchHeader]], transactions: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Inclusive offset ranges of the batches that belong to aborted transactions.

    `transactions` are pairs of producer id and first offset; a transaction ends with its marker.
    """
    begins = sorted(transactions, key=lambda transaction: transaction[1])
    aborting_producers: set[int] = set()
    aborted_ranges = []
    for _, header in headers:
        while begins and begins[0][1] <= header.last_offset:
            aborting_producers.add(begins.pop(0)[0])
        if header.producer_id in aborting_producers and header.is_transactional:
            if header.is_control:
                aborting_producers.discard(header.producer_id)
            else:
                aborted_ranges.append((header.base_offset, header.last_offset))
    return aborted_ranges


def _cut(
    data: bytes, headers: list[tuple[int, record_batches.BatchHeader]], first: int, last: int
) -> bytes:
    """The batches of `data` that hold the offsets from `first` to `last`."""
    starts = [position for position, header in headers if header.last_offset >= first]
    ends = [position for position, header in headers if header.base_offset > last]
    return data[starts[0] if starts else 0 : ends[0] if ends else len(data)]
