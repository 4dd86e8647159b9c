"""UncommittedResponse: the response to a Produce whose batches are appended and not yet committed.

The request is carried out; only its response waits for replicas (acks=-1) or for the disk
(`flush.messages`).  So the requests behind it need not wait for that.  Whoever sends the response
either awaits it, or sets `on_complete` and `give_up`s after `timeout_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.codecs.messages.produce import PartitionProduceResponse, ProduceResponse
    from kwire.storage.partitions.purgatory import ExpiredRequests

Wait: TypeAlias = Callable[[int, Callable[[ErrorCode], None]], None]
"""Takes an offset and a callback.

Calls back with NONE once all records before the offset are replicated (or flushed), or with an
error once it is certain that they never will be.
"""


class UncommittedResponse:
    """See the module.

    Each partition starts to wait when its batch is appended, not when the response is sent on: in
    between another broker may become leader of the partition and have other records at the same
    offsets.

    response      the whole response; set before anybody waits for it
    timeout_ms    how long it may wait; 0 or less: not at all
    on_complete   called once, when the last partition has its result; nobody else knows of it
    """

    __slots__ = ("_expired", "_waiting", "on_complete", "response", "timeout_ms")

    response: ProduceResponse

    def __init__(self, timeout_ms: int, expired: ExpiredRequests) -> None:
        """Partitions that wait in vain count in `expired`."""
        self._expired = expired
        self._waiting = 0
        self.timeout_ms = timeout_ms
        self.on_complete: Callable[[], object] | None = None

    def add(self, wait: Wait, offset: int, partition: PartitionProduceResponse) -> None:
        """Hold the response back until `wait` calls back for the records before `offset`."""
        self._waiting += 1
        # What the client gets if the timeout passes first; the callback replaces it.
        partition.error_code = ErrorCode.REQUEST_TIMED_OUT
        wait(offset, partial(self._settle, partition))

    def _settle(self, partition: PartitionProduceResponse, error: ErrorCode) -> None:
        """Set the result of one partition; the last one completes the response."""
        partition.error_code = error
        self._waiting -= 1
        if self._waiting == 0 and self.on_complete is not None:
            self.on_complete()

    @property
    def is_complete(self) -> bool:
        """Whether all partitions have their result, or the time is up."""
        return self._waiting <= 0

    def give_up(self) -> None:
        """End the wait: the time is up."""
        self._expired.produces += max(self._waiting, 0)
        self.drop()

    def drop(self) -> None:
        """End the wait: nobody is there any more to get the response."""
        self._waiting, self.on_complete = 0, None

    def __await__(self) -> Generator[Any, None, ProduceResponse]:
        """Wait until the response is complete, or for `timeout_ms`; return it."""
        return self._wait().__await__()

    async def _wait(self) -> ProduceResponse:
        with trio.move_on_after(max(self.timeout_ms, 0) / 1000) as time:
            if not self.is_complete:  # a callback may have come during `add`
                done = trio.Event()
                self.on_complete = done.set
                await done.wait()
        if time.cancelled_caught:
            self.give_up()
        return self.response
