"""Times the calls on log files, by functions in place of those of the broker's Files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.server.metrics.meters import SAMPLED_EVERY, DiskMeter, gaps

if TYPE_CHECKING:
    from kwire.log.directory.files import Files

_WAITING_MAX: Final = 100_000
"""The times of calls that wait for `fold`; above it the oldest are dropped."""


class DiskWatch:
    """Times reads and flushes always, and writes while a sample is taken.

    A write to the page cache takes a few microseconds, and to time each would cost a tenth of that.
    So `tick`, which the loop's watch calls, puts the timed function in place for one tick in
    SAMPLED_EVERY, on average.  Each timed write counts as that many.
    """

    def __init__(self, files: Files, meter: DiskMeter, clock_ns: Callable[[], int]) -> None:
        """`files` belong to one broker; their functions are replaced."""
        self._functions = vars(files)
        self._meter = meter
        self._clock_ns = clock_ns
        self._until_sampled = next(gaps)
        # Reads and flushes come from threads, too, which may only append.
        self._reads: deque[int] = deque(maxlen=_WAITING_MAX)
        self._flushes: deque[int] = deque(maxlen=_WAITING_MAX)
        self._writes: deque[int] = deque(maxlen=_WAITING_MAX)
        self._timed_write = self._timed(files.pwrite, self._writes)
        self._functions["pread"] = self._timed(files.pread, self._reads)
        self._functions["fsync"] = self._timed(files.fsync, self._flushes)

    def _timed(self, call: Callable[..., Any], times: deque[int]) -> Callable[..., Any]:
        clock_ns = self._clock_ns

        def timed(*arguments: Any) -> Any:  # noqa: ANN401 - those of the call
            before = clock_ns()
            try:
                return call(*arguments)
            finally:
                times.append(clock_ns() - before)

        return timed

    def tick(self) -> None:
        """Begin or end a sample of the writes, and add all times to the meter."""
        self._until_sampled -= 1
        if self._until_sampled == 0:
            self._functions["pwrite"] = self._timed_write
        elif self._until_sampled < 0:
            self._functions.pop("pwrite", None)
            self._until_sampled = next(gaps) - 1
        meter = self._meter
        for times, distribution, weight in (
            (self._reads, meter.read, 1),
            (self._flushes, meter.flush, 1),
            (self._writes, meter.append, SAMPLED_EVERY),
        ):
            while times:
                distribution.observe(times.popleft(), weight)
