"""What is said while a command waits for a cluster: nobody should wonder whether it still works."""

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
"""What is over within this time is not worth a word: a coordinator that is being made, say."""
CALM_S = 60.0
"""Trouble that comes after so long without any is told anew."""
SILENCE_S = 2.0
"""Who does not answer for so long is waited for."""


class Trouble:
    """Tells of what is tried again: each trouble once, and only one that does not pass."""

    def __init__(self) -> None:
        self._began = self._last = float("-inf")
        self._told = ""

    @property
    def is_told(self) -> bool:
        """Whether somebody has been told of any."""
        return bool(self._told)

    def __call__(self, error: ClientError) -> None:
        now = time.monotonic()
        if now - self._last > CALM_S:
            self._began, self._told = now, ""
        self._last = now
        if now - self._began >= PASSES_S and str(error) != self._told:
            self._told = str(error)
            say(f"kwire: {printable(self._told)}; trying again")


@contextmanager
def patient(cluster: Cluster, bootstrap: str) -> Iterator[None]:
    """Tell of trouble with the cluster; on a terminal also of an address that does not answer."""
    from threading import Timer

    trouble = Trouble()

    def tell() -> None:
        if not cluster.has_answered and not trouble.is_told:
            limit_s = number_text(cluster.timeout_s)
            say(f"waiting for {bootstrap} to answer, for {limit_s} s at most ...")

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
