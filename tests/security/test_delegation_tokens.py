"""Delegation tokens in a broker: stored, used to authenticate, removed after they expire."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kwire.codecs.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.codecs.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kwire.codecs.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kwire.security import chosen
from kwire.security.sasl.exchange import SaslError
from kwire.security.sasl.scram import Account, ScramClient, ScramServer
from kwire.settings import BrokerConfig
from tests.inside import RawClient, running_broker, until
from tests.security.sasl_client import SASL, authenticate, handshake

SECRET = "the brokers' secret"
KEY = {"delegation.token.secret.key": SECRET}
TOKENS = {**SASL, **KEY, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}


async def logged_in(broker: Broker, user: str = "alice") -> RawClient:
    client = await RawClient.connect(broker)
    await handshake(client)
    answer = await authenticate(client, f"\0{user}\0{user}-secret".encode())
    assert not answer.error_code
    return client


async def create(
    client: RawClient, *renewers: str, life_ms: int = -1
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers("User", each) for each in renewers], max_lifetime_ms=life_ms
    )
    return await client.ask(request, 3, CreateDelegationTokenResponse)


async def described(client: RawClient) -> DescribeDelegationTokenResponse:
    return await client.ask(
        DescribeDelegationTokenRequest(None), 3, DescribeDelegationTokenResponse
    )


async def by_token(broker: Broker, token_id: str, hmac: bytes, mechanism: str) -> RawClient:
    """Raise SaslError."""
    client = await RawClient.connect(broker)
    await handshake(client, mechanism)
    password = base64.b64encode(hmac).decode()
    scram = ScramClient(mechanism, token_id, password, "nonce", by_token=True)
    answer = await authenticate(client, scram.first())
    last = scram.respond(bytes(answer.auth_bytes))
    assert last is not None
    answer = await authenticate(client, last)
    if answer.error_code:
        raise SaslError(answer.error_message)
    assert answer.session_lifetime_ms > 0
    return client


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_token_authenticates_its_owner_after_a_restart(
    tmp_path: Path, mechanism: str
) -> None:
    async with running_broker(tmp_path, TOKENS) as broker:
        made = await create(await logged_in(broker), "bob")
        assert not made.error_code
    async with running_broker(tmp_path, TOKENS) as broker:
        client = await by_token(broker, made.token_id, bytes(made.hmac), mechanism)
        assert (await described(client)).error_code == 64
        with pytest.raises(SaslError, match="invalid credentials"):
            await by_token(broker, made.token_id, b"wrong", mechanism)
        (told,) = (await described(await logged_in(broker, "bob"))).tokens
        assert (told.token_id, bytes(told.hmac)) == (made.token_id, bytes(made.hmac))
        assert [each.principal_name for each in told.renewers] == ["bob"]


async def test_new_secret_key_changes_the_hmacs(tmp_path: Path) -> None:
    async with running_broker(tmp_path, TOKENS) as broker:
        made = await create(await logged_in(broker))
    other = {**TOKENS, "delegation.token.secret.key": "another secret"}
    async with running_broker(tmp_path, other) as broker:
        (told,) = (await described(await logged_in(broker))).tokens
        assert told.token_id == made.token_id
        assert bytes(told.hmac) != bytes(made.hmac)
        with pytest.raises(SaslError):
            await by_token(broker, made.token_id, bytes(made.hmac), "SCRAM-SHA-256")


async def test_expired_tokens_are_removed(tmp_path: Path) -> None:
    interval = {"delegation.token.expiry.check.interval.ms": "20"}
    async with running_broker(tmp_path, {**TOKENS, **interval}) as broker:
        client = await logged_in(broker)
        stays, goes = await create(client), await create(client, life_ms=1)
        await until(lambda: goes.token_id not in broker.image.tokens)
        assert list(broker.image.tokens) == [stays.token_id]
        renewal = RenewDelegationTokenRequest(bytes(goes.hmac), -1)
        answer = await client.ask(renewal, 2, RenewDelegationTokenResponse)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert broker.tokens is not None
        assert broker.tokens.account("SCRAM-SHA-256", goes.token_id) is None


def test_former_name_of_the_secret_key_is_accepted() -> None:
    old = chosen.tokens(BrokerConfig({"delegation.token.master.key": SECRET}))
    new = chosen.tokens(BrokerConfig({**KEY, "delegation.token.master.key": "older"}))
    assert old is not None
    assert new is not None
    assert old.hmac_of("t") == new.hmac_of("t")


async def test_tokens_are_disabled_without_a_secret_key(tmp_path: Path) -> None:
    async with running_broker(tmp_path, SASL) as broker:
        client = await logged_in(broker)
        renewal, expiry = RenewDelegationTokenRequest(b"x", -1), ExpireDelegationTokenRequest(b"x")
        renewed = await client.ask(renewal, 2, RenewDelegationTokenResponse)
        ended = await client.ask(expiry, 2, ExpireDelegationTokenResponse)
        made, told = await create(client), await described(client)
        assert [made.error_code, renewed.error_code, ended.error_code, told.error_code] == [61] * 4


def everything_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


async def test_secret_and_hmac_are_neither_logged_nor_stored(tmp_path: Path) -> None:
    async with running_broker(tmp_path, TOKENS) as broker:
        client = await logged_in(broker)
        made = await create(client)
        request = DescribeConfigsRequest([DescribeConfigsResource(4, str(broker.node_id))])
        answer = await client.ask(request, 4, DescribeConfigsResponse)
        configs = {each.name: each for each in answer.results[0].configs}
        secret = configs["delegation.token.secret.key"]
        assert (secret.value, secret.is_sensitive) == (None, True)
    kept = everything_in(tmp_path)
    assert made.token_id.encode() in kept
    for hidden in (SECRET.encode(), bytes(made.hmac), base64.b64encode(bytes(made.hmac))):
        assert hidden not in kept


def test_context_knows_that_a_client_used_a_token() -> None:
    def find(user: str, by_token: bool) -> Account | None:
        return None

    server = ScramServer("SCRAM-SHA-256", find, lambda: "n")
    with pytest.raises(SaslError):
        server.respond(b"n,,n=id,r=n,tokenauth=true")
    assert not server.by_token
