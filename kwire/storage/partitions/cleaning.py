"""The background task that runs the log cleaner on compacted topics.

`kwire.log.compaction` decides which logs are cleaned and how.  This task runs its steps in threads,
`log.cleaner.threads` at a time.  The cleaner is not imported, and its worker process not started,
before there is a compacted topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.log import LogManager
    from kwire.log.compaction.round import CleaningRound
    from kwire.log.compaction.settings import CleanerSettings
    from kwire.settings import BrokerConfig
    from kwire.settings.live import LiveSettings
    from kwire.storage.partitions.hosted import HostedPartitions

_BACKOFF_MS_MIN = 100
"""The shortest wait: `log.cleaner.backoff.ms` may be 0, which would be a busy loop."""


async def run(settings: LiveSettings, hosted: HostedPartitions, now_ms: Callable[[], int]) -> None:
    """Clean up to `log.cleaner.threads` logs at a time, until cancelled."""
    if not settings.config.log_cleaner_enable:
        return
    logs = hosted.logs
    running = 0

    async def clean(round_: CleaningRound, cleaner_settings: CleanerSettings) -> None:
        """Do the jobs of one round in threads, and report its end to the cleaner."""
        nonlocal running
        try:
            for job in round_.jobs():
                # Cancelled, the thread is abandoned: it ends when its worker process ends.
                await trio.to_thread.run_sync(job.run, abandon_on_cancel=True)
                job.finish()
            logs.cleaner.finished(round_, now_ms(), cleaner_settings)
        finally:
            running -= 1
            finished.set()

    async with trio.open_nursery() as nursery:
        while True:
            finished = trio.Event()
            round_ = None
            if running < settings.config.log_cleaner_threads and _has_compacted(logs):
                cleaner_settings = _cleaner_settings(settings.config)
                round_ = logs.cleaner.grab(now_ms(), cleaner_settings, hosted.high_watermark_of)
            if round_ is not None:
                running += 1
                nursery.start_soon(clean, round_, cleaner_settings)
                continue
            await _stop_idle_workers(logs, now_ms())
            backoff_ms = max(settings.config.log_cleaner_backoff_ms, _BACKOFF_MS_MIN)
            with trio.move_on_after(backoff_ms / 1000):
                await finished.wait()


def _has_compacted(logs: LogManager) -> bool:
    return any(log.config.compact for log in logs.logs.values())


def _cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    """The cleaner's settings as they are now: most of them can change while the broker runs."""
    from kwire.log.compaction.settings import CleanerSettings

    return CleanerSettings(**{name: getattr(config, name) for name in CleanerSettings.__slots__})


async def _stop_idle_workers(logs: LogManager, now_ms: int) -> None:
    """Stop the cleaning processes that have had no task for a while."""
    if "cleaner" not in logs.__dict__:  # a cached property: the cleaner was never used
        return
    for worker in logs.cleaner.take_idle(now_ms):
        await trio.to_thread.run_sync(worker.stop)
