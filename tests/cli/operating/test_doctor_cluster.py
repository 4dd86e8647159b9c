"""`kwire doctor` of running clusters: what it finds, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kwire.cli.app import app
from kwire.client.cluster import Cluster
from kwire.client.configs import ConfigAlteration, ConfigResource, ConfigResourceKind, alter_configs
from kwire.client.topics import create_topic
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.testing import BrokerProcess, Kafka, Record, SharedClusterProcess

pytestmark = pytest.mark.slow

BrokerFactory = Callable[[Mapping[str, str]], BrokerProcess]

HARMLESS = {"temporary-directory", "auto-create"}
"""What is found about brokers of tests."""


def doctor(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "-b", bootstrap, "--timeout", "60", *arguments])


def found(bootstrap: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the findings by their check without those about any test's broker."""
    done = doctor(bootstrap, "--json")
    findings = {each["check"]: each for each in json.loads(done.stdout)}
    return done.exit_code, {
        check: each for check, each in findings.items() if check not in HARMLESS
    }


def test_doctor_finds_nothing_wrong_with_a_new_broker(broker: BrokerProcess) -> None:
    assert found(broker.bootstrap) == (0, {})
    done = doctor(broker.bootstrap)
    assert done.exit_code == 0
    assert "checked 1 broker and 0 topics of cluster" in done.stderr
    assert "NOTE  broker 1  [auto-create]" in done.stdout


def test_doctor_finds_an_advertised_name_that_this_machine_cannot_resolve(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory({"advertised.listeners": "PLAINTEXT://no-such-host.invalid:9092"})
    status, findings = found(broker.bootstrap)
    assert (status, set(findings)) == (1, {"advertised-name", "groups"})
    assert findings["groups"]["grade"] == "unchecked"
    assert "it advertises no-such-host.invalid:9092" in findings["advertised-name"]["says"]


def test_doctor_finds_another_broker_at_an_advertised_address(
    broker_factory: BrokerFactory, shared_broker: BrokerProcess
) -> None:
    """As after a copied settings file: both brokers have the id 1, and not the same cluster."""
    address = f"PLAINTEXT://127.0.0.1:{shared_broker.port}"
    broker = broker_factory({"advertised.listeners": address})
    status, findings = found(broker.bootstrap)
    assert status == 1
    assert findings["advertised-broker"]["grade"] == "broken"


def test_doctor_finds_settings_of_topics_and_brokers(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({
        "offsets.topic.replication.factor": "3", "offsets.retention.minutes": "60",
    })  # fmt: skip
    with Cluster(broker.bootstrap, timeout_s=60) as cluster:
        create_topic(cluster, "t", partitions=1, replication_factor=1)
        alter_configs(
            cluster,
            ConfigResource(ConfigResourceKind.TOPIC, "t"),
            {"min.insync.replicas": (ConfigAlteration.SET, "2")},
        )
    status, findings = found(broker.bootstrap)
    assert status == 1
    assert set(findings) == {
        "internal-replicas", "short-offsets", "min-isr-above-replicas", "offsets-expire-first",
    }  # fmt: skip
    assert findings["internal-replicas"]["grade"] == "broken"
    assert findings["min-isr-above-replicas"]["about"] == "topic t"


def test_doctor_finds_a_clock_that_is_ahead_and_timestamps_of_the_future() -> None:
    with Kafka() as kafka:
        topic = kafka.create_topic("t")
        kafka.clock.advance(hours=2)
        topic.seed([Record("v", timestamp_ms=kafka.clock.now_ms)])
        status, findings = found(kafka.bootstrap)
    assert status == 1
    assert findings["clock"]["about"] == "broker 1"
    assert findings["future-timestamps"]["about"] == "topic t"


def test_doctor_of_a_cluster_with_metrics_leaves_nothing_unchecked(tmp_path: Path) -> None:
    with SharedClusterProcess(tmp_path, 3, {"metrics.port": "0"}) as cluster:
        assert found(cluster.bootstrap) == (0, {})


def test_doctor_of_a_user_without_rights_says_what_it_could_not_check(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory({
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    })  # fmt: skip
    status, findings = found(broker.bootstrap)
    assert status == 0
    assert {each["grade"] for each in findings.values()} == {"unchecked"}
    assert {"broker-state", "broker-settings"} <= set(findings)
    assert "CLUSTER_AUTHORIZATION_FAILED" in findings["broker-state"]["says"]


def test_doctor_exits_with_2_and_says_why_if_no_broker_answers() -> None:
    done = doctor("127.0.0.1:1,no-such-host.invalid:9092", "--json")
    assert done.exit_code == 2
    checks = [each["check"] for each in json.loads(done.stdout)]
    assert checks == ["bootstrap-port", "bootstrap-name"]
    assert "no broker answers" in done.stderr


def test_doctor_checks_a_file_and_a_cluster_together(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=many\n")
    done = doctor(broker.bootstrap, str(path), "--json")
    assert done.exit_code == 1
    assert {each["about"] for each in json.loads(done.stdout)} == {str(path), "broker 1"}
    only_file = doctor(broker.bootstrap, str(path), "--security", "--json")
    assert {each["about"] for each in json.loads(only_file.stdout)} == {str(path)}


def test_doctor_refuses_settings_without_a_file() -> None:
    assert doctor("127.0.0.1:1", "--set", "num.partitions=1").exit_code == 2


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedClusterProcess]:
    with SharedClusterProcess(tmp_path_factory.mktemp("three"), 3) as cluster:
        yield cluster


def test_doctor_finds_topics_of_a_cluster_that_do_not_survive_a_broker(
    three: SharedClusterProcess,
) -> None:
    with Cluster(three.bootstrap, timeout_s=60) as cluster:
        for name, copies, min_isr in (("single", 1, "1"), ("all", 3, "3"), ("well", 3, "2")):
            configs = {"min.insync.replicas": min_isr}
            create_topic(cluster, name, partitions=1, replication_factor=copies, configs=configs)
    status, findings = found(three.bootstrap)
    assert status == 1
    about = {check: each["about"] for check, each in findings.items()}
    assert about == {
        "one-replica": "topic single",
        "min-isr-is-replicas": "topic all",
        "clock": about["clock"],
    }
    # The leader of the quorum tells the time, and the others have no metrics endpoint.
    assert findings["clock"]["grade"] == "unchecked"


@pytest.mark.java
def test_doctor_checks_apache_kafka(apache_kafka: ApacheKafkaNode) -> None:
    """Tests share this node, so there may be any findings about topics; none is `unchecked`."""
    done = doctor(apache_kafka.bootstrap, "--json")
    assert done.exit_code in (0, 1), done.output
    findings = json.loads(done.stdout)
    assert "unchecked" not in {each["grade"] for each in findings}
    assert not {each["check"] for each in findings} & {
        "advertised-name", "advertised-port", "clock", "silent-broker", "no-controller",
    }  # fmt: skip
