"""What is said between the holder of the metadata and a broker: an object of JSON in each line.

A broker asks `{"id": n, "ask": WHAT, ...}` and gets `{"id": n, ...}`.  Unasked it is told

    {"begin": {"cluster_id": ..., "lines": n}}      first, then n lines of changes: the metadata
    {"version": n, "changes": [...]}                what was changed since, in order
    {"event": "controller_gone"}
    {"event": "log_dir_failed", "broker": id}

A line of changes has at most `CHANGES_A_LINE` of them, so that the longest, of topics with 10,000
partitions each, is some megabytes; who reads refuses one above `LINE_SIZE_BYTES_MAX`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import trio

from kwire.cluster.stores.contract import StoreError

Said = dict[str, Any]

CHANGES_A_LINE = 100
LINE_SIZE_BYTES_MAX = 256 * 1024 * 1024
"""Far above what is ever said (see the module): a bound for a side that has lost its way."""

_READ_SIZE_BYTES = 64 * 1024


def encoded(said: Said) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class Outbox:
    """Lines that one task sends, in the order in which they were added.

    The tasks that add them do not send: one that is cancelled would leave half a line, and the
    other side could make nothing of all that follows.
    """

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._added = trio.Event()

    def add(self, encoded_lines: Iterable[bytes]) -> None:
        self._waiting += encoded_lines
        self._added.set()

    async def send(self, stream: trio.abc.Stream) -> None:
        """Send what is added, until the connection ends, which whoever reads it sees as well."""
        while True:
            await self._added.wait()
            self._added = trio.Event()
            waiting, self._waiting = self._waiting, []
            try:
                await stream.send_all(b"".join(waiting))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return


async def lines(stream: trio.abc.Stream) -> AsyncGenerator[Said, None]:
    """What the other side says, until it ends.  Raises StoreError where it makes no sense."""
    waiting = bytearray()
    searched = 0
    while data := await _received(stream):
        waiting += data
        while (end := waiting.find(b"\n", searched)) >= 0:
            said = _decoded(waiting[:end])
            del waiting[: end + 1]
            searched = 0
            yield said
        searched = len(waiting)
        if searched > LINE_SIZE_BYTES_MAX:
            raise StoreError(f"a line of the metadata is above {LINE_SIZE_BYTES_MAX} bytes")


def _decoded(line: bytearray) -> Said:
    """Raises StoreError."""
    try:
        said = json.loads(line)
    except ValueError as problem:
        raise StoreError(f"the metadata's connection is out of step: {problem}") from problem
    if not isinstance(said, dict):
        raise StoreError("the metadata's connection is out of step: a line is no JSON object")
    return said


async def _received(stream: trio.abc.Stream) -> bytes | bytearray:
    """The next bytes; none at the end, however the connection ended."""
    try:
        return await stream.receive_some(_READ_SIZE_BYTES)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""
