"""Loads the logs of a log directory: several at the same time if they have to be recovered.

A recovery reads and checks all bytes that may not be on the disk.  Both release Python's lock for
large batches, so a second thread saves a third of the time.  A load after a clean stop reads
little, and has one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.log.error import OtherTopic

if TYPE_CHECKING:
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.log.log import Log


class FoundLog(NamedTuple):
    """A partition's folder, and the function that loads the log in it."""

    key: TopicPartition
    path: Path
    load: Callable[[], Log]


def loaded(found: Iterable[FoundLog], threads: int) -> Iterator[tuple[FoundLog, Log | OtherTopic]]:
    """Yield each log in the order of `found`, or why its folder is set aside.

    Raises the first other error of a load; later loads are not begun then.
    """
    if threads == 1:
        for each in found:
            yield each, _load(each)
        return
    from concurrent.futures import ThreadPoolExecutor  # only a recovery needs it

    everything = list(found)
    with ThreadPoolExecutor(threads, "recovery") as pool:
        yield from zip(everything, pool.map(_load, everything), strict=True)


def _load(found: FoundLog) -> Log | OtherTopic:
    try:
        return found.load()
    except OtherTopic as why:
        return why
