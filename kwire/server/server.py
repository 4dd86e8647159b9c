"""Starts a broker from a configuration, serves until it is stopped, and shuts it down cleanly.

Start: bind every listener, lock and read the log directories, read the metadata, open the
partitions, then accept connections.  So an occupied port is an error before anything is read, and
every client that connects is served.

Stop: stop accepting, send the replies under way, then close the logs, which writes the marker of a
clean shutdown into each usable log directory.  SIGTERM and SIGINT stop the broker.  So do the end
of standard input (with `exit_on_eof`), the loss of all log directories, and the loss of the one
with the metadata.  A second signal stops the process at once, like a crash.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from functools import partial
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.server.measuring import measuring
from kwire.server.network.listener import backlog_of, open_listening_socket
from kwire.server.startup import check_not_lost, open_broker

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from kwire.cluster.metadata.image import Endpoint
    from kwire.log.directory.files import Files
    from kwire.server.measuring import Unmeasured
    from kwire.server.network.listener import ConnectionServer
    from kwire.settings import BrokerConfig
    from kwire.testing.hooks.control.service import Control

log = logging.getLogger("kwire.server")

Prepare = Callable[[Broker], Awaitable[None]]
"""Called with the opened broker, before it accepts connections."""

Turn = Callable[[], Awaitable[None]]
"""Awaited before the ports are bound, which another broker still has."""

Declare = Callable[[socket.socket], Awaitable[None]]
"""Called with a client connection that has all rights, before the broker accepts connections."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_YOUNG_GENERATION = 20_000
"""The number of allocations between two collections of the youngest generation.  Handlers make no
reference cycles, so Python's default of 700 only costs time on the hot path."""


