"""Group commit: an append that reaches `flush.messages` is acknowledged once it is durable.

The fsync runs in a thread.  What is appended while one is under way waits for the next, so that
however many producers wait, one fsync after the other serves them all (Apache Kafka's does one for
each append that reaches the setting, inside it).  Where this broker is alone in sync the high
watermark waits too: consumers see nothing of it before it is on disk.  What does not reach the
setting is acknowledged and seen at once, and is flushed with what comes after it.
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
"""Until a flush is tried again that found no descriptors or no room."""


class Flusher:
    """Flushes partitions that ask for it, each by one task while there is something to flush."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._nursery: trio.Nursery | None = None
        self._flushing: set[Partition] = set()

    def start(self, nursery: trio.Nursery) -> None:
        """Flushes run in `nursery` from now on."""
        self._nursery = nursery

    def request(self, partition: Partition) -> None:
        """What was appended is to be flushed; `partition.flushed` or `flush_failed` follows."""
        if partition not in self._flushing:
            assert self._nursery is not None, "start() comes first"
            self._flushing.add(partition)
            self._nursery.start_soon(self._flush, partition)

    async def _flush(self, partition: Partition) -> None:
        try:
            while partition.log.flush_due and not partition.log.offline:
                await self._flush_once(partition)
        finally:
            self._flushing.discard(partition)

    async def _flush_once(self, partition: Partition) -> None:
        log = partition.log
        log.flush_due = False
        try:
            flush = log.prepare_flush(self._now_ms())
            if flush is not None:
                await trio.to_thread.run_sync(flush.run)
                log.flushed(flush)
        except LogError as problem:
            _logger.warning("%s-%d is not flushed: %s", partition.topic, partition.index, problem)
            if log.offline:
                partition.release_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
                return
            # A shortage, which passes.  What was appended stays in the log, so nobody is told that
            # it failed: a producer would write it again.
            log.flush_due = True
            await trio.sleep(RETRY_S)
        else:
            partition.flushed(log.log_end_offset if flush is None else flush.end_offset)
