"""The configs of a group, and the broker settings that are their defaults and bounds."""

from __future__ import annotations

from collections.abc import Mapping

from kwire.settings.broker import BrokerConfig
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.error import ConfigError
from kwire.settings.rules import BOUNDED, GROUP_KINDS, broken_bounds, number

SYNONYMS: Mapping[str, str] = {
    name: f"group.{name}" if f"group.{name}" in BrokerConfig.DEFINITIONS else name
    for name in GroupResourceSettings.DEFINITIONS
} | {"streams.assignor.name": "group.streams.assignors"}
"""The broker setting that is the default of each group config; the config itself if none is."""


def group_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> GroupResourceSettings:
    """Return the configs of a group with these overrides.

    Raises ConfigError if an override is invalid or outside the broker's bounds, or if heartbeats
    would come no sooner than the session times out.
    """
    defaults = {
        name: text
        for name, synonym in SYNONYMS.items()
        if synonym in config.DEFINITIONS and (text := config.given(synonym)) is not None
    }
    defaults["streams.assignor.name"] = config.group_streams_assignors[0]
    settings = GroupResourceSettings({**defaults, **overrides})
    for name in overrides:
        for sentence in broken_bounds(config, settings, name, BOUNDED.get(name, (None, None))):
            raise ConfigError(sentence)
    for kind in GROUP_KINDS:
        heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if number(settings, heartbeat) >= number(settings, session):
            raise ConfigError(f"{heartbeat} must be less than {session}")
    return settings
