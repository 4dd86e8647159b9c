"""Runs a Python module with a wrong wall clock: `launcher` has the words of the command.

A file holds the offset in nanoseconds, in eight bytes, that is added to the time of day. Writing
another number to it steps the clock of running processes. Monotonic clocks, as timeouts use them,
stay right: stepping the time of day does not change them either.
"""

from __future__ import annotations

import mmap
import runpy
import sys
import time
from pathlib import Path
from struct import Struct
from typing import Final

_OFFSET: Final = Struct("<q")


class ShiftedClock:
    """The wrong clock of one or more processes, with its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(0.0)

    @property
    def launcher(self) -> tuple[str, ...]:
        """The words before `-m MODULE ...` that run a module with this clock."""
        return sys.executable, "-m", __spec__.name, str(self._path)

    def set(self, offset_s: float) -> None:
        """Set the offset of the clock; writes in place, because processes have the file mapped."""
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.write(_OFFSET.pack(round(offset_s * 1e9)))


def _shift(path: str) -> None:
    """Shift this process' time of day by the offset in the file."""
    with open(path, "rb") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size, prot=mmap.PROT_READ)
    true_time_ns = time.time_ns

    def time_ns() -> int:
        return true_time_ns() + int(_OFFSET.unpack(offset)[0])

    vars(time).update(time_ns=time_ns, time=lambda: time_ns() / 1e9)


def main() -> None:
    """Run a module: the arguments are FILE PYTHON -m MODULE ARGUMENT..."""
    _, path, _python, _m, module, *arguments = sys.argv
    _shift(path)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
