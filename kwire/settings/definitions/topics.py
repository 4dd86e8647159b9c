"""The configs of a topic, and the broker settings that are their defaults.

A config set on the topic wins over a broker setting set for this broker, for all brokers and in the
broker's file, in this order, and over Kafka's default.  If several broker settings are the default
of one config (`log.roll.ms` and `log.roll.hours` of `segment.ms`), the finer unit wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire.settings.broker import BrokerConfig
from kwire.settings.error import ConfigError
from kwire.settings.topic_settings import MS_PER_HOUR, TopicSettings

if TYPE_CHECKING:
    from kwire.log import LogConfig

_MS_PER_MINUTE = 60_000


class BrokerDefault(NamedTuple):
    """A broker setting that is the default of a topic config; `unit_ms` is the unit of a time."""

    name: str
    unit_ms: int = 0

    def convert(self, text: str) -> str:
        """The topic config for a value of the setting.  Any negative time becomes -1, no limit."""
        return str(max(-1, int(text) * self.unit_ms)) if self.unit_ms else text


def _one(name: str) -> tuple[BrokerDefault, ...]:
    return (BrokerDefault(name),)


SYNONYMS: Mapping[str, tuple[BrokerDefault, ...]] = {
    "cleanup.policy": _one("log.cleanup.policy"),
    "compression.gzip.level": _one("compression.gzip.level"),
    "compression.lz4.level": _one("compression.lz4.level"),
    "compression.type": _one("compression.type"),
    "compression.zstd.level": _one("compression.zstd.level"),
    "delete.retention.ms": _one("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _one("log.segment.delete.delay.ms"),
    "flush.messages": _one("log.flush.interval.messages"),
    "flush.ms": (
        BrokerDefault("log.flush.interval.ms"),
        BrokerDefault("log.flush.scheduler.interval.ms"),
    ),
    "index.interval.bytes": _one("log.index.interval.bytes"),
    "local.retention.bytes": _one("log.local.retention.bytes"),
    "local.retention.ms": _one("log.local.retention.ms"),
    "max.compaction.lag.ms": _one("log.cleaner.max.compaction.lag.ms"),
    "max.decompressed.message.bytes": _one("max.decompressed.message.bytes"),
    "max.message.bytes": _one("message.max.bytes"),
    "message.timestamp.after.max.ms": _one("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _one("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _one("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _one("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _one("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _one("min.insync.replicas"),
    "preallocate": _one("log.preallocate"),
    "remote.copy.lag.bytes": _one("log.remote.copy.lag.bytes"),
    "remote.copy.lag.ms": _one("log.remote.copy.lag.ms"),
    "retention.bytes": _one("log.retention.bytes"),
    "retention.ms": (
        BrokerDefault("log.retention.ms", 1),
        BrokerDefault("log.retention.minutes", _MS_PER_MINUTE),
        BrokerDefault("log.retention.hours", MS_PER_HOUR),
    ),
    "segment.bytes": _one("log.segment.bytes"),
    "segment.index.bytes": _one("log.index.size.max.bytes"),
    "segment.jitter.ms": (
        BrokerDefault("log.roll.jitter.ms"),
        BrokerDefault("log.roll.jitter.hours", MS_PER_HOUR),
    ),
    "segment.ms": (BrokerDefault("log.roll.ms"), BrokerDefault("log.roll.hours", MS_PER_HOUR)),
    "unclean.leader.election.enable": _one("unclean.leader.election.enable"),
}
"""The broker settings that are the default of each topic config.  The first that is set applies."""


def broker_defaults(config: BrokerConfig) -> dict[str, str]:
    """Return the topic configs that the broker's settings give, as text.

    A config without a given broker setting is left out: Kafka's default applies.
    """
    defaults: dict[str, str] = {}
    for name, synonyms in SYNONYMS.items():
        for synonym in synonyms:
            text = config.given(synonym.name)
            if text is not None:
                defaults[name] = synonym.convert(text)
                break
    return defaults


def topic_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> TopicSettings:
    """Return the configs of a topic with these overrides, checked one by one.

    Unknown names in `overrides` are ignored.  Raises ConfigError.  The configs are not checked
    together: `check_compaction_lags` does so when they are changed.  A controller may accept what
    conflicts with other defaults of this broker, which uses it then, as in Apache Kafka.
    """
    overrides = {
        name: text for name, text in overrides.items() if name in TopicSettings.DEFINITIONS
    }
    return TopicSettings({**broker_defaults(config), **overrides})


def check_compaction_lags(settings: TopicSettings) -> None:
    """Raise ConfigError if the minimum compaction lag is above the maximum."""
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise ConfigError(
            "conflict topic config setting min.compaction.lag.ms "
            f"({settings.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({settings.max_compaction_lag_ms})"
        )


_FIELDS: dict[str, Callable[[tuple[str, ...]], object]] = {"cleanup_policy": frozenset}


def topic_log_config(config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return the configuration of the logs of a topic with these overrides.  Raises ConfigError."""
    from kwire.log import LogConfig

    settings = topic_settings(config, overrides)
    fields = {
        definition.attribute: getattr(settings, definition.attribute)
        for definition in TopicSettings.DEFINITIONS.values()
        if not definition.internal
    }
    for attribute, convert in _FIELDS.items():
        fields[attribute] = convert(fields[attribute])
    if settings.internal_segment_bytes is not None:
        fields["segment_bytes"] = settings.internal_segment_bytes
    return LogConfig(**fields)
