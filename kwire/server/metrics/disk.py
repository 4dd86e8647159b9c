"""Times the calls on log files, by functions in place of those of the broker's Files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from kwire.server.metrics.meters import DiskMeter

if TYPE_CHECKING:
    from kwire.log.directory.files import Files

TICKS_A_SAMPLE: Final = 16
"""Of how many ticks one is a sample, on average, if there are many writes."""

_GAPS: Final = (13, 19, 16, 11, 21)
"""The ticks from one sample to the next; they differ, as clients may write periodically."""

MANY_WRITES: Final = 50
"""The writes in one tick above which only samples of them are timed."""

_WAITING_MAX: Final = 100_000
"""The times of calls that wait for `tick`; above it the oldest are dropped."""


class DiskWatch:
    """Times reads and flushes always, and writes as long as there are not too many.

    A write to the page cache takes a few microseconds, and to time each would cost a tenth of that.
    So if there are many, `tick`, which the loop's watch calls, puts the timed function in place for
    one tick in TICKS_A_SAMPLE.  Each timed write then counts as that many.
    """

    def __init__(self, files: Files, meter: DiskMeter, clock_ns: Callable[[], int]) -> None:
        """`files` belong to one broker; their functions are replaced."""
        self._functions = vars(files)
        self._meter = meter
        self._clock_ns = clock_ns
        self._gaps = cycle(_GAPS)
        self._ticks_left = 0
        """The ticks until the next sample; 0 while writes are timed."""
        self._weight = 1
        # Reads and flushes come from threads, too, which may only append.
        self._reads: deque[int] = deque(maxlen=_WAITING_MAX)
        self._flushes: deque[int] = deque(maxlen=_WAITING_MAX)
        self._writes: deque[int] = deque(maxlen=_WAITING_MAX)
        self._timed_write = self._timed(files.pwrite, self._writes)
        self._functions["pwrite"] = self._timed_write
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
        """Add all times to the meter, and decide whether the next writes are timed."""
        writes, weight, meter = len(self._writes), self._weight, self._meter
        for times, distribution, each in (
            (self._reads, meter.read, 1),
            (self._flushes, meter.flush, 1),
            (self._writes, meter.append, weight),
        ):
            while times:
                distribution.observe(times.popleft(), each)
        if self._ticks_left:
            self._ticks_left -= 1
            if not self._ticks_left:
                self._functions["pwrite"] = self._timed_write
                self._weight = TICKS_A_SAMPLE
        elif writes > MANY_WRITES:
            del self._functions["pwrite"]
            self._ticks_left = next(self._gaps) - 1
        else:
            self._weight = 1
