"""A SASL_SSL broker with user alice by PLAIN, SCRAM and signed tokens, and its clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kwire.settings.listener_security import SIGNED_HANDLER
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.security.jwt_dialogues import AUDIENCE, ISSUER, signed, write_keys
from tests.security.sasl_client import PLAIN_LINE
from tests.security.tls.authority import Authority

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAIT_S = 60
PASSWORD = "alice-secret"
MODULES = "org.apache.kafka.common.security"
OAUTH_MODULE = f"{MODULES}.oauthbearer.OAuthBearerLoginModule"
LOGIN_HANDLER = f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


class SaslSsl(BrokerProcess):
    """A running broker; its plain listener is for the setup, `address` for clients."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority()
        self.trusted = self.authority.write(directory / "ca.pem")
        self.token = directory / "token.jwt"
        self.token.write_text(signed())
        plain, port = free_port(), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{port}"
        self.address = f"127.0.0.1:{port}"
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(
                self.authority.issue().write_pem(directory / "server.pem")
            ),
            "listener.name.secure.plain.sasl.jaas.config": PLAIN_LINE,
            **_signed_tokens("listener.name.secure.oauthbearer", directory),
        }
        super().__init__(directory / "broker", settings, port=plain)

    def start(self) -> None:
        super().start()
        _add_alice(self.bootstrap)


def _signed_tokens(prefix: str, directory: Path) -> dict[str, str]:
    oauth = f"{prefix}.sasl.oauthbearer"
    return {
        f"{prefix}.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        f"{prefix}.sasl.server.callback.handler.class": SIGNED_HANDLER,
        f"{oauth}.jwks.endpoint.url": write_keys(directory / "keys.json").as_uri(),
        f"{oauth}.expected.audience": AUDIENCE,
        f"{oauth}.expected.issuer": ISSUER,
    }


def _add_alice(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        wanted = UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(WAIT_S)


def librdkafka(broker: SaslSsl, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    common = {
        "bootstrap.servers": broker.address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.trusted),
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**common, "oauth_cb": lambda _: (broker.token.read_text(), 4e9)}
    return {**common, "sasl.username": "alice", "sasl.password": password}


def java(broker: SaslSsl, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """Properties for Java's clients and for kwire's commands."""
    common = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.trusted),
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {
            **common,
            "sasl.jaas.config": f"{OAUTH_MODULE} required;",
            "sasl.login.callback.handler.class": LOGIN_HANDLER,
            "sasl.oauthbearer.token.endpoint.url": broker.token.as_uri(),
        }
    kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    line = f'{MODULES}.{kind} required username="alice" password="{password}";'
    return {**common, "sasl.jaas.config": line}


def write_properties(path: Path, properties: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path
