"""The settings of the container image, from a mounted file and from variables.

1. The file `server.properties`, if it is mounted in one of the folders of MOUNTED and not empty.
2. Variables, which win over the file (kwire.cli.image.dialects).  `KAFKA_LOG_RETENTION_HOURS` is
   `log.retention.hours`, two underscores become one, three become a dash.  Without listeners
   the broker listens on all interfaces, on the ports of the advertised listeners.
3. Without both: one broker on port 9092 that advertises localhost:9092.

The image differs from apache/kafka in two defaults: it stores data in the volume, and internal
topics have one replica, so that a single broker works with any settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.image.bitnami import YES
from kwire.cli.image.reading import VariableReading
from kwire.cli.image.translating import translate
from kwire.cli.image.volumes import data_folder

if TYPE_CHECKING:
    from kwire.settings import BrokerConfig

MOUNTED = (
    Path("/mnt/shared/config/server.properties"),
    Path("/bitnami/kafka/config/server.properties"),
    Path("/opt/bitnami/kafka/config/server.properties"),
)
GENERATED_ID = "1001"
"""The id of a broker on ZooKeeper that none is given: the first one that Apache Kafka generates."""

UNCONFIGURED = {
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
}
"""The settings of Apache Kafka's image if none are given; those of the metrics do not count."""

ALONE = {
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Defaults of a broker that is not a member of a cluster."""


def container_settings(
    environ: Mapping[str, str], overrides: Mapping[str, str], mounted: Path | None = None
) -> tuple[Path | None, dict[str, str], dict[str, str]]:
    """Return the file, the overrides and the environment to load the configuration from.

    Raises ConfigError.
    """
    return settings_of(translate(environ), overrides, mounted)


def settings_of(
    reading: VariableReading, overrides: Mapping[str, str], mounted: Path | None = None
) -> tuple[Path | None, dict[str, str], dict[str, str]]:
    """Return file, overrides and environment as above, of variables that were read.

    Raises ConfigError if the file cannot be read.
    """
    from kwire.settings.metrics import HOST, PORT
    from kwire.settings.properties import read_properties

    _listen_where_advertised(reading)
    if mounted is None:
        mounted = next((path for path in MOUNTED if path.is_file()), MOUNTED[0])
    file = read_properties(mounted) if mounted.is_file() else {}
    given = {**file, **reading.settings, **overrides}
    is_configured = any(name not in (PORT, HOST) for name in given)
    defaults = {} if is_configured else dict(UNCONFIGURED)
    if "log.dirs" not in given and "log.dir" not in given:
        defaults["log.dirs"] = data_folder()
    if not _is_member(given):
        defaults |= {name: value for name, value in ALONE.items() if name not in given}
        if "broker.id" in given:
            defaults.pop("node.id", None)
    elif "zookeeper.connect" in given and "node.id" not in given:
        folder = defaults.get("log.dirs") or given.get("log.dirs") or given.get("log.dir", "")
        if given.get("broker.id", "-1") == "-1":
            defaults["broker.id"] = stored_id(folder) or GENERATED_ID
            reading.settings.pop("broker.id", None)
    return (mounted if file else None), {**defaults, **overrides}, reading.as_variables()


def stored_id(log_dirs: str) -> str:
    """The broker's id in meta.properties of the first log directory; empty without it."""
    from kwire.settings.properties import read_properties

    path = Path(log_dirs.partition(",")[0].strip()) / "meta.properties"
    if not path.is_file():
        return ""
    stored = read_properties(path)
    return stored.get("broker.id") or stored.get("node.id", "")


def _is_member(given: Mapping[str, str]) -> bool:
    """Return whether a broker with these settings joins a cluster of several."""
    return "zookeeper.connect" in given or given.get("process.roles", "").strip() == "broker"


def adopt_cluster_id(log_dirs: Sequence[str], node_id: int, cluster_id: str) -> None:
    """Write meta.properties into log directories without one, as `kafka-storage format` does."""
    for directory in map(Path, log_dirs):
        path = directory / "meta.properties"
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True)
            path.write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n")


def log_level(environ: Mapping[str, str], default: str) -> str:
    """The log level that KAFKA_LOG4J_ROOT_LOGLEVEL gives by Log4j's name, or `default`."""
    names = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning"}
    names |= {"ERROR": "error", "FATAL": "error", "OFF": "error"}
    if environ.get("BITNAMI_DEBUG", "").lower() in YES:
        default = "debug"
    return names.get(environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper(), default)


def own_config(environ: Mapping[str, str]) -> BrokerConfig:
    """The configuration of the broker in this container.  Raises ConfigError."""
    from kwire.settings import load

    return load(*container_settings(environ, {}))


def own_address(config: BrokerConfig) -> tuple[str, int]:
    """(host, port) at which the image's health check reaches the broker in this container.

    It is a listener without TLS and login, if there is one.
    """
    listeners = config.listeners
    plain = [each for each in listeners if each.security_protocol == "PLAINTEXT"]
    listener = (plain or listeners)[0]
    everywhere = listener.host in ("", "0.0.0.0", "::")
    return ("127.0.0.1" if everywhere else listener.host), listener.port


def _listen_where_advertised(reading: VariableReading) -> None:
    """Derive missing listeners from the advertised ones: all interfaces, the same ports."""
    advertised = reading.settings.get("advertised.listeners")
    if advertised and not reading.settings.get("listeners"):
        everywhere = re.sub(r"://(\[[^]]*\]|[^:,]*):", "://0.0.0.0:", advertised)
        reading.settings["listeners"] = everywhere
        reading.origins["listeners"] = reading.origins["advertised.listeners"]
