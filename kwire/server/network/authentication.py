"""SASL authentication of a connection: before its first request, and again on re-authentication.

The connection's own task carries the frames; `authenticator` holds the conversation.  A login that
expires also puts a `SessionGate` before every request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import trio

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import Frame
from kwire.requests.context import CloseConnection, Context, InvalidSize
from kwire.requests.gate import PassingGate
from kwire.server.network.authenticator import Authenticator, Login, LoginFailed

if TYPE_CHECKING:
    from kwire.requests.gate import Gate
    from kwire.security.listener_sasl import SaslListener
    from kwire.server.network.connection import Connection

MIN_REAUTH_INTERVAL_S = 1.0
"""The shortest time between two logins of a client.  An earlier one gets the error that the client
is logged in already, as in Apache Kafka."""


async def log_in(connection: Connection, sasl: SaslListener) -> bool:
    """Authenticate the client and set its principal; False if it closes the connection first.

    Raises CloseConnection if the authentication fails.
    """
    authenticator = Authenticator(sasl.mechanisms, connection.answer_now)
    login = await _converse(connection, sasl, authenticator)
    if login is None:
        return False
    connection.context.principal = login.principal
    connection.context.by_token = login.by_token
    if login.lifetime_ms is not None:
        connection.gate = SessionGate(connection, sasl, login, connection.gate)
    return True


async def _converse(
    connection: Connection,
    sasl: SaslListener,
    authenticator: Authenticator,
    frame: memoryview | None = None,
) -> Login | None:
    """Exchange frames, beginning with `frame`, until the login is done.

    Returns None if the client closes the connection.  Raises CloseConnection.
    """
    limit, connection.frame_size_bytes_max = (
        connection.frame_size_bytes_max,
        sasl.max_receive_size_bytes,
    )
    try:
        while authenticator.login is None:
            if frame is None:
                frame = await connection.receive()
            if frame is None:
                return None
            reply = authenticator.receive(frame, connection.now_ms())
            if reply is not None:
                await connection.reply(reply)
            frame = None
    except LoginFailed as failure:
        await _reject(connection, sasl, failure)
    except InvalidSize as error:
        await _reject(connection, sasl, LoginFailed(str(error)))
    finally:
        connection.frame_size_bytes_max = limit
    return authenticator.login


async def _reject(connection: Connection, sasl: SaslListener, failure: LoginFailed) -> None:
    """Send the error after `connection.failed.authentication.delay.ms`, and close the connection.

    The delay slows down clients that try passwords.
    """
    await trio.sleep(sasl.failure_delay_ms / 1000)
    if failure.reply is not None:
        await connection.reply(failure.reply)
    raise CloseConnection(f"failed authentication: {failure}")


class SessionGate(PassingGate):
    """The gate of a login that expires; see `Gate`.

    A request after the expiry closes the connection.  SaslHandshake begins a new login.
    """

    def __init__(
        self, connection: Connection, sasl: SaslListener, login: Login, behind: Gate | None
    ) -> None:
        """Guard a connection that has logged in; `behind` is the next gate or None.

        The login may be renewed at once: the last renewal counts as one interval ago.
        """
        super().__init__(behind)
        self._connection = connection
        self._sasl = sasl
        self._began_s = -MIN_REAUTH_INTERVAL_S
        self._login = login
        self._ends_s = 0.0
        self._renew(login)

    def _renew(self, login: Login) -> None:
        self._login = login
        lifetime_ms = login.lifetime_ms
        self._ends_s = float("inf") if lifetime_ms is None else _now_s() + lifetime_ms / 1000

    def admit(self, context: Context, frame: memoryview) -> Awaitable[Frame | None] | None:
        """Take a SaslHandshake as the begin of a re-authentication; check other requests.

        Raises CloseConnection if the login has expired. A handshake that comes too soon, or when
        sessions have no time limit, is passed on.
        """
        now_s = _now_s()
        if context.api_key == ApiKey.SASL_HANDSHAKE and self._may_begin(now_s):
            self._began_s = now_s
            return self._log_in_again(bytes(frame))
        if now_s > self._ends_s:
            raise CloseConnection("its login has expired")
        return super().admit(context, frame)

    def _may_begin(self, now_s: float) -> bool:
        return self._ends_s != float("inf") and now_s - self._began_s >= MIN_REAUTH_INTERVAL_S

    async def _log_in_again(self, handshake: bytes) -> None:
        """Hold the SASL conversation with the client, and renew its login if it succeeds.

        `handshake` is the frame that began it.
        """
        connection = self._connection
        connection.waiting = False  # it waits for the client, so it may be idle for too long
        authenticator = Authenticator(self._sasl.mechanisms, connection.answer_now, self._login)
        login = await _converse(connection, self._sasl, authenticator, memoryview(handshake))
        if login is not None:
            connection.context.by_token = login.by_token
            self._renew(login)


def _now_s() -> float:
    return trio.lowlevel.current_clock().current_time()
