"""The configs of a resource as DescribeConfigs returns them: values, sources and synonyms.

Sources are Kafka's (DescribeConfigsResponse.ConfigSource).  A value set on the resource itself wins
over a value set for this broker, for all brokers, in the broker's file, and over the default.  The
`synonyms` of an entry are all values that are set, the one that applies first.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kwire.cluster.metadata.image import ClusterImage
from kwire.settings import CLUSTER_DEFAULT, BrokerConfig, ConfigResourceType, groups
from kwire.settings import broker as broker_settings
from kwire.settings.broker import definition_of, update_mode
from kwire.settings.client_metrics_settings import ClientMetricsSettings
from kwire.settings.definition import Definition, Settings, UpdateMode
from kwire.settings.definitions import topics
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.topic_settings import TopicSettings
from kwire.settings.values import ConfigType


class ConfigSource(IntEnum):
    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One config of a resource; `synonyms` include the value itself."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    kind: ConfigType
    read_only: bool = False
    is_sensitive: bool = False


Names = Collection[str] | None
"""The names of the requested configs; None for all configs."""


def _requested(definitions: Mapping[str, Definition], names: Names) -> Iterator[Definition]:
    """The definitions of the requested configs, by name."""
    for name in sorted(definitions):
        if names is None or name in names:
            yield definitions[name]


# -- brokers


class BrokerLayers:
    """The layers of a broker's settings: dynamic for this broker, dynamic for all, and static."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, node_id: int) -> None:
        """Collect where a broker's configs are set, the strongest source first.

        These are its own dynamic configs, the cluster's dynamic defaults, and its configuration
        file.
        """
        kind = ConfigResourceType.BROKER
        self.config = config
        self._layers: tuple[tuple[Mapping[str, str], ConfigSource], ...] = (
            (image.configs_of(kind, str(node_id)), ConfigSource.DYNAMIC_BROKER_CONFIG),
            (
                image.configs_of(kind, CLUSTER_DEFAULT),
                ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
            ),
            (config.explicit, ConfigSource.STATIC_BROKER_CONFIG),
        )

    @property
    def set_names(self) -> set[str]:
        """The names of the settings that any layer sets."""
        return {name for values, _ in self._layers for name in values}

    def synonyms(self, name: str) -> tuple[ConfigSynonym, ...]:
        """Return the set values and defaults of a setting and its synonyms, the one that applies
        first.

        The first entry is the one of `name` itself; entries before it are left out, as in Kafka.
        """
        definition = definition_of(name)
        names = broker_settings.SYNONYMS.get(name, (name,))
        if definition is not None and definition.name != name:
            names = (name, definition.name)  # `name` is for one listener: add the general setting.
        synonyms = [
            ConfigSynonym(synonym, None if _is_secret(synonym) else values[synonym], source)
            for values, source in self._layers
            for synonym in names
            if synonym in values
        ]
        for synonym in names:
            declared = BrokerConfig.DEFINITIONS.get(synonym)
            default = None if declared is None else declared.default_text
            if default is not None:
                synonyms.append(ConfigSynonym(synonym, default, ConfigSource.DEFAULT_CONFIG))
        while synonyms and synonyms[0].name != name:
            del synonyms[0]
        return tuple(synonyms)

    def first_set(
        self, synonyms: Sequence[topics.BrokerDefault]
    ) -> tuple[str, ConfigSource] | None:
        """Return the topic config, with its source, that the first of these settings to be set
        gives.
        """
        for values, source in self._layers:
            for synonym in synonyms:
                if synonym.name in values:
                    return synonym.convert(values[synonym.name]), source
        return None


def _is_secret(name: str) -> bool:
    """Return whether the value of a broker setting must not be shown.

    An unknown setting may hold a password, so it counts as secret, as in Kafka.
    """
    definition = definition_of(name)
    return definition is None or definition.is_sensitive


def broker_entries(layers: BrokerLayers, names: Names) -> list[ConfigEntry]:
    """Return all settings of a broker, and the unknown names that are set on it."""
    known = BrokerConfig.DEFINITIONS
    set_names = layers.set_names
    all_names = set_names | {name for name in known if not known[name].internal}
    return [
        _broker_entry(layers, name) for name in sorted(all_names) if names is None or name in names
    ]


def _broker_entry(layers: BrokerLayers, name: str) -> ConfigEntry:
    """Return one config of a broker with its value, source and synonyms.

    A secret has no value. A name that Kafka does not know has the text that was given.
    """
    definition = definition_of(name)
    synonyms = layers.synonyms(name)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    secret = _is_secret(name)
    if secret:
        value = None
    elif name in BrokerConfig.DEFINITIONS:
        value = layers.config.text(name)
    else:
        value = synonyms[0].value if synonyms else None
    return ConfigEntry(
        name,
        value,
        source,
        synonyms,
        definition.kind if definition is not None else ConfigType.UNKNOWN,
        read_only=name not in BrokerConfig.DEFINITIONS or update_mode(name) is UpdateMode.READ_ONLY,
        is_sensitive=secret,
    )


