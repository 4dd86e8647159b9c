"""TLS handshakes: cut when they stall, and computed where they hold nobody up.

A signature takes OpenSSL 0.02 ms (ECDSA) to 4 ms (RSA of 4,096 bits), so each step runs in a
thread.  `Handshakes` has few of them at once.  Of those who wait the newest is first: when more
come than can be served, those at the end of a line would be given up by their clients before their
turn, and everybody behind them too.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from kwire.security.tls.error import reason_of
from kwire.server.tls.transport import TlsTransport

TIMEOUT_S: Final = 30.0
"""How long a client has for all of its handshake, about what clients give it themselves
(`request.timeout.ms`, `socket.connection.setup.timeout.max.ms`)."""

STEPS_AT_ONCE_MAX: Final = 2
"""Threads that compute: one more than the processor that the loop leaves free on two."""

QUEUE_MAX: Final = 8
"""Steps that wait for a thread while clients are still admitted, some 2 ms of work."""

_LOOK_INTERVAL_S: Final = 0.005
"""How often somebody new is looked for while there are more."""

_SIZE_BYTES_MAX: Final = 256 * 1024
"""Of all that a client sends before it is let in; OpenSSL takes 100 kB of certificates."""

_HEADER_BYTES: Final = 5
_KINDS: Final = frozenset((20, 21, 22, 23))
"""Of records: change of cipher, alert, handshake, and what looks like data."""


class HandshakeFailed(Exception):
    """No connection comes of it; the message says why, for the log."""


class Handshakes:
    """Those of all listeners."""

    def __init__(self, at_once_max: int = STEPS_AT_ONCE_MAX) -> None:
        self._free = at_once_max
        self._waiting: list[trio.Event] = []
        self._limiter = trio.CapacityLimiter(at_once_max)
        self._calm = trio.lowlevel.ParkingLot()

    @property
    def are_many(self) -> bool:
        """Whether who is admitted now would only wait."""
        return len(self._waiting) >= QUEUE_MAX

    async def breathe(self) -> None:
        """Give all others their turn, and a little time while there are many."""
        if not self.are_many:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(_LOOK_INTERVAL_S):
            await self._calm.park()

    async def shake_hands(self, transport: TlsTransport) -> None:
        """Raises HandshakeFailed, or ConnectionResetError where a client goes without a word."""
        try:
            with trio.fail_after(TIMEOUT_S):
                await self._go_through(transport)
        except trio.TooSlowError:
            raise HandshakeFailed(f"it was not done after {TIMEOUT_S:.0f} s") from None
        except ssl.SSLError as problem:
            with suppress(OSError):  # the client has not waited to be told
                transport.push()
            raise HandshakeFailed(reason_of(problem, "the client's")) from None

    async def _go_through(self, transport: TlsTransport) -> None:
        received = Received()
        while not transport.more:
            await received.next_records(transport)
            try:
                await self._step(transport.tls.do_handshake)
            except ssl.SSLWantReadError:
                transport.more = False
            else:
                transport.more = True  # what came with its last words
            await push_all(transport)

    async def _step(self, step: Callable[[], None]) -> None:
        await self._take_turn()
        try:
            await trio.to_thread.run_sync(step, limiter=self._limiter)
        finally:
            self._give_turn()

    async def _take_turn(self) -> None:
        if self._free:
            self._free -= 1
            return
        turn = trio.Event()
        self._waiting.append(turn)
        try:
            await turn.wait()
        except trio.Cancelled:
            if turn.is_set():
                self._give_turn()
            else:
                self._waiting.remove(turn)
            raise

    def _give_turn(self) -> None:
        if self._waiting:
            self._waiting.pop().set()
            if not self.are_many:
                self._calm.unpark_all()
        else:
            self._free += 1


class Received:
    """What a client has sent so far: a step is worth its thread when a whole record has come."""

    def __init__(self) -> None:
        self._total = 0
        self._begun = b""  # of the record that has not ended

    async def next_records(self, transport: TlsTransport) -> None:
        """Wait until OpenSSL has something new to look at.  See `Handshakes.shake_hands`."""
        while True:
            await trio.lowlevel.wait_readable(transport)
            try:
                data = transport.take_in()
            except BlockingIOError:
                continue
            except OSError:
                data = memoryview(b"")
            if not data:
                raise self._gone()
            self._total += len(data)
            if self._total > _SIZE_BYTES_MAX:
                raise HandshakeFailed(f"the client sent more than {_SIZE_BYTES_MAX} bytes for it")
            if self.is_worth_a_look(bytes(data)):
                return

    def _gone(self) -> Exception:
        if self._total:
            return HandshakeFailed("the client went away in the middle of it")
        return ConnectionResetError("the client went away before the TLS handshake")

    def is_worth_a_look(self, data: bytes) -> bool:
        """Whether a record has ended within `data`, or this is no TLS at all."""
        data = self._begun + data
        position = 0
        while len(data) - position >= _HEADER_BYTES:
            if data[position] not in _KINDS:
                return True
            end = position + _HEADER_BYTES + int.from_bytes(data[position + 3 : position + 5])
            if end > len(data):
                break
            position = end
        self._begun = data[position:]
        return position > 0


async def push_all(transport: TlsTransport) -> None:
    """Send what OpenSSL has to say to the other side.  Raises OSError."""
    while not transport.push():
        await trio.lowlevel.wait_writable(transport)
