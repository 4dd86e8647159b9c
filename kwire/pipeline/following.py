"""A streaming query from its start to its end: what it does is told, Ctrl-C stops it cleanly."""

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
    """What a query did while it was followed.

    stopped   By Ctrl-C, SIGTERM or the `stop` event, before it ended by itself.
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
    told: Callable[[Step], None] | None = None,
    *,
    stop: threading.Event | None = None,
) -> Ended:
    """Wait until the query ends; Ctrl-C or SIGTERM ends it, and so does setting `stop`.

    `told` is called with every micro-batch that reads something, from Spark's listener thread.
    A stopped query goes on from its checkpoint when it is started again.
    Raises QueryFailed with the cause in one sentence when Spark ends the query with an error.
    """
    ended = Ended()
    stop = stop or threading.Event()
    started = time.monotonic()

    def count(step: Step) -> None:
        ended.add(step)
        if told is not None:
            told(step)

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
    """Ctrl-C and SIGTERM set `stop`; a second one does what it did before.

    Only the main thread may say what signals do: a follower in another leaves them as they are.
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
