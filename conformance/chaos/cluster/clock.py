"""Runs a Python module whose wall clock is wrong by what a file says: `launcher` has the words.

The file holds one number of nanoseconds, eight bytes, that is added to the time of day; who writes
another one steps the clock of a process that runs.  Clocks that only ever go forward, as those of
timeouts are, are left alone: stepping the time of day does not move them either.
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


class Clock:
    """The file of one clock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(0.0)

    @property
    def launcher(self) -> tuple[str, ...]:
        """The words before `python -m MODULE ...`."""
        return sys.executable, "-m", __spec__.name, str(self._path)

    def set(self, offset_s: float) -> None:
        """Be wrong by so much from now on: in place, for processes have it mapped."""
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.write(_OFFSET.pack(round(offset_s * 1e9)))


def _shift(path: str) -> None:
    """Have this process' time of day be wrong by what the file says."""
    with open(path, "rb") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size, prot=mmap.PROT_READ)
    true_time_ns = time.time_ns

    def time_ns() -> int:
        return true_time_ns() + int(_OFFSET.unpack(offset)[0])

    vars(time).update(time_ns=time_ns, time=lambda: time_ns() / 1e9)


def main() -> None:
    """FILE PYTHON -m MODULE ARGUMENT..."""
    _, path, _python, _m, module, *arguments = sys.argv
    _shift(path)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
