"""PLAIN (RFC 4616): name and password in one token, as `[authzid] NUL authcid NUL passwd`.

The error messages are those of Apache Kafka's PlainSaslServer; clients see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest

from kwire.security.sasl.exchange import AuthenticationError

USER_PREFIX = "user_"
"""The prefix of options in a JAAS line whose rest is a user's name and whose value its password."""


def users_of(options: Mapping[str, str]) -> dict[str, bytes]:
    """Return the passwords that the options of a PlainLoginModule give, by user."""
    return {
        name.removeprefix(USER_PREFIX): password.encode()
        for name, password in options.items()
        if name.startswith(USER_PREFIX)
    }


class PlainServer:
    """The server's side: compares the password with the user's."""

    expires_ms = None
    by_token = False

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self._users = users
        self.principal_name: str | None = None

    def respond(self, token: bytes) -> bytes:
        """Check name and password, set `principal_name`, and return the empty answer.

        Raises AuthenticationError with Kafka's message.
        """
        authorization_id, user, password = _split(token)
        if not user:
            raise AuthenticationError("Authentication failed: username not specified")
        if not password:
            raise AuthenticationError("Authentication failed: password not specified")
        if not self._is_right(user, password):
            raise AuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.principal_name = user
        return b""

    def _is_right(self, user: str, password: str) -> bool:
        """Return whether the password is right.

        An unknown user takes as long as a wrong password, so that the time does not reveal it: the
        password is compared with itself.
        """
        given = password.encode()
        expected = self._users.get(user)
        return compare_digest(given, given if expected is None else expected) and (
            expected is not None
        )


def _split(token: bytes) -> tuple[str, str, str]:
    """Return authorization id, user and password of the token; raises AuthenticationError."""
    parts = token.decode("utf-8", "replace").split("\0", 3)
    if len(parts) != 3:
        raise AuthenticationError(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        )
    authorization_id, user, password = parts
    return authorization_id, user, password


class PlainClient:
    """The client's side: sends name and password."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        return None
