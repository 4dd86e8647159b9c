"""A clean stop: what is only in memory is written, and all of it is made durable.

Each log has a handful of files that an fsync has to wait for.  One after another that is a
millisecond and a half a log; beside one another the disk makes them durable together.
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

    LogError if the disk refuses one of them: the rest are not closed then, but nothing is under
    way any more.
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
    """Wait until one has run, or several."""
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        log, flush = running.pop(future)
        future.result()
        log.flushed(flush)
        log.segments.close()
