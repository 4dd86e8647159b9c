"""The protocol between the holder of the metadata and a broker: one JSON object per line.

A broker sends a request `{"id": n, "ask": KIND, ...}` and gets the response `{"id": n, ...}`.
The holder sends these lines without a request:

    {"begin": {"cluster_id": ..., "lines": n}}      first; then n lines of changes, the snapshot
    {"version": n, "changes": [...]}                changes committed since, in order
    {"event": "controller_gone"}
    {"event": "log_dir_failed", "broker": id}
    {"event": "report"}                             the broker must send a request "report"

A request "report" has the version of the metadata that the broker has.

A line has at most `CHANGES_A_LINE` changes.  So the longest line (topics with 10,000 partitions
each) has some megabytes.  A reader refuses a line above `LINE_SIZE_BYTES_MAX`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import trio

from kwire.cluster.stores.contract import StoreError

JsonObject = dict[str, Any]

CHANGES_A_LINE = 100
LINE_SIZE_BYTES_MAX = 256 * 1024 * 1024
"""Far above the longest valid line (see the module); bounds the memory for a broken sender."""

_READ_SIZE_BYTES = 64 * 1024


def encoded(message: JsonObject) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class LineSender:
    """Sends lines in the order in which they were added; one task runs `send`.

    The tasks that add lines do not send them: a cancelled task would leave half a line, and the
    receiver could not read any line after it.
    """

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._added = trio.Event()

    def add(self, encoded_lines: Iterable[bytes]) -> None:
        self._waiting += encoded_lines
        self._added.set()

    async def send(self, stream: trio.abc.Stream) -> None:
        """Send added lines until the connection ends; its reader notices the end too."""
        while True:
            await self._added.wait()
            self._added = trio.Event()
            waiting, self._waiting = self._waiting, []
            try:
                await stream.send_all(b"".join(waiting))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return


async def lines(stream: trio.abc.Stream) -> AsyncGenerator[JsonObject, None]:
    """The objects that the other side sends, until the connection ends.

    Raises StoreError for a line that is not a JSON object, or is too long.
    """
    waiting = bytearray()
    searched = 0
    while data := await _received(stream):
        waiting += data
        while (end := waiting.find(b"\n", searched)) >= 0:
            message = _decoded(waiting[:end])
            del waiting[: end + 1]
            searched = 0
            yield message
        searched = len(waiting)
        if searched > LINE_SIZE_BYTES_MAX:
            raise StoreError(
                f"a line of the metadata connection is longer than {LINE_SIZE_BYTES_MAX} bytes"
            )


def _decoded(line: bytearray) -> JsonObject:
    """The object in `line`.  Raises StoreError."""
    try:
        message = json.loads(line)
    except ValueError as problem:
        raise StoreError(f"a line of the metadata connection is not JSON: {problem}") from problem
    if not isinstance(message, dict):
        raise StoreError("a line of the metadata connection is not a JSON object")
    return message


async def _received(stream: trio.abc.Stream) -> bytes | bytearray:
    """The next bytes; none if the connection was closed or broke."""
    try:
        return await stream.receive_some(_READ_SIZE_BYTES)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""
