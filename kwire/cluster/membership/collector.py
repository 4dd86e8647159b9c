"""Python's garbage collector, paused for work that makes very many objects that all stay.

The collector walks everything that is young again and again while it grows, and all there is each
time it has grown by a quarter.  A controller that begins in a cluster of 200,000 partitions makes
some millions of objects at once, none of which is garbage: without pausing half of its processor
time goes into looking for some.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Nothing is looked through within; cycles that become garbage meanwhile are found later.

    For work that never waits: what else the process does would go without as well.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
