"""Has the logs of compacted topics cleaned, in the background and beside the loop.

The log room decides what is cleaned and how (`kwire.log.compaction`); this is the task that gives
it turns.  Nothing of it is imported, and no process started, before there is a compacted topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.log.compaction.round import Round
    from kwire.log.compaction.settings import CleanerSettings

_BACKOFF_MS_MIN = 100
"""`log.cleaner.backoff.ms` may be 0, which would be a busy loop."""


async def run(broker: Broker) -> None:
    """Keep `log.cleaner.threads` cleanings going as long as there is something to clean."""
    if not broker.config.log_cleaner_enable:
        return
    running = 0

    async def clean(round_: Round, settings: CleanerSettings) -> None:
        nonlocal running
        try:
            await _clean(broker, round_, settings)
        finally:
            running -= 1
            finished.set()

    async with trio.open_nursery() as nursery:
        while True:
            finished = trio.Event()
            found = None
            if running < broker.config.log_cleaner_threads and _has_compacted(broker):
                settings = _settings(broker)
                found = broker.logs.cleaner.grab(
                    broker.now_ms(), settings, broker.high_watermark_of
                )
            if found is not None:
                running += 1
                nursery.start_soon(clean, found, settings)
                continue
            await _stop_idle_workers(broker)
            backoff_ms = max(broker.config.log_cleaner_backoff_ms, _BACKOFF_MS_MIN)
            with trio.move_on_after(backoff_ms / 1000):
                await finished.wait()


def _has_compacted(broker: Broker) -> bool:
    return any(log.config.compact for log in broker.logs.logs.values())


def _settings(broker: Broker) -> CleanerSettings:
    """The broker's configs as they are now: most of them can be altered while it runs."""
    from kwire.log.compaction.settings import CleanerSettings

    return CleanerSettings(
        **{name: getattr(broker.config, name) for name in CleanerSettings.__slots__}
    )


async def _clean(broker: Broker, round_: Round, settings: CleanerSettings) -> None:
    for job in round_.jobs():
        # A thread that waits for the worker is let go when the worker is ended.
        await trio.to_thread.run_sync(job.run, abandon_on_cancel=True)
        job.finish()
    broker.logs.cleaner.finished(round_, broker.now_ms(), settings)


async def _stop_idle_workers(broker: Broker) -> None:
    if "cleaner" not in broker.logs.__dict__:
        return
    for worker in broker.logs.cleaner.take_idle(broker.now_ms()):
        await trio.to_thread.run_sync(worker.stop)
