"""The book of delegation tokens, and the rights to create and to see them."""

from __future__ import annotations

import base64
import hmac
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import create_delegation_token as creating
from kwire.codecs.messages import describe_delegation_token as describing
from kwire.requests.context import ANONYMOUS, Context
from kwire.requests.handlers import create_delegation_token, describe_delegation_token
from kwire.requests.token_requests import (
    creation,
    lifetimes_of,
    may_ask,
    owner_of,
    parts,
    refused_creation,
)
from kwire.security import chosen
from kwire.security.accounts import Accounts
from kwire.security.sasl.scram import salted_password
from kwire.security.tokens import TokenBook
from kwire.settings import BrokerConfig
from tests.security.guards.standing import SENDER, Handler, access, on

if TYPE_CHECKING:
    from kwire.broker.broker import Broker

TOKEN = DelegationToken("id", "User:alice", "User:r", ("User:b",), 1, 30, 20)
LISTENERS = {
    "listeners": "PLAINTEXT://h:1,SSL://h:2,SASL_SSL://h:3",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
}


# -- who logs in by one


def test_token_authenticates_its_owner_until_it_is_removed() -> None:
    book = TokenBook("secret")
    code = hmac.digest(b"secret", b"id", "sha512")
    assert book.hmac_of("id") == code
    assert book.account("SCRAM-SHA-256", "id") is None
    book.follow({"id": TOKEN, "none": None})
    assert (book.id_of(code), book.id_of(b"other")) == ("id", None)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        account = book.account(mechanism, "id")
        assert account is not None
        credential, name, expires_ms = account
        assert (name, expires_ms) == ("alice", 20)
        assert credential.iterations == 4096
        assert len(credential.salt) == 24
        password = base64.b64encode(code).decode()
        salted = salted_password(mechanism, password, credential.salt, 4096)
        key = hmac.digest(salted, b"Server Key", mechanism.removeprefix("SCRAM-").replace("-", ""))
        assert credential.server_key == key
        again = book.account(mechanism, "id")
        assert again is not None
        assert again[0] is credential, "making it takes milliseconds"
    book.follow({"id": replace(TOKEN, expiry_ms=25)})
    later = book.account("SCRAM-SHA-256", "id")
    assert later is not None
    assert later[2] == 25
    before = later[0]
    book.follow({"id": None})
    assert book.account("SCRAM-SHA-256", "id") is None
    assert book.id_of(code) is None
    book.follow({"id": TOKEN})
    anew = book.account("SCRAM-SHA-256", "id")
    assert anew is not None
    assert anew[0] is not before


def test_token_id_is_searched_among_tokens_only() -> None:
    image = ClusterImage("")
    book = TokenBook("secret")
    book.follow({"id": TOKEN})
    accounts = Accounts(lambda: image, book)
    found = accounts.find("SCRAM-SHA-256", "id", by_token=True)
    assert found is not None
    assert found[1] == "alice"
    assert accounts.find("SCRAM-SHA-256", "id", by_token=False) is None
    assert Accounts(lambda: image).find("SCRAM-SHA-256", "id", by_token=True) is None


@pytest.mark.parametrize(
    ("given", "secret"),
    [
        ({}, None),
        ({"delegation.token.secret.key": "a"}, "a"),
        ({"delegation.token.master.key": "b"}, "b"),
        ({"delegation.token.secret.key": "a", "delegation.token.master.key": "b"}, "a"),
        ({"delegation.token.master.key": ""}, None),
    ],
)
def test_token_secret_key_has_two_setting_names(given: dict[str, str], secret: str | None) -> None:
    config = BrokerConfig(given)
    assert chosen.token_secret(config) == secret
    book = chosen.tokens(config)
    assert (book is None) is (secret is None)
    if book is not None and secret is not None:
        assert book.hmac_of("id") == hmac.digest(secret.encode(), b"id", "sha512")


# -- who asks for one


def sender(listener: str, principal: str = SENDER, *, by_token: bool = False) -> Context:
    key = ApiKey.CREATE_DELEGATION_TOKEN
    return Context(listener, "127.0.0.1", "-", principal, key, 3, by_token=by_token)


@pytest.mark.parametrize(
    ("context", "may"),
    [
        (sender("PLAINTEXT"), False),
        (sender("SSL"), True),
        (sender("SSL", ANONYMOUS), False),
        (sender("SASL_SSL"), True),
        (sender("SASL_SSL", ANONYMOUS), True),
        (sender("SASL_SSL", by_token=True), False),
    ],
)
def test_client_authenticated_without_a_token_may_create_tokens(
    context: Context, may: bool
) -> None:
    assert may_ask(BrokerConfig(LISTENERS), context) is may


