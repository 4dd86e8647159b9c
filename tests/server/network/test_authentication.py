"""Listeners that want to know who a client is before anything else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.messages.sasl_handshake import SaslHandshakeRequest
from kwire.requests.context import Context
from kwire.requests.handlers import metadata
from kwire.settings import ConfigError
from tests.inside import RawClient, running_broker
from tests.security.sasl_client import (
    SASL,
    authenticate,
    handshake,
    logged_in,
    plain,
    send_raw,
)

REAUTH = "connections.max.reauth.ms"


@asynccontextmanager
async def connected(
    directory: Path, settings: dict[str, str] | None = None
) -> AsyncIterator[RawClient]:
    async with running_broker(directory, {**SASL, **(settings or {})}) as broker:
        yield await RawClient.connect(broker)


async def is_served(client: RawClient) -> bool:
    answer = await client.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
    return len(answer.brokers) == 1


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_client_is_served_after_a_sasl_login(tmp_path: Path, version: int) -> None:
    async with connected(tmp_path) as client:
        versions = ApiVersionsRequest("test", "1")
        assert not (await client.ask(versions, 3, ApiVersionsResponse)).error_code
        assert (await handshake(client)).mechanisms == ["PLAIN"]
        answer = await authenticate(client, b"\0alice\0alice-secret", version)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
        assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
        assert await is_served(client)


async def test_login_succeeds_with_bare_tokens_after_sasl_handshake_v0(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        assert not (await handshake(client, version=0)).error_code
        assert await send_raw(client, b"\0alice\0alice-secret") == b""
        assert await is_served(client)


async def test_handlers_get_the_principal_of_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking: list[str] = []
    handle = metadata.handle

    def noted(broker: Broker, request: MetadataRequest, context: Context) -> object:
        asking.append(context.principal)
        return handle(broker, request, context)

    monkeypatch.setattr(metadata, "handle", noted)
    monkeypatch.setattr("kwire.requests.routes._bindings", {})
    async with running_broker(tmp_path, SASL) as broker:
        for user in ("alice", "bob"):
            assert await is_served(await logged_in(broker, user))
    assert asking == ["User:alice", "User:bob"]


async def test_request_in_one_packet_with_the_login_is_answered(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        frames = [
            client.frame(SaslHandshakeRequest("PLAIN"), 1),
            client.frame(SaslAuthenticateRequest(b"\0bob\0bob-secret"), 2),
            client.frame(MetadataRequest(topics=[]), 9),
            client.frame(MetadataRequest(topics=[]), 9),
        ]
        await client.stream.send_all(b"".join(frames))
        for number in range(1, 5):
            reply = await client.receive_frame()
            assert reply is not None
            assert int.from_bytes(reply[:4]) == number


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0bob-secret", "Authentication failed: Invalid username or password"),
        (b"\0carol\0alice-secret", "Authentication failed: Invalid username or password"),
        (b"nonsense", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
async def test_failed_login_gets_an_error_and_is_closed(
    tmp_path: Path, token: bytes, told: str
) -> None:
    async with connected(tmp_path) as client:
        await handshake(client)
        answer = await authenticate(client, token)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == told
        assert await client.receive_frame() is None


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"nonsense", b""])
async def test_wrong_bare_token_closes_the_connection(tmp_path: Path, token: bytes) -> None:
    async with connected(tmp_path) as client:
        await handshake(client, version=0)
        assert await send_raw(client, token) is None


async def test_login_with_a_disabled_mechanism_is_refused(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        answer = await handshake(client, "SCRAM-SHA-256")
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN"]
        assert await client.receive_frame() is None


async def test_request_before_the_login_closes_the_connection(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        await client.send(MetadataRequest(topics=[]), 9)
        assert await client.receive_frame() is None


async def test_oversized_request_before_the_login_closes_the_connection(tmp_path: Path) -> None:
    async with connected(tmp_path, {"sasl.server.max.receive.size": "1000"}) as client:
        await client.stream.send_all((1001).to_bytes(4))
        assert await client.receive_frame() is None


async def test_token_of_the_largest_allowed_size_is_read(tmp_path: Path) -> None:
    """More than a connection's buffer holds."""
    async with connected(tmp_path) as client:
        await handshake(client)
        answer = await authenticate(client, b"\0alice\0" + bytes([65]) * 500_000)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_failed_login_is_answered_after_the_configured_delay(tmp_path: Path) -> None:
    delay = {"connection.failed.authentication.delay.ms": "300"}
    async with running_broker(tmp_path, {**SASL, **delay}) as broker:
        client = await RawClient.connect(broker)
        await handshake(client)
        began = trio.current_time()
        await client.send(SaslAuthenticateRequest(b"\0alice\0wrong"), 2)
        assert await is_served(await logged_in(broker)), "others do not wait for it"
        assert await client.receive_frame() is not None
        assert trio.current_time() - began >= 0.3


async def test_request_after_the_login_expired_closes_the_connection(tmp_path: Path) -> None:
    async with connected(tmp_path, {REAUTH: "1"}) as client:
        assert (await plain(client)).session_lifetime_ms == 1
        await trio.sleep(0.01)
        await client.send(MetadataRequest(topics=[]), 9)
        assert await client.receive_frame() is None


async def test_reauthentication_before_expiry_keeps_the_connection(tmp_path: Path) -> None:
    async with connected(tmp_path, {REAUTH: "600000"}) as client:
        for _ in range(2):
            assert (await plain(client)).session_lifetime_ms == 600_000
            assert await is_served(client)


async def test_reauthentication_after_expiry_keeps_the_connection(tmp_path: Path) -> None:
    async with connected(tmp_path, {REAUTH: "1"}) as client:
        await plain(client)
        await trio.sleep(0.01)
        assert not (await plain(client)).error_code


async def test_reauthentication_with_another_principal_is_refused(tmp_path: Path) -> None:
    async with connected(tmp_path, {REAUTH: "600000"}) as client:
        await plain(client, "alice")
        answer = await plain(client, "bob")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert await client.receive_frame() is None


async def test_reauthentication_of_a_login_without_expiry_is_refused(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        await plain(client)
        assert (await handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = await authenticate(client, b"\0alice\0alice-secret")
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_served(client)


async def test_second_reauthentication_within_a_second_is_refused(tmp_path: Path) -> None:
    async with connected(tmp_path, {REAUTH: "600000"}) as client:
        await plain(client)
        await plain(client)
        assert (await handshake(client)).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "names GSSAPI, which is not served"),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "x required"},
            "plain.sasl.jaas.config: JAAS config entry not terminated",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class": "my.Own"},
            "is a Java class",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "my.Module required;"},
            "names the module my.Module, not org.apache.kafka",
        ),
    ],
)
async def test_broker_with_unusable_sasl_settings_does_not_start(
    tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(ConfigError, match=sentence), flatten_subgroups=True, allow_unwrapped=True
    ):
        async with running_broker(tmp_path, {**SASL, **settings}):
            raise AssertionError("it has started")
