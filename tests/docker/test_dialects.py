"""Tests of the variables of four images: what they become, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cli.image.bitnami import setting_of
from kwire.cli.image.dialects import table
from kwire.cli.image.reading import ImageTopic, variable_name
from kwire.cli.image.settings import container_settings, stored_id
from kwire.cli.image.start import ImageStart, declaration_of
from kwire.cli.image.translating import ignored_sentences, translate
from kwire.cli.image.volumes import DATA_DIR, check_writable, data_folder, mount_points
from kwire.cli.image.wurstmeister import topics
from kwire.settings import BrokerConfig, ConfigError, load
from kwire.settings.environment import setting_name

README = Path(__file__).resolve().parents[2] / "docker" / "README.md"


def config_of(environ: dict[str, str], folder: Path) -> BrokerConfig:
    return load(*container_settings(environ, {}, folder / "server.properties"))


def advertised(config: BrokerConfig) -> list[str]:
    return [f"{e.listener}://{e.host}:{e.port}" for e in config.advertised_listeners]


def test_table_in_the_readme_is_that_of_the_code() -> None:
    assert table() in README.read_text(), "make generated writes docker/README.md"


@pytest.mark.parametrize(
    "name", ["log.dirs", "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config"]
)
def test_variable_name_is_the_opposite_of_setting_name(name: str) -> None:
    assert setting_name(variable_name(name)) == name


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_CFG_LOG_RETENTION_HOURS", "log.retention.hours"),
        (
            "KAFKA_CFG_LISTENER_NAME_SASL_SSL_PLAIN_SASL_JAAS_CONFIG",
            "listener.name.sasl_ssl.plain.sasl.jaas.config",
        ),
        ("KAFKA_CFG_LISTENER_NAME_A__B_SSL_CLIENT_AUTH", "listener.name.a_b.ssl.client.auth"),
    ],
)
def test_bitnamis_variable_is_a_setting(variable: str, setting: str) -> None:
    assert setting_of(variable) == setting


def test_users_of_bitnami_log_in_by_plain_and_scram(tmp_path: Path) -> None:
    environ = {
        "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CLIENT://:9093",
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "KAFKA_CLIENT_USERS": "alice;bob",
        "KAFKA_CLIENT_PASSWORDS": 'a"b,c',
    }
    reading = translate(environ)
    settings = reading.settings
    assert settings["sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    line = settings["listener.name.client.plain.sasl.jaas.config"]
    assert line.endswith('PlainLoginModule required user_alice="a\\"b" user_bob="c";')
    assert {name: login.mechanisms for name, login in reading.users.items()} == {
        name: ("SCRAM-SHA-256", "SCRAM-SHA-512") for name in ("alice", "bob")
    }
    assert 'a"b' not in repr(reading.users)
    assert config_of(environ, tmp_path).notes == ()


def test_secret_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "passwords").write_text("x\n")
    environ = {
        "KAFKA_CFG_LISTENERS": "SASL_PLAINTEXT://:9092",
        "KAFKA_CLIENT_USERS": "a",
        "KAFKA_CLIENT_PASSWORDS_FILE": str(tmp_path / "passwords"),
    }
    assert translate(environ).users["a"].password == "x"


def test_jaas_file_of_confluent_gives_the_logins_of_listeners(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(
        "// servers\nKafkaServer {\n"
        "  org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
        '  org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";\n};\n'
        'KafkaClient { org.x.PlainLoginModule required user_z="y"; };\n'
    )
    environ = {
        "KAFKA_ADVERTISED_LISTENERS": "SASL_PLAINTEXT://kafka:9092",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256",
        "KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={file}",
    }
    settings = translate(environ).settings
    prefix = "listener.name.sasl_plaintext."
    assert settings[f"{prefix}plain.sasl.jaas.config"].endswith('required user_a="b";')
    assert "ScramLoginModule" in settings[f"{prefix}scram-sha-256.sasl.jaas.config"]


def test_host_name_and_port_of_wurstmeister_are_the_advertised_listener(tmp_path: Path) -> None:
    environ = {"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_ADVERTISED_PORT": "29092"}
    config = config_of(environ, tmp_path)
    assert advertised(config) == ["PLAINTEXT://kafka:29092"]
    assert [(each.host, each.port) for each in config.listeners] == [("", 9092)]


def test_output_of_a_command_replaces_its_placeholder(tmp_path: Path) -> None:
    environ = {
        "HOSTNAME_COMMAND": "echo here",
        "KAFKA_LISTENERS": "IN://:9092,OUT://:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "IN",
        "KAFKA_ADVERTISED_LISTENERS": "IN://kafka:9092,OUT://_{HOSTNAME_COMMAND}:9094",
    }
    assert advertised(config_of(environ, tmp_path)) == ["IN://kafka:9092", "OUT://here:9094"]


@pytest.mark.parametrize("separator", ["$'\\n'", "\n"])
def test_topics_are_separated_by_line_feeds(separator: str) -> None:
    assert dict(topics("a:1:2:compact\n b:3\nc\n", separator)) == {
        "a": ImageTopic(1, 2, {"cleanup.policy": "compact"}),
        "b": ImageTopic(3, None),
        "c": ImageTopic(),
    }


SASL = {"KAFKA_LISTENERS": "SASL_PLAINTEXT://:9092"}
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"KAFKA_CFG_NUM_PARTITIONS": "1", "KAFKA_NUM_PARTITIONS": "2"}, "two different values"),
    ({"CLUSTER_ID": "a", "KAFKA_KRAFT_CLUSTER_ID": "b"}, "two different cluster ids"),
    ({"ALLOW_PLAINTEXT_LISTENER": "no", "KAFKA_LISTENERS": "PLAINTEXT://:9092"}, "forbids"),
    ({"ALLOW_PLAINTEXT_LISTENER": "maybe"}, "write yes or no"),
    ({**SASL, "KAFKA_CLIENT_USERS": "a,b", "KAFKA_CLIENT_PASSWORDS": "x"}, "has 2 users"),
    ({**SASL, "KAFKA_INTER_BROKER_USER": "a"}, "belong together"),
    ({"KAFKA_CREATE_TOPICS": "a:x:1"}, "is not NAME:PARTITIONS:REPLICAS"),
    ({"KAFKA_CREATE_TOPICS": "a:0:1"}, "begin at 1"),
    ({"KAFKA_CREATE_TOPICS": "a:1:1:small"}, "the cleanup policy is"),
    ({"KAFKA_CREATE_TOPICS": "a:1:1,a:2:1"}, "twice"),
    ({"KAFKA_ADVERTISED_HOST_NAME": "k", "KAFKA_PORT": "x"}, "KAFKA_PORT=x is no port"),
    ({"HOSTNAME_COMMAND": "no-such-command"}, "set KAFKA_ADVERTISED_HOST_NAME instead"),
    ({"KWIRE_ZOOKEEPER": "perhaps"}, "write join or ignore"),
    ({"KAFKA_ENABLE_KRAFT": "perhaps"}, "write yes or no"),
    ({"KAFKA_PROCESS_ROLES": "controller"}, "cannot be a KRaft controller"),
    (
        {
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1,2@b:1",
        },
        "names 2 controllers",
    ),
    ({"KAFKA_SSL_KEY_CREDENTIALS": "nowhere"}, "Mount it there"),
]


@pytest.mark.parametrize(("environ", "sentence"), REFUSED)
def test_wrong_variables_are_refused_by_name(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as problem:
        translate(environ)
    assert sentence in str(problem.value)
    assert any(name in str(problem.value) for name in environ)


def test_error_about_a_setting_names_its_variable() -> None:
    reading = translate({"KAFKA_CFG_LISTENERS": "X://:9092"})
    assert reading.explained("listeners: wrong") == (
        "listeners: wrong (listeners comes from KAFKA_CFG_LISTENERS)"
    )


def test_variables_without_effect_are_named_once_for_each_reason() -> None:
    environ = {
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "-Dx=y",
        "KAFKA_VERSION": "3.9",
        "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "KAFKA_SERVICE_HOST": "10.0.0.1",
    }
    assert ignored_sentences(translate(environ)) == [
        "KAFKA_HEAP_OPTS, KAFKA_OPTS have no effect: this image has no Java"
    ]


@pytest.mark.parametrize(
    ("more", "is_kept"),
    [
        ({}, True),
        ({"KWIRE_ZOOKEEPER": "ignore"}, False),
        ({"KAFKA_PROCESS_ROLES": "broker,controller"}, False),
        ({"KAFKA_ENABLE_KRAFT": "yes"}, False),
        ({"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"}, False),
        ({"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181", "KWIRE_ZOOKEEPER": "join"}, True),
    ],
)
def test_zookeeper_is_joined_unless_it_is_not_meant(more: dict[str, str], is_kept: bool) -> None:
    settings = translate({"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181", **more}).settings
    assert ("zookeeper.connect" in settings) == is_kept


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ({"KAFKA_ZOOKEEPER_CONNECT": "zk:2181"}, "kafka.security.authorizer.AclAuthorizer"),
    ],
)
def test_authorizer_of_an_older_kafka_is_replaced_by_that_of_today(
    more: dict[str, str], name: str
) -> None:
    old = {"KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.auth.SimpleAclAuthorizer"}
    assert translate({**old, **more}).settings["authorizer.class.name"] == name


def test_broker_on_zookeeper_without_id_has_the_stored_or_the_first_generated_one(
    tmp_path: Path,
) -> None:
    environ = {
        "KAFKA_ZOOKEEPER_CONNECT": "zk:2181",
        "KAFKA_BROKER_ID": "-1",
        "KAFKA_LOG_DIRS": str(tmp_path),
    }
    assert config_of(environ, tmp_path).node_id == 1001
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1003\n")
    assert stored_id(str(tmp_path)) == "1003"
    assert config_of(environ, tmp_path).node_id == 1003


@pytest.mark.parametrize(
    ("mounted", "folder"),
    [
        ([], DATA_DIR),
        ([DATA_DIR, "/bitnami"], "/bitnami/kafka/data"),
        (["/bitnami/kafka"], "/bitnami/kafka/data"),
    ],
)
def test_data_is_in_the_volume_that_is_mounted(mounted: list[str], folder: str) -> None:
    assert data_folder(mounted) == folder
    assert data_folder(["/kafka"]).startswith("/kafka/kafka-logs-")


def test_mount_points_are_those_of_the_kernels_table(tmp_path: Path) -> None:
    table_file = tmp_path / "mountinfo"
    table_file.write_text("36 35 98:0 / /bitnami rw - ext4 /dev/a rw\n1 2 3:4 / /a\\040b rw\n")
    assert mount_points(table_file) == {"/bitnami", "/a b"}


def test_folder_of_another_user_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_writable([str(tmp_path / "new" / "data")])
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(ConfigError) as problem:
        check_writable([str(tmp_path / "data")])
    owner = tmp_path.stat().st_uid
    assert f"cannot write to {tmp_path}: it belongs to user {owner}" in str(problem.value)
    assert f"docker run --user {owner}" in str(problem.value)


def test_topics_of_a_variable_and_of_a_file_are_declared_together(tmp_path: Path) -> None:
    file = tmp_path / "state.yaml"
    file.write_text("topics:\n  b:\n    partitions: 2\n")
    reading = translate({"KAFKA_CREATE_TOPICS": "a:1:1"})
    declaration = declaration_of(reading, str(file))
    assert declaration is not None
    assert set(declaration.declared.topics or {}) == {"a", "b"}
    with pytest.raises(ConfigError, match="the topic b is in a variable and in the file"):
        declaration_of(translate({"KAFKA_CREATE_TOPICS": "b:1:1"}), str(file))
    with pytest.raises(ConfigError, match="KWIRE_APPLY: cannot read"):
        declaration_of(reading, str(tmp_path / "none.yaml"))


def test_what_kafka_storage_was_given_is_read(tmp_path: Path) -> None:
    formatted = tmp_path / "formatted"
    formatted.write_text("cluster.id=abc\nscram=SCRAM-SHA-256=[name=u,password=p,w]\n")
    reading = ImageStart({}, formatted).reading
    assert reading.cluster_id == "abc"
    assert (reading.users["u"].password, reading.users["u"].mechanisms) == (
        "p,w",
        ("SCRAM-SHA-256",),
    )
