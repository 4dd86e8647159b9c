"""Settings from `KAFKA_*` environment variables, named as the apache/kafka image names them."""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "KAFKA_"

NOT_SETTINGS = frozenset(
    {
        # The image reads these for the JVM and for logging.
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
        # Kafka's start scripts and other images put these into the environment.
        "KAFKA_CLUSTER_ID",
        "KAFKA_DEBUG",
        "KAFKA_HOME",
        "KAFKA_JMX_PORT",
        "KAFKA_LOG4J_CMD_OPTS",
        "KAFKA_MODE",
    }
)


def settings_from(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that `KAFKA_*` variables give, by Kafka's names."""
    return {
        setting_name(variable): value
        for variable, value in environ.items()
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS
    }


def setting_name(variable: str) -> str:
    """`log.dirs` for `KAFKA_LOG_DIRS`.  Two underscores become one, three become a dash."""
    name = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")
