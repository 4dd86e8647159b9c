"""Validates signed JWT (RFC 7519) with the rules of Apache Kafka's BrokerJwtValidator.

PyJWT checks the signature.  This module checks the claims, with the rules of jose4j's JwtConsumer,
which Apache Kafka uses, and of Kafka's ClaimValidationUtils.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from kwire.security.sasl.exchange import BrokenExchange
from kwire.security.sasl.oauthbearer import BadToken, ValidatedToken

FindKey = Callable[[Mapping[str, Any]], PyJWK | None]
"""Finds the key with which a token with this header must be signed."""

_JWS: Final = PyJWS()
_LONG_MAX: Final = 2**63 - 1


class SignedRules(NamedTuple):
    """The settings `sasl.oauthbearer.*` about tokens.

    Without audiences, or without an issuer, tokens of any are valid.
    """

    audiences: frozenset[str] | None = None
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    sub_claim: str = "sub"


def validate_signed(
    token: str, rules: SignedRules, find_key: FindKey, now_ms: int
) -> ValidatedToken:
    """Return the claims of a token, whose signature one of the keys must have made.

    Raises BadToken, and BrokenExchange if Apache Kafka closes the connection.
    """
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise BadToken("the token does not have three sections")
    claims = _json(_verified_payload(token, _json(_decoded(parts[0])), find_key))
    expires_s, issued_s = _time(claims, "exp"), _time(claims, "iat")
    if expires_s is None or issued_s is None:
        raise BadToken("the token has no issue time or no expiry time")
    _check_times(expires_s, issued_s, _time(claims, "nbf"), rules.clock_skew_s, now_ms)
    _check_parties(claims, rules)
    _check_scopes(claims.get(rules.scope_claim))
    if max(expires_s, issued_s) > _LONG_MAX // 1000:
        raise BrokenExchange("a time of the token is too large")
    if min(expires_s, issued_s) < 0:
        raise BadToken("a time of the token is negative")
    return ValidatedToken(_subject(claims.get(rules.sub_claim)), expires_s * 1000)


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise BadToken("a section of the token is not base64") from None


def _json(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a section; raises BadToken, also for a name that is twice in it."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise BadToken("a section of the token is not JSON") from None
    if not isinstance(value, dict):
        raise BadToken("a section of the token is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dict; BadToken for a repeated name, because parsers differ in its value."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BadToken("a name occurs twice in the token")
    return members


def _verified_payload(token: str, header: Mapping[str, Any], find_key: FindKey) -> bytes:
    """Return the payload of a token, once its signature is verified."""
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm == "none":
        raise BadToken("the token is not signed")
    if kid is not None and not isinstance(kid, str):
        raise BadToken("the token's key id is not a string")
    key = find_key(header)
    if key is None:
        raise BadToken(f"no key {kid!r} for {algorithm} exists")
    try:
        payload: bytes = _JWS.decode(token, key, algorithms=[algorithm])
    except PyJWTError as problem:
        raise BadToken(str(problem)) from None
    return payload


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """Return the claim in seconds since the epoch, without fractions, as Java's longValue has
    it.
    """
    time_s = claims.get(name)
    if time_s is None:
        return None
    if isinstance(time_s, bool) or not isinstance(time_s, int | float) or math.isnan(time_s):
        raise BadToken(f"{name} is not a number")
    if isinstance(time_s, int) and abs(time_s) > _LONG_MAX:
        raise BadToken(f"{name} is too large")
    return int(max(-_LONG_MAX, min(time_s, _LONG_MAX)))


def _check_times(
    expires_s: int, issued_s: int, not_before_s: int | None, clock_skew_s: int, now_ms: int
) -> None:
    """Raise BadToken if the token is not valid now or its times contradict each other.

    Clocks may differ by `clock_skew_s`.
    """
    now_s = now_ms // 1000
    if now_s - clock_skew_s >= expires_s:
        raise BadToken("the token has expired")
    if expires_s < issued_s:
        raise BadToken("the token expires before it was issued")
    if not_before_s is not None:
        if expires_s < not_before_s:
            raise BadToken("the token expires before it becomes valid")
        if now_s + clock_skew_s < not_before_s:
            raise BadToken("the token is not valid yet")


def _check_parties(claims: Mapping[str, Any], rules: SignedRules) -> None:
    """Check audience, issuer, subject and id.  Raises BadToken."""
    if rules.audiences is not None:
        _check_audience(claims.get("aud"), rules.audiences)
    issuer = claims.get("iss")
    if issuer is not None and not isinstance(issuer, str):
        raise BadToken("iss is not a string")
    if rules.issuer is not None and issuer != rules.issuer:
        raise BadToken(f"the token's issuer is not {rules.issuer}")
    for name in ("sub", "jti"):
        if not isinstance(claims.get(name, ""), str | None):
            raise BadToken(f"{name} is not a string")


def _check_audience(claim: object, expected: frozenset[str]) -> None:
    """Raise BadToken unless the token is for one of the expected audiences."""
    audiences = [claim] if isinstance(claim, str) else claim
    if audiences is None:
        audiences = []
    if not isinstance(audiences, list) or not all(isinstance(name, str) for name in audiences):
        raise BadToken("aud is neither a string nor a list of strings")
    if expected.isdisjoint(audiences):
        raise BadToken("the token is for another audience")


def _check_scopes(claim: object) -> None:
    """Raise BadToken if a scope is empty or occurs twice."""
    scopes = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    if not all(isinstance(scope, str) and scope.strip() for scope in scopes):
        raise BadToken("a scope of the token is empty")
    if len({scope.strip() for scope in scopes}) != len(scopes):
        raise BadToken("a scope occurs twice in the token")


def _subject(claim: object) -> str:
    if not isinstance(claim, str) or not claim.strip():
        raise BadToken("the token has no subject")
    return claim.strip()
