"""Running a broker: from a configuration to listening sockets, and down again cleanly.

Start: lock and read the log directories, read the metadata, open the partitions, bind every
listener, then accept.  Nothing is accepted before everything is there, so a client that gets in is
served.  Stop (SIGTERM or SIGINT): stop accepting, let replies under way out, then close the logs,
which writes the marker of a clean shutdown.  A second signal stops at once, like a crash.
"""

from __future__ import annotations

import gc
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from kwire.broker import Broker
from kwire.listener import ConnectionServer, open_listening_socket

if TYPE_CHECKING:
    from kwire.config import BrokerConfig

log = logging.getLogger("kwire.server")

_YOUNG_GENERATION = 20_000
"""Allocations between two collections of the youngest generation: the handlers make no cycles, so
collecting every 700 as Python does by default is only cost on the hot path."""


def run(config: BrokerConfig, on_ready: Callable[[Broker], None] | None = None) -> None:
    """Run a broker until SIGTERM or SIGINT; returns after a clean shutdown.

    `on_ready` is called once every listener accepts, with the addresses as bound.  Raises OSError
    where a port or directory cannot be had, ConfigError where the configuration cannot work.
    """
    trio.run(_run_until_signal, config, on_ready)


async def _run_until_signal(
    config: BrokerConfig, on_ready: Callable[[Broker], None] | None
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            stop = trio.Event()
            broker: Broker = await nursery.start(serve, config, stop)
            if on_ready is not None:
                on_ready(broker)
            _settle_memory()
            async for number in signals:
                if stop.is_set():
                    log.warning("second signal: stopping without a clean shutdown")
                    raise SystemExit(1)
                log.info("%s: shutting down", signal.Signals(number).name)
                stop.set()
                nursery.start_soon(_end_when_served, nursery)


async def _end_when_served(nursery: trio.Nursery) -> None:
    """Leave the wait for signals once nothing but it and this task is left."""
    while len(nursery.child_tasks) > 1:
        await trio.sleep(0.005)
    nursery.cancel_scope.cancel()


def _settle_memory() -> None:
    """What start-up made lives as long as the process: keep the collector from walking it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_GENERATION, 20, 50)


async def serve(
    config: BrokerConfig,
    stop: trio.Event,
    task_status: trio.TaskStatus[Broker] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `stop` is set; `task_status` gets the broker once every listener accepts."""
    with ExitStack() as resources:
        bound = [_bind(endpoint, config, resources) for endpoint in config.listeners]
        config = _with_bound_ports(config, bound)
        broker = resources.enter_context(Broker.open(config))
        server = ConnectionServer(broker)
        broker.connections = server
        async with trio.open_nursery() as background, trio.open_nursery() as connections:
            broker.start(background)
            background.start_soon(server.reap)
            with trio.CancelScope() as accepting:
                async with trio.open_nursery() as acceptors:
                    for endpoint, listening in zip(config.listeners, bound, strict=True):
                        acceptors.start_soon(
                            server.accept, listening, endpoint.listener, connections
                        )
                    task_status.started(broker)
                    await stop.wait()
                    accepting.cancel()
            for listening in bound:
                listening.close()
            await server.drain()
            connections.cancel_scope.cancel()
            background.cancel_scope.cancel()
