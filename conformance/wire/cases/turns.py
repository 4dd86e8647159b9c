"""One case at a time of those that change what all clients of a broker are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock

from kwire.conformance.wire.stage import Stage

_ONE_AT_A_TIME = Lock()


def in_turn(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """No other such case runs meanwhile: a client metrics subscription that changes makes every
    client begin anew."""

    @wraps(play)
    def waiting(stage: Stage) -> None:
        with _ONE_AT_A_TIME:
            play(stage)

    return waiting
