"""A JSON Web SigningKey Set (RFC 7517), and the choice of the key that verifies a token.

The choice is that of jose4j's VerificationJwkSelector, which Apache Kafka uses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from jwt import PyJWK
from jwt.exceptions import PyJWTError

_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "HS": "oct", "Ed": "OKP"}
"""Key types by the first two letters of an algorithm's name."""
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "ES256K": "secp256k1"}
_RSA_BITS_MIN: Final = 2048


class BadKeys(Exception):
    """The document is not a set of keys."""


class SigningKey(NamedTuple):
    """One key, with its members in the set's document."""

    members: Mapping[str, Any]

    def says(self, name: str, value: str, *, or_nothing: bool = True) -> bool:
        """Whether member `name` has `value`, or, with `or_nothing`, is missing."""
        member = self.members.get(name)
        return member == value or (or_nothing and member is None)

    def for_algorithm(self, algorithm: str) -> PyJWK | None:
        """Return the key for `algorithm`, or None if it does not fit or is too short to be
        secure.
        """
        try:
            key = PyJWK(dict(self.members), algorithm)
            weakness = key.Algorithm.check_key_length(key.key)
        except (PyJWTError, ValueError, TypeError):
            return None
        return None if weakness else key


class KeySet:
    """The keys of one document."""

    def __init__(self, keys: Iterable[SigningKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, header: Mapping[str, Any]) -> PyJWK | None:
        """Return the key for a token with this header, or None."""
        algorithm = header["alg"]
        candidates = [key for key in self._keys if _may_have_signed(key, header)]
        candidates = _narrowed(candidates, lambda key: key.says("alg", algorithm))
        if algorithm in _CURVES:
            candidates = _narrowed(candidates, lambda key: key.says("crv", _CURVES[algorithm]))
        return candidates[0].for_algorithm(algorithm) if candidates else None


def _may_have_signed(key: SigningKey, header: Mapping[str, Any]) -> bool:
    """Return whether the key fits the token's header by key id, use and key type.

    A token without a key id fits every key id.
    """
    kid = header.get("kid")
    return (
        (kid is None or key.says("kid", kid, or_nothing=False))
        and key.says("use", "sig")
        and key.says("kty", _KEY_TYPES.get(header["alg"][:2], ""), or_nothing=False)
    )


def _narrowed(keys: list[SigningKey], fits: Callable[[SigningKey], bool]) -> list[SigningKey]:
    return [key for key in keys if fits(key)] if len(keys) > 1 else keys


def read_keys(data: bytes) -> KeySet:
    """Return the keys of a JWKS document.  Raises BadKeys.

    Entries that are not keys, or have no key type, are left out.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BadKeys("the document is not JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise BadKeys('the document has no list of "keys"')
    return KeySet(SigningKey(key) for key in keys if isinstance(key, dict) and key.get("kty"))
