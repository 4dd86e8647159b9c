"""A broker at one port of a process that forks them, and the one that is to come after it."""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from kwire.cli.hosting.forking import fork

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.server import Turn


class Place(NamedTuple):
    """What one broker of several has of its own."""

    port: int
    control: int | None
    """The port at which tests ask for faults, if they may."""
    ahead_ms: int
    """How far its clock is ahead."""
    folder: str


Run = Callable[["Place", Mapping[str, str], "Turn", Callable[["Broker"], None]], None]
"""Serve there by these settings to the end: bind its ports when its turn has come, and call the
last one when all is ready."""

WORD: Final = b"x"
"""What is said on a line, to a broker that its turn has come, and by one that serves."""


class Forking(NamedTuple):
    """What all brokers are forked with."""

    run: Run
    alive: tuple[int, int]
    """A pipe that ends with the process that forks."""
    lines: set[socket.socket]
    """To all brokers whose turn has not come: none is to have another one's."""


class Waiting:
    """A broker that was forked, and gets ready but for its ports."""

    def __init__(self, forking: Forking, place: Place, settings: Mapping[str, str]) -> None:
        """Forks the broker, which starts but does not bind its ports yet."""
        self.place = place
        self._lines = forking.lines
        self._line, others_end = socket.socketpair()
        self._lines.add(self._line)
        gc.freeze()  # a collection would write to each object's page, and have it copied
        here = (*forking.alive, *(each.fileno() for each in self._lines), 1)
        settings = {**settings, "log.dirs": place.folder}
        work = partial(_serve, forking.run, place, settings, others_end)
        self.pid = fork(work, "the broker", forking.alive[0], here)
        others_end.close()

    def serve(self) -> bool:
        """Have it bind its ports; whether it serves.  It has ended where it does not."""
        with suppress(OSError):  # it ended while it waited
            self._line.sendall(WORD)
        serves = self._hears_word()
        self._hang_up()
        return serves

    def end(self) -> None:
        """Let it be none."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._hang_up()

    def _hears_word(self) -> bool:
        try:
            return self._line.recv(1) == WORD
        except ConnectionResetError:  # it ended without having read
            return False

    def _hang_up(self) -> None:
        self._lines.discard(self._line)
        self._line.close()


def _serve(run: Run, place: Place, settings: Mapping[str, str], line: socket.socket) -> None:
    """In the process of the broker."""

    async def turn() -> None:
        await trio.lowlevel.wait_readable(line)
        if line.recv(1) != WORD:
            raise ConnectionError("the process that this broker was forked from has ended")

    def tell(_: Broker) -> None:
        line.sendall(WORD)
        line.close()

    gc.enable()
    run(place, settings, turn, tell)


class Renewable:
    """The broker of the moment, and the one that is prepared for its place."""

    def __init__(self, forking: Forking) -> None:
        """No broker runs until the first one is started."""
        self._forking = forking
        self._pid = 0
        self._status = 0
        self._next: Waiting | None = None
        self._wanted: Place | None = None
        """Where the next one is to be prepared."""

    def state(self) -> str:
        """The answer to what it is about."""
        if self._pid:
            self._reap(os.WNOHANG)
        return f"ready {self._pid}" if self._pid else f"ended {self._status}"

    def start(self, place: Place, settings: Mapping[str, str]) -> str:
        """A new one, in the place of the one that is there; the answer."""
        self.end(signal.SIGKILL)
        prepared = self._prepared(place)
        if prepared is None or not self._serves(prepared):
            self._serves(Waiting(self._forking, place, settings))
        return self.state()

    def _serves(self, broker: Waiting) -> bool:
        self._pid = broker.pid
        serves = broker.serve()
        if not serves:
            self._reap(0)
        return serves

    def want(self, place: Place) -> None:
        """Have `prepare` make one there."""
        self._wanted = place

    def prepare(self, settings: Mapping[str, str]) -> bool:
        """Fork what is wanted; whether anything was."""
        place, self._wanted = self._wanted, None
        if place is None:
            return False
        self._drop_next()
        self._next = Waiting(self._forking, place, settings)
        return True

    def _prepared(self, place: Place) -> Waiting | None:
        """Returns the broker that was prepared for `place`, or None if there is none.  It can be
        used once."""
        if self._wanted == place:
            self._wanted = None
        if self._next is None or self._next.place != place:
            return None
        prepared, self._next = self._next, None
        return prepared

    def forget(self) -> None:
        """Have both end at once."""
        self._wanted = None
        self._drop_next()
        self.end(signal.SIGKILL)

    def _drop_next(self) -> None:
        dropped, self._next = self._next, None
        if dropped is not None:
            dropped.end()

    def end(self, number: signal.Signals) -> None:
        """Have the broker end, if there is one, and wait for that."""
        if not self._pid:
            return
        self._reap(os.WNOHANG)  # who has ended by itself is signalled no more
        if self._pid:
            os.kill(self._pid, signal.SIGCONT)  # it may be paused
            os.kill(self._pid, number)
            self._reap(0)

    def _reap(self, options: int) -> None:
        found, status = os.waitpid(self._pid, options)
        if found:
            self._pid, self._status = 0, os.waitstatus_to_exitcode(status)