def test_token_without_an_owner_belongs_to_the_sender() -> None:
    context = sender("SSL")
    assert owner_of(creating.CreateDelegationTokenRequest(), context) == SENDER
    named = creating.CreateDelegationTokenRequest("User", "bob")
    assert owner_of(named, context) == "User:bob"
    assert owner_of(creating.CreateDelegationTokenRequest(None, "bob"), context) == ":bob"
    assert owner_of(creating.CreateDelegationTokenRequest("User", ""), context) == SENDER
    assert parts("User:a:b") == ("User", "a:b")


@pytest.mark.parametrize("version", [2, 3])
def test_token_response_has_the_requester_since_v3(version: int) -> None:
    context = sender("SSL")
    context.api_version = version
    error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    answer = refused_creation(error, "User:bob", context)
    assert (answer.error_code, answer.principal_type, answer.principal_name) == (
        error,
        "User",
        "bob",
    )
    requester = (answer.token_requester_principal_type, answer.token_requester_principal_name)
    assert requester == (("User", "a") if version >= 3 else ("", ""))
    times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
    assert times == (-1, -1, -1)
    made = creation(ErrorCode.NONE, "User:bob", context)
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (0, 0, 0)


def test_token_lifetimes_come_from_the_settings() -> None:
    given = {"delegation.token.max.lifetime.ms": "70", "delegation.token.expiry.time.ms": "7"}
    assert tuple(vars_of(lifetimes_of(BrokerConfig(given)))) == (70, 7)


def vars_of(value: Any) -> list[int]:  # noqa: ANN401 - of some fields
    names = getattr(value, "_fields", None) or list(value.__dataclass_fields__)
    return [getattr(value, name) for name in names]


# -- who may have one made for others, and see those of others


@pytest.mark.parametrize(
    ("owner", "listener", "rights", "goes_on"),
    [
        ("a", "SSL", [], True),
        ("bob", "SSL", [], False),
        ("bob", "SSL", on(ResourceType.USER, AclOperation.CREATE_TOKENS, "User:bob"), True),
        ("bob", "SSL", on(ResourceType.USER, AclOperation.DESCRIBE_TOKENS, "User:bob"), False),
        ("bob", "PLAINTEXT", [], True),
    ],
)
def test_token_for_another_owner_needs_a_right(
    owner: str, listener: str, rights: list[Any], goes_on: bool
) -> None:
    """The handler refuses a sender that may not manage tokens, for any owner."""
    asking = access(*rights, version=3, api_key=ApiKey.CREATE_DELEGATION_TOKEN, **LISTENERS)
    asking.context.listener = listener
    request = creating.CreateDelegationTokenRequest("User", owner)
    answer = create_delegation_token.guard(asking, request, Handler("done"))
    if goes_on:
        assert answer == "done"
    else:
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert answer.principal_name == "bob"


@pytest.mark.parametrize(
    ("token", "rights", "seen"),
    [
        (TOKEN, [], False),
        (replace(TOKEN, owner=SENDER), [], True),
        (replace(TOKEN, requester=SENDER), [], True),
        (replace(TOKEN, renewers=(SENDER,)), [], True),
        (TOKEN, on(ResourceType.DELEGATION_TOKEN, AclOperation.DESCRIBE, "id"), True),
        (TOKEN, on(ResourceType.USER, AclOperation.DESCRIBE_TOKENS, "User:alice"), True),
        (TOKEN, on(ResourceType.USER, AclOperation.DESCRIBE_TOKENS, "User:r"), False),
    ],
)
def test_token_of_another_owner_is_described_with_the_right(
    token: DelegationToken, rights: list[Any], seen: bool
) -> None:
    asking = access(*rights, version=3, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN)
    image = ClusterImage("").with_token("id", token)
    asking.broker = cast("Broker", SimpleNamespace(image=image))
    described = describing.DescribedDelegationToken(token_id="id")
    handler = Handler(describing.DescribeDelegationTokenResponse(tokens=[described]))
    request = describing.DescribeDelegationTokenRequest(None)
    answer = describe_delegation_token.guard(asking, request, handler)
    assert answer.tokens == ([described] if seen else [])
