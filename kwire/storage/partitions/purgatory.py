"""Where a Fetch waits until there is enough for it to read, or its time is up."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

import trio

from kwire.storage.partitions.partition import FetchWaiter


class ParkedFetch:
    """A Fetch that waits for its partitions to get more; a `FetchWaiter`.

    It counts what arrives and wakes its task once that may be enough; the task then looks again
    and, where it was not (the records of an open transaction arrive but cannot be read), waits on.
    Parking costs one set entry a partition, arrivals one subtraction: a consumer that polls at the
    end of a hundred partitions must be cheap, and so must the producers that write to them.
    """

    __slots__ = ("_event", "_missing_bytes", "_waiters", "changed")

    def __init__(self, waiters: Iterable[set[FetchWaiter]]) -> None:
        """`waiters` are those of each partition that this one joins."""
        self._waiters = tuple(waiters)
        self._missing_bytes = 0
        self._event = trio.Event()
        self.changed = False
        """A partition went away, moved or changed its epoch: the answer cannot wait for data."""

    def __enter__(self) -> ParkedFetch:
        for waiters in self._waiters:
            waiters.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for waiters in self._waiters:
            waiters.discard(self)

    def data_arrived(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self._event.set()

    def partition_changed(self) -> None:
        self.changed = True
        self._event.set()

    async def arrival(self, missing_bytes: int) -> None:
        """Return once `missing_bytes` more have arrived since this call, or a partition changed.

        With 0 or less any arrival will do.  Between looking at the partitions and this call the
        task must not have let others run.
        """
        if self.changed:
            return
        self._missing_bytes = missing_bytes
        self._event = trio.Event()
        await self._event.wait()
