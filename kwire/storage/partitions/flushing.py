"""Group commit: an append that reaches `flush.messages` is acknowledged once it is on disk.

The fsync runs in a thread.  Records that are appended meanwhile wait for the next fsync, so one
fsync at a time serves any number of producers.  (Apache Kafka calls fsync inside each append that
reaches the setting.)  If this broker is the only in-sync replica, the high watermark waits too:
consumers do not see the records before they are on disk.  Appends below the setting are
acknowledged and visible at once; the next flush includes them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from kwire.codecs.errors import ErrorCode
from kwire.log import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.storage.partitions.partition import Partition

_logger = logging.getLogger("kwire.partitions.flushing")

RETRY_S = 0.1
"""The time until a flush is tried again that failed for want of descriptors or disk space."""


class Flusher:
    """Flushes partitions on request, with at most one task for each partition."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._nursery: trio.Nursery | None = None
        self._flushing: set[Partition] = set()

    def start(self, nursery: trio.Nursery) -> None:
        """Run flushes in `nursery` from now on."""
        self._nursery = nursery

    def request(self, partition: Partition) -> None:
        """Start a flush of everything appended so far; `partition.flushed` is called after it."""
        if partition not in self._flushing:
            assert self._nursery is not None, "start() comes first"
            self._flushing.add(partition)
            self._nursery.start_soon(self._flush, partition)

    async def _flush(self, partition: Partition) -> None:
        """Flush the partition's log until no flush is due or the log is offline."""
        try:
            while partition.log.flush_due and not partition.log.offline:
                await self._flush_once(partition)
        finally:
            self._flushing.discard(partition)

    async def _flush_once(self, partition: Partition) -> None:
        """Flush the log of a partition in a thread, and release its waiting producers.

        After a lack of space it is marked for another try; if the log is offline, the producers get
        KAFKA_STORAGE_ERROR.
        """
        log = partition.log
        log.flush_due = False
        try:
            flush = log.prepare_flush(self._now_ms())
            if flush is not None:
                await trio.to_thread.run_sync(flush.run)
                log.flushed(flush)
        except LogError as error:
            _logger.warning("Cannot flush %s-%d: %s", partition.topic, partition.index, error)
            if log.offline:
                partition.release_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
                return
            # A shortage passes, so the flush is tried again.  No producer gets an error: the
            # records stay in the log, and a producer would send them a second time.
            log.flush_due = True
            await trio.sleep(RETRY_S)
        else:
            partition.flushed(log.log_end_offset if flush is None else flush.end_offset)
