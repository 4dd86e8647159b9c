"""Running a broker: from a configuration to listening sockets, and down again cleanly.

Start: bind every listener, then lock and read the log directories, read the metadata, open the
partitions, and only then accept.  A port that is taken is known before anything is read, and a
client that gets in is served.  Stop (SIGTERM, SIGINT, the end of standard input where that is asked
for, or the loss of all log directories or of that with the metadata): stop accepting, let replies
under way out, then close the logs, which writes the marker of a clean shutdown where a directory
still takes one.  A second signal stops at once, like a crash.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.server.network.listener import ConnectionServer, backlog_of, open_listening_socket
from kwire.server.startup import check_not_lost, open_broker

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from kwire.cluster.metadata.image import Endpoint
    from kwire.log.directory.files import Files
    from kwire.settings import BrokerConfig
    from kwire.testing.hooks.control.service import Control

log = logging.getLogger("kwire.server")

Prepare = Callable[[Broker], Awaitable[None]]
"""What is done with a broker before anybody is let in."""

Turn = Callable[[], Awaitable[None]]
"""What a broker waits for that is ready but for its ports, which another one still has."""

Declare = Callable[[socket.socket], Awaitable[None]]
"""What is asked of a broker before anybody is let in, as a client asks over that connection; who
asks may do everything."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_YOUNG_GENERATION = 20_000
"""Allocations between two collections of the youngest generation: the handlers make no cycles, so
collecting every 700 as Python does by default is only cost on the hot path."""


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

    `exit_on_eof`: also until standard input ends, which is when whoever holds its other end does.
    `metadata`: who holds that of the cluster listens there (kwire.server.startup.open_broker).
    `control` is what a test asks of it (kwire.testing.hooks.control).
    `prepare` has its turn when all is there and nobody is let in yet, `declare` when requests can
    be answered, too.
    `files` stand for the disk.  With `turn` ports are bound last, when that has come.
    `on_ready` is called once every listener accepts, with the addresses as bound.  Raises OSError
    where a port or directory cannot be had, ConfigError where the configuration cannot work.
    """
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        trio.run(
            _run_until_told,
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


def _sole_cause(problem: BaseException) -> BaseException:
    """What went wrong, out of the groups that the nurseries on its way wrapped it in."""
    while isinstance(problem, BaseExceptionGroup) and len(problem.exceptions) == 1:
        problem = problem.exceptions[0]
    return problem


async def _run_until_told(
    config: BrokerConfig,
    on_ready: Callable[[Broker], None] | None,
    exit_on_eof: bool,
    metadata: Path | None,
    running: Callable[..., Awaitable[None]],
) -> None:
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
        if metadata is not None or config.zookeeper_connect is not None:
            # A member waits for the store of its cluster, which may not answer for good.
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
        log.info("told to stop before the broker was ready")
        nursery.cancel_scope.cancel()


async def _stop_on_signal(stop: trio.Event) -> None:
    """The second signal is heard even while the logs are closed, which leaves the loop no turn."""
    with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
        number = await anext(aiter(signals))
    log.info("%s: shutting down", signal.Signals(number).name)
    for each in STOP_SIGNALS:
        signal.signal(each, _stop_at_once)
    stop.set()


async def _stop_on_eof(stop: trio.Event) -> None:
    """In a thread: of the files that may be standard input the loop can wait for some only."""
    await trio.to_thread.run_sync(_read_to_the_end, abandon_on_cancel=True)
    log.info("standard input has ended: shutting down")
    stop.set()


def _read_to_the_end() -> None:
    if sys.stdin is None:
        return  # it was closed from the start
    while os.read(sys.stdin.fileno(), 4096):
        pass


def _stop_at_once(number: int, frame: FrameType | None) -> None:
    log.warning("second signal: stopping without a clean shutdown")
    os._exit(1)


def _settle_memory() -> None:
    """What start-up made lives as long as the process: keep the collector from walking it."""
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
        await turn()  # a broker has to know its ports before it opens
        turn = None
    with ExitStack() as sockets:
        bound: list[socket.socket] = []
        if turn is None:
            config, bound = _bind_all(config, sockets)
        kind = Broker if control is None else control.clock.broker_class()
        if control is not None:
            files = control.disk(files)
        async with (
            trio.open_nursery() as background,
            open_broker(config, background, metadata, kind, files) as broker,
        ):
            if prepare is not None:
                await prepare(broker)
            server = ConnectionServer(broker, control)
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
            async with trio.open_nursery() as nursery:
                for endpoint, listening in zip(config.listeners, bound, strict=True):
                    nursery.start_soon(server.accept, listening, endpoint.listener, nursery)
                task_status.started(broker)
                nursery.start_soon(_stop_when_storage_is_lost, broker, stop)
                await stop.wait()
                await broker.membership.leave()
                sockets.close()
                await server.drain()
                nursery.cancel_scope.cancel()
            background.cancel_scope.cancel()
    check_not_lost(broker)


async def _begin(server: ConnectionServer, background: trio.Nursery) -> None:
    """What serves those who are to come."""
    await server.logins.begin(background)
    background.start_soon(server.reap)
    background.start_soon(server.serve_ready)
    if server.tls is not None:
        background.start_soon(server.tls.follow)


async def _stop_when_storage_is_lost(broker: Broker, stop: trio.Event) -> None:
    """Apache Kafka halts then: a broker without its logs only keeps others from leading."""
    await broker.storage_lost.wait()
    why = broker.membership_lost or "all log directories, or that of the metadata, have failed"
    log.critical("shutting down: %s", why)
    stop.set()


def _draws_ports(config: BrokerConfig) -> bool:
    return any(endpoint.port == 0 for endpoint in config.listeners)


def _bind_all(config: BrokerConfig, sockets: ExitStack) -> tuple[BrokerConfig, list[socket.socket]]:
    """The sockets of all listeners, and the configuration with their ports."""
    bound = [_bind(endpoint, config, sockets) for endpoint in config.listeners]
    ports = {
        endpoint.listener: listening.getsockname()[1]
        for endpoint, listening in zip(config.listeners, bound, strict=True)
    }
    return config.with_bound_ports(ports), bound


def _bind(endpoint: Endpoint, config: BrokerConfig, sockets: ExitStack) -> socket.socket:
    receive_buffer_bytes = (
        config.socket_receive_buffer_bytes if config.given("socket.receive.buffer.bytes") else -1
    )
    return sockets.enter_context(
        open_listening_socket(
            endpoint.host, endpoint.port, backlog_of(config), receive_buffer_bytes
        )
    )
