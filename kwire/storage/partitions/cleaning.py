"""Has the logs of compacted topics cleaned, in the background and beside the loop.

The log room decides what is cleaned and how (`kwire.log.compaction`); this is the task that gives
it turns.  Nothing of it is imported, and no process started, before there is a compacted topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.log import LogManager
    from kwire.log.compaction.round import Round
    from kwire.log.compaction.settings import CleanerSettings
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings
    from kwire.storage.partitions.hosted import HostedPartitions

_BACKOFF_MS_MIN = 100
"""`log.cleaner.backoff.ms` may be 0, which would be a busy loop."""


async def run(settings: LiveSettings, hosted: HostedPartitions, now_ms: Callable[[], int]) -> None:
    """Keep `log.cleaner.threads` cleanings going as long as there is something to clean."""
    if not settings.config.log_cleaner_enable:
        return
    logs = hosted.logs
    running = 0

    async def clean(round_: Round, cleaner_settings: CleanerSettings) -> None:
        nonlocal running
        try:
            for job in round_.jobs():
                # A thread that waits for the worker is let go when the worker is ended.
                await trio.to_thread.run_sync(job.run, abandon_on_cancel=True)
                job.finish()
            logs.cleaner.finished(round_, now_ms(), cleaner_settings)
        finally:
            running -= 1
            finished.set()

    async with trio.open_nursery() as nursery:
        while True:
            finished = trio.Event()
            found = None
            if running < settings.config.log_cleaner_threads and _has_compacted(logs):
                cleaner_settings = _cleaner_settings(settings.config)
                found = logs.cleaner.grab(now_ms(), cleaner_settings, hosted.high_watermark_of)
            if found is not None:
                running += 1
                nursery.start_soon(clean, found, cleaner_settings)
                continue
            await _stop_idle_workers(logs, now_ms())
            backoff_ms = max(settings.config.log_cleaner_backoff_ms, _BACKOFF_MS_MIN)
            with trio.move_on_after(backoff_ms / 1000):
                await finished.wait()


def _has_compacted(logs: LogManager) -> bool:
    return any(log.config.compact for log in logs.logs.values())


def _cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    """The broker's configs as they are now: most of them can be altered while it runs."""
    from kwire.log.compaction.settings import CleanerSettings

    return CleanerSettings(**{name: getattr(config, name) for name in CleanerSettings.__slots__})


async def _stop_idle_workers(logs: LogManager, now_ms: int) -> None:
    if "cleaner" not in logs.__dict__:
        return
    for worker in logs.cleaner.take_idle(now_ms):
        await trio.to_thread.run_sync(worker.stop)
