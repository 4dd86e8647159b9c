"""Loading settings: sources, their order, notes and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.settings import BrokerConfig, ConfigError, load
from kwire.settings.environment import setting_name, settings_from

COMBINED_NODE = """
# what config/server.properties of Apache Kafka 4 says
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return path


def test_combined_kraft_node_is_loaded_without_its_controller_listener(tmp_path: Path) -> None:
    config = load(write(tmp_path, COMBINED_NODE))
    assert config.node_id == config.broker_id == 7
    assert [(e.listener, e.host, e.port) for e in config.listeners] == [("PLAINTEXT", "", 9092)]
    assert [(e.listener, e.host, e.port) for e in config.advertised_listeners] == [
        ("PLAINTEXT", "localhost", 9092)
    ]
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config.notes == ("listener CONTROLLER is not opened: kwire has no KRaft controller",)


def test_load_without_settings_gives_kafkas_defaults_on_localhost() -> None:
    config = load()
    assert config.notes == ()
    assert config.explicit == {}
    assert config.node_id == 1
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.num_partitions == 1
    assert config.offsets_topic_replication_factor == 3
    assert config.advertised_listeners[0].host == "localhost"


def test_overrides_win_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    path = write(tmp_path, "num.partitions=2\nlog.retention.hours=3\nbackground.threads=4\n")
    environ = {"KAFKA_LOG_RETENTION_HOURS": "5", "KAFKA_BACKGROUND_THREADS": "6", "HOME": "/root"}
    config = load(path, {"background.threads": "7"}, environ)
    assert (config.num_partitions, config.log_retention_hours) == (2, 5)
    assert config.background_threads == 7
    assert config.text("background.threads") == "7"
    assert config.text("num.io.threads") == "8"


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_ADVERTISED_LISTENERS", "advertised.listeners"),
        ("KAFKA_SOME__NAME", "some_name"),
        ("KAFKA_SOME___NAME", "some-name"),
        ("KAFKA_LISTENER_NAME_CLIENT_SSL_KEY_PASSWORD", "listener.name.client.ssl.key.password"),
    ],
)
def test_environment_variable_has_the_setting_name_of_kafkas_image(
    variable: str, name: str
) -> None:
    assert setting_name(variable) == name


def test_environment_variables_of_the_jvm_give_no_settings() -> None:
    assert settings_from({"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_OPTS": "", "PATH": "/bin"}) == {}


def test_unknown_name_in_a_file_becomes_a_note_with_the_nearest_known_name(tmp_path: Path) -> None:
    config = load(write(tmp_path, "num.partition=3\nqqqqqqqq=1\n"))
    assert config.num_partitions == 1
    assert config.notes == (
        "unknown setting num.partition: did you mean num.partitions?",
        "unknown setting qqqqqqqq",
    )


def test_unknown_name_on_the_command_line_raises_config_error() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown setting log\.segment\.byte: did you mean log\.segment\.bytes\?"
    ):
        load(overrides={"log.segment.byte": "2000000"})


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.external.max.connections",
        "listener.name.sasl.plain.sasl.jaas.config",
        "rsm.config.anything",
        "config.providers.file.class",
        "metrics.context.team",
    ],
)
def test_setting_with_a_known_prefix_is_accepted(name: str) -> None:
    assert load(overrides={name: "1"}).explicit[name] == "1"


@pytest.mark.parametrize(
    "name",
    [
        "super.users",
        "allow.everyone.if.no.acl.found",
        "metrics.jmx.include",
        "listener.name.sasl.oauthbearer.sasl.oauthbearer.header.urlencode",
        "follower.replication.throttled.rate",
    ],
)
def test_setting_of_apache_kafkas_plugins_is_accepted(name: str, tmp_path: Path) -> None:
    assert load(overrides={name: "1"}).explicit[name] == "1"
    assert load(write(tmp_path, f"{name}=1\n")).explicit[name] == "1"


