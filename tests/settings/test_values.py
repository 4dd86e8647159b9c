"""Parsing and printing of values.  The expected messages are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.settings.broker import BrokerConfig
from kwire.settings.definition import Settings
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.error import ConfigError
from kwire.settings.topic_settings import TopicSettings
from kwire.settings.values import ConfigType, Value, parse, text_of


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.LONG, " 12 ", 12),
        (ConfigType.LONG, "+5", 5),
        (ConfigType.LONG, "\uff11\uff12", 12),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.INT, "2147483647", 2**31 - 1),
        (ConfigType.SHORT, " 3", 3),
        (ConfigType.BOOLEAN, " True ", True),
        (ConfigType.BOOLEAN, "FALSE", False),
        (ConfigType.DOUBLE, "0.1d", 0.1),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "1e-3", 0.001),
        (ConfigType.DOUBLE, "-Infinity", -math.inf),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b", ("a", "b")),
        (ConfigType.LIST, "a,b,a", ("a", "b")),
        (ConfigType.LIST, "a,", ("a", "")),
        (ConfigType.STRING, " gzip ", "gzip"),
        (ConfigType.PASSWORD, " secret ", " secret "),
        (ConfigType.INT, None, None),
    ],
)
def test_parse_returns_kafkas_value_for_each_type(
    kind: ConfigType, text: str | None, value: Value
) -> None:
    assert parse("some.setting", text, kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.LONG, "", "Not a number of type LONG"),
        (ConfigType.LONG, "1.5", "Not a number of type LONG"),
        (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
        (ConfigType.LONG, "1_000", "Not a number of type LONG"),
        (ConfigType.LONG, "0x10", "Not a number of type LONG"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "9" * 10_000, "Not a number of type INT"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.DOUBLE, "x", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0.5", "Not a number of type DOUBLE"),
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.BOOLEAN, " TRUEish ", "Expected value to be either true or false"),
    ],
)
def test_parse_refuses_an_invalid_text_with_kafkas_message(
    kind: ConfigType, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse("some.setting", text, kind)
    assert str(refused.value) == f"Invalid value {text} for configuration some.setting: {reason}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (0.00012345, "1.2345E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.25, "1.2345678925E8"),
        (-1e7, "-1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "5.0E-324"),
        (0.30000000000000004, "0.30000000000000004"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_text_of_a_double_is_javas(value: float, text: str) -> None:
    assert text_of(value, ConfigType.DOUBLE) == text


@given(st.floats(allow_nan=False))
def test_parse_of_a_printed_double_returns_the_same_double(value: float) -> None:
    text = text_of(value, ConfigType.DOUBLE)
    assert parse("some.setting", text, ConfigType.DOUBLE) == value


@given(st.text(), st.sampled_from(list(ConfigType)))
def test_parse_of_any_text_returns_a_printable_value_or_raises_config_error(
    text: str, kind: ConfigType
) -> None:
    if kind is ConfigType.UNKNOWN:
        return
    try:
        value = parse("some.setting", text, kind)
    except ConfigError:
        return
    printed = text_of(value, kind)
    again = parse("some.setting", printed, kind)
    assert again == value or (isinstance(again, float) and math.isnan(again))


INVALID: list[tuple[type[Settings], str, str | None, str]] = [
    (
        TopicSettings,
        "cleanup.policy",
        "delete,foo",
        "Invalid value foo for configuration cleanup.policy: "
        "String must be one of: compact, delete",
    ),
    (
        TopicSettings,
        "cleanup.policy",
        "compact,",
        "Configuration 'cleanup.policy' values must not be empty.",
    ),
    (
        TopicSettings,
        "cleanup.policy",
        None,
        "Configuration 'cleanup.policy' values must not be null.",
    ),
    (
        TopicSettings,
        "retention.ms",
        "-5",
        "Invalid value -5 for configuration retention.ms: Value must be at least -1",
    ),
    (
        TopicSettings,
        "retention.ms",
        None,
        "Invalid value null for configuration retention.ms: Value must be non-null",
    ),
    (
        TopicSettings,
        "min.cleanable.dirty.ratio",
        " 12 ",
        "Invalid value 12.0 for configuration min.cleanable.dirty.ratio: "
        "Value must be no more than 1",
    ),
    (
        TopicSettings,
        "compression.gzip.level",
        "0",
        "Invalid value 0 for configuration compression.gzip.level: "
        "Value must be between 1 and 9 or equal to -1",
    ),
    (
        TopicSettings,
        "compression.type",
        "GZIP",
        "Invalid value GZIP for configuration compression.type: String must be one of: "
        "uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (
        TopicSettings,
        "leader.replication.throttled.replicas",
        "0:1,x",
        "Invalid value [0:1, x] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in "
        "the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
    (
        BrokerConfig,
        "listeners",
        "",
        "Configuration 'listeners' must not be empty. Valid values include: any non-empty value",
    ),
    (
        BrokerConfig,
        "process.roles",
        "",
        "Configuration 'process.roles' must not be empty. Valid values include: "
        "[broker, controller]",
    ),
    (
        BrokerConfig,
        "controller.quorum.voters",
        "1@a:1,2@b",
        "Invalid configuration value for controller.quorum.voters. Each entry should be in the "
        "form `{id}@{host}:{port}`.",
    ),
    (
        BrokerConfig,
        "group.consumer.migration.policy",
        "x",
        "Invalid value x for configuration group.consumer.migration.policy: String must be one of "
        "(case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
    ),
    (
        BrokerConfig,
        "remote.log.metadata.manager.listener.name",
        "",
        "Invalid value  for configuration remote.log.metadata.manager.listener.name: "
        "String must be non-empty",
    ),
    (
        GroupResourceSettings,
        "share.auto.offset.reset",
        "by_duration:P1X",
        "Invalid value by_duration:P1X for configuration share.auto.offset.reset: Invalid value "
        "`by_duration:P1X` for configuration share.auto.offset.reset. The value must be either "
        "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    ),
]


@pytest.mark.parametrize(("settings", "name", "text", "sentence"), INVALID)
def test_validators_refuse_invalid_values_with_kafkas_message(
    settings: type[Settings], name: str, text: str | None, sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        settings.DEFINITIONS[name].parse(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("settings", "name", "text"),
    [
        (TopicSettings, "cleanup.policy", ""),
        (TopicSettings, "cleanup.policy", "compact,delete"),
        (TopicSettings, "compression.gzip.level", "-1"),
        (TopicSettings, "leader.replication.throttled.replicas", "*"),
        (TopicSettings, "leader.replication.throttled.replicas", "0:1,1:2"),
        (BrokerConfig, "group.consumer.migration.policy", "Upgrade"),
        (BrokerConfig, "controller.quorum.voters", "1@localhost:9093,2@[::1]:9093"),
        (GroupResourceSettings, "share.auto.offset.reset", "earliest"),
        (GroupResourceSettings, "share.auto.offset.reset", "by_duration:PT1H30M"),
        (GroupResourceSettings, "share.auto.offset.reset", "by_duration:P2DT0.5S"),
    ],
)
def test_validators_accept_the_values_that_kafka_accepts(
    settings: type[Settings], name: str, text: str
) -> None:
    settings.DEFINITIONS[name].parse(text)
