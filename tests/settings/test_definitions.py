"""The declared settings are those of Apache Kafka 4.4.0, as its own ConfigDefs list them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.settings.broker import SYNONYMS as BROKER_SYNONYMS
from kwire.settings.broker import BrokerConfig
from kwire.settings.client_metrics_settings import ClientMetricsSettings
from kwire.settings.definition import Settings, UpdateMode
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.definitions.topics import SYNONYMS as TOPIC_SYNONYMS
from kwire.settings.documentation import sentence_of
from kwire.settings.groups import SYNONYMS as GROUP_SYNONYMS
from kwire.settings.metrics import MetricsSettings
from kwire.settings.resources import ConfigResourceType
from kwire.settings.topic_settings import TopicSettings
from kwire.settings.values import ConfigType
from kwire.settings.zookeeper import ZooKeeperSettings

KAFKA = [
    line.split("\t")
    for line in (Path(__file__).parent / "kafka-4.4.0.tsv").read_text().splitlines()[1:]
]
DECLARED: dict[str, type[Settings]] = {
    "broker": BrokerConfig,
    "topic": TopicSettings,
    "group": GroupResourceSettings,
}
OWN_DEFAULTS = {"node.id": "1", "process.roles": "", "controller.listener.names": ""}
"""The defaults of settings that Kafka requires and kwire does not."""
MODES = {
    "read-only": UpdateMode.READ_ONLY,
    "per-broker": UpdateMode.PER_BROKER,
    "cluster-wide": UpdateMode.CLUSTER_WIDE,
    "": UpdateMode.READ_ONLY,
}


@pytest.mark.parametrize("resource", DECLARED)
def test_declared_settings_are_exactly_apache_kafkas(resource: str) -> None:
    theirs = {row[1] for row in KAFKA if row[0] == resource}
    assert set(DECLARED[resource].DEFINITIONS) == theirs


@pytest.mark.parametrize("resource", DECLARED)
def test_each_setting_has_kafkas_type_default_importance_and_mode(resource: str) -> None:
    for _, name, kind, default, importance, mode, internal in (
        row for row in KAFKA if row[0] == resource
    ):
        definition = DECLARED[resource].DEFINITIONS[name]
        assert definition.kind is ConfigType[kind], name
        expected = OWN_DEFAULTS.get(name) if default == "<required>" else default
        assert str(definition.default_text or "") == ("" if expected == "null" else expected), name
        assert (definition.default is None) == (expected == "null"), name
        assert definition.importance.name == importance, name
        assert definition.mode is MODES[mode], name
        assert definition.internal == (internal == "internal"), name


@pytest.mark.parametrize("settings", [*DECLARED.values(), ClientMetricsSettings])
def test_parse_of_each_printed_default_returns_the_default(settings: type[Settings]) -> None:
    for definition in settings.DEFINITIONS.values():
        if definition.name == "process.roles":
            continue  # A KRaft node needs a role; kwire's default is none, which is not valid text.
        assert definition.parse(definition.default_text) == definition.default


def test_synonyms_are_names_of_declared_settings() -> None:
    assert TOPIC_SYNONYMS.keys() <= TopicSettings.DEFINITIONS.keys()
    for synonyms in TOPIC_SYNONYMS.values():
        assert {synonym.name for synonym in synonyms} <= BrokerConfig.DEFINITIONS.keys()
    assert GROUP_SYNONYMS.keys() == GroupResourceSettings.DEFINITIONS.keys()


@pytest.mark.parametrize(
    "settings", [*DECLARED.values(), ClientMetricsSettings, ZooKeeperSettings, MetricsSettings]
)
def test_each_sentence_is_one_line_with_a_full_stop(settings: type[Settings]) -> None:
    for definition in settings.DEFINITIONS.values():
        doc = definition.doc
        assert not doc or (doc.endswith(".") and "\n" not in doc), definition.name


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ConfigResourceType.TOPIC, TopicSettings),
        (ConfigResourceType.GROUP, GroupResourceSettings),
        (ConfigResourceType.CLIENT_METRICS, ClientMetricsSettings),
    ],
)
def test_all_public_configs_of_topics_groups_and_client_metrics_have_a_sentence(
    kind: ConfigResourceType, settings: type[Settings]
) -> None:
    for definition in settings.DEFINITIONS.values():
        assert definition.internal or sentence_of(kind, definition.name), definition.name


@pytest.mark.parametrize(
    ("kind", "name", "broker_setting"),
    [
        (ConfigResourceType.TOPIC, "segment.bytes", "log.segment.bytes"),
        (ConfigResourceType.TOPIC, "segment.ms", "log.roll.ms"),
        (ConfigResourceType.BROKER, "log.roll.hours", "log.roll.ms"),
        (ConfigResourceType.GROUP, "share.session.timeout.ms", "group.share.session.timeout.ms"),
    ],
)
def test_setting_has_the_sentence_of_the_broker_setting_that_means_the_same(
    kind: ConfigResourceType, name: str, broker_setting: str
) -> None:
    sentence = BrokerConfig.DEFINITIONS[broker_setting].doc
    assert sentence
    assert sentence_of(kind, name) == sentence


def test_broker_setting_without_a_sentence_has_none() -> None:
    inherited = {name for names in BROKER_SYNONYMS.values() for name in names}
    without = {each.name for each in BrokerConfig.DEFINITIONS.values() if not each.doc} - inherited
    assert without
    for name in (*without, "no.such.setting"):
        assert sentence_of(ConfigResourceType.BROKER, name) == ""
