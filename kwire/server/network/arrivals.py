"""Clients of a TLS listener: accepted as fast as the kernel has them, admitted the newest first.

To admit one costs some 0.2 ms, and its handshake as much again, while the kernel hands out those
who knock in the order in which they came.  When 2,000 knock at once, whoever comes then would wait
for all of them.  To accept alone costs 0.01 ms: so all are taken off the kernel, and who came last
is served first, as in `handshake.py`, for those at the end of a line would be given up by their
clients before their turn.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

TAKEN_TOGETHER_MAX: Final = 256
"""Accepted before others have their turn, some 3 ms of work."""

ADMITTED_TOGETHER_MAX: Final = 4
"""Admitted before others have their turn, some 1 ms of work."""

WAITING_MAX: Final = 4096
"""As many as the kernel holds; beyond that who waits longest is let go."""

Arrival = tuple[socket.socket, Any]
"""A client's socket, and its address."""


class Arrivals:
    """Those who were accepted, and not yet admitted; `has_room` is asked with how many they are."""

    def __init__(self, has_room: Callable[[int], bool]) -> None:
        self._has_room = has_room
        self._waiting: deque[Arrival] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, listening: socket.socket) -> None:
        """Accept who is there.  Raises OSError where nobody can be accepted, and nobody waits."""
        for _ in range(TAKEN_TOGETHER_MAX):
            if not self._has_room(len(self._waiting)):
                return
            try:
                self._waiting.append(listening.accept())
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as problem:
                if self._waiting and problem.errno in OUT_OF_RESOURCES:
                    return  # those who wait will give some back
                raise
            if len(self._waiting) > WAITING_MAX:
                self._waiting.popleft()[0].close()

    def newest(self, *, few: bool = False) -> list[Arrival]:
        """Those whose turn it is, the very newest last: it is also the first to shake hands.

        `few` where handshakes wait already: the very newest alone, which will not wait for them.
        Those who knocked before it have often said nothing when they are admitted, and all at
        once later: behind 200 of them an honest client waited 60 to 460 ms to be admitted.
        """
        count = min(len(self._waiting), 1 if few else ADMITTED_TOGETHER_MAX)
        return [self._waiting.pop() for _ in range(count)][::-1]

    def close(self) -> None:
        while self._waiting:
            self._waiting.pop()[0].close()
