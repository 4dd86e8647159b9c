"""Closes all logs for a clean stop: writes what is only in memory, and flushes all files.

Each log has a few files to flush.  One after another that takes 1.5 ms a log; in several threads
the disk flushes them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from kwire.log.upkeep.flush import Flush

if TYPE_CHECKING:
    from kwire.log.log import Log


def close_all(logs: Iterable[Log], threads_max: int) -> None:
    """Close logs, up to `threads_max` at a time.

    Raises LogError if the disk fails.  The remaining logs are not closed then, and no thread is
    running any more.
    """
    with ThreadPoolExecutor(threads_max, "closing") as pool:
        running: dict[Future[None], tuple[Log, Flush]] = {}
        for log in logs:
            flush = log.prepare_close()
            if flush is None:
                log.segments.close()
                continue
            running[pool.submit(flush.run)] = log, flush
            if len(running) == threads_max:
                _finish_first(running)
        while running:
            _finish_first(running)


def _finish_first(running: dict[Future[None], tuple[Log, Flush]]) -> None:
    """Wait until at least one flush has run, and close the logs of all that have."""
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        log, flush = running.pop(future)
        future.result()
        log.flushed(flush)
        log.segments.close()
