"""TLS handshakes of new clients, with a time limit, and with the computation in threads.

A signature takes OpenSSL 0.02 ms (ECDSA) to 4 ms (RSA of 4,096 bits), so each step runs in a
thread.  `Handshakes` runs few steps at once.  Of the waiting steps the newest is first.  When more
clients arrive than can be served, the oldest steps would be of clients that give up before their
turn, and so would all steps after them.
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
"""The time limit of a whole handshake.  Clients wait about as long themselves
(`request.timeout.ms`, `socket.connection.setup.timeout.max.ms`)."""

STEPS_AT_ONCE_MAX: Final = 2
"""The number of threads that compute.  On two processors the loop leaves one free, and one thread
more keeps it busy."""

QUEUE_MAX: Final = 8
"""The most steps that wait for a thread while all new clients are admitted: some 2 ms of work."""

_ARRIVALS_INTERVAL_S: Final = 0.005
"""The time between two checks for new clients while more than QUEUE_MAX steps wait."""

_SIZE_BYTES_MAX: Final = 256 * 1024
"""The most bytes of a client's handshake; OpenSSL accepts 100 kB of certificates."""

_HEADER_BYTES: Final = 5
_KINDS: Final = frozenset((20, 21, 22, 23))
"""The types of TLS records: change of cipher, alert, handshake, application data."""


class HandshakeFailed(Exception):
    """The handshake failed, and the connection has to be closed; the message is for the log."""


class Handshakes:
    """The handshakes of all listeners."""

    def __init__(self, at_once_max: int = STEPS_AT_ONCE_MAX) -> None:
        self._free = at_once_max
        self._waiting: list[trio.Event] = []
        self._limiter = trio.CapacityLimiter(at_once_max)
        self._calm = trio.lowlevel.ParkingLot()

    @property
    def are_many(self) -> bool:
        """Whether so many steps wait that a client admitted now would only wait, too."""
        return len(self._waiting) >= QUEUE_MAX

    async def breathe(self) -> None:
        """Let other tasks run; while `are_many`, also wait until fewer steps wait, 5 ms at most."""
        if not self.are_many:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(_ARRIVALS_INTERVAL_S):
            await self._calm.park()

    async def shake_hands(self, transport: TlsTransport) -> None:
        """Complete the handshake of one client.

        Raises HandshakeFailed, or ConnectionResetError if the client closes without sending a byte.
        """
        try:
            with trio.fail_after(TIMEOUT_S):
                await self._go_through(transport)
        except trio.TooSlowError:
            raise HandshakeFailed(f"it was not done after {TIMEOUT_S:.0f} s") from None
        except ssl.SSLError as error:
            with suppress(OSError):  # the client may be gone already
                transport.push()  # the alert
            raise HandshakeFailed(reason_of(error, "the client's")) from None

    async def _go_through(self, transport: TlsTransport) -> None:
        """Exchange records with the client until the handshake is complete.

        Raises ssl.SSLError if it fails.
        """
        received = Received()
        while not transport.more:
            await received.next_records(transport)
            try:
                await self._step(transport.tls.do_handshake)
            except ssl.SSLWantReadError:
                transport.more = False
            else:
                transport.more = True  # requests may have arrived with the end of the handshake
            await push_all(transport)

    async def _step(self, step: Callable[[], None]) -> None:
        """Compute one step in a thread, when its turn has come."""
        await self._take_turn()
        try:
            await trio.to_thread.run_sync(step, limiter=self._limiter)
        finally:
            self._give_turn()

    async def _take_turn(self) -> None:
        """Wait until one more computation may run; `_give_turn` frees the place.

        If the wait is cancelled just after the turn was given, the turn is passed on.
        """
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
        """Let the newest of the waiting steps run, or note a free place.

        The newest goes first, because the clients of the oldest ones give up soonest.
        """
        if self._waiting:
            self._waiting.pop().set()
            if not self.are_many:
                self._calm.unpark_all()
        else:
            self._free += 1


class Received:
    """The bytes of one client's handshake: a step is worth a thread when a record is complete."""

    def __init__(self) -> None:
        self._total = 0
        self._incomplete = b""  # the beginning of a record

    async def next_records(self, transport: TlsTransport) -> None:
        """Read until OpenSSL has a complete record.  Raises as `Handshakes.shake_hands` does."""
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
        """Return whether `data` completes a record, or is not TLS: then OpenSSL refuses it."""
        data = self._incomplete + data
        position = 0
        while len(data) - position >= _HEADER_BYTES:
            if data[position] not in _KINDS:
                return True
            end = position + _HEADER_BYTES + int.from_bytes(data[position + 3 : position + 5])
            if end > len(data):
                break
            position = end
        self._incomplete = data[position:]
        return position > 0


async def push_all(transport: TlsTransport) -> None:
    """Send all encrypted bytes to the other side, and wait for room.  Raises OSError."""
    while not transport.push():
        await trio.lowlevel.wait_writable(transport)
