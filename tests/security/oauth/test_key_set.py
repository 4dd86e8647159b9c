"""The choice of the key for a token's header."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kwire.security.oauth.key_set import BadKeys, KeySet, SigningKey, read_keys
from tests.security.jwt_dialogues import jwk

RSA, OTHER = jwk("rsa"), jwk("any rsa")


def found(header: dict[str, Any], *keys: dict[str, Any]) -> str | None:
    """The id of the key that a header selects."""
    key = KeySet(map(SigningKey, keys)).find(header)
    return None if key is None else key.key_id


def changed(key: dict[str, Any], **members: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A key with changed members; a member that is None is removed."""
    return {name: said for name, said in {**key, **members}.items() if said is not None}


def test_key_is_found_by_its_id() -> None:
    assert found({"alg": "RS256", "kid": "any rsa"}, RSA, OTHER) == "any rsa"
    assert found({"alg": "RS256", "kid": "none"}, RSA, OTHER) is None
    assert found({"alg": "RS256", "kid": "rsa"}, changed(RSA, kid=None)) is None
    assert found({"alg": "RS256"}, RSA, OTHER) == "rsa", "the first, where no name is asked for"
    assert found({"alg": "RS256"}) is None


def test_key_must_have_the_type_and_use_of_the_token() -> None:
    assert found({"alg": "RS256"}, changed(RSA, use="enc"), OTHER) == "any rsa"
    assert found({"alg": "RS256"}, changed(RSA, use="sig"), OTHER) == "rsa"
    assert found({"alg": "RS256"}, changed(RSA, kty=None), OTHER) == "any rsa"
    assert found({"alg": "RS256"}, changed(RSA, kty="EC"), OTHER) == "any rsa"
    assert found({"alg": "PS256"}, OTHER) == "any rsa"
    assert found({"alg": "none"}, RSA) is None


def test_key_with_the_tokens_algorithm_is_preferred() -> None:
    said = changed(OTHER, alg="RS256")
    assert found({"alg": "RS256"}, changed(RSA, alg="RS512"), said) == "any rsa"
    assert found({"alg": "RS256"}, RSA, said) == "rsa", "one that says nothing may be it"
    # A single one is taken, whatever it says.
    assert found({"alg": "RS256"}, changed(RSA, alg="RS512")) == "rsa"


def test_key_with_the_curve_of_the_algorithm_is_preferred() -> None:
    first, second = jwk("ES256"), jwk("ES384")
    assert found({"alg": "ES384"}, first, second) == "ES384"
    assert found({"alg": "ES256"}, second, first) == "ES256"
    assert found({"alg": "ES512"}, first, second) is None
    assert found({"alg": "ES384"}, jwk("ES512"), first) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"{", "the document is not JSON"), (b"[]", 'no list of "keys"'), (b'{"keys":{}}', "no list")],
)
def test_invalid_key_set_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadKeys, match=said):
        read_keys(data)


def test_entries_that_are_not_keys_are_left_out() -> None:
    keys = [RSA, 7, {}, {"kty": ""}, {"kid": "nameless kind"}, OTHER]
    assert len(read_keys(json.dumps({"keys": keys}).encode())) == 2


def octets(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


@pytest.mark.parametrize(("size_bytes", "is_found"), [(31, False), (32, True)])
def test_shared_key_shorter_than_its_hash_verifies_nothing(size_bytes: int, is_found: bool) -> None:
    key = {"kty": "oct", "kid": "shared", "k": octets(b"k" * size_bytes)}
    assert found({"alg": "HS256"}, key) == ("shared" if is_found else None)


@pytest.mark.parametrize(("bits", "is_found"), [(1024, False), (2048, True)])
def test_rsa_key_below_2048_bits_verifies_nothing(bits: int, is_found: bool) -> None:
    number = 2 ** (bits - 1) + 1
    key = {
        "kty": "RSA",
        "kid": "rsa",
        "n": octets(number.to_bytes(bits // 8, "big")),
        "e": octets(b"\1\0\1"),
    }
    assert found({"alg": "RS256"}, key) == ("rsa" if is_found else None)
