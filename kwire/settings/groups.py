"""The configs of a group and the broker settings that are their defaults and bounds."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.settings.broker import BrokerConfig
from kwire.settings.error import ConfigError
from kwire.settings.group_settings import GroupResourceSettings
from kwire.settings.rules import BOUNDED, GROUP_KINDS, number

SYNONYMS: Mapping[str, str] = {
    name: f"group.{name}" if f"group.{name}" in BrokerConfig.DEFINITIONS else name
    for name in GroupResourceSettings.DEFINITIONS
}
"""Group config to the broker setting that is its default; what has none stands for itself."""

_STANDBYS, _STANDBYS_MAX = "streams.num.standby.replicas", "group.streams.max.standby.replicas"


def group_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupResourceSettings:
    """A group's configs, within the broker's bounds.  Raises ConfigError."""
    defaults = {
        name: text
        for name, synonym in SYNONYMS.items()
        if synonym in config.DEFINITIONS and (text := config.given(synonym)) is not None
    }
    settings = GroupResourceSettings({**defaults, **overrides})
    for name in overrides:
        _check_bounds(config, settings, name)
    for kind in GROUP_KINDS:
        heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if number(settings, heartbeat) >= number(settings, session):
            raise ConfigError(f"{heartbeat} must be less than {session}")
    return settings


def _check_bounds(config: BrokerConfig, settings: GroupResourceSettings, name: str) -> None:
    if name == _STANDBYS and number(settings, name) > number(config, _STANDBYS_MAX):
        raise ConfigError(f"{name} must be less than or equal to {_STANDBYS_MAX}")
    bounds = BOUNDED.get(f"group.{name}")
    if bounds is None:
        return
    low, high = bounds
    if number(settings, name) < number(config, low):
        raise ConfigError(f"{name} must be greater than or equal to {low}")
    if number(settings, name) > number(config, high):
        raise ConfigError(f"{name} must be less than or equal to {high}")
