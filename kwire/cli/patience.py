"""Messages on standard error while a command waits for a cluster or retries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kwire.cli.text.output import number_text, on_terminal, printable, say

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.errors import ClientError

PASSES_S = 1.0
"""Errors that end within this time are not reported, as while a coordinator is being created."""
CALM_S = 60.0
"""After so long without an error, the next error counts as a new one."""
SILENCE_S = 2.0
"""How long a cluster may stay silent before the command says that it waits."""


class TroubleReport:
    """Reports errors after which the client retries: each message once, and only if errors last."""

    def __init__(self) -> None:
        self._began = self._last = float("-inf")
        self._told = ""

    @property
    def is_told(self) -> bool:
        """Whether any error has been reported."""
        return bool(self._told)

    def __call__(self, error: ClientError) -> None:
        """Shows an error after which the client retries, once it has lasted for PASSES_S seconds,
        and only once for the same text.  After CALM_S seconds without errors, the next one begins
        anew."""
        now = time.monotonic()
        if now - self._last > CALM_S:
            self._began, self._told = now, ""
        self._last = now
        if now - self._began >= PASSES_S and str(error) != self._told:
            self._told = str(error)
            say(f"kwire: {printable(self._told)}; retrying")


@contextmanager
def patient(cluster: Cluster, bootstrap: str) -> Iterator[None]:
    """Report errors of the cluster; on a terminal, also report that no broker has answered yet."""
    from threading import Timer

    trouble = TroubleReport()

    def tell() -> None:
        if not cluster.has_answered and not trouble.is_told:
            limit_s = number_text(cluster.timeout_s)
            say(f"waiting up to {limit_s} s for {bootstrap} to answer ...")

    cluster.on_trouble = trouble
    if not on_terminal():
        yield
        return
    timer = Timer(SILENCE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
