"""Files with a line of JSON for each outcome, which is written as soon as a run has the outcome.

`kwire.conformance.chaos.blocks` keeps rounds in such a file, `kwire.conformance.bench.blocks.file`
keeps what was measured.  After an interruption the next run does what the file does not have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path


def append_line(path: Path, values: Mapping[str, object]) -> None:
    """Append a line and write it to disk; the file and its folder are made if they are missing.

    An incomplete line at the end, of a run that was killed as it wrote, is cut off first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        _drop_incomplete_line(file.fileno())
        file.write(json.dumps(values).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _drop_incomplete_line(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, size, 0)
    if data and not data.endswith(b"\n"):
        os.ftruncate(descriptor, data.rfind(b"\n") + 1)


def now_utc() -> str:
    """The time as the lines have it, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
