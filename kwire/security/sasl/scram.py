"""SCRAM (RFC 5802, RFC 7677): client and server prove that they know a password without sending it.

    client-first   n,[a=authzid],n=user,r=nonce[,extensions]
    server-first   r=nonce and more of it,s=salt,i=iterations
    client-final   c=biws,r=that nonce,p=proof
    server-final   v=signature

The server stores a `Credential` and no password.  Formats, checks and the order of the checks are
those of Apache Kafka's ScramSaslServer: an unknown user fails at the first message, a wrong proof
at the last.  Extensions of the last message are not signed.  The extension `tokenauth=true` of the
first message says that the user name is the id of a delegation token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kwire.security.sasl.exchange import AuthenticationError, BrokenExchange, SaslError

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""For each mechanism the name of its hash."""

TOKEN_EXTENSION: Final = "tokenauth"

_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<user>{_SASLNAME}),"
    rf"r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproved>c={_BASE64},r=(?P<nonce>{_PRINTABLE})){_EXTENSIONS},p=(?P<proof>{_BASE64})"
)
_SERVER_FIRST = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]+)"
    rf"{_EXTENSIONS}"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


class Credential(NamedTuple):
    """What a server stores instead of a password; `text` and `parse` have Kafka's form of it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        # The keys would allow guessing the password.
        return f"<Credential of {self.iterations} iterations>"

    @property
    def text(self) -> str:
        """The form of Apache Kafka 3.9 in ZooKeeper (ScramCredentialUtils)."""
        salt, stored_key, server_key = (base64.b64encode(part).decode() for part in self[:3])
        return (
            f"salt={salt},stored_key={stored_key},server_key={server_key},"
            f"iterations={self.iterations}"
        )

    @classmethod
    def parse(cls, text: str) -> Credential:
        """Read the form of `text`.  Raises ValueError, whose message does not have the text."""
        fields = dict(part.strip().partition("=")[::2] for part in text.split(","))
        try:
            salt, stored_key, server_key = (
                base64.b64decode(fields[name], validate=True)
                for name in ("salt", "stored_key", "server_key")
            )
            return cls(salt, stored_key, server_key, int(fields["iterations"]))
        except (KeyError, ValueError):
            raise ValueError("Credentials not valid: no salt, keys and iterations") from None


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The function Hi of RFC 5802.  As in Apache Kafka there is no SASLprep of the password."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential that a server stores for a salted password."""
    digest = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    return Credential(salt, stored_key, hmac.digest(salted, b"Server Key", digest), iterations)


class Account(NamedTuple):
    """A user's credential and when it expires (ms since the epoch, None for never).

    `principal_name` is the user's name, or the owner if the user name is a delegation token's id.
    """

    credential: Credential
    principal_name: str
    expires_ms: int | None = None


Find = Callable[[str, bool], Account | None]
"""Finds the account of a user, or, if the flag is true, of a delegation token."""


