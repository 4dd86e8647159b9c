"""OAUTHBEARER (RFC 7628): the client sends a token with its name and an expiry time.

    n,[a=authzid],^Aauth=Bearer token^A[key=value^A...]^A

The server answers an invalid token with a JSON error; the client's next message then ends the
exchange with the same error.  This module validates unsecured JWS, which are for development only:
they have no signature, so a client can claim any name.  The checks are those of Apache Kafka's
OAuthBearerUnsecuredValidatorCallbackHandler.  kwire.security.oauth validates signed tokens.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kwire.security.sasl.exchange import AuthenticationError, BrokenExchange, SaslError

_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_INITIAL = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"(?P<scheme>\w+)[ ]+(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_ERROR_SEEN: Final = b"\x01"

INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"


class BadToken(Exception):
    """The token is invalid; `scope` is the required scope that it lacks."""

    def __init__(self, why: str, scope: str | None = None) -> None:
        super().__init__(why)
        self.scope = scope


class ValidatedToken(NamedTuple):
    """The claims of a valid token."""

    principal_name: str
    expires_ms: int


Validate = Callable[[str], ValidatedToken]
"""Validates a token; raises BadToken."""


class UnsecuredRules(NamedTuple):
    """What an unsecured token must have, from the options of a login module."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> UnsecuredRules:
        """Return the rules in the options of a login module; raises ValueError."""
        skew = options.get("unsecuredValidatorAllowableClockSkewMs", "").strip()
        return cls(
            options.get("unsecuredValidatorPrincipalClaimName", "").strip() or "sub",
            options.get("unsecuredValidatorScopeClaimName", "").strip() or "scope",
            tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
            int(skew or 0),
        )


class OAuthBearerServer:
    """The server's side of the exchange."""

    by_token = False

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refused: str | None = None
        self.principal_name: str | None = None
        self.expires_ms: int | None = None

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's token: empty if it is valid, else the error as JSON.

        After such an error the client sends one more token (RFC 7628), and AuthenticationError is
        raised. It is raised at once if the client asks for another name than the token's.
        """
        if self._refused is not None and token == _ERROR_SEEN:
            raise AuthenticationError(self._refused)
        self._refused = None
        authorization_id, bearer = _initial(token)
        try:
            validated = self._validate(bearer)
        except BadToken as problem:
            self._refused = _refusal(problem)
            return self._refused.encode()
        if authorization_id and authorization_id != validated.principal_name:
            raise AuthenticationError(
                "Authentication failed: Client requested an authorization id "
                f"({authorization_id}) that is different from the token's principal name "
                f"({validated.principal_name})"
            )
        self.principal_name, self.expires_ms = validated
        return b""


def _initial(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the bearer token in a client's first message."""
    match = _INITIAL.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise SaslError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    if "auth" not in pairs:
        raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise BrokenExchange("Invalid scheme in OAUTHBEARER client first message")
    return match["authzid"] or "", auth["token"]


def _refusal(problem: BadToken) -> str:
    if problem.scope is None:
        return f'{{"status":"{INVALID_TOKEN}"}}'
    return f'{{"status":"{INSUFFICIENT_SCOPE}", "scope":"[{problem.scope}]"}}'


def validate_unsecured(token: str, rules: UnsecuredRules, now_ms: int) -> ValidatedToken:
    """Return the claims of an unsecured JWS.

    Raises BadToken, and BrokenExchange if Apache Kafka closes the connection.
    """
    parts = token.split(".")
    if len(parts) != 3 or ".." in token:
        raise BadToken("the token is not an unsecured JWS in compact form")
    header, claims, signature = _json(parts[0]), _json(parts[1]), parts[2]
    if "alg" not in header:
        raise BrokenExchange("the token's header has no algorithm")
    if header["alg"] != "none" or signature:
        raise BadToken("the token is signed, but the listener accepts unsecured tokens only")
    principal = claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise BadToken(f"the token has no name in the claim {rules.principal_claim}")
    expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    if expires_ms is None or now_ms - rules.clock_skew_ms >= expires_ms:
        raise BadToken("the token has expired, or has no expiry time")
    if issued_ms is not None and (
        issued_ms - rules.clock_skew_ms > now_ms or expires_ms <= issued_ms
    ):
        raise BadToken("the token was issued in the future, or after its expiry time")
    _require_scope(claims.get(rules.scope_claim), rules.required_scope)
    return ValidatedToken(principal, expires_ms)


def _json(part: str) -> dict[str, Any]:
    """Return the JSON object of a part of the token.

    Raises BadToken if it is no JSON; BrokenExchange, which ends the connection, if it is JSON, but
    no object.
    """
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise BadToken("a part of the token is not JSON") from None
    if not isinstance(value, dict):
        raise BrokenExchange("a part of the token is not a JSON object")
    return value


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """Return the time of a claim in ms since 1970, None if it is absent; raises BadToken."""
    if name not in claims:
        return None
    seconds = claims[name]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise BadToken(f"{name} is not a number")
    try:
        return round(seconds * 1000)
    except (OverflowError, ValueError):  # JSON has no infinity, but Python's parser accepts it
        raise BadToken(f"{name} is not a time") from None


def _require_scope(claim: object, required: tuple[str, ...]) -> None:
    """A string is one scope, even with spaces; several scopes are a list."""
    scopes = [claim.strip()] if isinstance(claim, str) else claim if isinstance(claim, list) else ()
    if any(scope not in scopes for scope in required):
        raise BadToken("the token lacks a required scope", ", ".join(required))


def expires_ms_of(token: str) -> int | None:
    """Return the unverified expiry time of a token in ms since the epoch, or None if it has
    none.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return _time_ms(_json(parts[1]), "exp")
    except (BadToken, BrokenExchange):
        return None


def unsecured_token(principal: str, issued_ms: int, expires_ms: int) -> str:
    """Return an unsecured JWS with these claims."""
    claims = {"sub": principal, "iat": issued_ms / 1000, "exp": expires_ms / 1000}
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)
    )
    return "".join(part.decode().rstrip("=") + "." for part in parts)


class OAuthBearerClient:
    """The client's side: sends a token."""

    def __init__(self, token: str) -> None:
        self._message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        return self._message

    def respond(self, token: bytes) -> bytes | None:
        return _ERROR_SEEN if token else None
