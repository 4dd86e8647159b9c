"""Properties of Java clients, as librdkafka takes them; it is asked itself."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from kwire.pipeline import Kafka
from kwire.pipeline.errors import PipelineError
from kwire.pipeline.librdkafka import settings_of

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="al\\"ice" password=secret;'
)


def test_what_is_the_same_stays_and_what_only_spark_reads_with_is_left_out() -> None:
    kafka = Kafka(
        "a:1,b:2", {"client.id": "me", "request.timeout.ms": "5", "max.poll.records": "7"}
    )
    assert settings_of(kafka) == {"bootstrap.servers": "a:1,b:2", "client.id": "me"}


def test_a_login_is_translated_and_librdkafka_takes_it() -> None:
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


def test_files_of_certificates_are_those_in_pem() -> None:
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
        ({"ssl.truststore.location": "/ca.jks"}, "has to be a file in PEM"),
        ({"sasl.jaas.config": "Krb5LoginModule required;"}, "a username and a password"),
    ],
)
def test_what_librdkafka_cannot_do_is_told(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        settings_of(Kafka("a:1", properties))
