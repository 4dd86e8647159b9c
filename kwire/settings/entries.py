"""What a resource's configs are now, where each value comes from, and what stands behind it.

Sources as in Kafka (DescribeConfigsResponse.ConfigSource): a value set on the resource itself comes
before one set for this broker, for all brokers, in the broker's file, and the default.  The entry's
`synonyms` are all of these, the one that counts first.
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


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class Entry(NamedTuple):
    """One config of a resource; `synonyms` include the value itself."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    kind: ConfigType
    read_only: bool = False
    is_sensitive: bool = False


Names = Collection[str] | None
"""The configs that are asked for; None for all."""


def _wanted(definitions: Mapping[str, Definition], names: Names) -> Iterator[Definition]:
    """In the order of their names; internal ones only if they are set."""
    for name in sorted(definitions):
        if names is None or name in names:
            yield definitions[name]


# -- brokers


class BrokerLayers:
    """Where a broker's settings come from."""

    def __init__(self, config: BrokerConfig, image: ClusterImage, node_id: int) -> None:
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
        """What is set anywhere."""
        return {name for values, _ in self._layers for name in values}

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """What stands behind a setting, what counts first; starts at its own name."""
        definition = definition_of(name)
        names = broker_settings.SYNONYMS.get(name, (name,))
        if definition is not None and definition.name != name:
            names = (name, definition.name)  # set for one listener, or for all of them
        found = [
            Synonym(one, None if _is_secret(one) else values[one], source)
            for values, source in self._layers
            for one in names
            if one in values
        ]
        for one in names:
            known = BrokerConfig.DEFINITIONS.get(one)
            default = None if known is None else known.default_text
            if default is not None:
                found.append(Synonym(one, default, ConfigSource.DEFAULT_CONFIG))
        while found and found[0].name != name:
            del found[0]
        return tuple(found)

    def first_set(self, synonyms: Sequence[topics.Synonym]) -> tuple[str, ConfigSource] | None:
        """The topic config that follows from the first of these settings that is set anywhere."""
        for values, source in self._layers:
            for synonym in synonyms:
                if synonym.name in values:
                    return synonym.convert(values[synonym.name]), source
        return None


def _is_secret(name: str) -> bool:
    """Whether a broker's setting is never told; nobody knows what one of no known kind holds."""
    definition = definition_of(name)
    return definition is None or definition.is_sensitive


def broker_entries(layers: BrokerLayers, names: Names) -> list[Entry]:
    """All settings of a broker, and what is set on it that nobody knows."""
    known = BrokerConfig.DEFINITIONS
    set_names = layers.set_names
    all_names = set_names | {name for name in known if not known[name].internal}
    return [
        _broker_entry(layers, name) for name in sorted(all_names) if names is None or name in names
    ]


def _broker_entry(layers: BrokerLayers, name: str) -> Entry:
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
    return Entry(
        name,
        value,
        source,
        synonyms,
        definition.kind if definition is not None else ConfigType.UNKNOWN,
        read_only=name not in BrokerConfig.DEFINITIONS or update_mode(name) is UpdateMode.READ_ONLY,
        is_sensitive=secret,
    )


def cluster_default_entries(image: ClusterImage, names: Names) -> list[Entry]:
    """What is set for all brokers."""
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
            Entry(
                name,
                value,
                source,
                (Synonym(name, value, source),),
                kind,
                read_only=definition is None,
                is_sensitive=_is_secret(name),
            )
        )
    return entries


# -- topics, groups, client metrics


def topic_entries(
    layers: BrokerLayers, overrides: Mapping[str, str], names: Names = None
) -> list[Entry]:
    """All configs of a topic on which `overrides` are set."""
    settings = topics.topic_settings(layers.config, overrides)
    entries = []
    for definition in _wanted(TopicSettings.DEFINITIONS, names):
        name = definition.name
        if definition.internal and name not in overrides:
            continue
        synonyms: tuple[Synonym, ...] = ()
        behind = topics.SYNONYMS.get(name)
        if behind is not None:
            synonyms = layers.synonyms(behind[0].name)
        entries.append(_entry(settings, definition, overrides, ConfigSource.TOPIC_CONFIG, synonyms))
    return entries


def new_topic_entries(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[Entry]:
    """A topic's configs as CreateTopics tells them: each value as it was written.

    Kafka's controller makes that answer, and it finds sources where its brokers say DEFAULT_CONFIG
    (`log.retention.hours` in the file, but not `log.retention.ms`).
    """
    entries = []
    value: str | None
    for definition in _wanted(TopicSettings.DEFINITIONS, None):
        name = definition.name
        if name in overrides:
            value, source = overrides[name], ConfigSource.TOPIC_CONFIG
        elif definition.internal:
            continue
        else:
            found = layers.first_set(topics.SYNONYMS.get(name, ()))
            value, source = found or (definition.default_text, ConfigSource.DEFAULT_CONFIG)
        entries.append(Entry(name, value, source, (), definition.kind))
    return entries


def group_entries(
    layers: BrokerLayers, overrides: Mapping[str, str], names: Names = None
) -> list[Entry]:
    """All configs of a group on which `overrides` are set."""
    settings = groups.group_settings(layers.config, overrides)
    entries = []
    for definition in _wanted(GroupResourceSettings.DEFINITIONS, names):
        behind = groups.SYNONYMS[definition.name]
        if behind in BrokerConfig.DEFINITIONS:
            synonyms = layers.synonyms(behind)
        else:
            default = definition.default_text
            synonyms = (Synonym(behind, default, ConfigSource.DEFAULT_CONFIG),)
        entries.append(_entry(settings, definition, overrides, ConfigSource.GROUP_CONFIG, synonyms))
    return entries


def client_metrics_entries(overrides: Mapping[str, str], names: Names = None) -> list[Entry]:
    """All configs of a client metrics subscription."""
    settings = ClientMetricsSettings(overrides)
    source = ConfigSource.CLIENT_METRICS_CONFIG
    return [
        _entry(settings, definition, overrides, source, ())
        for definition in _wanted(ClientMetricsSettings.DEFINITIONS, names)
    ]


def _entry(
    settings: Settings,
    definition: Definition,
    overrides: Mapping[str, str],
    own_source: ConfigSource,
    synonyms: tuple[Synonym, ...],
) -> Entry:
    name = definition.name
    value = settings.text(name)
    if name in overrides:
        synonyms = (Synonym(name, value, own_source), *synonyms)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return Entry(name, value, source, synonyms, definition.kind)


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
"""The levels of Kafka's loggers, as Python's."""


def logger_names() -> list[str]:
    """The loggers of this process that exist by now."""
    known = logging.root.manager.loggerDict
    named = [name for name, found in known.items() if isinstance(found, logging.Logger)]
    return [*sorted(named), ROOT_LOGGER]


def logger_of(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT_LOGGER else name)


def logger_entries(names: Names = None) -> list[Entry]:
    """Each logger's effective level."""
    return [
        Entry(
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
    """The name of the level that lets the same messages through."""
    for name, least in LOG_LEVELS.items():
        if level <= least:
            return name
    return "OFF"