class ScramServer:
    """The server's side; `new_nonce` returns a unique printable nonce."""

    def __init__(self, mechanism: str, find: Find, new_nonce: Callable[[], str]) -> None:
        """Begin an exchange; `find` returns the account of a user or token, `new_nonce` a random
        text.
        """
        self._digest = HASHES[mechanism]
        self._find = find
        self._new_nonce = new_nonce
        self._account: Account | None = None
        self._first = b""
        """Both first messages in the form that is signed."""
        self._nonce = ""
        self.principal_name: str | None = None
        self.by_token = False

    @property
    def expires_ms(self) -> int | None:
        return None if self._account is None else self._account.expires_ms

    def respond(self, token: bytes) -> bytes:
        return self._respond_to_first(token) if self._account is None else self._finish(token)

    def _respond_to_first(self, token: bytes) -> bytes:
        """Return the server's first message: nonce, salt and iterations of the user.

        Raises SaslError for a bad message or an unknown user.
        """
        match = _CLIENT_FIRST.fullmatch(token.decode("utf-8", "replace"))
        if match is None:
            raise SaslError("Invalid SCRAM client first message format")
        user = unescaped(match["user"])
        by_token = _extensions(match["extensions"]).get(TOKEN_EXTENSION, "").lower() == "true"
        account = self._find(user, by_token)
        if account is None:
            raise SaslError("Authentication failed: Invalid user credentials")
        if match["authzid"] and match["authzid"] != user:
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        credential = account.credential
        if credential.iterations < MIN_ITERATIONS:
            raise SaslError(f"Iterations {credential.iterations} is less than {MIN_ITERATIONS}")
        self._nonce = match["nonce"] + self._new_nonce()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        self._account, self.by_token = account, by_token
        self._first = match["bare"].encode() + b"," + answer
        return answer

    def _finish(self, token: bytes) -> bytes:
        """Check the client's proof, set `principal_name`, and return the server's own proof.

        Raises SaslError if the proof is wrong. The stored key is the hash of the client key, so the
        broker never holds the password.
        """
        assert self._account is not None
        if self.principal_name is not None:
            raise BrokenExchange("received a SCRAM message after the last one")
        match = _CLIENT_FINAL.fullmatch(token.decode("utf-8", "replace"))
        if match is None:
            raise SaslError("Invalid SCRAM client final message format")
        if match["nonce"] != self._nonce:
            raise SaslError("Invalid client nonce in the final client message.")
        credential = self._account.credential
        signed = self._first + b"," + match["unproved"].encode()
        signature = hmac.digest(credential.stored_key, signed, self._digest)
        client_key = xor(signature, base64.b64decode(match["proof"]))
        stored_key = hashlib.new(self._digest, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise SaslError("Invalid client credentials")
        self.principal_name = self._account.principal_name
        proof = hmac.digest(credential.server_key, signed, self._digest)
        return b"v=" + base64.b64encode(proof)


class ScramClient:
    """The client's side; with `by_token` the user name is the id of a delegation token."""

    def __init__(
        self, mechanism: str, user: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        """Begin a login; `by_token` says that user and password are a delegation token and its
        HMAC.
        """
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        extension = f",{TOKEN_EXTENSION}=true" if by_token else ""
        self._bare = f"n={escaped(user)},r={nonce}{extension}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        return b"n,," + self._bare.encode()

    def respond(self, token: bytes) -> bytes | None:
        """Return the next message for the server's `token`; None after the last, which is
        checked."""
        text = token.decode("utf-8", "replace")
        if self._signature is None:
            return self._prove(text)
        self._check(text, self._signature)
        return None

    def _prove(self, text: str) -> bytes:
        """Return the final message with the proof, for the server's first message `text`.

        Raises SaslError if that is invalid or asks for too few iterations.
        """
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise SaslError("Invalid SCRAM server first message format")
        if not match["nonce"].startswith(self._nonce):
            raise SaslError("Invalid server nonce: does not start with client nonce")
        iterations = int(match["iterations"])
        if iterations < MIN_ITERATIONS:
            raise SaslError(f"Requested iterations {iterations} is less than {MIN_ITERATIONS}")
        salt, digest = base64.b64decode(match["salt"]), HASHES[self._mechanism]
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        unproved = f"c=biws,r={match['nonce']}"
        signed = f"{self._bare},{text},{unproved}".encode()
        credential = credential_of(self._mechanism, salted, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        proof = xor(client_key, hmac.digest(credential.stored_key, signed, digest))
        self._signature = hmac.digest(credential.server_key, signed, digest)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, text: str, signature: bytes) -> None:
        """Raise SaslError unless the server's final message has the expected signature.

        It proves that the server knows the user's credential.
        """
        match = _SERVER_FINAL.fullmatch(text)
        if match is None:
            raise SaslError("Invalid SCRAM server final message format")
        if match["error"] is not None:
            raise SaslError(f"Sasl authentication using {self._mechanism} failed with an error")
        if not hmac.compare_digest(base64.b64decode(match["signature"]), signature):
            raise SaslError("Invalid server signature in server final message")


def escaped(user: str) -> str:
    """A user name in the form of SCRAM messages."""
    return user.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def xor(one: bytes, other: bytes) -> bytes:
    """The bitwise XOR.  Raises BrokenExchange if the lengths differ, where Apache Kafka fails."""
    if len(one) != len(other):
        raise BrokenExchange("the proof and the hash differ in length")
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def _extensions(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split(",")[1:])
