"""What all tools share: the cluster, the decoder of records, and the control of a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec, TypeVar

import trio

from kwire.client.cluster import Cluster
from kwire.client.errors import Misuse, RequestTimedOut
from kwire.console.decoding.decoder import Decoder
from kwire.console.pool import ClusterPool
from kwire.testing.control import ControlClient

P = ParamSpec("P")
T = TypeVar("T")

CALLS_MAX: Final = 4
"""Calls of the cluster at the same time.  An assistant waits for its answers; more would only load
the cluster that it examines."""
CONTROL_TIMEOUT_S: Final = 60.0
"""How long the control of a broker has: a snapshot copies what the broker holds."""


@dataclass
class Desk:
    """What a tool works with."""

    pool: ClusterPool
    decoder: Decoder
    control: ControlClient | None = None
    """The HTTP control of a kwire broker; None without --control."""
    allows_writes: bool = False

    async def ask(
        self,
        call: Callable[Concatenate[Cluster, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """The result of `call(cluster, ...)`, which runs in a thread.  Raises ClientError."""
        return await self.pool.ask(lambda cluster: call(cluster, *arguments, **named))

    async def ask_alone(
        self, call: Callable[[Cluster], T], *, patience_s: float, timeout_s: float
    ) -> T:
        """As `ask`, with a Cluster of the call's own, whose requests wait `patience_s` at most."""

        def run() -> T:
            with self.pool.connect() as cluster:
                cluster.timeout_s = patience_s
                return call(cluster)

        with trio.move_on_after(timeout_s):
            return await trio.to_thread.run_sync(run, abandon_on_cancel=True)
        raise RequestTimedOut(f"the cluster was not examined within {timeout_s:g} s")

    async def ask_control(
        self,
        call: Callable[Concatenate[ControlClient, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """The result of `call(control, ...)`, which runs in a thread.  Raises ControlError."""
        control = self.control
        if control is None:
            raise Misuse("this server has no control of a broker: start kwire mcp with --control")
        with trio.move_on_after(CONTROL_TIMEOUT_S):
            return await trio.to_thread.run_sync(
                lambda: call(control, *arguments, **named), abandon_on_cancel=True
            )
        raise RequestTimedOut(f"the control did not answer in {CONTROL_TIMEOUT_S:g} s")