def cluster_default_entries(image: ClusterImage, names: Names) -> list[ConfigEntry]:
    """Return the dynamic configs for all brokers."""
    configs = image.configs_of(ConfigResourceType.BROKER, CLUSTER_DEFAULT)
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = []
    for name in sorted(configs):
        if names is not None and name not in names:
            continue
        definition = definition_of(name)
        kind, value = ConfigType.UNKNOWN, None
        if definition is not None:
            kind = definition.kind
            value = definition.text(definition.parse(configs[name]))
        if _is_secret(name):
            value = None
        entries.append(
            ConfigEntry(
                name,
                value,
                source,
                (ConfigSynonym(name, value, source),),
                kind,
                read_only=definition is None,
                is_sensitive=_is_secret(name),
            )
        )
    return entries


# -- topics, groups, client metrics


def topic_entries(
    layers: BrokerLayers, overrides: Mapping[str, str], names: Names = None
) -> list[ConfigEntry]:
    """Return all configs of a topic on which `overrides` are set."""
    settings = topics.topic_settings(layers.config, overrides)
    entries = []
    for definition in _requested(TopicSettings.DEFINITIONS, names):
        name = definition.name
        if definition.internal and name not in overrides:
            continue
        synonyms: tuple[ConfigSynonym, ...] = ()
        broker_defaults = topics.SYNONYMS.get(name)
        if broker_defaults is not None:
            synonyms = layers.synonyms(broker_defaults[0].name)
        entries.append(_entry(settings, definition, overrides, ConfigSource.TOPIC_CONFIG, synonyms))
    return entries


def new_topic_entries(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return a topic's configs as CreateTopics returns them, each value as it was written.

    In Kafka the controller answers CreateTopics.  It reports the source of a value in cases where
    brokers report DEFAULT_CONFIG, as for `log.retention.hours` in the file.
    """
    entries = []
    value: str | None
    for definition in _requested(TopicSettings.DEFINITIONS, None):
        name = definition.name
        if name in overrides:
            value, source = overrides[name], ConfigSource.TOPIC_CONFIG
        elif definition.internal:
            continue
        else:
            from_broker = layers.first_set(topics.SYNONYMS.get(name, ()))
            value, source = from_broker or (definition.default_text, ConfigSource.DEFAULT_CONFIG)
        entries.append(ConfigEntry(name, value, source, (), definition.kind))
    return entries


def group_entries(
    layers: BrokerLayers, overrides: Mapping[str, str], names: Names = None
) -> list[ConfigEntry]:
    """Return all configs of a group on which `overrides` are set."""
    settings = groups.group_settings(layers.config, overrides)
    entries = []
    for definition in _requested(GroupResourceSettings.DEFINITIONS, names):
        if definition.internal and definition.name not in overrides:
            continue
        broker_setting = groups.SYNONYMS[definition.name]
        if broker_setting in BrokerConfig.DEFINITIONS:
            synonyms = layers.synonyms(broker_setting)
        else:
            default = definition.default_text
            synonyms = (ConfigSynonym(broker_setting, default, ConfigSource.DEFAULT_CONFIG),)
        entries.append(_entry(settings, definition, overrides, ConfigSource.GROUP_CONFIG, synonyms))
    return entries


def client_metrics_entries(overrides: Mapping[str, str], names: Names = None) -> list[ConfigEntry]:
    """Return all configs of a client metrics subscription."""
    settings = ClientMetricsSettings(overrides)
    source = ConfigSource.CLIENT_METRICS_CONFIG
    return [
        _entry(settings, definition, overrides, source, ())
        for definition in _requested(ClientMetricsSettings.DEFINITIONS, names)
    ]


def _entry(
    settings: Settings,
    definition: Definition,
    overrides: Mapping[str, str],
    own_source: ConfigSource,
    synonyms: tuple[ConfigSynonym, ...],
) -> ConfigEntry:
    """Return one config of a topic or group; `overrides` are those set for it.

    `synonyms` are the values that apply without an override, the strongest first.
    """
    name = definition.name
    value = settings.text(name)
    if name in overrides:
        synonyms = (ConfigSynonym(name, value, own_source), *synonyms)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(name, value, source, synonyms, definition.kind)


# -- loggers

ROOT_LOGGER = "root"
LOG_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Python's log level for each level of Kafka's loggers."""


def logger_names() -> list[str]:
    """The names of the loggers that this process has created so far."""
    loggers = logging.root.manager.loggerDict
    named = [name for name, logger in loggers.items() if isinstance(logger, logging.Logger)]
    return [*sorted(named), ROOT_LOGGER]


def logger_of(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT_LOGGER else name)


def logger_entries(names: Names = None) -> list[ConfigEntry]:
    """Return the effective level of each logger."""
    return [
        ConfigEntry(
            name,
            _level_name(logger_of(name).getEffectiveLevel()),
            ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            (),
            ConfigType.UNKNOWN,
        )
        for name in logger_names()
        if names is None or name in names
    ]


def _level_name(level: int) -> str:
    """The name of Kafka's level that logs the same messages."""
    for name, least in LOG_LEVELS.items():
        if level <= least:
            return name
    return "OFF"
