"""A listener that accepts signed tokens, and its settings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateResponse
from kwire.settings import ConfigError
from kwire.settings.listener_security import SIGNED_HANDLER
from tests.inside import RawClient, running_broker
from tests.security.jwt_dialogues import (
    AUDIENCE,
    CLAIMS,
    ISSUER,
    NOW_S,
    changed,
    signed,
    without,
    write_keys,
)
from tests.security.oauth_dialogues import bearer
from tests.security.sasl_client import SASL, authenticate, handshake

PREFIX = "listener.name.sasl_plaintext.oauthbearer"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SIGNED = {
    **SASL,
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    f"{PREFIX}.sasl.jaas.config": f"{MODULE} required;",
    f"{PREFIX}.sasl.server.callback.handler.class": SIGNED_HANDLER,
}
EXPECTED = {
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "sasl.oauthbearer.expected.issuer": ISSUER,
}
URL = "sasl.oauthbearer.jwks.endpoint.url"


async def shown(client: RawClient, token: str) -> SaslAuthenticateResponse:
    assert not (await handshake(client, "OAUTHBEARER")).error_code
    return await authenticate(client, bearer(token))


def test_listener_uses_general_oauthbearer_settings(tmp_path: Path) -> None:
    settings = {
        **SIGNED,
        URL: write_keys(tmp_path / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{PREFIX}.sasl.oauthbearer.expected.issuer": ISSUER,
    }

    async def run() -> None:
        async with running_broker(tmp_path / "data", settings) as broker:
            for claims, answer in (
                (CLAIMS, b""),
                (without("aud"), b'{"status":"invalid_token"}'),
                (without("iss"), b'{"status":"invalid_token"}'),
            ):
                client = await RawClient.connect(broker)
                assert (await shown(client, signed(claims))).auth_bytes == answer

    trio.run(run)


@pytest.mark.parametrize("name", ["audience", "issuer"])
def test_listener_accepts_any_audience_or_issuer_only_if_that_is_allowed(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {
        **SIGNED,
        URL: write_keys(tmp_path / "keys.json").as_uri(),
        **EXPECTED,
    }
    del settings[f"sasl.oauthbearer.expected.{name}"]
    allowing = {**settings, f"{PREFIX}.sasl.oauthbearer.allow.unverified.{name}": "true"}
    claim, other_claim = ("iss", "aud") if name == "issuer" else ("aud", "iss")

    async def run(given: dict[str, str], folder: str) -> None:
        async with running_broker(tmp_path / folder, given) as broker:
            for claims, answer in (
                (CLAIMS, b""),
                (without(claim), b""),
                (changed(**{claim: "any"}), b""),
                (changed(**{other_claim: "any"}), b'{"status":"invalid_token"}'),
            ):
                client = await RawClient.connect(broker)
                assert (await shown(client, signed(claims))).auth_bytes == answer

    why = f"set sasl.oauthbearer.expected.{name} to the {name} of valid tokens, or"
    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=why), flatten_subgroups=True):
        trio.run(run, settings, "refused")
    trio.run(run, allowing, "data")
    assert f"accepts tokens of any {name}" in caplog.text


def test_oauthbearer_session_expires_with_its_token(tmp_path: Path) -> None:
    settings = {
        **SIGNED,
        URL: write_keys(tmp_path / "keys.json").as_uri(),
        **EXPECTED,
    }

    async def run() -> None:
        async with running_broker(tmp_path / "data", settings) as broker:
            client = await RawClient.connect(broker)
            answer = await shown(client, signed(changed(exp=NOW_S + 600)))
            left_ms = (NOW_S + 600 - time.time()) * 1000
            assert left_ms <= answer.session_lifetime_ms <= 600_000

    trio.run(run)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "sasl.oauthbearer.jwks.endpoint.url must be the file, http, https URL"),
        (
            {URL: "ftp://keys"},
            "sasl.oauthbearer.jwks.endpoint.url must be the file, http, https URL",
        ),
        (
            {URL: "file:///nowhere/keys"},
            "cannot fetch keys from file:///nowhere/keys: No such file",
        ),
        (
            {f"{PREFIX}.sasl.server.callback.handler.class": "com.example.Handler"},
            "is a Java class, which cannot be loaded here: set org.apache.kafka",
        ),
        (
            {
                URL: "https://127.0.0.1/keys",
                f"{PREFIX}.sasl.jaas.config": f'{MODULE} required ssl.truststore.location="x" '
                'ssl.truststore.type="PEM";',
            },
            "sasl.jaas.config of listener SASL_PLAINTEXT: ",
        ),
    ],
)
def test_invalid_oauthbearer_settings_are_refused(
    tmp_path: Path, settings: dict[str, str], why: str
) -> None:
    async def run() -> None:
        async with running_broker(tmp_path, {**SIGNED, **EXPECTED, **settings}):
            raise AssertionError("it started")

    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match=why), flatten_subgroups=True):
        trio.run(run)
