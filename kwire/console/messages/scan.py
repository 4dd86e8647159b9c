"""A page of messages: a scan through partitions, forward or backward, for a limited time.

A scan keeps nothing on the server between two pages.  The URL of the next page has the position in
each partition, so a search through ten million records goes on page by page, and can be stopped,
kept as a link and resumed.

Forward, all partitions are read from their positions on.  Backward, windows before the positions
are read, which get larger as long as too little is found.  The records of the partitions are
merged by their timestamps, so that those of each partition stay in the order of their offsets.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import Misuse
from kwire.client.fetcher import ConsumedRecord, OffsetOutOfRange
from kwire.client.offsets import Isolation, end_offsets, offsets_at, start_offsets
from kwire.console.decoding.decoder import AUTO, Decoder
from kwire.console.filtering.parsing import Needle
from kwire.console.messages.fetching import (
    PARTITION_SIZE_BYTES_MAX,
    FetchedPart,
    fetched,
    raw_needles,
)
from kwire.console.messages.query import OFFSET, TIME, MessageQuery, Positions
from kwire.console.messages.record import MessageRecord

SCAN_S: Final = 1.5
"""How long one page searches; the page then shows what it found, and goes on by itself."""
WINDOW_MAX: Final = 50_000
"""The most records of a partition that are read backward at once."""
WINDOWS_TOGETHER_MAX: Final = 100_000
FOUND_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of records that a page keeps while it merges partitions."""
FIRST_BYTES_PER_RECORD: Final = 4096
"""How much is fetched at first for each record that is wanted, without a filter."""


@dataclass
class PartitionScan:
    """Where a scan is in one partition."""

    index: int
    begin: int
    """The first offset of the query."""
    end: int
    """The offset after the last one of the query."""
    position: int
    """Forward the next offset, backward the offset after the next."""
    found: list[MessageRecord] = field(default_factory=list)
    """What was found so far, in the order of the page."""


@dataclass(frozen=True)
class MessagePage:
    """The records of a page, and how far the scan came."""

    records: list[MessageRecord]
    scanned: int
    """Records looked at for this page."""
    done: int
    """Offsets behind the position, of those from `begin` to `end` of all partitions."""
    total: int
    is_complete: bool
    """Whether there is nothing more to read."""
    at: Positions
    """Where the next page goes on."""
    took_s: float

    @property
    def share(self) -> float:
        """The part of the query that is done, from 0 to 1."""
        return self.done / self.total if self.total else 1.0


def message_page(
    cluster: Cluster,
    topic: str,
    query: MessageQuery,
    decoder: Decoder,
    *,
    scan_s: float = SCAN_S,
    clock: Callable[[], float] = time.monotonic,
) -> MessagePage:
    """The page of a topic's messages that a query asks for.

    Raises BrokerRefused if the topic does not exist, and Misuse if a partition does not.
    """
    start_s = clock()
    scan = Scan(cluster, topic, query, decoder)
    while not scan.is_enough and not scan.is_complete:
        scan.read_on()
        if clock() - start_s >= scan_s:
            break
    return scan.page(clock() - start_s)


