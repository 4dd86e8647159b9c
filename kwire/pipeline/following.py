"""Waits for a streaming query, reports its micro-batches, and stops it cleanly on Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from kwire.pipeline.errors import failure
from kwire.pipeline.listening import Step, listening

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Ended:
    """What a query did during `follow`.

    records      Records read.
    steps        Micro-batches that read something.
    duration_s   How long it was followed.
    lag          Records not read yet, after the last micro-batch.
    stopped      Whether Ctrl-C, SIGTERM or `stop` ended it.
    """

    records: int = 0
    steps: int = 0
    duration_s: float = 0.0
    lag: int = 0
    stopped: bool = False

    def add(self, step: Step) -> None:
        """Count a micro-batch."""
        self.records += step.records
        self.steps += 1
        self.lag = step.lag


def follow(
    query: StreamingQuery,
    on_step: Callable[[Step], None] | None = None,
    *,
    stop: threading.Event | None = None,
) -> Ended:
    """Wait until the query ends; Ctrl-C, SIGTERM or setting `stop` ends it.

    `on_step` is called in Spark's listener thread with every micro-batch that reads something.
    A stopped query continues from its checkpoint when it is started again.
    Raises QueryFailed, with the cause in one sentence, if Spark ends the query with an error.
    """
    ended = Ended()
    stop = stop or threading.Event()
    started = time.monotonic()

    def count(step: Step) -> None:
        ended.add(step)
        if on_step is not None:
            on_step(step)

    with listening(query, count), signals_set(stop):
        while query.isActive and not stop.wait(POLL_S):
            pass
        if stop.is_set() and query.isActive:
            ended.stopped = True
            query.stop()
        error = query.exception()
    ended.duration_s = time.monotonic() - started
    if error is not None and not ended.stopped:
        raise failure(error) from error
    return ended


@contextmanager
def signals_set(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set `stop` during the block; a second signal does what it did before.

    Only the main thread can set signal handlers: in other threads, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
