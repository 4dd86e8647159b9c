"""The interface of a SASL mechanism, and the errors of an exchange."""

from __future__ import annotations

from typing import Protocol


class SaslError(Exception):
    """The exchange has failed.

    The message is for the log only: it may say what the other side must not learn, for example
    whether a user exists.  It never has a secret.
    """


class AuthenticationError(SaslError):
    """The exchange has failed, and the client gets this message."""


class BrokenExchange(Exception):
    """The token does not fit the exchange at all: Apache Kafka closes the connection silently."""


class ServerExchange(Protocol):
    """The server's side of one exchange; it ends with `principal_name` set or an exception."""

    @property
    def principal_name(self) -> str | None:
        """The name of the authenticated client; None until the exchange is complete."""

    @property
    def expires_ms(self) -> int | None:
        """When the authentication expires, in ms since the epoch; None for never."""

    @property
    def by_token(self) -> bool:
        """Whether the client authenticated with a delegation token."""

    def respond(self, token: bytes) -> bytes:
        """The answer to the client's next token.  Raises SaslError, BrokenExchange."""


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The first token."""

    def respond(self, token: bytes) -> bytes | None:
        """The answer to the server's next token, or None if the exchange is complete.

        Raises SaslError if the server cannot prove its identity, or its token is invalid.
        """