def run(
    config: BrokerConfig,
    on_ready: Callable[[Broker], None] | None = None,
    *,
    exit_on_eof: bool = False,
    metadata: Path | None = None,
    prepare: Prepare | None = None,
    control: Control | None = None,
    declare: Declare | None = None,
    files: Files | None = None,
    turn: Turn | None = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT; returns after a clean shutdown.

    on_ready      called when every listener accepts; the broker's config has the bound ports
    exit_on_eof   also stop at the end of standard input, so when the process at its other end ends
    metadata      the Unix socket of the process that holds the cluster's metadata
                  (kwire.server.startup.open_broker)
    prepare       called when the broker is open, before it accepts connections
    control       the control service of tests (kwire.testing.hooks.control)
    declare       called when requests can be answered, before the broker accepts connections
    files         stands for the disk in tests
    turn          with it, ports are bound last, when it returns

    Raises OSError if a port or directory is not available, ConfigError if the configuration cannot
    work.
    """
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        trio.run(
            _run_until_stopped,
            config,
            on_ready,
            exit_on_eof,
            metadata,
            partial(
                serve, prepare=prepare, control=control, declare=declare, files=files, turn=turn
            ),
            clock=None if control is None else control.clock,
        )
    except BaseExceptionGroup as group:
        raise _sole_cause(group) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _sole_cause(error: BaseException) -> BaseException:
    """The exception inside the groups that nurseries have wrapped around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _run_until_stopped(
    config: BrokerConfig,
    on_ready: Callable[[Broker], None] | None,
    exit_on_eof: bool,
    metadata: Path | None,
    running: Callable[..., Awaitable[None]],
) -> None:
    """Run the broker until a signal, or the end of standard input, stops it.

    `running` starts and serves the broker; `on_ready` is called once it serves. With `exit_on_eof`
    the end of standard input stops it as well.
    """
    stop = trio.Event()
    async with trio.open_nursery() as nursery:

        async def serve_to_the_end(
            task_status: trio.TaskStatus[Broker] = trio.TASK_STATUS_IGNORED,
        ) -> None:
            await running(config, stop, metadata, task_status)
            nursery.cancel_scope.cancel()

        nursery.start_soon(_stop_on_signal, stop)
        if exit_on_eof:
            nursery.start_soon(_stop_on_eof, stop)
        starting = trio.CancelScope()
        if metadata is not None or config.is_member:
            # A member waits for the store of its cluster, which may never answer.
            nursery.start_soon(_stop_starting, stop, starting, nursery)
        broker: Broker = await nursery.start(serve_to_the_end)
        starting.cancel()
        if on_ready is not None:
            on_ready(broker)
        _settle_memory()


async def _stop_starting(
    stop: trio.Event, starting: trio.CancelScope, nursery: trio.Nursery
) -> None:
    """Cancel all tasks of `nursery` when `stop` is set before `starting` is cancelled."""
    with starting:
        await stop.wait()
        log.info("Stopping before the broker is ready.")
        nursery.cancel_scope.cancel()


async def _stop_on_signal(stop: trio.Event) -> None:
    """Set `stop` at the first signal; a second one ends the process at once.

    The second signal has a plain handler: closing the logs blocks the loop, which then cannot
    receive signals.
    """
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        received = await anext(aiter(signals))
    log.info("%s: shutting down", signal.Signals(received).name)
    for number in STOP_SIGNALS:
        signal.signal(number, _stop_at_once)
    stop.set()


async def _stop_on_eof(stop: trio.Event) -> None:
    """Set `stop` at the end of standard input.

    A thread reads it: the loop cannot wait for every kind of file that standard input may be.
    """
    await trio.to_thread.run_sync(_read_to_the_end, abandon_on_cancel=True)
    log.info("standard input has ended: shutting down")
    stop.set()


def _read_to_the_end() -> None:
    if sys.stdin is None:
        return  # the process was started without standard input
    while os.read(sys.stdin.fileno(), 4096):
        pass


def _stop_at_once(number: int, frame: FrameType | None) -> None:
    log.warning("second signal: stopping without a clean shutdown")
    os._exit(1)


def _settle_memory() -> None:
    """Exclude the objects of the start from garbage collection: the process needs them always."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_GENERATION, 20, 50)


async def serve(
    config: BrokerConfig,
    stop: trio.Event,
    metadata: Path | None = None,
    task_status: trio.TaskStatus[Broker] = trio.TASK_STATUS_IGNORED,
    *,
    prepare: Prepare | None = None,
    control: Control | None = None,
    declare: Declare | None = None,
    files: Files | None = None,
    turn: Turn | None = None,
) -> None:
    """Serve until `stop` is set; `task_status` gets the broker once every listener accepts."""
    if turn is not None and _draws_ports(config):
        await turn()  # the broker registers its ports when it opens, so they must be known
        turn = None
    with ExitStack() as sockets:
        bound: list[socket.socket] = []
        if turn is None:
            config, bound = _bind_all(config, sockets)
        kind = Broker if control is None else control.clock.broker_class()
        if control is not None:
            files = control.disk(files)
        metrics = measuring(config)
        kind, files = metrics.broker_class(kind), metrics.files(files)
        async with (
            trio.open_nursery() as background,
            _shown(metrics, config, background) as config,
            open_broker(config, background, metadata, kind, files) as broker,
        ):
            if prepare is not None:
                await prepare(broker)
            server = metrics.connections(broker, control, background)
            await _begin(server, background)
            if turn is not None:
                await turn()
                config, bound = _bind_all(config, sockets)
            if control is not None:
                from kwire.testing.hooks.control.server import serve as serve_control

                control.broker = broker
                control.snapshots.begin(broker, stop)
                await background.start(serve_control, control)
            if declare is not None:
                with server.own_client(background) as client:
                    await declare(client)
            with closing(server):  # also if a task fails
                async with trio.open_nursery() as nursery:
                    for endpoint, listening in zip(config.listeners, bound, strict=True):
                        nursery.start_soon(server.accept, listening, endpoint.listener, nursery)
                    metrics.serving()
                    task_status.started(broker)
                    nursery.start_soon(_stop_when_storage_is_lost, broker, stop)
                    await stop.wait()
                    metrics.stopping()
                    await broker.membership.leave()
                    sockets.close()
                    await server.drain()
                    nursery.cancel_scope.cancel()
            background.cancel_scope.cancel()
    check_not_lost(broker)


@asynccontextmanager
async def _shown(
    metrics: Unmeasured, config: BrokerConfig, nursery: trio.Nursery
) -> AsyncIterator[BrokerConfig]:
    """Serve the metrics, if any, in `nursery`; gives the settings with the endpoint's port."""
    yield await metrics.begin(config, nursery)


async def _begin(server: ConnectionServer, background: trio.Nursery) -> None:
    """Start the tasks that serve connections."""
    await server.logins.begin(background)
    background.start_soon(server.reap)
    background.start_soon(server.serve_ready)
    if server.tls is not None:
        background.start_soon(server.tls.follow)


async def _stop_when_storage_is_lost(broker: Broker, stop: trio.Event) -> None:
    """Set `stop` when the broker has lost its storage.

    Apache Kafka halts in that case, too: a broker without logs keeps other brokers from leading.
    """
    await broker.storage_lost.wait()
    reason = broker.membership_lost or (
        "all log directories, or the one with the metadata, have failed"
    )
    log.critical("shutting down: %s", reason)
    stop.set()


def _draws_ports(config: BrokerConfig) -> bool:
    """Whether a port has to be bound before the broker opens: the metrics' port always is."""
    has_metrics = config.metrics.metrics_port is not None
    return has_metrics or any(endpoint.port == 0 for endpoint in config.listeners)


def _bind_all(config: BrokerConfig, sockets: ExitStack) -> tuple[BrokerConfig, list[socket.socket]]:
    """Return the sockets of all listeners, and the configuration with their ports."""
    bound = [_bind(endpoint, config, sockets) for endpoint in config.listeners]
    ports = {
        endpoint.listener: listening.getsockname()[1]
        for endpoint, listening in zip(config.listeners, bound, strict=True)
    }
    return config.with_bound_ports(ports), bound


def _bind(endpoint: Endpoint, config: BrokerConfig, sockets: ExitStack) -> socket.socket:
    """Open the listening socket of one endpoint, which `sockets` closes. Raises OSError.

    -1 leaves the size of the receive buffer to the kernel, unless the setting is given.
    """
    receive_buffer_bytes = (
        config.socket_receive_buffer_bytes if config.given("socket.receive.buffer.bytes") else -1
    )
    return sockets.enter_context(
        open_listening_socket(
            endpoint.host, endpoint.port, backlog_of(config), receive_buffer_bytes
        )
    )
