"""The configs of a topic and the broker settings that are their defaults.

Sources in Kafka's order: what is set on the topic; set for this broker; set for all brokers; the
broker's file; the default.  Where several settings stand for one config (`log.roll.ms` and
`log.roll.hours` for `segment.ms`) the finer unit counts.
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


class Synonym(NamedTuple):
    """A broker setting that is the default of a topic config, and what its unit is in ms."""

    name: str
    unit_ms: int = 0

    def convert(self, text: str) -> str:
        """The broker's value in the topic's unit; any negative time is "no limit"."""
        return str(max(-1, int(text) * self.unit_ms)) if self.unit_ms else text


def _one(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


SYNONYMS: Mapping[str, tuple[Synonym, ...]] = {
    "cleanup.policy": _one("log.cleanup.policy"),
    "compression.gzip.level": _one("compression.gzip.level"),
    "compression.lz4.level": _one("compression.lz4.level"),
    "compression.type": _one("compression.type"),
    "compression.zstd.level": _one("compression.zstd.level"),
    "delete.retention.ms": _one("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _one("log.segment.delete.delay.ms"),
    "flush.messages": _one("log.flush.interval.messages"),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "index.interval.bytes": _one("log.index.interval.bytes"),
    "local.retention.bytes": _one("log.local.retention.bytes"),
    "local.retention.ms": _one("log.local.retention.ms"),
    "max.compaction.lag.ms": _one("log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _one("message.max.bytes"),
    "message.timestamp.after.max.ms": _one("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _one("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _one("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _one("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _one("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _one("min.insync.replicas"),
    "preallocate": _one("log.preallocate"),
    "retention.bytes": _one("log.retention.bytes"),
    "retention.ms": (
        Synonym("log.retention.ms", 1),
        Synonym("log.retention.minutes", _MS_PER_MINUTE),
        Synonym("log.retention.hours", MS_PER_HOUR),
    ),
    "segment.bytes": _one("log.segment.bytes"),
    "segment.index.bytes": _one("log.index.size.max.bytes"),
    "segment.jitter.ms": (
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", MS_PER_HOUR),
    ),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", MS_PER_HOUR)),
    "unclean.leader.election.enable": _one("unclean.leader.election.enable"),
}
"""Topic config to the broker settings that are its default, the first one set counts."""


def broker_defaults(config: BrokerConfig) -> dict[str, str]:
    """The topic configs that follow from the broker's settings, in text.

    Only those that differ from Kafka's default are given.
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
    """A topic's configs, valid each by itself and together.

    Raises ConfigError; `overrides` that are no topic configs are left out.
    """
    overrides = {
        name: text for name, text in overrides.items() if name in TopicSettings.DEFINITIONS
    }
    settings = TopicSettings({**broker_defaults(config), **overrides})
    _check_together(settings)
    return settings


def _check_together(settings: TopicSettings) -> None:
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise ConfigError(
            "conflict topic config setting min.compaction.lag.ms "
            f"({settings.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({settings.max_compaction_lag_ms})"
        )


_FIELDS: dict[str, Callable[[tuple[str, ...]], object]] = {"cleanup_policy": frozenset}


def topic_log_config(config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """What the log of a topic with these overrides works by.  Raises ConfigError."""
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
