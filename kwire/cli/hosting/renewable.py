"""The broker at one port of a process that forks brokers, and the prepared next one."""

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
    """The ports, clock and folder of one of several brokers."""

    port: int
    control: int | None
    """Port of the HTTP control; None if the broker has no control."""
    ahead_ms: int
    """How many ms the broker's clock is ahead of the real time."""
    folder: str


Run = Callable[["Place", Mapping[str, str], "Turn", Callable[["Broker"], None]], None]
"""Runs a broker with these settings until it ends.  The broker binds its ports once `Turn` returns,
and calls the last function when it is ready."""

WORD: Final = b"x"
"""Sent to a waiting broker: bind the ports.  Sent back by the broker: it serves."""


class Forking(NamedTuple):
    """What all forked brokers have in common."""

    run: Run
    alive: tuple[int, int]
    """A pipe that ends with the process that forks."""
    lines: set[socket.socket]
    """Sockets to all waiting brokers.  A forked broker closes those of the others."""


class Waiting:
    """A forked broker that starts, and waits for `serve` before it binds its ports."""

    def __init__(self, forking: Forking, place: Place, settings: Mapping[str, str]) -> None:
        """Forks the broker, which starts but does not bind its ports yet."""
        self.place = place
        self._lines = forking.lines
        self._line, others_end = socket.socketpair()
        self._lines.add(self._line)
        gc.freeze()  # else a collection writes to all pages of memory, which copies them
        here = (*forking.alive, *(each.fileno() for each in self._lines), 1)
        settings = {**settings, "log.dirs": place.folder}
        work = partial(_serve, forking.run, place, settings, others_end)
        self.pid = fork(work, "the broker", forking.alive[0], here)
        others_end.close()

    def serve(self) -> bool:
        """Has the broker bind its ports; returns False if it does not serve but has ended."""
        with suppress(OSError):  # the broker ended while it waited
            self._line.sendall(WORD)
        serves = self._hears_word()
        self._hang_up()
        return serves

    def end(self) -> None:
        """Kills the waiting broker."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._hang_up()

    def _hears_word(self) -> bool:
        """Waits until the broker serves or ends; returns whether it serves."""
        try:
            return self._line.recv(1) == WORD
        except ConnectionResetError:  # the broker ended before it read the word
            return False

    def _hang_up(self) -> None:
        self._lines.discard(self._line)
        self._line.close()


def _serve(run: Run, place: Place, settings: Mapping[str, str], line: socket.socket) -> None:
    """Runs the broker in its own process, which the parent has just forked."""

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
    """The running broker at one port, and the next one, which is prepared in advance."""

    def __init__(self, forking: Forking) -> None:
        """No broker runs until the first one is started."""
        self._forking = forking
        self._pid = 0
        self._status = 0
        self._next: Waiting | None = None
        self._wanted: Place | None = None
        """Where `prepare` forks the next broker; None if none is wanted."""

    def state(self) -> str:
        """Return `ready PID` if the broker runs, else `ended STATUS`."""
        if self._pid:
            self._reap(os.WNOHANG)
        return f"ready {self._pid}" if self._pid else f"ended {self._status}"

    def start(self, place: Place, settings: Mapping[str, str]) -> str:
        """Kills the broker, starts a new one (the prepared one, if any), and returns its state."""
        self.end(signal.SIGKILL)
        prepared = self._prepared(place)
        if prepared is None or not self._serves(prepared):
            self._serves(Waiting(self._forking, place, settings))
        return self.state()

    def _serves(self, broker: Waiting) -> bool:
        """Has a waiting broker serve; returns False if it has ended instead."""
        self._pid = broker.pid
        serves = broker.serve()
        if not serves:
            self._reap(0)
        return serves

    def want(self, place: Place) -> None:
        """Notes that the next `prepare` forks a broker for `place`."""
        self._wanted = place

    def prepare(self, settings: Mapping[str, str]) -> bool:
        """Forks the wanted broker; returns whether one was wanted."""
        place, self._wanted = self._wanted, None
        if place is None:
            return False
        self._drop_next()
        self._next = Waiting(self._forking, place, settings)
        return True

    def _prepared(self, place: Place) -> Waiting | None:
        """Return the broker that was prepared for `place`, or None if there is none.  It can be
        used once."""
        if self._wanted == place:
            self._wanted = None
        if self._next is None or self._next.place != place:
            return None
        prepared, self._next = self._next, None
        return prepared

    def forget(self) -> None:
        """Kills the running broker and the prepared one."""
        self._wanted = None
        self._drop_next()
        self.end(signal.SIGKILL)

    def _drop_next(self) -> None:
        dropped, self._next = self._next, None
        if dropped is not None:
            dropped.end()

    def end(self, number: signal.Signals) -> None:
        """Sends a signal to the broker, if it runs, and waits until its process ends."""
        if not self._pid:
            return
        self._reap(os.WNOHANG)  # a process that has ended must not be signalled
        if self._pid:
            os.kill(self._pid, signal.SIGCONT)  # a paused process handles no signals
            os.kill(self._pid, number)
            self._reap(0)

    def _reap(self, options: int) -> None:
        found, status = os.waitpid(self._pid, options)
        if found:
            self._pid, self._status = 0, os.waitstatus_to_exitcode(status)
