"""New connections of a TLS listener, between accept and the handshake; the newest is served first.

To accept a connection takes 0.01 ms.  To admit it takes 0.2 ms, and its handshake as long again.
The kernel returns connections in the order of their arrival, so a client that arrives behind 2,000
others would wait for all their handshakes, and give up before its turn; and so would every client
after it.  So this module accepts all of them at once, and the listener admits the newest first.
`handshake.py` uses the same order.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

TAKEN_TOGETHER_MAX: Final = 256
"""The most connections that are accepted before other tasks run: some 3 ms of work."""

ADMITTED_TOGETHER_MAX: Final = 4
"""The most connections that are admitted before other tasks run: some 1 ms of work."""

WAITING_MAX: Final = 4096
"""The most connections that wait for admission, as many as the kernel holds.  Above it the one that
waits longest is closed."""

Arrival = tuple[socket.socket, Any]
"""A client's socket and its address."""


class Arrivals:
    """Connections that are accepted and not yet admitted.

    `has_room` says whether one more connection may be accepted while the given number waits.
    """

    def __init__(self, has_room: Callable[[int], bool]) -> None:
        self._has_room = has_room
        self._waiting: deque[Arrival] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, listening: socket.socket) -> None:
        """Accept the connections that the kernel has.

        Raises OSError if accept fails; a shortage of descriptors is ignored while others wait.
        """
        for _ in range(TAKEN_TOGETHER_MAX):
            if not self._has_room(len(self._waiting)):
                return
            try:
                self._waiting.append(listening.accept())
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if self._waiting and error.errno in OUT_OF_RESOURCES:
                    return  # waiting connections will return their descriptors
                raise
            if len(self._waiting) > WAITING_MAX:
                self._waiting.popleft()[0].close()

    def newest(self, *, few: bool = False) -> list[Arrival]:
        """Return the connections to admit now, the newest last, as the last one shakes hands first.

        With `few`, when other handshakes wait already, only the newest.  Older connections often
        send nothing at first, and then all at once: behind 200 of them an honest client waited 60
        to 460 ms for its admission.
        """
        count = min(len(self._waiting), 1 if few else ADMITTED_TOGETHER_MAX)
        return [self._waiting.pop() for _ in range(count)][::-1]

    def close(self) -> None:
        while self._waiting:
            self._waiting.pop()[0].close()
