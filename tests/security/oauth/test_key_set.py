"""Which key of a set a token means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kwire.security.oauth.key_set import BadKeys, Key, KeySet, read_keys
from tests.security.jwt_dialogues import jwk

RSA, OTHER = jwk("rsa"), jwk("any rsa")


def found(header: dict[str, Any], *keys: dict[str, Any]) -> str | None:
    """Which of the keys a header means, by its name."""
    key = KeySet(map(Key, keys)).find(header)
    return None if key is None else key.key_id


def changed(key: dict[str, Any], **members: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A key described otherwise; what is None is left out."""
    return {name: said for name, said in {**key, **members}.items() if said is not None}


def test_key_is_found_by_its_name() -> None:
    assert found({"alg": "RS256", "kid": "any rsa"}, RSA, OTHER) == "any rsa"
    assert found({"alg": "RS256", "kid": "none"}, RSA, OTHER) is None
    assert found({"alg": "RS256", "kid": "rsa"}, changed(RSA, kid=None)) is None
    assert found({"alg": "RS256"}, RSA, OTHER) == "rsa", "the first, where no name is asked for"
    assert found({"alg": "RS256"}) is None


def test_key_is_of_the_kind_and_for_the_use_that_the_token_needs() -> None:
    assert found({"alg": "RS256"}, changed(RSA, use="enc"), OTHER) == "any rsa"
    assert found({"alg": "RS256"}, changed(RSA, use="sig"), OTHER) == "rsa"
    assert found({"alg": "RS256"}, changed(RSA, kty=None), OTHER) == "any rsa"
    assert found({"alg": "RS256"}, changed(RSA, kty="EC"), OTHER) == "any rsa"
    assert found({"alg": "PS256"}, OTHER) == "any rsa"
    assert found({"alg": "none"}, RSA) is None


def test_of_several_keys_one_is_meant_that_says_the_algorithm() -> None:
    said = changed(OTHER, alg="RS256")
    assert found({"alg": "RS256"}, changed(RSA, alg="RS512"), said) == "any rsa"
    assert found({"alg": "RS256"}, RSA, said) == "rsa", "one that says nothing may be it"
    # A single one is taken, whatever it says.
    assert found({"alg": "RS256"}, changed(RSA, alg="RS512")) == "rsa"


def test_of_several_curves_that_of_the_algorithm_is_meant() -> None:
    first, second = jwk("ES256"), jwk("ES384")
    assert found({"alg": "ES384"}, first, second) == "ES384"
    assert found({"alg": "ES256"}, second, first) == "ES256"
    assert found({"alg": "ES512"}, first, second) is None
    assert found({"alg": "ES384"}, jwk("ES512"), first) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"{", "it is no JSON"), (b"[]", 'no list of "keys"'), (b'{"keys":{}}', "no list")],
)
def test_what_is_no_set_of_keys_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadKeys, match=said):
        read_keys(data)


def test_what_is_no_key_is_left_out() -> None:
    keys = [RSA, 7, {}, {"kty": ""}, {"kid": "nameless kind"}, OTHER]
    assert len(read_keys(json.dumps({"keys": keys}).encode())) == 2
