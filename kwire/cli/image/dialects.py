"""What each variable of the four images becomes.  `make generated` writes the table in
docker/README.md from here.

A name that ends in `*` stands for all that begin so; the longest name that fits counts.  Any other
`KAFKA_*` variable is a setting, as in the image apache/kafka.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from kwire.cli.image import bitnami
from kwire.cli.image.reading import VariableReading

Read = Callable[[VariableReading, str, str], None]
"""Reads one variable: (reading, name, value)."""


class Dialect(StrEnum):
    """The image that has a variable."""

    APACHE = "apache/kafka"
    CONFLUENT = "confluentinc/cp-kafka"
    BITNAMI = "bitnami/kafka"
    WURSTMEISTER = "wurstmeister/kafka"
    KWIRE = "kwire"


class Variable(NamedTuple):
    """A variable that is not simply a setting."""

    name: str
    dialect: Dialect
    becomes: str
    """What it becomes, as Markdown; for a variable without effect, the reason."""
    read: Read | None = None
    """How it is read alone; None if `translating` reads it together with other variables."""
    has_effect: bool = True


def _identify(reading: VariableReading, name: str, value: str) -> None:
    if value.strip():
        reading.identify(value.strip(), name)


def _setting_of_bitnami(reading: VariableReading, name: str, value: str) -> None:
    reading.give(bitnami.setting_of(name), value, name)


def _give(setting: str, reading: VariableReading, name: str, value: str) -> None:
    reading.give(setting, value, name)


def _without_effect(reason: str, reading: VariableReading, name: str, value: str) -> None:
    if value.strip():
        reading.ignored[name] = reason


def _skip(reading: VariableReading, name: str, value: str) -> None:
    """Images and Kubernetes set the variable by themselves, so that nothing is said of it."""


def _unused(name: str, dialect: Dialect, reason: str = "this image has no Java") -> Variable:
    return Variable(name, dialect, reason, partial(_without_effect, reason), has_effect=False)


def _alias(name: str, setting: str) -> Variable:
    return Variable(name, Dialect.BITNAMI, f"`{setting}`", partial(_give, setting))


JMX: Final = "there is no JMX; `KAFKA_METRICS_PORT` serves metrics to Prometheus"
LOGGING: Final = "there is one log level, `KAFKA_LOG4J_ROOT_LOGLEVEL`"
COMPONENTS: Final = "it belongs to components of Confluent that kwire does not have"
GONE: Final = "Kafka 4 has this setting no longer"
NO_CONTROLLER: Final = "kwire has no KRaft controller"
ZOOKEEPER_SECURITY: Final = "set `KAFKA_CFG_ZOOKEEPER_SSL_*` for TLS to ZooKeeper"
STARTED: Final = "the image's own start script reads it, and kwire has another"

A, C, B, W, K = Dialect
VARIABLES: Final = (
    Variable("CLUSTER_ID", A, "the cluster id of an empty data folder", _identify),
    Variable("KAFKA_LOG4J_ROOT_LOGLEVEL", A, "the log level: DEBUG, INFO, WARN or ERROR", _skip),
    Variable(
        "KAFKA_ZOOKEEPER_CONNECT", A, "`zookeeper.connect`; without effect if `process.roles` is "
        "set, or if it names localhost: this image has no ZooKeeper",
        partial(_give, "zookeeper.connect"),
    ),
    _unused("KAFKA_HEAP_OPTS", A),
    _unused("KAFKA_JVM_PERFORMANCE_OPTS", A),
    _unused("KAFKA_GC_LOG_OPTS", A),
    _unused("KAFKA_JMX_*", A, JMX),
    _unused("JMX_PORT", A, JMX),
    _unused("KAFKA_LOG4J_LOGGERS", A, LOGGING),
    _unused("KAFKA_LOG4J_OPTS", A, LOGGING),
    _unused("KAFKA_LOG4J_CMD_OPTS", A, LOGGING),
    _unused("KAFKA_TOOLS_LOG4J_LOGLEVEL", A, LOGGING),
    Variable("KAFKA_VERSION", A, "nothing", _skip, has_effect=False),
    Variable("KAFKA_HOME", A, "nothing", _skip, has_effect=False),
    Variable("KAFKA_MODE", A, "nothing", _skip, has_effect=False),
    Variable("KAFKA_DEBUG", A, "nothing", _skip, has_effect=False),
    _unused("KAFKA_INTER_BROKER_PROTOCOL_VERSION", A, GONE),
    _unused("KAFKA_LOG_MESSAGE_FORMAT_VERSION", A, GONE),
    Variable(
        "KAFKA_OPTS", C, "with `-Djava.security.auth.login.config=FILE`: the logins of the section "
        "`KafkaServer` in FILE; anything else has no effect: this image has no Java",
    ),
    Variable(
        "KAFKA_SSL_KEYSTORE_FILENAME", C, "`ssl.keystore.location`, in `/etc/kafka/secrets`"
    ),
    Variable(
        "KAFKA_SSL_TRUSTSTORE_FILENAME", C, "`ssl.truststore.location`, in `/etc/kafka/secrets`"
    ),
    Variable(
        "KAFKA_SSL_KEY_CREDENTIALS", C, "`ssl.key.password`, from a file in `/etc/kafka/secrets`"
    ),
    Variable("KAFKA_SSL_KEYSTORE_CREDENTIALS", C, "`ssl.keystore.password`, likewise"),
    Variable("KAFKA_SSL_TRUSTSTORE_CREDENTIALS", C, "`ssl.truststore.password`, likewise"),
    _unused("KAFKA_CONFLUENT_*", C, COMPONENTS),
    _unused("CONFLUENT_*", C, COMPONENTS),
    _unused("KAFKA_REST_*", C, COMPONENTS),
    _unused("KAFKA_METRIC_REPORTERS", C, "plug-ins are Java; " + JMX),
    _unused("KAFKA_SCHEMA_REGISTRY_URL", C, COMPONENTS),
    _unused("KAFKA_CUB_ZK_TIMEOUT", C, STARTED),
    Variable("KAFKA_CFG_*", B, "the setting of that name", _setting_of_bitnami),
    Variable("KAFKA_CLUSTER_ID", B, "the cluster id of an empty data folder", _identify),
    Variable("KAFKA_KRAFT_CLUSTER_ID", B, "the same", _identify),
    Variable("ALLOW_PLAINTEXT_LISTENER", B, "`no` refuses a listener without TLS and login"),
    Variable("KAFKA_ENABLE_KRAFT", B, "`yes` makes `zookeeper.connect` have no effect"),
    Variable(
        "KAFKA_CLIENT_USERS", B, "users of the listeners with SASL: of PLAIN by their settings, "
        "and of SCRAM as the broker's users; separated by commas",
    ),
    Variable("KAFKA_CLIENT_PASSWORDS", B, "their passwords, in the same order"),
    Variable("KAFKA_INTER_BROKER_USER", B, "the login between brokers, and a user"),
    Variable("KAFKA_INTER_BROKER_PASSWORD", B, "its password"),
    _unused("KAFKA_CONTROLLER_USER", B, NO_CONTROLLER),
    _unused("KAFKA_CONTROLLER_PASSWORD", B, NO_CONTROLLER),
    _unused("KAFKA_INITIAL_CONTROLLERS", B, NO_CONTROLLER),
    _unused("KAFKA_CLIENT_LISTENER_NAME", B, STARTED),
    _unused("KAFKA_CLIENT_LISTENER", B, STARTED),
    _unused("KAFKA_SKIP_KRAFT_STORAGE_INIT", B, STARTED),
    _unused("KAFKA_KRAFT_BOOTSTRAP_SCRAM_USERS", B, STARTED),
    _unused("KAFKA_ZOOKEEPER_PROTOCOL", B, ZOOKEEPER_SECURITY),
    _unused("KAFKA_ZOOKEEPER_USER", B, "kwire logs in to no ZooKeeper"),
    _unused("KAFKA_ZOOKEEPER_PASSWORD", B, "kwire logs in to no ZooKeeper"),
    _unused("KAFKA_ZOOKEEPER_TLS_*", B, ZOOKEEPER_SECURITY),
    Variable(
        "KAFKA_TLS_TYPE", B, "`ssl.*.type`: JKS or PEM, of `kafka.keystore.*` and "
        "`kafka.truststore.*` in `/bitnami/kafka/config/certs`",
    ),
    Variable("KAFKA_TLS_CLIENT_AUTH", B, "`ssl.client.auth`, `required` by default"),
    Variable("KAFKA_TLS_TRUSTSTORE_FILE", B, "`ssl.truststore.location`"),
    Variable("KAFKA_TLS_*", B, "with `_CLIENT_AUTH`: `ssl.client.auth` of one listener"),
    Variable("KAFKA_CERTIFICATE_PASSWORD", B, "the passwords of key and stores"),
    Variable(
        "*_FILE", B, "the value of the variable without `_FILE`, from a file; of users, passwords "
        "and cluster ids",
    ),
    Variable("BITNAMI_DEBUG", B, "`true`: the log level debug", _skip),
    _alias("KAFKA_LOGS_DIRS", "log.dirs"),
    _alias("KAFKA_SEGMENT_BYTES", "log.segment.bytes"),
    _alias("KAFKA_MAX_MESSAGE_BYTES", "message.max.bytes"),
    _alias("KAFKA_ZOOKEEPER_CONNECT_TIMEOUT_MS", "zookeeper.connection.timeout.ms"),
    _unused("KAFKA_CFG_ADVERTISED_HOST_NAME", B, GONE),
    _unused("KAFKA_CFG_ADVERTISED_PORT", B, GONE),
    _unused("KAFKA_CFG_MAX_REQUEST_SIZE", B, "it is a setting of producers"),
    _unused("KAFKA_CFG_MAX_PARTITION_FETCH_BYTES", B, "it is a setting of consumers"),
    _unused("KAFKA_CFG_INTER_BROKER_PROTOCOL_VERSION", B, GONE),
    _unused("KAFKA_CFG_LOG_MESSAGE_FORMAT_VERSION", B, GONE),
    Variable(
        "KAFKA_CREATE_TOPICS", W, "topics that exist before clients connect: "
        "`NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY`, separated by commas; in a cluster they are "
        "created when the broker is ready",
    ),
    Variable("KAFKA_CREATE_TOPICS_SEPARATOR", W, "what separates topics; `$'\\n'` is a line feed"),
    Variable(
        "KAFKA_ADVERTISED_HOST_NAME", W, "the host in `advertised.listeners`; without effect if "
        "these are given",
    ),
    Variable("KAFKA_ADVERTISED_PORT", W, "the port in `advertised.listeners`, likewise"),
    Variable("KAFKA_HOST_NAME", W, "the host in `listeners`, likewise"),
    Variable("KAFKA_PORT", W, "the port in `listeners`, likewise"),
    Variable("KAFKA_ADVERTISED_PROTOCOL_NAME", W, "the name of the listener for clients outside"),
    Variable("KAFKA_PROTOCOL_NAME", W, "the name of the listener for brokers and clients inside"),
    Variable(
        "HOSTNAME_COMMAND", W, "its output is `KAFKA_ADVERTISED_HOST_NAME`, and replaces "
        "`_{HOSTNAME_COMMAND}` in other variables",
    ),
    Variable("PORT_COMMAND", W, "likewise, of `KAFKA_ADVERTISED_PORT` and `_{PORT_COMMAND}`"),
    Variable("BROKER_ID_COMMAND", W, "its output is `broker.id`"),
    Variable("RACK_COMMAND", W, "its output is `broker.rack`"),
    _unused("CUSTOM_INIT_SCRIPT", W, "put scripts into `/docker-entrypoint-initdb.d`"),
    Variable(
        "KWIRE_APPLY", K, "a [declaration](../docs/declared-state.md) that is applied before "
        "clients connect",
    ),
    Variable("KWIRE_ZOOKEEPER", K, "`ignore`: a broker alone, in spite of `zookeeper.connect`"),
    Variable("KWIRE_LOG_FORMAT", K, "plain, json ([fields](../docs/operations.md#logs))"),
)  # fmt: skip

_EXACT: Final = {each.name: each for each in VARIABLES if "*" not in each.name}
_PREFIXES: Final = sorted(
    (each for each in VARIABLES if each.name.endswith("*")), key=lambda each: -len(each.name)
)
_OF_KUBERNETES = re.compile(r"KAFKA_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT_\d+_TCP\w*)|KAFKA_\w+_PORT")
"""The variables that Kubernetes sets for services whose names begin with kafka."""


def variable_of(name: str, value: str) -> Variable | None:
    """The declaration that a variable falls under, or None for a setting of apache/kafka."""
    if name in _EXACT:
        return _EXACT[name]
    if _OF_KUBERNETES.fullmatch(name) and (
        value.startswith("tcp://") or "_PORT_" in name or "_SERVICE_" in name
    ):
        return Variable(name, Dialect.KWIRE, "nothing", _skip, has_effect=False)
    return next((each for each in _PREFIXES if name.startswith(each.name[:-1])), None)


def table() -> str:
    """The rows of docker/README.md: each variable, and what it becomes."""
    rows = ["| image | variable | becomes |", "| --- | --- | --- |"]
    grouped: dict[tuple[Dialect, str], list[str]] = {}
    for each in VARIABLES:
        if each.read is not _skip or each.has_effect:
            text = each.becomes if each.has_effect else f"nothing: {each.becomes}"
            grouped.setdefault((each.dialect, text), []).append(f"`{each.name}`")
    shown: set[Dialect] = set()
    for (dialect, text), names in grouped.items():
        image = "" if dialect in shown else dialect.value
        shown.add(dialect)
        rows.append(f"| {image} | {', '.join(names)} | {text} |")
    return "".join(f"{row}\n" for row in rows)
