"""Checks of the configs that requests set on topics, brokers, groups and client metrics.

Each check gets all configs that the resource would have, and raises Refusal with Kafka's error
code and message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.settings import CLUSTER_DEFAULT, BrokerConfig, ConfigError
from kwire.settings.broker import definition_of, update_mode
from kwire.settings.client_metrics_settings import (
    INTERVAL_MS_MAX,
    INTERVAL_MS_MIN,
    ClientMetricsSettings,
    match_patterns,
)
from kwire.settings.definition import UpdateMode
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.definitions.topics import (
    SYNONYMS,
    broker_defaults,
    check_compaction_lags,
    topic_settings,
)
from kwire.settings.error import BrokenRule
from kwire.settings.groups import check_group_configs
from kwire.settings.rules import has_duplicates
from kwire.settings.topic_settings import TopicSettings
from kwire.settings.values import ConfigType

NO_LIMIT = -1
AS_RETENTION = -2
"""The value of the local retention that makes it as long as the retention."""

_OF_LOGS = frozenset(default.name for defaults in SYNONYMS.values() for default in defaults)
"""Broker settings that are defaults of topic configs."""


def check_new_topic_configs(
    config: BrokerConfig, configs: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the configs of a new topic, checked.  Raises Refusal if one is null or invalid."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    given = {name: value for name, value in configs.items() if value is not None}
    check_topic(config, given)
    return given


def check_topic(config: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Raise Refusal unless a topic of this broker can have these configs."""
    _refuse_unknown("topic", configs, TopicSettings.DEFINITIONS)
    try:
        settings = topic_settings(config, configs)
        check_compaction_lags(settings)
    except ConfigError as problem:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(problem)) from problem
    if settings.remote_storage_enable and not config.remote_log_storage_system_enable:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


def check_group(config: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Raise Refusal unless a group of this broker can have these configs."""
    _refuse_unknown("group", configs, GroupResourceSettings.DEFINITIONS)
    try:
        check_group_configs(config, configs)
    except ConfigError as problem:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(problem)) from problem


def _refuse_unknown(kind: str, configs: Mapping[str, str], known: Iterable[str]) -> None:
    for name in configs:
        if name not in known:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"Unknown {kind} config name: {name}")


def check_broker(
    static: BrokerConfig, cluster: Mapping[str, str], broker: Mapping[str, str], name: str
) -> None:
    """Raise Refusal unless the broker can have these dynamic configs.

    `cluster` holds the configs for all brokers, `broker` those for one broker.  `name` is the
    resource that changes, one of the two.  Unknown names are accepted, as Kafka keeps them for
    plug-ins.
    """
    configs = cluster if name == CLUSTER_DEFAULT else broker
    _refuse_repeated_items(configs)
    _refuse(
        "Cannot update these configs dynamically",
        [one for one in configs if definition_of(one) and update_mode(one) is _READ_ONLY],
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        [one for one in configs if one in PER_LISTENER],
    )
    if name == CLUSTER_DEFAULT:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [one for one in configs if update_mode(one) is UpdateMode.PER_BROKER],
        )
    rebinding = [one for one in configs if one in _NEEDS_RESTART]
    _refuse("This broker changes its listeners by a restart only", rebinding)
    try:
        for one, value in configs.items():
            definition = definition_of(one)
            if definition is not None:
                definition.parse(value)
        changed = static.with_dynamic(cluster, broker)
        if not _OF_LOGS.isdisjoint(configs):
            _check_local_part(TopicSettings(broker_defaults(changed)))
    except BrokenRule as problem:
        # Kafka checks these rules by Scala's `require`, which words the message like this.
        sentence = f"requirement failed: {problem}"
        raise Refusal(ErrorCode.INVALID_REQUEST, sentence) from problem
    except ConfigError as problem:
        raise Refusal(ErrorCode.INVALID_REQUEST, str(problem)) from problem


def _check_local_part(settings: TopicSettings) -> None:
    """Raise ConfigError if the local retention of tiered logs, or their copy lag, is too long.

    Local retention must not exceed the retention, nor the copy lag the local retention.  Kafka
    checks this when a setting of logs changes at run time, even without tiered storage.
    """
    ms = (settings.retention_ms, settings.local_retention_ms, settings.remote_copy_lag_ms, "ms")
    size = (
        settings.retention_bytes,
        settings.local_retention_bytes,
        settings.remote_copy_lag_bytes,
        "bytes",
    )
    problems = (
        *(_local_problem(total, local, unit) for total, local, _, unit in (ms, size)),
        *(_lag_problem(total, local, lag, unit) for total, local, lag, unit in (ms, size)),
    )
    for problem in filter(None, problems):
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {problem} for "
            "configuration Invalid dynamic configuration"
        )


def _local_problem(total: int, local: int, unit: str) -> str | None:
    """Return Kafka's message if the local retention exceeds the retention; -1 is no limit."""
    if total == NO_LIMIT or (local != NO_LIMIT and local <= total):
        return None
    start = f"Invalid value {local} for configuration log.local.retention.{unit}: Value must not be"
    if local == NO_LIMIT:
        return f"{start} -1 as log.retention.{unit} value is set as {total}."
    return f"{start} more than log.retention.{unit} property value: {total}"


def _lag_problem(total: int, local: int, lag: int, unit: str) -> str | None:
    """Return Kafka's message if segments would be deleted before they are copied."""
    effective = total if local == AS_RETENTION else local
    if effective == NO_LIMIT or lag <= effective:
        return None
    return (
        f"Invalid value {lag} for configuration log.remote.copy.lag.{unit}: Value must not exceed "
        f"log.local.retention.{unit} (effective value: {effective})"
    )


def _refuse_repeated_items(configs: Mapping[str, str]) -> None:
    """Raise Refusal for a list that names an item twice.

    Kafka drops such items of topics' configs and of settings in a file, but not of these configs.
    """
    for name, text in configs.items():
        definition = definition_of(name)
        if definition is None or definition.kind is not ConfigType.LIST:
            continue
        if has_duplicates(text):
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Configuration '{definition.name}' values must not be duplicated.",
            )


_READ_ONLY = UpdateMode.READ_ONLY
_NEEDS_RESTART = frozenset({"listeners", "listener.security.protocol.map"})
"""Kafka can bind and unbind listeners at run time.  kwire cannot, and so refuses the change."""

PER_LISTENER = frozenset(
    name
    for name, definition in BrokerConfig.DEFINITIONS.items()
    if name.startswith("ssl.") and definition.mode is UpdateMode.PER_BROKER
)
"""TLS settings that can change at run time for one listener at a time only (KIP-226)."""


def _refuse(reason: str, names: list[str]) -> None:
    if names:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{reason}: [{', '.join(names)}]")


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Raise Refusal unless a client metrics subscription can have these configs."""
    for name in configs:
        if name not in ClientMetricsSettings.DEFINITIONS:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}"
            )
    try:
        settings = ClientMetricsSettings(configs)
    except ConfigError as problem:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(problem)) from problem
    if not INTERVAL_MS_MIN <= settings.interval_ms <= INTERVAL_MS_MAX:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {settings.interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)",
        )
    try:
        deque(match_patterns(settings.match), maxlen=0)
    except ConfigError as problem:
        raise Refusal(ErrorCode.INVALID_CONFIG, str(problem)) from problem