def test_plugin_setting_with_a_configured_prefix_is_accepted() -> None:
    chosen = {"remote.log.storage.manager.impl.prefix": "mine."}
    assert load(overrides={**chosen, "mine.bucket": "b"}).explicit["mine.bucket"] == "b"
    with pytest.raises(ConfigError, match=r"unknown setting mine\.bucket"):
        load(overrides={"mine.bucket": "b"})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"num.partitions": "0"},
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        (
            {"node.id": "1", "broker.id": "2"},
            "You must set `node.id` to the same value as `broker.id`.",
        ),
        (
            {"process.roles": "controller"},
            "process.roles=controller: add broker, for kwire cannot be a controller",
        ),
        (
            {"log.retention.hours": "0"},
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        (
            {"replica.socket.timeout.ms": "100"},
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to "
            "prevent unnecessary socket timeouts",
        ),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set.",
        ),
        (
            {"queued.max.request.bytes": "100"},
            "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
        ),
        ({"offsets.topic.compression.codec": "9"}, "Unknown compression type id: 9"),
        (
            {"log.cleaner.dedupe.buffer.size": "5"},
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "99999"},
            "group.consumer.heartbeat.interval.ms must be less than or equal to "
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"group.consumer.session.timeout.ms": "1000"},
            "group.consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
    ],
)
def test_invalid_settings_raise_config_error_with_kafkas_message(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(overrides=settings)
    assert str(refused.value) == sentence


def test_load_notes_that_a_node_with_both_roles_does_not_join_a_kraft_quorum() -> None:
    voters = {"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}
    for roles in ({}, {"process.roles": "broker,controller"}):
        config = load(overrides={**voters, **roles})
        assert not config.joins_controllers
        assert config.notes == (
            "this broker does not join the KRaft quorum, it keeps its own metadata: "
            "process.roles=broker makes it join",
        )


BESIDE = {"process.roles": "broker", "controller.listener.names": "CONTROLLER"}


@pytest.mark.parametrize(
    "quorum",
    [
        {"controller.quorum.voters": "1@a:9093,2@b:9093"},
        {"controller.quorum.bootstrap.servers": "a:9093"},
    ],
)
def test_broker_with_the_broker_role_alone_joins_its_controllers(quorum: dict[str, str]) -> None:
    config = load(overrides={**BESIDE, **quorum})
    assert config.joins_controllers
    assert config.notes == ()
    assert not config.without_effect()
    on_zookeeper = load(overrides={**BESIDE, **quorum, "zookeeper.connect": "z:2181"})
    assert not on_zookeeper.joins_controllers


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            BESIDE,
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the "
            "set of bootstrap controllers or controller.quorum.voters must contain a parseable set "
            "of controllers.",
        ),
        (
            {"process.roles": "broker", "controller.quorum.bootstrap.servers": "a:9093"},
            "controller.listener.names must contain at least one value when running KRaft with "
            "just the broker role",
        ),
    ],
)
def test_broker_role_without_controllers_is_refused(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(overrides=settings)
    assert str(refused.value) == sentence


def test_node_id_and_broker_id_set_each_other() -> None:
    assert load(overrides={"broker.id": "5"}).node_id == 5
    assert load(overrides={"node.id": "5"}).broker_id == 5


def test_setting_an_attribute_of_a_configuration_raises_attribute_error() -> None:
    config = load()
    with pytest.raises(AttributeError, match="immutable"):
        config.num_partitions = 2


def test_with_dynamic_returns_a_new_configuration_with_the_dynamic_values() -> None:
    static = load(overrides={"num.io.threads": "3", "log.retention.hours": "5"})
    changed = static.with_dynamic(
        {"num.io.threads": "4", "message.max.bytes": "5", "unknown.to.kafka": "x"},
        {"num.io.threads": "6", "log.retention.ms": "7"},
    )
    assert (static.num_io_threads, changed.num_io_threads) == (3, 6)
    assert (changed.message_max_bytes, changed.log_retention_ms) == (5, 7)
    assert changed.log_retention_hours == 168, "log.retention.ms replaces its synonym"
    assert changed.explicit == static.explicit
    assert changed.with_dynamic({}).num_io_threads == 3
    with pytest.raises(ConfigError, match=r"log\.retention\.ms must be unlimited"):
        static.with_dynamic({"log.retention.ms": "0"})


def test_with_dynamic_keeps_the_bound_ports() -> None:
    bound = BrokerConfig({"listeners": "PLAINTEXT://localhost:0"}).with_bound_ports(
        {"PLAINTEXT": 4711}
    )
    changed = bound.with_dynamic({"message.max.bytes": "5"})
    assert [endpoint.port for endpoint in changed.listeners] == [4711]
    assert [endpoint.port for endpoint in changed.advertised_listeners] == [4711]
