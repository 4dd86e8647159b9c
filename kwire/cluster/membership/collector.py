"""A pause of Python's garbage collector, for work that creates very many objects that all stay.

While the number of objects grows, the collector repeatedly scans the young ones, and all of them
whenever their number has grown by a quarter.  A controller that starts in a cluster of 200,000
partitions creates millions of objects, none of which is garbage.  Without the pause, half of its
processor time goes into these scans.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Switch the collector off within the block.  Later runs find garbage that was created in it.

    The block must not wait: other tasks of the process would run without the collector.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
