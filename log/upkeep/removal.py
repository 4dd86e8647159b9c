"""Removes segments from a log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.log.log import Log
    from kwire.log.segment import Segment


def remove_segments(log: Log, segments: Iterable[Segment], now_ms: int) -> None:
    """Remove segments from the log, and rename their files and snapshots to `.deleted`.

    The .log file is renamed last: if the process is killed before that, the loader rebuilds the
    other files.
    """
    if log.cancel_swap is not None:
        log.cancel_swap()
    due_ms = now_ms + log.config.file_delete_delay_ms
    for segment in segments:
        paths = segment.paths()
        snapshot = log.snapshots.drop(segment.base_offset)
        if snapshot is not None:
            paths.insert(0, snapshot)
        log.segments.remove(segment)
        segment.discard()
        log.storage.remove_later(paths, due_ms)
    log.reader.forget()
    log.upkeep[log] = None
