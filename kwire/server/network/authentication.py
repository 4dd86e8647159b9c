"""How a connection of a SASL listener finds out whose it is, before it serves and when asked again.

The connection's own task does it, so that what serves knows nothing of it; kwire.security has the
conversation.  Only a login that ends puts something in the way of requests: a `SessionGate`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import trio

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.primitives import Frame
from kwire.requests.context import CloseConnection, Context, InvalidSize
from kwire.requests.gate import PassingGate
from kwire.server.network.authenticator import AuthenticationFailed, Authenticator, Login

if TYPE_CHECKING:
    from kwire.requests.gate import Gate
    from kwire.security.listener_sasl import SaslListener
    from kwire.server.network.connection import Connection

MIN_REAUTH_INTERVAL_S = 1.0
"""How soon a client may log in again; one that asks sooner is told that it is logged in (Kafka)."""


async def log_in(connection: Connection, sasl: SaslListener) -> bool:
    """Find out who the client is; False when it goes before that is known.

    Raises CloseConnection where it is nobody.
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
    """Carry frames until the login is done, from `frame` on; None when the client goes."""
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
    except AuthenticationFailed as failure:
        await _turn_away(connection, sasl, failure)
    except InvalidSize as problem:
        await _turn_away(connection, sasl, AuthenticationFailed(str(problem)))
    finally:
        connection.frame_size_bytes_max = limit
    return authenticator.login


async def _turn_away(
    connection: Connection, sasl: SaslListener, failure: AuthenticationFailed
) -> None:
    """Tell the client after a while, so that nobody tries passwords fast, and close."""
    await trio.sleep(sasl.failure_delay_ms / 1000)
    if failure.reply is not None:
        await connection.reply(failure.reply)
    raise CloseConnection(f"failed authentication: {failure}")


class SessionGate(PassingGate):
    """In the way of each request of a login that ends: see `Gate`.

    Requests that come after the end close the connection; SaslHandshake begins a new login.
    """

    def __init__(
        self, connection: Connection, sasl: SaslListener, login: Login, behind: Gate | None
    ) -> None:
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
        connection = self._connection
        connection.waiting = False  # its client is waited for, not a request
        authenticator = Authenticator(self._sasl.mechanisms, connection.answer_now, self._login)
        login = await _converse(connection, self._sasl, authenticator, memoryview(handshake))
        if login is not None:
            connection.context.by_token = login.by_token
            self._renew(login)


def _now_s() -> float:
    return trio.lowlevel.current_clock().current_time()
