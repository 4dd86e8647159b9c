"""How a client's connections are encrypted, by Kafka's own client properties."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Final

from kwire.client.errors import AuthenticationFailed, Misuse
from kwire.security.tls.context import client_context
from kwire.security.tls.error import TlsError, reason_of
from kwire.security.tls.options import read_options

PROTOCOLS: Final = ("PLAINTEXT", "SSL")


class ClientSecurity:
    """What `security.protocol` and `ssl.*` of a client's properties ask for.

    Raises Misuse where they cannot be followed.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise Misuse(
                f"security.protocol={protocol} is not spoken: it is one of {', '.join(PROTOCOLS)}"
            )
        self._context: ssl.SSLContext | None = None
        if protocol == "SSL":
            try:
                self._context = client_context(read_options(properties))
            except TlsError as problem:
                raise Misuse(str(problem)) from None

    def wrap(self, plain: socket.socket, host: str) -> socket.socket:
        """`plain` as it is to be spoken through, which is `plain` where nothing is encrypted.

        Raises AuthenticationFailed, as Apache Kafka's client does, or OSError.
        """
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLError as problem:
            plain.close()
            raise AuthenticationFailed(
                f"SSL handshake with {host} failed: {reason_of(problem, 'its')}"
            ) from problem
