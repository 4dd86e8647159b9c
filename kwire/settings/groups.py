"""The configs of a group, and the broker settings that are their defaults and bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.settings.broker import BrokerConfig
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.error import ConfigError
from kwire.settings.rules import BOUNDED, GROUP_KINDS, has_duplicates, number

SYNONYMS: Mapping[str, str] = {
    name: f"group.{name}" if f"group.{name}" in BrokerConfig.DEFINITIONS else name
    for name in GroupResourceSettings.DEFINITIONS
} | {"streams.assignor.name": "group.streams.assignors"}
"""The broker setting that is the default of each group config; the config itself if none is."""

ASSIGNOR = "streams.assignor.name"
TAGS = "streams.rack.aware.assignment.tags"

CHECKED = (
    *(f"consumer.{name}" for name in ("heartbeat.interval.ms", "session.timeout.ms")),
    "consumer.assignment.interval.ms",
    *(f"share.{name}" for name in ("heartbeat.interval.ms", "session.timeout.ms")),
    *(f"share.{name}" for name in ("record.lock.duration.ms", "delivery.count.limit")),
    *(f"share.{name}" for name in ("partition.max.record.locks", "assignment.interval.ms")),
    *(f"streams.{name}" for name in ("heartbeat.interval.ms", "session.timeout.ms")),
    *(f"streams.{name}" for name in ("num.standby.replicas", "assignment.interval.ms")),
    *(f"streams.{name}" for name in ("task.offset.interval.ms", "num.warmup.replicas")),
)
"""The bounded configs of groups in the order of Apache Kafka's checks: the first error counts."""


def group_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupResourceSettings:
    """Return the configs of a group with these overrides, which may be outside today's bounds.

    Raises ConfigError if an override is invalid.
    """
    defaults = {
        name: text
        for name, synonym in SYNONYMS.items()
        if synonym in config.DEFINITIONS and (text := config.given(synonym)) is not None
    }
    defaults[ASSIGNOR] = config.group_streams_assignors[0]
    return GroupResourceSettings({**defaults, **overrides})


def effective_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupResourceSettings:
    """Return the configs by which a group works: overrides outside the bounds are capped.

    The broker's bounds may be tighter than when the overrides were set.
    """
    capped = dict(overrides)
    for name in CHECKED:
        if name in overrides:
            capped[name] = str(_capped(config, name, int(overrides[name])))
    return group_settings(config, capped)


def _capped(config: BrokerConfig, name: str, value: int) -> int:
    """Return the value of a config within the broker's bounds."""
    low, high = BOUNDED[name]
    if low is not None:
        value = max(value, number(config, low))
    return value if high is None else min(value, number(config, high))


def check_group_configs(config: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise ConfigError, with Apache Kafka's message, for an override that may not be set."""
    if has_duplicates(overrides.get(TAGS, "")):
        raise ConfigError(f"{TAGS} must not contain duplicate tag keys.")
    settings = group_settings(config, overrides)
    for sentence in _broken_rules(config, settings, overrides):
        raise ConfigError(sentence)


def _broken_rules(
    config: BrokerConfig, settings: GroupResourceSettings, overrides: Mapping[str, str]
) -> Iterator[str]:
    """Yield Apache Kafka's message for each rule that the overrides break, in its order."""
    for name in CHECKED:
        if name in overrides:
            yield from _outside(name, number(settings, name), *_bounds(config, name))
    chosen, assignors = settings.streams_assignor_name, config.group_streams_assignors
    if ASSIGNOR in overrides and chosen not in assignors:
        yield (
            f"{ASSIGNOR} '{chosen}' is not a registered task assignor. Registered assignors are: "
            f"[{', '.join(assignors)}]."
        )
    for kind in GROUP_KINDS:
        heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        changed = heartbeat in overrides or session in overrides
        if changed and number(settings, heartbeat) >= number(settings, session):
            yield f"{session} must be greater than {heartbeat}"


def _bounds(config: BrokerConfig, name: str) -> tuple[int | None, int | None]:
    """Return the lower and the upper bound of a config; None for a bound that it does not have."""
    low, high = BOUNDED[name]
    return (
        None if low is None else number(config, low),
        None if high is None else number(config, high),
    )


def _outside(name: str, value: int, low: int | None, high: int | None) -> Iterator[str]:
    """Yield a message if the value is outside the bounds."""
    if low is not None and high is not None:
        if not low <= value <= high:
            yield f"{name} must be in the range {low} to {high} inclusive."
    elif low is not None and value < low:
        yield f"{name} must be greater than or equal to {low}"
    elif high is not None and value > high:
        yield f"{name} must be less than or equal to {high}"
