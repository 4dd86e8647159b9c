"""Runs cases that change the subscriptions of all of a broker's clients one at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock

from kwire.conformance.wire.stage import Stage

_ONE_AT_A_TIME = Lock()


def in_turn(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Decorate a case so that no other such case runs at the same time.

    When a client metrics subscription changes, every client gets a new subscription.
    """

    @wraps(play)
    def waiting(stage: Stage) -> None:
        with _ONE_AT_A_TIME:
            play(stage)

    return waiting
