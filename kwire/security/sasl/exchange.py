"""What a mechanism is to whoever carries its tokens, and how an exchange fails."""

from __future__ import annotations

from typing import Protocol


class SaslError(Exception):
    """The exchange has failed.

    Its text is for the log: it may say what the other side must not learn, such as whether there
    is such a user.  No secret is ever in it.
    """


class AuthenticationError(SaslError):
    """The exchange has failed, and the client is told so in these words."""


class BrokenExchange(Exception):
    """What came fits no exchange at all: Apache Kafka closes the connection without a word."""


class ServerExchange(Protocol):
    """The server's side of one login; it ends with `principal_name` set, or with an exception."""

    @property
    def principal_name(self) -> str | None:
        """Who it is, once the exchange is done; None before."""

    @property
    def expires_ms(self) -> int | None:
        """When what was proved ceases to be true, in ms since the epoch; None for never."""

    @property
    def by_token(self) -> bool:
        """Whether what was proved is to have a delegation token."""

    def respond(self, token: bytes) -> bytes:
        """The answer to the client's next token.  Raises SaslError, BrokenExchange."""


class ClientExchange(Protocol):
    """The client's side of one login."""

    def first(self) -> bytes:
        """The token that begins it."""

    def respond(self, token: bytes) -> bytes | None:
        """The answer to the server's next token, None where there is no more to say.

        Raises SaslError where the server is not who it ought to be, or makes no sense.
        """
