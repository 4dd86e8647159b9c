"""The control's HTTP server, on the loopback address only."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from kwire.server.http.server import HttpLimits, HttpServer
from kwire.testing.hooks.control.api import answer

if TYPE_CHECKING:
    from kwire.testing.hooks.control.service import Control

HOST: Final = "127.0.0.1"
LIMITS: Final = HttpLimits(body_bytes=4 * 1024 * 1024, connections=256, idle_s=None)
"""There is no time limit, because tests hold and move the clock that would measure it."""


async def serve(
    control: Control, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled.  Raises OSError with a message if the port is not available."""
    server = HttpServer("control", partial(answer, control), LIMITS)
    async with trio.open_nursery() as nursery:
        control.port = await nursery.start(server.serve, HOST, control.port)
        task_status.started()
