"""The settings of a SASL listener, and the errors of invalid ones."""

from __future__ import annotations

import logging

import pytest

from kwire.security.listener_sasl import (
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    module_of,
    sasl_of,
)
from kwire.security.sasl.exchange import SaslError
from kwire.security.sasl.oauthbearer import OAuthBearerServer
from kwire.security.sasl.plain import PlainServer
from kwire.security.sasl.scram import Account, ScramServer
from kwire.settings import BrokerConfig, ConfigError

PREFIX = "listener.name.in"
PLAIN_LINE = f'{PLAIN_MODULE} required user_alice="secret";'
TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{PREFIX}.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
}


def nobody(mechanism: str, name: str, by_token: bool) -> Account | None:
    return None


def test_each_mechanism_begins_its_own_exchange_type() -> None:
    given = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        f"{PREFIX}.plain.sasl.jaas.config": PLAIN_LINE,
        f"{PREFIX}.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
        f"{PREFIX}.plain.connections.max.reauth.ms": "7000",
        "sasl.server.max.receive.size": "999",
        "connection.failed.authentication.delay.ms": "55",
    }
    found = sasl_of(BrokerConfig(given), "IN", nobody)
    assert [*found.mechanisms] == ["SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"]
    kinds = [type(each.begin()) for each in found.mechanisms.values()]
    assert kinds == [ScramServer, PlainServer, OAuthBearerServer]
    assert [each.name for each in found.mechanisms.values()] == [*found.mechanisms]
    assert [each.max_reauth_ms for each in found.mechanisms.values()] == [0, 7000, 0]
    assert (found.max_receive_size_bytes, found.failure_delay_ms) == (999, 55)
    plain = found.mechanisms["PLAIN"].begin()
    assert plain.respond(b"\0alice\0secret") == b""
    assert plain.principal_name == "alice"


def test_scram_finds_the_credential_of_its_mechanism() -> None:
    asked: list[tuple[str, str, bool]] = []

    def find(mechanism: str, name: str, by_token: bool) -> Account | None:
        asked.append((mechanism, name, by_token))
        return None

    given = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    begin = sasl_of(BrokerConfig(given), "IN", find).mechanisms["SCRAM-SHA-256"].begin
    for _ in range(2):
        with pytest.raises(SaslError):
            begin().respond(b"n,,n=bob,r=abc")
    assert asked == [("SCRAM-SHA-256", "bob", False)] * 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"sasl.enabled.mechanisms": ""},
            "sasl.enabled.mechanisms of listener IN names no mechanism",
        ),
        (
            {"sasl.enabled.mechanisms": "GSSAPI"},
            "sasl.enabled.mechanisms of listener IN names GSSAPI, which is not served: set it to "
            "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN"},
            f"{PREFIX}.plain.sasl.jaas.config is not set: it is a line such as {PLAIN_MODULE} "
            "required ...;",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                f"{PREFIX}.plain.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            },
            f"{PREFIX}.plain.sasl.jaas.config names the module {SCRAM_MODULE}, not {PLAIN_MODULE}",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                f"{PREFIX}.scram-sha-256.sasl.jaas.config": PLAIN_LINE,
            },
            f"{PREFIX}.scram-sha-256.sasl.jaas.config names the module {PLAIN_MODULE}, not "
            f"{SCRAM_MODULE}",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", f"{PREFIX}.plain.sasl.jaas.config": "x"},
            f"{PREFIX}.plain.sasl.jaas.config: Invalid login module control flag",
        ),
        (
            {
                **TOKENS,
                f"{PREFIX}.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required "
                'unsecuredValidatorAllowableClockSkewMs="soon";',
            },
            f"{PREFIX}.oauthbearer.sasl.jaas.config: unsecuredValidatorAllowableClockSkewMs is "
            "not a number",
        ),
    ],
)
def test_invalid_sasl_settings_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        sasl_of(BrokerConfig(given), "IN", nobody)
    assert str(refused.value).startswith(said)


def test_listener_with_unsecured_tokens_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kwire.security.listener_sasl"):
        sasl_of(BrokerConfig(TOKENS), "IN", nobody)
    assert "Listener IN accepts unsecured OAUTHBEARER tokens" in caplog.text


def test_each_mechanism_has_its_login_module() -> None:
    names = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    modules = [PLAIN_MODULE, SCRAM_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE]
    assert [*map(module_of, names)] == modules
