"""What each setting does, for DescribeConfigs and docs/settings.md.

The declaration of a setting has its sentence, as `doc=`.  Settings that mean the same share one:
a config of topics or groups has that of the broker setting that is its default, and of broker
settings with different units (`log.roll.ms`, `log.roll.hours`) the finest has it.  Every config of
topics, groups and client metrics has a sentence.  A broker setting has one if it acts here, or if
its meaning here differs from Kafka's.  The documentation of a setting that does nothing begins with
the reason (`kwire.settings.effects`).
"""

from __future__ import annotations

from kwire.settings.broker import SYNONYMS as BROKER_SYNONYMS
from kwire.settings.broker import BrokerConfig, effect_of
from kwire.settings.client_metrics_settings import ClientMetricsSettings
from kwire.settings.definition import Settings
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.definitions.topics import SYNONYMS as TOPIC_SYNONYMS
from kwire.settings.groups import SYNONYMS as GROUP_SYNONYMS
from kwire.settings.resources import ConfigResourceType
from kwire.settings.topic_settings import TopicSettings

_SETTINGS: dict[ConfigResourceType, type[Settings]] = {
    ConfigResourceType.TOPIC: TopicSettings,
    ConfigResourceType.BROKER: BrokerConfig,
    ConfigResourceType.GROUP: GroupResourceSettings,
    ConfigResourceType.CLIENT_METRICS: ClientMetricsSettings,
}


def documentation_of(resource_type: int, name: str) -> str | None:
    """Return the documentation of a config of a resource, or None if it has none."""
    kind = ConfigResourceType(resource_type)
    if kind is ConfigResourceType.BROKER_LOGGER:
        return None
    sentence = sentence_of(kind, name)
    if kind is ConfigResourceType.BROKER:
        effect = effect_of(name)
    else:
        effect = _SETTINGS[kind].DEFINITIONS[name].effect
    if effect.acts:
        return sentence or None
    note = f"{effect.note[0].upper()}{effect.note[1:]}."
    return f"{note} {sentence}" if sentence else note


def sentence_of(kind: ConfigResourceType, name: str) -> str:
    """Return what a setting does, also where it does not act; empty if nothing says it."""
    definition = _SETTINGS[kind].DEFINITIONS.get(name)
    if definition is not None and definition.doc:
        return definition.doc
    broker_setting = _same_broker_setting(kind, name)
    if broker_setting == name and kind is ConfigResourceType.BROKER:
        return ""
    return sentence_of(ConfigResourceType.BROKER, broker_setting) if broker_setting else ""


def _same_broker_setting(kind: ConfigResourceType, name: str) -> str:
    """Return the broker setting that has the sentence of a setting without one, or an empty
    name.
    """
    if kind is ConfigResourceType.TOPIC:
        return TOPIC_SYNONYMS[name][0].name if name in TOPIC_SYNONYMS else ""
    if kind is ConfigResourceType.GROUP:
        return GROUP_SYNONYMS[name]
    return BROKER_SYNONYMS.get(name, ("",))[0]
