"""Rules between several settings, which Kafka checks when a broker starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwire.settings.connection_limits import check_listener_limits, parse_overrides
from kwire.settings.definitions.groups import GroupResourceSettings, GroupSettings
from kwire.settings.error import BrokenRule, ConfigError, InvalidValue

if TYPE_CHECKING:
    from kwire.settings.broker import BrokerConfig
    from kwire.settings.definition import Settings

_MIB = 1024 * 1024
STREAMS_TAGS = "group.streams.rack.aware.assignment.tags"
STREAMS_ASSIGNORS = ("sticky",)
"""The task assignors that `group.streams.assignors` may name."""


def check_together(config: BrokerConfig) -> None:
    """Raise ConfigError for the first broken rule."""
    for sentence in _broken_rules(config):
        raise BrokenRule(sentence)
    for sentence in _broken_group_rules(config):
        raise ConfigError(sentence)
    for name in config.group_streams_assignors:
        if name not in STREAMS_ASSIGNORS:
            raise InvalidValue("group.streams.assignors", name, "Class cannot be found")
    parse_overrides(config.max_connections_per_ip_overrides)
    check_listener_limits({**config.explicit, **config.dynamic})


def _broken_rules(config: BrokerConfig) -> Iterator[str]:
    """Yield Kafka's message for each broken rule, in the order of its checks."""
    yield from _broken_log_rules(config)
    yield from _broken_cordoning(config)
    if config.joins_controllers:
        yield from _broken_quorum_rules(config)
    if config.replica_fetch_wait_max_ms > config.replica_socket_timeout_ms:
        yield (
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to "
            "prevent unnecessary socket timeouts"
        )
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        yield (
            "replica.fetch.wait.max.ms should always be less than or equal to "
            "replica.lag.time.max.ms to prevent frequent changes in ISR"
        )
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        yield (
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        )
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        yield "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    if has_duplicates(config.explicit.get(STREAMS_TAGS, "")):
        yield f"{STREAMS_TAGS} must not contain duplicate tag keys."
    if not 0 <= config.offsets_topic_compression_codec <= 4:
        yield f"Unknown compression type id: {config.offsets_topic_compression_codec}"


def _broken_cordoning(config: BrokerConfig) -> Iterator[str]:
    """Yield Kafka's message if cordoned.log.dirs names what is no log directory."""
    names = config.cordoned_log_dirs
    if "*" in names:
        if len(names) > 1:
            yield "When cordoned.log.dirs is set to *, it must not contain other values"
    elif missing := [name for name in names if name not in config.log_dirs]:
        yield (
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing "
            f"entries : {', '.join(missing)}"
        )


def _broken_quorum_rules(config: BrokerConfig) -> Iterator[str]:
    """Yield Kafka's message for each broken rule about a broker beside KRaft controllers."""
    if not (config.controller_quorum_bootstrap_servers or config.controller_quorum_voters):
        yield (
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the "
            "set of bootstrap controllers or controller.quorum.voters must contain a parseable set "
            "of controllers."
        )
    if not config.controller_listener_names:
        yield (
            "controller.listener.names must contain at least one value when running KRaft with "
            "just the broker role"
        )


def _broken_log_rules(config: BrokerConfig) -> Iterator[str]:
    """Yield Kafka's message for each broken rule about rolling, retention and the cleaner.

    Of the retention settings only the most precise one that is given counts.
    """
    roll_ms, jitter_ms = config.log_roll_ms, config.log_roll_jitter_ms
    if roll_ms is not None and roll_ms < 1:
        yield "log.roll.ms must be greater than or equal to 1"
    if jitter_ms is not None and jitter_ms < 0:
        yield "log.roll.jitter.ms must be greater than or equal to 0"
    retention: int | None
    for retention in (
        config.log_retention_ms,
        config.log_retention_minutes,
        config.log_retention_hours,
    ):
        if retention is None:
            continue
        if retention == 0:
            yield "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
        break
    if config.log_cleaner_dedupe_buffer_size < _MIB * config.log_cleaner_threads:
        yield "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."


GROUP_KINDS = ("consumer", "share", "streams")


def _bounds_of(name: str) -> tuple[str | None, str | None]:
    """Return the names of the broker settings that bound a group config: (lower, upper), None
    without.
    """
    kind, _, rest = name.partition(".")
    rest = rest.removeprefix("num.")  # The bound is named group.streams.max.standby.replicas.
    low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    known = GroupSettings.DEFINITIONS
    return low if low in known else None, high if high in known else None


BOUNDED = {
    name: bounds for name in GroupResourceSettings.DEFINITIONS if any(bounds := _bounds_of(name))
}
"""The broker settings that are the lower and the upper bound of each bounded group config."""


def _broken_group_rules(config: BrokerConfig) -> Iterator[str]:
    """Yield Kafka's message for each broken rule about groups: bounds and heartbeats."""
    for name, (low, high) in BOUNDED.items():
        if low is not None and high is not None and number(config, low) > number(config, high):
            yield f"{high} must be greater than or equal to {low}"
        default = f"group.{name}"
        if low is not None and number(config, default) < number(config, low):
            yield f"{default} must be greater than or equal to {low}"
        if high is not None and number(config, default) > number(config, high):
            yield f"{default} must be less than or equal to {high}"
    for kind in GROUP_KINDS:
        heartbeat = f"group.{kind}.heartbeat.interval.ms"
        session = f"group.{kind}.session.timeout.ms"
        if number(config, heartbeat) >= number(config, session):
            yield f"{heartbeat} must be less than {session}"


def has_duplicates(names: str) -> bool:
    """Whether the text of a list, which drops duplicates when it is parsed, names one twice."""
    listed = [each.strip() for each in names.split(",")]
    return len(set(listed)) < len(listed)


def number(settings: Settings, name: str) -> int:
    """The value of a numeric setting."""
    value: int = getattr(settings, name.replace(".", "_"))
    return value
