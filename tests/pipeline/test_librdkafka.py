"""Properties of Java clients are translated to settings that librdkafka accepts."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.pipeline import Kafka
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.librdkafka import settings_of
from tests.security.tls.authority import PASSWORD, Authority

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="al\\"ice" password=secret;'
)


def test_properties_of_sparks_consumers_are_left_out() -> None:
    kafka = Kafka(
        "a:1,b:2", {"client.id": "me", "request.timeout.ms": "5", "max.poll.records": "7"}
    )
    assert settings_of(kafka) == {"bootstrap.servers": "a:1,b:2", "client.id": "me"}


def test_login_is_translated_to_settings_of_librdkafka() -> None:
    settings = settings_of(
        Kafka(
            "a:1",
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": JAAS,
                "ssl.endpoint.identification.algorithm": "",
            },
        )
    )
    assert settings == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": 'al"ice',
        "sasl.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }
    Producer({**settings, "log_level": 0})


def test_unsigned_tokens_and_tokens_of_a_server_are_translated() -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    line = f'{module} unsecuredLoginStringClaim_sub="alice";'
    settings = settings_of(Kafka("a:1", {**login, "sasl.jaas.config": line}))
    assert settings["sasl.oauthbearer.config"] == "principal=alice"
    Producer({**settings, "log_level": 0})
    granted = {
        **login,
        "sasl.jaas.config": f'{module} clientId="me" scope="kafka";',
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.login.callback.handler.class": "org.apache.kafka.OAuthBearerLoginCallbackHandler",
    }
    assert settings_of(Kafka("a:1", granted)) == {
        "bootstrap.servers": "a:1",
        **login,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
    }


def test_java_stores_become_pem(tmp_path: Path) -> None:
    own = Authority().issue("alice")
    store = own.write_p12(tmp_path / "alice.p12")
    properties = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(own.write_p12(tmp_path / "trusted.p12")),
        "ssl.truststore.password": PASSWORD,
    }
    settings = settings_of(Kafka("a:1", properties))
    assert settings.keys() == {
        "bootstrap.servers",
        "security.protocol",
        "ssl.ca.pem",
        "ssl.key.pem",
        "ssl.certificate.pem",
    }
    assert settings["ssl.certificate.pem"] == own.chain_pem
    assert settings["ssl.key.pem"] == own.key_pem()
    Producer({**settings, "log_level": 0})


def test_pem_files_are_passed_by_their_paths() -> None:
    files = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.key.password": "secret",
    }
    assert settings_of(Kafka("a:1", files)) == {
        "bootstrap.servers": "a:1",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "secret",
    }


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"ssl.truststore.location": "/ca.jks"},
            "ssl.truststore.location=/ca.jks: Failed to load it: No such file",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": "OAuthBearerLoginModule required;",
                "sasl.oauthbearer.token.endpoint.url": "file:///token",
            },
            "supports no other tokens",
        ),
        ({"sasl.jaas.config": "Krb5LoginModule"}, "Invalid login module control flag"),
        ({"sasl.jaas.config": "Krb5LoginModule required;"}, "a username and a password"),
    ],
)
def test_property_that_librdkafka_lacks_raises_pipeline_error(
    properties: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PipelineError, match=sentence):
        settings_of(Kafka("a:1", properties))
