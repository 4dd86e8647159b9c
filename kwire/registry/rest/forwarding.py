"""A request that changes something, sent on to the primary."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from kwire.registry.primary import InstanceIdentity
from kwire.registry.subjects.errors import forwarding_failed
from kwire.server.http.messages import HttpRequest

TIMEOUT_S: Final = 20.0
"""How long the primary has to answer.  Confluent's registry gives it 60 s (leader.read.timeout.ms),
and would wait that long for one that is paused."""
CONNECT_S: Final = 5.0
"""How long a connection and its TLS handshake may take."""
POLL_MS: Final = 200
"""How soon a wait for the primary ends after another one was elected."""
REPEATABLE: Final = ("POST", "PUT")
"""Methods whose second request has the answer of the first: what is registered again keeps its id,
and a config or mode is set to the same.  A second DELETE finds nothing to delete."""
FORWARDED: Final = "x-kwire-forwarded"
"""The header of a request that was sent on, which is not sent on again."""
OFFSET: Final = "x-kwire-offset"
"""The header of a response with the offset up to which the primary had applied the topic."""
SENT_ON: Final = ("authorization", "content-type", "accept")
RESPONSE_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024


class Forwarded(NamedTuple):
    """The primary's response."""

    status: int
    body: bytes
    offset: int
    """The offset up to which the primary had applied the topic; -1 if it does not say."""


class SendAgain(Exception):
    """The primary has not got the request, or did not answer one that may be sent twice."""


class Forwarder:
    """Sends requests on."""

    def __init__(self, authorities: Path | None = None) -> None:
        """`authorities` is a file of the certificates by which those of other instances are
        checked; without it, those of the system are."""
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None

    def forward(
        self,
        primary: InstanceIdentity,
        request: HttpRequest,
        is_replaced: Callable[[], bool] = lambda: False,
    ) -> Forwarded:
        """The primary's response.  The wait for it ends when `is_replaced` says that another
        instance is the primary.

        Raises SendAgain, or RegistryError if it does not respond to what may not be sent twice.
        """
        connection = self._connection(primary)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise SendAgain(str(error)) from error
            headers = {name: text for name, text in request.headers.items() if name in SENT_ON}
            headers[FORWARDED] = "1"
            body = request.body or None
            try:
                connection.sock.settimeout(TIMEOUT_S)
                connection.request(request.method, request.target, body, headers)
                _await_response(connection.sock, is_replaced)
                response = connection.getresponse()
                data = response.read(RESPONSE_SIZE_BYTES_MAX)
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
                if request.method in REPEATABLE:
                    raise SendAgain(reason) from error
                raise forwarding_failed(
                    f"Error while forwarding the request to the leader {primary.url}: {reason}"
                ) from error
            return Forwarded(response.status, data, int(response.getheader(OFFSET) or -1))
        finally:
            connection.close()

    def _connection(self, primary: InstanceIdentity) -> http.client.HTTPConnection:
        if primary.scheme != "https":
            return http.client.HTTPConnection(primary.host, primary.port, timeout=CONNECT_S)
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self._authorities)
        return http.client.HTTPSConnection(
            primary.host, primary.port, timeout=CONNECT_S, context=self._context
        )


def _await_response(connection: socket.socket, is_replaced: Callable[[], bool]) -> None:
    """Wait until there is something to read.  Raises TimeoutError, also if another instance is the
    primary now: the one that was asked is paused, or cannot write any more."""
    deadline = time.monotonic() + TIMEOUT_S
    poll = select.poll()  # select() takes no descriptor above 1,023, and a registry has 10,000
    poll.register(connection, select.POLLIN)
    while not poll.poll(POLL_MS):
        if is_replaced():
            raise TimeoutError("another instance became the leader before it answered")
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not answer within {TIMEOUT_S:g} s")
