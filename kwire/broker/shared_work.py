"""Work that requests which are served together share.

kwire.server.network.readiness serves some connections, and sends their replies after that.  Work
that need not be done request by request, but before the replies, is added here.  It is done once
for all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("kwire.shared_work")


class SharedWork:
    """The work of the requests that are being served.

    is_open   whether requests are served together now: `finish` follows before their replies
    """

    __slots__ = ("_work", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._work: list[Callable[[], object]] = []

    def begin(self) -> None:
        """Collect work from now on."""
        self.is_open = True

    def add(self, work: Callable[[], object]) -> None:
        """Do `work` before the replies are sent."""
        assert self.is_open, "work is shared while requests are served together"
        self._work.append(work)

    def finish(self) -> None:
        """Do the work that was added.  An exception is a defect; it must not stop other work."""
        self.is_open = False
        if not self._work:
            return
        added, self._work = self._work, []
        for work in added:
            try:
                work()
            except Exception:
                log.exception("unhandled error in the work that requests share")
