"""The holder: the process that holds the metadata for the brokers of one machine."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from kwire.cluster.metadata.changes import Change
from kwire.cluster.stores.local import FILE_NAME, LocalStore
from kwire.cluster.stores.shared.server import StoreServer
from kwire.log import LogDir
from kwire.log.directory.files import Files

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
LEAVE_TIMEOUT_S = 30
"""Time that the brokers get to leave after the parent process has died."""


def hold(
    folder: Path,
    listening: socket.socket,
    on_ready: Callable[[], None],
    first: Sequence[Change] = (),
) -> None:
    """Share the metadata in `folder` with the brokers that connect to `listening`.

    A new folder begins with the changes `first`.  Returns after SIGTERM or SIGINT, or after the end
    of standard input (the parent has died) once all brokers have left.  The folder is locked
    meanwhile.  Raises LogDirLocked, StoreError, OSError.
    """
    directory = LogDir(folder, Files())
    directory.open()
    try:
        trio.run(_hold, folder, listening, on_ready, first)
    finally:
        directory.unlock()


async def _hold(
    folder: Path,
    listening: socket.socket,
    on_ready: Callable[[], None],
    first: Sequence[Change],
) -> None:
    """Serves the metadata in `folder` until a stop signal, or the end of standard input.

    `first` has the changes that a new file starts with.  Calls `on_ready` once brokers can connect.
    """
    store = LocalStore(folder / FILE_NAME, first=first)
    try:
        with trio.socket.from_stdlib_socket(listening) as accepting:
            listener = trio.SocketListener(accepting)
            await share(store, listener, on_ready, _stop_signal, _end_of_standard_input)
    finally:
        store.close()


async def share(
    store: LocalStore,
    listener: trio.abc.Listener[Any],
    on_ready: Callable[[], None],
    stop_signal: Callable[[], Awaitable[None]],
    parent_gone: Callable[[], Awaitable[None]],
) -> None:
    """Share `store` with the brokers that connect to `listener`, until `stop_signal` returns.

    Also ends after `parent_gone` has returned: once all brokers have left, at the latest
    LEAVE_TIMEOUT_S later.
    """
    server = StoreServer(store, await store.load())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve_on, listener)
        on_ready()
        nursery.start_soon(_end_after, stop_signal, nursery.cancel_scope)
        await parent_gone()
        # The brokers stop too when their parent dies.  A controlled shutdown needs the metadata.
        with trio.move_on_after(LEAVE_TIMEOUT_S):
            await server.wait_until_empty()
        nursery.cancel_scope.cancel()


async def _end_after(signal: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await signal()
    scope.cancel()


async def _stop_signal() -> None:
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        await anext(aiter(signals))


async def _end_of_standard_input() -> None:
    await trio.to_thread.run_sync(_read_to_the_end, abandon_on_cancel=True)


def _read_to_the_end() -> None:
    while os.read(0, 4096):
        pass
