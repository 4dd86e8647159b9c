"""The settings of the container image, which it reads as the apache/kafka image does.

1. The file `/mnt/shared/config/server.properties`, if it is mounted and not empty.
2. `KAFKA_*` variables, which win over the file: `KAFKA_LOG_RETENTION_HOURS` is
   `log.retention.hours`, two underscores become one, three become a dash.  Without KAFKA_LISTENERS
   the broker listens on all interfaces, on the ports of KAFKA_ADVERTISED_LISTENERS.
3. Without both: one broker on port 9092 that advertises localhost:9092.

CLUSTER_ID sets the cluster id of an empty data folder.  KAFKA_LOG4J_ROOT_LOGLEVEL sets the log
level.  The image differs from apache/kafka in two defaults: it stores data in the volume, and
internal topics have one replica, so that a single broker works with any settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

MOUNTED = Path("/mnt/shared/config/server.properties")
DATA_DIR = "/var/lib/kafka/data"

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
    environ: Mapping[str, str], overrides: Mapping[str, str], mounted: Path = MOUNTED
) -> tuple[Path | None, dict[str, str], dict[str, str]]:
    """(file, overrides, environment) to load the configuration from."""
    from kwire.settings.environment import settings_from
    from kwire.settings.metrics import HOST, PORT
    from kwire.settings.properties import read_properties

    environment = with_listeners(environ)
    file = read_properties(mounted) if mounted.is_file() else {}
    given = {**file, **settings_from(environment), **overrides}
    is_configured = any(name not in (PORT, HOST) for name in given)
    defaults = {} if is_configured else dict(UNCONFIGURED)
    if not _is_member(given):
        defaults |= {name: value for name, value in ALONE.items() if name not in given}
        if "broker.id" in given:
            defaults.pop("node.id", None)
    if "log.dirs" not in given and "log.dir" not in given:
        defaults["log.dirs"] = DATA_DIR
    return (mounted if file else None), {**defaults, **overrides}, environment


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
    return names.get(environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper(), default)


def own_address() -> tuple[str, int]:
    """(host, port) at which the image's health check reaches the broker in this container."""
    import os

    from kwire.settings import load

    listener = load(*container_settings(os.environ, {})).listeners[0]
    everywhere = listener.host in ("", "0.0.0.0", "::")
    return ("127.0.0.1" if everywhere else listener.host), listener.port


def with_listeners(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables; KAFKA_LISTENERS is derived from the advertised listeners if it is missing."""
    environment = dict(environ)
    advertised = environment.get("KAFKA_ADVERTISED_LISTENERS")
    if advertised and not environment.get("KAFKA_LISTENERS"):
        everywhere = re.sub(r"://(\[[^]]*\]|[^:,]*):", "://0.0.0.0:", advertised)
        environment["KAFKA_LISTENERS"] = everywhere
    return environment
