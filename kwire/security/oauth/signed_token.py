"""A signed JWT (RFC 7519) as Apache Kafka's BrokerJwtValidator takes one.

PyJWT checks the signature; what a token must say is checked here, by the rules of jose4j's
JwtConsumer, whom Apache Kafka asks, and of its ClaimValidationUtils.
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
from kwire.security.sasl.oauthbearer import BadToken, Token

FindKey = Callable[[Mapping[str, Any]], PyJWK | None]
"""The key that a token with such a header must be signed with."""

_JWS: Final = PyJWS()
_LONG_MAX: Final = 2**63 - 1


class SignedRules(NamedTuple):
    """What is set about tokens: `sasl.oauthbearer.*`."""

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    sub_claim: str = "sub"


def validate_signed(token: str, rules: SignedRules, find_key: FindKey, now_ms: int) -> Token:
    """What a token says that is signed by one of the keys.

    Raises BadToken, and BrokenExchange where Apache Kafka closes the connection.
    """
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise BadToken("it has not three sections")
    claims = _json(_signed_by_one_of_the_keys(token, _json(_decoded(parts[0])), find_key))
    expires_s, issued_s = _time(claims, "exp"), _time(claims, "iat")
    if expires_s is None or issued_s is None:
        raise BadToken("it does not say when it was issued, or expires")
    _check_times(expires_s, issued_s, _time(claims, "nbf"), rules.clock_skew_s, now_ms)
    _check_parties(claims, rules)
    _check_scopes(claims.get(rules.scope_claim))
    if max(expires_s, issued_s) > _LONG_MAX // 1000:
        raise BrokenExchange("a token with times that are none")
    if min(expires_s, issued_s) < 0:
        raise BadToken("its times are none")
    return Token(_subject(claims.get(rules.sub_claim)), expires_s * 1000)


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise BadToken("a section is no base64") from None


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise BadToken("a section is no JSON") from None
    if not isinstance(found, dict):
        raise BadToken("a section is no JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Nobody may read one value where somebody else reads the other."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadToken("a name comes twice")
    return found


def _signed_by_one_of_the_keys(token: str, header: Mapping[str, Any], find_key: FindKey) -> bytes:
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm == "none":
        raise BadToken("it is not signed")
    if kid is not None and not isinstance(kid, str):
        raise BadToken("its key has no name")
    key = find_key(header)
    if key is None:
        raise BadToken(f"there is no key {kid!r} for {algorithm}")
    try:
        payload: bytes = _JWS.decode(token, key, algorithms=[algorithm])
    except PyJWTError as problem:
        raise BadToken(str(problem)) from None
    return payload


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """Seconds since the epoch; fractions are cut off, as Java's longValue does."""
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or math.isnan(found):
        raise BadToken(f"{name} is no number")
    if isinstance(found, int) and abs(found) > _LONG_MAX:
        raise BadToken(f"{name} is beyond all time")
    return int(max(-_LONG_MAX, min(found, _LONG_MAX)))


def _check_times(
    expires_s: int, issued_s: int, not_before_s: int | None, clock_skew_s: int, now_ms: int
) -> None:
    now_s = now_ms // 1000
    if now_s - clock_skew_s >= expires_s:
        raise BadToken("it has expired")
    if expires_s < issued_s:
        raise BadToken("it expires before it was issued")
    if not_before_s is not None:
        if expires_s < not_before_s:
            raise BadToken("it expires before it is good")
        if now_s + clock_skew_s < not_before_s:
            raise BadToken("it is not good yet")


def _check_parties(claims: Mapping[str, Any], rules: SignedRules) -> None:
    """A token that names whom it is for is for nobody else, even if none is expected here."""
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if named is not None and not (
        isinstance(named, list) and all(isinstance(each, str) for each in named)
    ):
        raise BadToken("aud names nobody")
    if rules.audiences.isdisjoint(named or ()) and (rules.audiences or named is not None):
        raise BadToken("it is for another audience")
    issuer = claims.get("iss")
    if issuer is not None and not isinstance(issuer, str):
        raise BadToken("iss is no text")
    if rules.issuer is not None and issuer != rules.issuer:
        raise BadToken(f"its issuer is not {rules.issuer}")
    for name in ("sub", "jti"):
        if not isinstance(claims.get(name, ""), str | None):
            raise BadToken(f"{name} is no text")


def _check_scopes(said: object) -> None:
    scopes = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    if not all(isinstance(each, str) and each.strip() for each in scopes):
        raise BadToken("a scope is empty")
    if len({each.strip() for each in scopes}) != len(scopes):
        raise BadToken("a scope comes twice")


def _subject(said: object) -> str:
    if not isinstance(said, str) or not said.strip():
        raise BadToken("it names nobody")
    return said.strip()
