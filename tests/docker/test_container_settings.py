"""Tests that the image reads its settings as the apache/kafka image does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cli.image.settings import container_settings
from kwire.cli.image.volumes import DATA_DIR
from kwire.settings import BrokerConfig, load


def configured(
    tmp_path: Path,
    file: str | None = None,
    environ: dict[str, str] | None = None,
    overrides: dict[str, str] | None = None,
) -> BrokerConfig:
    mounted = tmp_path / "server.properties"
    if file is not None:
        mounted.write_text(file)
    return load(*container_settings(environ or {}, overrides or {}, mounted))


def advertised(config: BrokerConfig) -> list[str]:
    return [f"{e.listener}://{e.host}:{e.port}" for e in config.advertised_listeners]


def bound(config: BrokerConfig) -> list[str]:
    return [f"{e.listener}://{e.host}:{e.port}" for e in config.listeners]


def test_image_without_settings_listens_on_9092(tmp_path: Path) -> None:
    """The defaults are those of Apache Kafka's image: port 9092, for clients on the host."""
    config = configured(tmp_path, environ={"PATH": "/bin"})
    assert (bound(config), advertised(config)) == (
        ["PLAINTEXT://:9092"],
        ["PLAINTEXT://localhost:9092"],
    )
    assert config.log_dirs == (DATA_DIR,)
    assert (config.node_id, config.offsets_topic_replication_factor) == (1, 1)


@pytest.mark.parametrize("by_variable", [False, True])
def test_image_with_metrics_only_listens_on_9092(tmp_path: Path, by_variable: bool) -> None:
    environ = {"KAFKA_METRICS_PORT": "9404", "KAFKA_METRICS_HOST": "0.0.0.0"}
    overrides = {"metrics.port": "9404", "metrics.host": "0.0.0.0"}
    config = configured(tmp_path, None, *((environ, {}) if by_variable else ({}, overrides)))
    assert bound(config) == ["PLAINTEXT://:9092"]
    assert (config.metrics.metrics_host, config.metrics.metrics_port) == ("0.0.0.0", 9404)


@pytest.mark.parametrize(
    ("role", "replicas"), [("broker", 3), (" broker ", 3), ("broker,controller", 1)]
)
def test_internal_topics_of_a_broker_beside_controllers_have_the_default_of_apache_kafka(
    role: str, replicas: int, tmp_path: Path
) -> None:
    environ = {
        "KAFKA_PROCESS_ROLES": role,
        "KAFKA_NODE_ID": "2",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "100@controller:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092",
    }
    config = configured(tmp_path, environ=environ)
    assert config.offsets_topic_replication_factor == replicas
    assert config.node_id == 2


@pytest.mark.parametrize(
    ("variable", "name", "value"),
    [
        ("KAFKA_NUM_PARTITIONS", "num_partitions", 5),
        ("KAFKA_LOG_RETENTION_HOURS", "log_retention_hours", 5),
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "group_initial_rebalance_delay_ms", 5),
        ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "offsets_topic_replication_factor", 5),
    ],
)
def test_variable_sets_a_config(tmp_path: Path, variable: str, name: str, value: int) -> None:
    assert getattr(configured(tmp_path, environ={variable: str(value)}), name) == value


def test_mounted_file_sets_configs(tmp_path: Path) -> None:
    config = configured(tmp_path, "num.partitions=3\nlog.dirs=/elsewhere\nnode.id=4\n")
    assert (config.num_partitions, config.log_dirs) == (3, ("/elsewhere",))
    assert config.node_id == 4


def test_variables_override_the_file_and_options_override_both(tmp_path: Path) -> None:
    file = "num.partitions=3\nlog.retention.hours=3\nmin.insync.replicas=3\n"
    environ = {"KAFKA_NUM_PARTITIONS": "4", "KAFKA_LOG_RETENTION_HOURS": "4"}
    config = configured(tmp_path, file, environ, {"num.partitions": "5"})
    assert (config.num_partitions, config.log_retention_hours) == (5, 4)
    assert config.min_insync_replicas == 3


def test_empty_file_has_no_effect(tmp_path: Path) -> None:
    assert advertised(configured(tmp_path, "# nothing\n")) == ["PLAINTEXT://localhost:9092"]


def test_listeners_follow_from_advertised_ones(tmp_path: Path) -> None:
    environ = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,HOST://[::1]:29092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT",
    }
    config = configured(tmp_path, environ=environ)
    assert bound(config) == ["PLAINTEXT://0.0.0.0:9092", "HOST://0.0.0.0:29092"]
    assert advertised(config) == ["PLAINTEXT://kafka:9092", "HOST://::1:29092"]


def test_variables_of_testcontainers_are_accepted(tmp_path: Path) -> None:
    """The variables of its Kafka module, whose image this one can replace."""
    environ = {
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:32771,BROKER://a1b2c3:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a1b2c3:9094",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
        "KAFKA_NODE_ID": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    }
    config = configured(tmp_path, environ=environ)
    assert bound(config) == ["PLAINTEXT://:9092", "BROKER://:9093"]
    assert advertised(config) == ["PLAINTEXT://localhost:32771", "BROKER://a1b2c3:9093"]
    assert config.offsets_topic_num_partitions == 1
    assert not any("unknown" in note for note in config.notes)


def test_cluster_has_kafkas_default_replication(tmp_path: Path) -> None:
    config = configured(tmp_path, environ={"KAFKA_ZOOKEEPER_CONNECT": "zk:2181"})
    assert config.offsets_topic_replication_factor == 3
    assert config.log_dirs == (DATA_DIR,)


def test_variables_for_the_jvm_are_ignored(tmp_path: Path) -> None:
    environ = {"KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_OPTS": "-Dx=y", "KAFKA_VERSION": "4.3.1"}
    assert advertised(configured(tmp_path, environ=environ)) == ["PLAINTEXT://localhost:9092"]
    assert configured(tmp_path, environ=environ).notes == ()
