"""The configs of a topic: those set on it, the broker's defaults and Kafka's defaults."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kwire.log import LogConfig
from kwire.settings import BrokerConfig, ConfigError, topic_log_config
from kwire.settings.groups import check_group_configs, effective_settings, group_settings
from kwire.settings.topic_settings import TopicSettings


def test_each_topic_config_is_a_field_of_log_config() -> None:
    public = {each.attribute for each in TopicSettings.DEFINITIONS.values() if not each.internal}
    assert public == {field.name for field in fields(LogConfig)}


@pytest.mark.parametrize(
    ("broker", "name", "expected"),
    [
        ({"log.retention.hours": "5"}, "retention_ms", 18_000_000),
        ({"log.retention.hours": "5", "log.retention.minutes": "7"}, "retention_ms", 420_000),
        (
            {"log.retention.hours": "5", "log.retention.minutes": "7", "log.retention.ms": "9"},
            "retention_ms",
            9,
        ),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),
        ({"log.retention.ms": "-2"}, "retention_ms", -1),
        ({"log.roll.hours": "3"}, "segment_ms", 10_800_000),
        ({"log.roll.hours": "3", "log.roll.ms": "5"}, "segment_ms", 5),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush_ms", 9),
        (
            {"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"},
            "flush_ms",
            8,
        ),
        ({"log.segment.bytes": "2000000"}, "segment_bytes", 2_000_000),
        ({"message.max.bytes": " 7 "}, "max_message_bytes", 7),
        ({"max.decompressed.message.bytes": "7"}, "max_decompressed_message_bytes", 7),
        ({"max.decompressed.message.bytes": "7"}, "record_bytes_max", 7),
        ({}, "record_bytes_max", None),
        ({"compression.type": "zstd"}, "compression_type", "zstd"),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup_policy", {"compact", "delete"}),
        ({"log.cleaner.min.cleanable.ratio": "0.25"}, "min_cleanable_dirty_ratio", 0.25),
        ({"log.preallocate": "true"}, "preallocate", True),
    ],
)
def test_broker_settings_are_the_defaults_of_topic_configs(
    broker: dict[str, str], name: str, expected: object
) -> None:
    assert getattr(topic_log_config(BrokerConfig(broker), {}), name) == expected


@pytest.mark.parametrize(
    ("name", "least"),
    [("flush.ms", 0), ("retention.ms", -1), ("segment.jitter.ms", 0), ("segment.ms", 1)],
)
def test_topic_config_has_its_own_range_where_kafkas_differs(name: str, least: int) -> None:
    topic_log_config(BrokerConfig(), {name: str(least)})
    with pytest.raises(ConfigError, match=f"must be at least {least}"):
        topic_log_config(BrokerConfig(), {name: str(least - 1)})


def test_configs_of_the_topic_win_over_broker_settings() -> None:
    broker = BrokerConfig({"log.retention.hours": "5"})
    config = topic_log_config(broker, {"retention.ms": "1", "cleanup.policy": "compact"})
    assert (config.retention_ms, config.cleanup_policy) == (1, frozenset({"compact"}))


def test_dynamic_setting_replaces_a_synonym_in_the_file() -> None:
    broker = BrokerConfig({"log.retention.minutes": "5"}).with_dynamic({"log.retention.ms": "9"})
    assert topic_log_config(broker, {}).retention_ms == 9


def test_internal_segment_bytes_sets_a_smaller_segment_size() -> None:
    config = topic_log_config(BrokerConfig(), {"internal.segment.bytes": "500"})
    assert config.segment_bytes == 500


def test_topic_config_that_conflicts_with_a_default_of_this_broker_is_used() -> None:
    """The controller accepted it by its own defaults."""
    broker = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5"})
    config = topic_log_config(broker, {"min.compaction.lag.ms": "10"})
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (10, 5)


def test_group_has_the_brokers_setting_without_a_config_of_its_own() -> None:
    broker = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})
    assert group_settings(broker, {}).consumer_session_timeout_ms == 50_000
    check_group_configs(broker, {})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("consumer.heartbeat.interval.ms", "4", "must be in the range 5000 to 15000 inclusive."),
        ("share.delivery.count.limit", "50", "must be in the range 2 to 10 inclusive."),
        ("streams.session.timeout.ms", "60001", "must be in the range 45000 to 60000 inclusive."),
        ("streams.num.standby.replicas", "3", "must be less than or equal to 2"),
        ("streams.num.warmup.replicas", "21", "must be less than or equal to 20"),
        ("streams.task.offset.interval.ms", "10", "must be greater than or equal to 15000"),
        ("streams.rack.aware.assignment.tags", "a, a", "must not contain duplicate tag keys."),
        (
            "streams.assignor.name",
            "nosuch",
            "'nosuch' is not a registered task assignor. Registered assignors are: [sticky].",
        ),
    ],
)
def test_group_config_that_the_broker_does_not_allow_is_refused_with_kafkas_message(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_group_configs(BrokerConfig(), {name: value})
    assert str(refused.value) == f"{name} {message}"


def test_first_refused_group_config_is_the_first_that_kafka_checks() -> None:
    overrides = {"streams.session.timeout.ms": "1", "streams.heartbeat.interval.ms": "1"}
    with pytest.raises(ConfigError, match=r"^streams\.heartbeat\.interval\.ms must"):
        check_group_configs(BrokerConfig(), overrides)


def test_session_timeout_of_a_group_must_exceed_its_heartbeat_interval() -> None:
    broker = BrokerConfig({"group.streams.min.session.timeout.ms": "1"})
    check_group_configs(broker, {"streams.session.timeout.ms": "5001"})
    with pytest.raises(ConfigError) as refused:
        check_group_configs(broker, {"streams.session.timeout.ms": "5000"})
    assert str(refused.value) == (
        "streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms"
    )


def test_group_config_outside_tighter_bounds_is_capped() -> None:
    broker = BrokerConfig({"group.consumer.max.session.timeout.ms": "50000"})
    overrides = {"consumer.session.timeout.ms": "60000", "streams.num.standby.replicas": "9"}
    settings = effective_settings(broker, overrides)
    assert settings.consumer_session_timeout_ms == 50_000
    assert settings.streams_num_standby_replicas == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "group.streams.assignors",
            "sticky,nosuch",
            "Invalid value nosuch for configuration group.streams.assignors: Class cannot be found",
        ),
        (
            "group.streams.rack.aware.assignment.tags",
            "zone,zone",
            "group.streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            "group.streams.task.offset.interval.ms",
            "5",
            "group.streams.task.offset.interval.ms must be greater than or equal to "
            "group.streams.min.task.offset.interval.ms",
        ),
    ],
)
def test_broker_setting_of_streams_groups_that_kafka_refuses_raises_config_error(
    name: str, value: str, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig({name: value})
    assert str(refused.value) == message