class Scan:
    """A scan through the partitions of a topic."""

    def __init__(self, cluster: Cluster, topic: str, query: MessageQuery, decoder: Decoder) -> None:
        """Looks up the offsets of the partitions; reads no records yet."""
        self._cluster = cluster
        self._topic = topic
        self._query = query
        self._decoder = decoder
        self._scanned = 0
        self._found_size_bytes = 0
        self._rounds = 0
        self._isolation = (
            Isolation.READ_COMMITTED if query.is_committed else Isolation.READ_UNCOMMITTED
        )
        self._needles = raw_needles(self._usable_needles())
        self._partitions = {each.index: each for each in self._looked_up()}

    def _usable_needles(self) -> Sequence[Needle]:
        """The needles of the filter, if keys and values are filtered as the bytes that they are."""
        query, decoder = self._query, self._decoder
        if query.expression is None:
            return ()
        has_schema = decoder.registry is not None or any(
            topic == self._topic for topic, _ in decoder.files
        )
        # What looks like neither text nor JSON is hex, which has no such text.
        plain = ("text", "json") if has_schema else ("text", "json", AUTO)
        is_plain = query.key_form in plain and query.value_form in plain
        return query.expression.needles if is_plain else ()

    def _looked_up(self) -> Iterator[PartitionScan]:
        """The partitions of the query, at its start or at the position of the URL."""
        metadata = self._cluster.topic(self._topic)
        indexes = {each.partition_index for each in metadata.partitions}
        wanted = self._query.partitions
        if wanted is not None and not wanted <= indexes:
            missing = min(wanted - indexes)
            raise Misuse(f"topic {self._topic} has no partition {missing}: it has {len(indexes)}")
        places = [TopicPartition(self._topic, index) for index in sorted(wanted or indexes)]
        starts = start_offsets(self._cluster, places)
        ends = end_offsets(self._cluster, places, self._isolation)
        begins = starts
        if self._query.start == TIME:
            begins = offsets_at(self._cluster, places, self._query.time_ms)
        for place in places:
            begin, end = begins[place], ends[place]
            if self._query.start == OFFSET:
                begin = min(max(begin, self._query.offset), end)
            first = end if self._query.is_backward else begin
            at = (self._query.at or {}).get(place.partition, first)
            yield PartitionScan(place.partition, begin, end, min(max(at, begin), end))

    @property
    def is_complete(self) -> bool:
        """Whether all partitions are read to the end."""
        return not any(map(self._has_more, self._partitions.values()))

    def _has_more(self, partition: PartitionScan) -> bool:
        if self._query.is_backward:
            return partition.position > partition.begin
        return partition.position < partition.end

    @property
    def is_enough(self) -> bool:
        """Whether the page is full: what is merged next is known of each partition that has more.

        With a filter the first that are found are enough.
        """
        found = sum(len(each.found) for each in self._partitions.values())
        if found < self._query.limit:
            return False
        if self._query.expression is not None or self._found_size_bytes > FOUND_SIZE_BYTES_MAX:
            return True
        return not any(
            self._has_more(each) and not each.found for each in self._partitions.values()
        )

    def read_on(self) -> None:
        """Read one part more of each partition that has more."""
        self._rounds += 1
        waiting = [each for each in self._partitions.values() if self._has_more(each)]
        if self._query.expression is None:
            waiting = [each for each in waiting if len(each.found) < self._query.limit]
        if self._query.is_backward:
            self._read_windows(waiting)
        else:
            self._read_forward({each.index: each.position for each in waiting})

    def _read_forward(self, positions: Positions) -> None:
        for index, records, next_offset in self._fetched(positions):
            partition = self._partitions[index]
            partition.found += self._tested(r for r in records if r.offset < partition.end)
            partition.position = min(next_offset, partition.end)

    def _read_windows(self, waiting: list[PartitionScan]) -> None:
        """Read a window before the position of each partition, from its start to its end."""
        size = self._query.limit
        if self._query.expression is not None:
            size = min(self._query.limit * 8 * 4**self._rounds, WINDOW_MAX)
            size = min(size, max(self._query.limit, WINDOWS_TOGETHER_MAX // max(1, len(waiting))))
        lows = {each.index: max(each.begin, each.position - size) for each in waiting}
        positions, found = dict(lows), {index: list[MessageRecord]() for index in lows}
        while positions:
            for index, records, next_offset in self._fetched(positions):
                end = self._partitions[index].position
                found[index] += self._tested(r for r in records if r.offset < end)
                positions[index] = next_offset
                if next_offset >= end:
                    del positions[index]
        for index, own in found.items():
            partition = self._partitions[index]
            partition.position = lows[index]
            partition.found += reversed(own)

    def _fetched(self, positions: Positions) -> Iterator[tuple[int, list[ConsumedRecord], int]]:
        """(partition, records, next offset) of one fetch from each leader."""
        # A response has the first partitions first, so that these take turns.
        order = sorted(positions, key=lambda index: (index + self._rounds) % len(positions))
        turned = {index: positions[index] for index in order}
        parts = self._cluster.retrying(lambda: list(self._parts(turned)))
        for part in parts:
            self._scanned += part.scanned
            next_offset = part.next_offset
            if part.is_at_end:  # What was before the end is gone meanwhile.
                next_offset = self._partitions[part.partition].end
            yield part.partition, part.records, next_offset

    def _parts(self, positions: Positions) -> Iterator[FetchedPart]:
        size = PARTITION_SIZE_BYTES_MAX
        if self._query.expression is None:
            size = min(size, self._query.limit * FIRST_BYTES_PER_RECORD)
        try:
            yield from fetched(
                self._cluster,
                self._topic,
                positions,
                isolation=self._isolation,
                needles=self._needles,
                partition_size_bytes_max=size,
            )
        except OffsetOutOfRange as problem:
            # Retention deleted the records since the start offsets were looked up.
            place = problem.partition
            start = start_offsets(self._cluster, [place])[place]
            yield FetchedPart(place.partition, [], max(start, problem.offset + 1), 0)

    def _tested(self, records: Iterable[ConsumedRecord]) -> list[MessageRecord]:
        """The records that pass the filter."""
        query = self._query
        shown = [MessageRecord(r, self._decoder, query.key_form, query.value_form) for r in records]
        if query.expression is not None:
            test = query.expression.test
            shown = [record for record in shown if test(record)]
        self._found_size_bytes += sum(record.size_bytes for record in shown)
        return shown

    def page(self, took_s: float) -> MessagePage:
        """The page of what was found so far."""
        records, taken = self._merged()
        at = {each.index: each.position for each in self._partitions.values()}
        for each in self._partitions.values():
            left = each.found[taken[each.index] :]
            if left:  # The next page finds them again.
                at[each.index] = left[0].offset + self._query.is_backward
        total = sum(each.end - each.begin for each in self._partitions.values())
        left_over = sum(
            at[each.index] - each.begin if self._query.is_backward else each.end - at[each.index]
            for each in self._partitions.values()
        )
        return MessagePage(
            records, self._scanned, total - left_over, total, left_over == 0, at, took_s
        )

    def _merged(self) -> tuple[list[MessageRecord], Counter[int]]:
        """The records of the page in the order of their timestamps, and how many of each partition.

        Of each partition the next is taken only after those before it.
        """
        sign = -1 if self._query.is_backward else 1
        heads = [
            (sign * each.found[0].timestamp_ms, each.index)
            for each in self._partitions.values()
            if each.found
        ]
        heapq.heapify(heads)
        merged: list[MessageRecord] = []
        taken: Counter[int] = Counter()
        while heads and len(merged) < self._query.limit:
            _, index = heapq.heappop(heads)
            found = self._partitions[index].found
            merged.append(found[taken[index]])
            taken[index] += 1
            if taken[index] < len(found):
                heapq.heappush(heads, (sign * found[taken[index]].timestamp_ms, index))
        return merged, taken
