"""A request that changes something, sent on to the primary."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from kwire.registry.primary import InstanceIdentity
from kwire.registry.subjects.errors import forwarding_failed
from kwire.server.http.messages import HttpRequest

TIMEOUT_S: Final = 60.0
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


class NotSent(Exception):
    """The primary could not be reached, so it has not got the request."""


class Forwarder:
    """Sends requests on."""

    def __init__(self, authorities: Path | None = None) -> None:
        """`authorities` is a file of the certificates by which those of other instances are
        checked; without it, those of the system are."""
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None

    def forward(self, primary: InstanceIdentity, request: HttpRequest) -> Forwarded:
        """The primary's response.  Raises NotSent, or RegistryError if it does not respond."""
        connection = self._connection(primary)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise NotSent(str(error)) from error
            headers = {name: text for name, text in request.headers.items() if name in SENT_ON}
            headers[FORWARDED] = "1"
            try:
                connection.request(request.method, request.target, request.body or None, headers)
                response = connection.getresponse()
                data = response.read(RESPONSE_SIZE_BYTES_MAX)
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
                raise forwarding_failed(
                    f"Error while forwarding the request to the leader {primary.url}: {reason}"
                ) from error
            return Forwarded(response.status, data, int(response.getheader(OFFSET) or -1))
        finally:
            connection.close()

    def _connection(self, primary: InstanceIdentity) -> http.client.HTTPConnection:
        if primary.scheme != "https":
            return http.client.HTTPConnection(primary.host, primary.port, timeout=TIMEOUT_S)
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self._authorities)
        return http.client.HTTPSConnection(
            primary.host, primary.port, timeout=TIMEOUT_S, context=self._context
        )
