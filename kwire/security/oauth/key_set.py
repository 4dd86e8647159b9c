"""Keys that sign tokens: a JSON Web Key Set (RFC 7517), and which of its keys a token means.

The choice is that of jose4j's VerificationJwkSelector, which Apache Kafka asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from jwt import PyJWK
from jwt.exceptions import PyJWTError

_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "HS": "oct", "Ed": "OKP"}
"""By the first letters of an algorithm's name."""
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "ES256K": "secp256k1"}
_RSA_BITS_MIN: Final = 2048


class BadKeys(Exception):
    """What was read is no set of keys."""


class Key(NamedTuple):
    """One that may have signed, as the set describes it."""

    members: Mapping[str, Any]

    def says(self, name: str, value: str, *, or_nothing: bool = True) -> bool:
        """Whether the key is described so, or, where that will do, not at all."""
        said = self.members.get(name)
        return said == value or (or_nothing and said is None)

    def for_algorithm(self, algorithm: str) -> PyJWK | None:
        """The key itself; None where it cannot sign by `algorithm`, or is too short to be safe."""
        try:
            key = PyJWK(dict(self.members), algorithm)
            weakness = key.Algorithm.check_key_length(key.key)
        except (PyJWTError, ValueError, TypeError):
            return None
        return None if weakness else key


class KeySet:
    """All keys of one place."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, header: Mapping[str, Any]) -> PyJWK | None:
        """The key that a token with this header means; None where there is none."""
        algorithm = header["alg"]
        found = [key for key in self._keys if _may_have_signed(key, header)]
        found = _narrowed(found, lambda key: key.says("alg", algorithm))
        if algorithm in _CURVES:
            found = _narrowed(found, lambda key: key.says("crv", _CURVES[algorithm]))
        return found[0].for_algorithm(algorithm) if found else None


def _may_have_signed(key: Key, header: Mapping[str, Any]) -> bool:
    kid = header.get("kid")
    return (
        (kid is None or key.says("kid", kid, or_nothing=False))
        and key.says("use", "sig")
        and key.says("kty", _KEY_TYPES.get(header["alg"][:2], ""), or_nothing=False)
    )


def _narrowed(keys: list[Key], fits: Callable[[Key], bool]) -> list[Key]:
    return [key for key in keys if fits(key)] if len(keys) > 1 else keys


def read_keys(data: bytes) -> KeySet:
    """The keys of a JWKS document.  Raises BadKeys.

    A key that says nothing of its kind is left out, as are all that are no keys.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise BadKeys("it is no JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise BadKeys('it has no list of "keys"')
    return KeySet(Key(each) for each in keys if isinstance(each, dict) and each.get("kty"))
