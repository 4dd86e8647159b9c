"""Translates properties of Kafka's Java clients to settings of librdkafka.

Most names are the same.  Security properties with other names are translated.  Properties that only
tune a Java client are left out.  Properties that librdkafka does not support raise PipelineError.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.pipeline.errors import PipelineError
from kwire.pipeline.source import Kafka

RENAMED = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.keystore.location": "ssl.certificate.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
LEFT_OUT = frozenset(
    {
        "default.api.timeout.ms",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "send.buffer.bytes",
        "ssl.enabled.protocols",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.type",
    }
)
"""Properties that only concern Spark's consumers, or that librdkafka detects itself."""

PEM = "PEM"
STORES = ("ssl.truststore", "ssl.keystore")
PRINCIPAL = "unsecuredLoginStringClaim_sub"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials.client"


def settings_of(kafka: Kafka) -> dict[str, str]:
    """librdkafka's settings for the cluster.  Raises PipelineError for what it does not support."""
    properties = dict(kafka.properties)
    settings = {"bootstrap.servers": kafka.bootstrap, **_stores(properties)}
    if jaas := properties.pop("sasl.jaas.config", None):
        settings |= _login(jaas, properties)
    if "ssl.keystore.location" in properties:
        settings["ssl.key.location"] = properties["ssl.keystore.location"]
    if (verified := properties.get("ssl.endpoint.identification.algorithm")) is not None:
        properties["ssl.endpoint.identification.algorithm"] = verified or "none"
    renamed = {
        RENAMED.get(name, name): value for name, value in properties.items() if name not in LEFT_OUT
    }
    return settings | renamed


def _stores(properties: dict[str, str]) -> dict[str, str]:
    """Settings with the content of stores that are not PEM files, as PEM.

    Removes the properties of these stores.
    """
    foreign = [
        store
        for store in STORES
        if f"{store}.location" in properties and properties.get(f"{store}.type") != PEM
    ]
    if not foreign:
        return {}
    from kwire.security.tls.error import TlsError

    try:
        return _as_pem(foreign, properties)
    except TlsError as problem:
        raise PipelineError(str(problem)) from None


def _as_pem(stores: list[str], properties: dict[str, str]) -> dict[str, str]:
    """Removes Java's keystore and truststore from `properties`, and returns their contents as
    settings with PEM text: librdkafka cannot read JKS files."""
    from kwire.security.tls.options import read_options
    from kwire.security.tls.stores import pem_of_identity, pem_of_trusted

    options, settings = read_options(properties), {}
    if "ssl.truststore" in stores and options.truststore is not None:
        settings["ssl.ca.pem"] = pem_of_trusted(options.truststore)
    if "ssl.keystore" in stores and options.keystore is not None:
        key, chain = pem_of_identity(options.keystore, options.key_password)
        settings |= {"ssl.key.pem": key, "ssl.certificate.pem": chain}
        properties.pop("ssl.key.password", None)
    for store in stores:
        for part in ("location", "password", "type"):
            properties.pop(f"{store}.{part}", None)
    return settings


def _login(jaas: str, properties: dict[str, str]) -> dict[str, str]:
    """The login in a JAAS line like `...PlainLoginModule required username="u" password="p";`."""
    from kwire.security.sasl.jaas import JaasError, parse_module

    try:
        options = parse_module(jaas).options
    except JaasError as problem:
        raise PipelineError(f"sasl.jaas.config: {problem}") from None
    if properties.get("sasl.mechanism") == "OAUTHBEARER":
        return _token(options, properties)
    if not {"username", "password"} <= options.keys() or "tokenauth" in options:
        raise PipelineError(
            "sasl.jaas.config must have a username and a password: librdkafka, which writes the"
            " transactions, supports no other login"
        )
    return {f"sasl.{name}": options[name] for name in ("username", "password")}


def _token(options: Mapping[str, str], properties: dict[str, str]) -> dict[str, str]:
    """An unsigned token, or one that a server issues for the client's credentials."""
    url = properties.pop(TOKEN_URL, "")
    client = properties.pop(f"{CREDENTIALS}.id", options.get("clientId", ""))
    secret = properties.pop(f"{CREDENTIALS}.secret", options.get("clientSecret", ""))
    scope = properties.pop("sasl.oauthbearer.scope", options.get("scope", ""))
    if url.startswith("http"):
        credentials = {"client.id": client, "client.secret": secret, "token.endpoint.url": url}
        named = {f"sasl.oauthbearer.{name}": value for name, value in credentials.items()}
        with_scope = {"sasl.oauthbearer.scope": scope} if scope else {}
        return {"sasl.oauthbearer.method": "oidc", **named, **with_scope}
    if url or PRINCIPAL not in options:
        raise PipelineError(
            f"OAUTHBEARER needs the option {PRINCIPAL} or a server at {TOKEN_URL}: librdkafka,"
            " which writes the transactions, supports no other tokens"
        )
    return {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal={options[PRINCIPAL]}",
    }
