"""Turns the variables of an environment into settings of Kafka.  Raises ConfigError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.cli.image import bitnami, confluent, wurstmeister
from kwire.cli.image.dialects import variable_of
from kwire.cli.image.reading import VariableReading, read_file
from kwire.settings.environment import PREFIX, setting_name
from kwire.settings.error import ConfigError

FROM_FILES: Final = (
    "KAFKA_CLIENT_USERS",
    "KAFKA_CLIENT_PASSWORDS",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_CONTROLLER_USER",
    "KAFKA_CONTROLLER_PASSWORD",
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_CLUSTER_ID",
    "KAFKA_KRAFT_CLUSTER_ID",
)
"""Variables of bitnami/kafka whose value may be in the file that NAME_FILE names."""
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OF_ZOOKEEPER: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
"""The authorizers of Apache Kafka 3 and 2 on ZooKeeper, the newer one first."""


def translate(environ: Mapping[str, str]) -> VariableReading:
    """The settings, users and topics that variables of all four images ask for."""
    reading = VariableReading(_with_files(environ))
    wurstmeister.run_commands(reading.environ)
    for name, value in reading.environ.items():
        declared = variable_of(name, value)
        if declared is not None:
            if declared.read is not None:
                declared.read(reading, name, value)
        elif name.startswith(PREFIX):
            reading.give(setting_name(name), value, name)
    _zookeeper(reading)
    _authorizer(reading)
    wurstmeister.finish(reading)
    confluent.finish(reading)
    bitnami.finish(reading)
    _options_of_java(reading)
    _check_quorum(reading)
    return reading


def ignored_sentences(reading: VariableReading) -> list[str]:
    """A sentence for each reason for which variables have no effect."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in reading.ignored.items():
        by_reason.setdefault(reason.replace("`", ""), []).append(name)
    return [
        f"{', '.join(sorted(names))} {'has' if len(names) == 1 else 'have'} no effect: {reason}"
        for reason, names in by_reason.items()
    ]


def _with_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables; those of *_FILE get the text of the files."""
    resolved = dict(environ)
    for name in FROM_FILES:
        variable = f"{name}_FILE"
        if path := resolved.pop(variable, "").strip():
            if resolved.get(name):
                raise ConfigError(f"{name} and {variable} are both set: leave one of them out")
            resolved[name] = read_file(path, variable).strip()
    return resolved


def _zookeeper(reading: VariableReading) -> None:
    """Drop `zookeeper.connect` if the broker shall be alone, or beside KRaft controllers."""
    settings = reading.settings
    connect = settings.get("zookeeper.connect", "")
    wanted = reading.given("KWIRE_ZOOKEEPER") or "join"
    if wanted not in ("join", "ignore"):
        raise ConfigError(f"KWIRE_ZOOKEEPER={wanted}: write join or ignore")
    kraft = reading.given("KAFKA_ENABLE_KRAFT").lower()
    if kraft and kraft not in (*bitnami.YES, *bitnami.NO):
        raise ConfigError(f"KAFKA_ENABLE_KRAFT={kraft}: write yes or no")
    hosts = {
        address.rpartition(":")[0] or address for address in connect.partition("/")[0].split(",")
    }
    if not connect.strip():
        reading.drop("zookeeper.connect", "it is empty")
    elif wanted == "ignore":
        reading.drop("zookeeper.connect", "KWIRE_ZOOKEEPER is ignore")
    elif settings.get("process.roles"):
        reading.drop("zookeeper.connect", "process.roles is set, so that there is no ZooKeeper")
    elif kraft in bitnami.YES:
        reading.drop("zookeeper.connect", f"KAFKA_ENABLE_KRAFT is {kraft}")
    elif not reading.given("KWIRE_ZOOKEEPER") and hosts <= {"localhost", "127.0.0.1", "[::1]"}:
        reading.drop(
            "zookeeper.connect",
            "this image has no ZooKeeper, and kwire needs none (KWIRE_ZOOKEEPER=join uses it all "
            "the same)",
        )
    if not settings.get("zookeeper.connect") and settings.get("broker.id") == "-1":
        reading.drop("broker.id", "without ZooKeeper nothing gives out ids; node.id is 1")


def _authorizer(reading: VariableReading) -> None:
    """Replace the authorizer by that of today, which decides by the same access control lists."""
    name = reading.settings.get("authorizer.class.name", "")
    if name in OF_ZOOKEEPER:
        is_on_zookeeper = "zookeeper.connect" in reading.settings
        reading.settings["authorizer.class.name"] = OF_ZOOKEEPER[0] if is_on_zookeeper else STANDARD


def _options_of_java(reading: VariableReading) -> None:
    """Note that KAFKA_OPTS has no effect, unless logins were read by it."""
    if reading.given("KAFKA_OPTS") and "KAFKA_OPTS" not in reading.origins.values():
        reading.ignored["KAFKA_OPTS"] = "this image has no Java"


def _check_quorum(reading: VariableReading) -> None:
    """Raise ConfigError for one of several KRaft controllers, which kwire cannot be."""
    roles = {role.strip() for role in reading.settings.get("process.roles", "").split(",")}
    voters = [
        each for each in reading.settings.get("controller.quorum.voters", "").split(",") if each
    ]
    if roles == {"controller"}:
        variable = reading.origins["process.roles"]
        raise ConfigError(
            f"{variable}=controller: kwire cannot be a KRaft controller. Leave this container on "
            "its image, or leave it out and let one broker be alone (docker/compose.yaml)"
        )
    if "controller" in roles and len(voters) > 1:
        variable = reading.origins["controller.quorum.voters"]
        raise ConfigError(
            f"{variable} names {len(voters)} controllers, and kwire cannot be one of several. For "
            "one broker name only itself; for more, see docker/cluster.yaml (ZooKeeper) and "
            "docker/cluster-kraft.yaml (a controller of Apache Kafka)"
        )
