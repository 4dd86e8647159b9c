"""Runs `kwire` and writes each long pass of its loop to a file: `python watched.py FILE serve ...`.

A pass is the time in which trio runs all tasks that are ready, between two looks at the sockets.
No request is read meanwhile.  A line of the file is a JSON object of one pass that took LIMIT_MS or
more:

    at_s       seconds since the start
    wall_ms    how long it took
    cpu_ms     processor time of the loop's thread in it
    queue_ms   time in which the thread was ready but no processor was free
    gc_ms      time of Python's garbage collector in it
    stacks     the loop's innermost functions in it: [["file:line function", ...], times seen]

What is left of `wall_ms` without `cpu_ms` and `queue_ms` was spent in the kernel, mostly waiting
for the disk, or waiting for another thread that holds Python's lock.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

import trio

LIMIT_MS = 10.0
SAMPLE_S = 0.004
"""The time between two looks at the loop's functions, of which a long pass has several."""
FRAMES = 5
"""How many of the innermost functions are written."""
_NS_PER_MS = 1e6


def names_of(frame: FrameType | None) -> tuple[str, ...]:
    """Return the innermost functions of a stack, the innermost one first."""
    names: list[str] = []
    while frame is not None and len(names) < FRAMES:
        path = Path(frame.f_code.co_filename)
        place = "/".join(path.parts[-2:])
        names.append(f"{place}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(names)


class LoopWatch(trio.abc.Instrument):
    """Measures the passes of one loop, and samples its stack in a thread."""

    def __init__(self, file: IO[str]) -> None:
        """Write the long passes to `file`; the loop runs in the thread that calls this."""
        self._file = file
        self._thread = threading.get_ident()
        self._queued = os.open(
            f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY
        )
        self._start_ns = time.monotonic_ns()
        self._pass_ns = 0
        """When the current pass began; 0 while the loop waits."""
        self._before = (0, 0, 0)
        self._gc_ns = 0
        self._gc_began_ns = 0
        self._stacks: Counter[tuple[str, ...]] = Counter()
        gc.callbacks.append(self._collecting)
        self._closed = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop the sampling thread."""
        self._closed.set()
        self._sampler.join()
        gc.callbacks.remove(self._collecting)
        os.close(self._queued)

    @property
    def has_seen_pass(self) -> bool:
        """Whether the stack of the current pass was sampled."""
        return bool(self._stacks)

    def _collecting(self, phase: str, _: dict[str, int]) -> None:
        """Add up the time of the garbage collector."""
        now_ns = time.monotonic_ns()
        if phase == "start":
            self._gc_began_ns = now_ns
        else:
            self._gc_ns += now_ns - self._gc_began_ns

    def _clocks(self) -> tuple[int, int, int]:
        """Return the thread's processor time, its time in the run queue, and that of the garbage
        collector, in ns."""
        queued = int(os.pread(self._queued, 64, 0).split()[1])
        return time.thread_time_ns(), queued, self._gc_ns

    def after_io_wait(self, timeout: float) -> None:
        """Note that a pass begins."""
        self._before = self._clocks()
        self._pass_ns = time.monotonic_ns()

    def before_io_wait(self, timeout: float) -> None:
        """Write the pass that ends if it was long."""
        began_ns, self._pass_ns = self._pass_ns, 0
        now_ns = time.monotonic_ns()
        if not began_ns or now_ns - began_ns < LIMIT_MS * _NS_PER_MS:
            return
        stacks, self._stacks = self._stacks, Counter()
        cpu, queue, collecting = (
            (after - before) / _NS_PER_MS
            for after, before in zip(self._clocks(), self._before, strict=True)
        )
        long_pass: dict[str, Any] = {
            "at_s": round((began_ns - self._start_ns) / 1e9, 3),
            "wall_ms": round((now_ns - began_ns) / _NS_PER_MS, 2),
            "cpu_ms": round(cpu, 2),
            "queue_ms": round(queue, 2),
            "gc_ms": round(collecting, 2),
            "stacks": stacks.most_common(3),
        }
        self._file.write(json.dumps(long_pass) + "\n")

    def _sample(self) -> None:
        """Sample the stack of the loop again and again while one pass lasts."""
        sampled_ns = 0
        while not self._closed.wait(SAMPLE_S):
            began_ns = self._pass_ns
            if not began_ns or time.monotonic_ns() - began_ns < SAMPLE_S * 1e9:
                continue
            if began_ns != sampled_ns:
                sampled_ns = began_ns
                self._stacks = Counter()
            self._stacks[names_of(sys._current_frames().get(self._thread))] += 1


def main() -> None:
    """Run the command of kwire that follows the name of the file."""
    path, *words = sys.argv[1:]
    sys.argv[1:] = words
    with open(path, "w", buffering=1) as file, LoopWatch(file) as watch:
        watched = partial(trio.run, instruments=[watch])
        trio.run = watched  # type: ignore[assignment]  # a partial has no signature
        runpy.run_module("kwire.cli", run_name="__main__")


if __name__ == "__main__":
    main()
