"""`kwire apply`, `kwire export` and `kwire serve --apply`, on brokers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from kwire.cli.app import app
from kwire.cli.declared_state.found import look
from kwire.cli.declared_state.reading import SECTIONS
from kwire.cli.declared_state.state import FoundState
from kwire.cli.grammar.asking import NO_TERMINAL
from kwire.client.cluster import Cluster
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing import BrokerProcess, free_port
from tests.commands.forked import run_kwire
from tests.conftest import BrokerFactory

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
WHOLE = """
topics:
  orders:
    partitions: 3
    configs: {cleanup.policy: [compact, delete], retention.ms: -1}
    records:
    - {key: k, value: {fruit: apples}, partition: 2, timestamp: 5, headers: {h: x}}
    - {file: more.csv, key: id}
  bare:
users:
  alice: {password: {env: ALICE_PASSWORD}, mechanisms: [SCRAM-SHA-256, SCRAM-SHA-512]}
  bob: {password: {file: bob.password}, iterations: 8192}
acls:
- {principal: User:alice, topic: ord, pattern: prefixed, operations: [read, describe]}
- {principal: "User:*", cluster: true, operations: describe, host: 10.0.0.0/8, permission: deny}
quotas:
- {user: alice, client-id: null, producer_byte_rate: 1048576}
- {ip: 127.0.0.9, connection_creation_rate: 25}
groups: {billing: {consumer.session.timeout.ms: 50000}}
client-metrics: {all: {interval.ms: 1000, metrics: org.apache.kafka.producer.}}
"""
NOTHING_MORE: Mapping[str, str] = {}
SIMPLE = "topics: {t: {partitions: 2, configs: {retention.ms: 1000}}}\n"

pytestmark = pytest.mark.slow


def run(
    broker: BrokerProcess | str,
    *words: object,
    status: int = 0,
    env: Mapping[str, str] = NOTHING_MORE,
) -> Result:
    """The command, in this process; it must end with that status."""
    bootstrap = broker if isinstance(broker, str) else broker.bootstrap
    told = CliRunner().invoke(
        app, [str(word) for word in words], env={"KWIRE_BOOTSTRAP_SERVERS": bootstrap, **env}
    )
    assert told.exit_code == status, told.output
    return told


def all_of(broker: BrokerProcess | str) -> FoundState:
    bootstrap = broker if isinstance(broker, str) else broker.bootstrap
    with Cluster(bootstrap, timeout_s=60) as cluster:
        return look(cluster, SECTIONS)


def records_of(broker: BrokerProcess | str, topic: str) -> str:
    words = ("consume", topic, "--from-beginning", "--exit", "--format", "json")
    return "".join(sorted(run(broker, *words).stdout.splitlines(keepends=True)))


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    (tmp_path / "more.csv").write_text("id,fruit\n7,pears\n8,plums\n")
    (tmp_path / "bob.password").write_text("geheim\n")
    file = tmp_path / "cluster.yaml"
    file.write_text(WHOLE)
    return file


def test_apply_makes_all_changes_once_and_none_the_second_time(
    broker_factory: BrokerFactory, declared: Path
) -> None:
    broker = broker_factory(AUTHORIZED)
    known = {"ALICE_PASSWORD": "geheim"}
    told = run(broker, "apply", declared, "--dry-run", env=known)
    assert "+ topic orders: 3 partitions\n    cleanup.policy = compact,delete\n" in told.stdout
    assert "geheim" not in told.output
    assert all_of(broker) == FoundState()
    run(broker, "apply", declared, "--check", status=1, env=known)
    assert all_of(broker) == FoundState()
    told = run(broker, "apply", declared, "--yes", env=known)
    assert "13 changes made" in told.stderr
    found = all_of(broker)
    assert found.topics["orders"].configs["cleanup.policy"] == "compact,delete"
    assert found.users == {
        "alice": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096},
        "bob": {"SCRAM-SHA-256": 8192},
    }
    assert len(found.acls) == 3
    assert found.groups == {"billing": {"consumer.session.timeout.ms": "50000"}}
    assert records_of(broker, "orders").count("\n") == 3
    told = run(broker, "apply", declared, "--yes", "--check", "--prune")  # nobody's password now
    assert "nothing to change" in told.stderr
    assert all_of(broker) == found
    assert "geheim" not in broker.log


def test_export_applied_to_an_empty_broker_gives_the_same_state(
    broker_factory: BrokerFactory, declared: Path, tmp_path: Path
) -> None:
    here, there = broker_factory(AUTHORIZED), broker_factory(AUTHORIZED)
    run(here, "apply", declared, "--yes", env={"ALICE_PASSWORD": "geheim"})
    file = tmp_path / "out" / "export.yaml"
    file.parent.mkdir()
    told = run(here, "export", "-o", file, "--records", tmp_path / "out" / "records")
    assert "3 records of orders" in told.stderr
    assert "geheim" not in file.read_text()
    run(there, "apply", file, "--yes", status=1)  # no password is known
    assert all_of(there) == FoundState()
    run(there, "apply", file, "--yes", env={"PASSWORD_OF_ALICE": "a", "PASSWORD_OF_BOB": "b"})
    assert all_of(there) == all_of(here)
    assert records_of(there, "orders") == records_of(here, "orders")
    assert run(here, "export").stdout == run(there, "export").stdout


def test_apply_with_prune_removes_what_is_not_declared(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    for topic in ("t", "old"):
        run(broker, "topics", "create", topic, "--config", "max.message.bytes=1000")
    run(broker, "consume", "old", "--group", "g", "--from-beginning", "--exit")
    run(broker, "quotas", "set", "--user", "u", "producer_byte_rate=1")
    file = tmp_path / "f.yaml"
    file.write_text(SIMPLE)
    told = run(broker, "apply", file, "--dry-run")
    assert told.stdout.splitlines() == [
        "~ topic t: 1 -> 2 partitions",
        "~ topic t",
        "    retention.ms = 1000",
    ]
    told = run(broker, "apply", file, "--prune", "--yes")
    assert "    max.message.bytes: 1000 -> the default\n" in told.stdout
    assert told.stdout.endswith("\n- topic old, with its records\n")
    found = all_of(broker)
    assert {*found.topics} == {"t", "__consumer_offsets"}
    assert found.topics["t"].configs == {"retention.ms": "1000"}
    assert found.topics["t"].partitions == 2
    assert found.quotas, "a section that is not declared is left alone"
    run(broker, "apply", file, "--prune", "--check")


def test_apply_changes_nothing_if_there_is_a_conflict(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("topics: {a: , t: {configs: {retention.mss: 1}}, u: {replication: 3}}\n")
    told = run(broker, "apply", file, "--yes", status=1)
    assert "did you mean retention.ms?" in told.stderr
    assert "topic u: 3 replicas: create topic u: INVALID_REPLICATION_FACTOR" in told.stderr
    assert "nothing is changed" in told.stderr
    file.write_text("acls: [{principal: User:a, topic: t, operations: read}]\ntopics: {a: }\n")
    told = run(broker, "apply", file, "--yes", status=1)
    assert "acls: the brokers have no authorizer" in told.stderr
    file.write_text("users: {a: {password: {env: NOT_THERE}}}\n")
    told = run(broker, "apply", file, "--yes", status=1)
    assert "no password: the environment has no NOT_THERE" in told.stderr
    assert all_of(broker).topics == {}


def test_apply_reports_a_failed_change_and_makes_the_others(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        "topics: {a: {partitions: 1, records: [{value: v, partition: 9}]}, b: {records: [v]}}\n"
    )
    told = run(broker, "apply", file, "--yes", status=1)
    assert "records of topic a: 1 record: topic a has no partition 9: it has 1" in told.stderr
    assert "1 of 4 changes not made" in told.stderr
    assert records_of(broker, "b").count("\n") == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("topics: {t: {partitons: 1}}", "f.yaml, line 1: topics.t.partitons: unknown: did you"),
        ("topics: [", "not YAML"),
        ("topics: {t: {records: [{file: none.jsonl}]}}", "none.jsonl: no such file or directory"),
        ("topics: {t: {records: [{file: bad.jsonl}]}}", "bad.jsonl, line 2: unknown field"),
        (
            "topics: {t: {records: [{file: bad.jsonl, format: values}]}}",
            "bad.jsonl, line 3: not JSON",
        ),
        ("topics: {t: {records: [{value: x, value_encoding: base64}]}}", "is not base64"),
        ("topics: {t: {records: [{file: bad.csv}]}}", "bad.csv, line 2: not as many columns"),
        ("topics: {t: {records: [{file: bad.csv, key: c}]}}", "has no column 'c': a, b"),
    ],
)
def test_apply_reports_the_place_of_an_error_in_the_file(
    shared_broker: BrokerProcess, tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"value": 1}\n{"valeu": 2}\n{\n')
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    file = tmp_path / "f.yaml"
    file.write_text(text)
    result = CliRunner().invoke(
        app, ["apply", str(file), "--yes"], env={"KWIRE_BOOTSTRAP_SERVERS": shared_broker.bootstrap}
    )
    assert result.exit_code == 1
    assert told in result.output + str(result.exception)


def test_apply_without_a_terminal_needs_yes_or_dry_run(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(SIMPLE)
    told = run(broker, "apply", file, status=2)
    assert NO_TERMINAL in told.stderr
    assert all_of(broker) == FoundState(untold=all_of(broker).untold)


@pytest.fixture
def apache_kafka_alone(tmp_path: Path) -> Iterator[str]:
    """One that no other test sees: users and settings would change what others are told."""
    with ApacheKafka(tmp_path / "apache") as node:
        yield node.bootstrap


@pytest.mark.java
@pytest.mark.long
def test_apply_and_export_work_on_apache_kafka(
    apache_kafka_alone: str, broker: BrokerProcess, tmp_path: Path
) -> None:
    """What is exported of it makes the same topics on kwire."""
    node = apache_kafka_alone
    file = tmp_path / "f.yaml"
    name = "declared-on-apache"
    file.write_text(WHOLE.replace("orders:", f"{name}:").replace("bare:", f"{name}-2:"))
    text = file.read_text()
    text = text[: text.index("acls:")] + text[text.index("quotas:") :]
    text = text.replace("alice", "declared-alice").replace("bob:", "declared-bob:")
    text = text.replace("billing", "declared-group").replace("{all:", "{declared-metrics:")
    file.write_text(text)
    (tmp_path / "more.csv").write_text("id,fruit\n7,pears\n8,plums\n")
    (tmp_path / "bob.password").write_text("geheim\n")
    variables = {"ALICE_PASSWORD": "geheim"}
    told = run(node, "apply", file, "--yes", env=variables)
    assert "10 changes made" in told.stderr
    eventually(lambda: "nothing to change" in run(node, "apply", file, "--dry-run").stderr)
    records = tmp_path / "records"
    run(node, "export", "-o", tmp_path / "export.yaml", "--records", records)
    assert (records / f"{name}.jsonl").read_text().count("\n") == 3
    exported = tmp_path / "topics.yaml"
    exported.write_text(
        "topics:\n"
        f"  {name}: {{partitions: 3, replication: 1, records: {{file: records/{name}.jsonl}},"
        " configs: {cleanup.policy: [compact, delete], retention.ms: -1}}\n"
    )
    run(broker, "apply", exported, "--yes")
    assert records_of(broker, name) == records_of(node, name)
    mine, its = all_of(broker), all_of(node)
    assert mine.topics[name] == its.topics[name]
    file.write_text(text.replace("{consumer.session.timeout.ms: 50000}", "{}"))
    told = run(node, "apply", file, "--dry-run", "--prune")
    assert "- topic __" not in told.stdout
    assert f"topic {name}" not in told.stdout


def eventually(holds: Callable[[], bool]) -> None:
    """Apache Kafka's broker learns of what its controller has answered a little later."""
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.05)


# -- kwire serve --apply


Started = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Start `kwire serve` in the test's folder; gives it, and what it says until it is ready."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli", "serve", *arguments],
            stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "ALICE_PASSWORD": "geheim"},
        )  # fmt: skip
        running.append(process)
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if " is ready." in line:
                return process, said
        raise AssertionError(said)

    yield start
    for process in running:
        process.kill()
        process.communicate()


SECURED = (
    "--set=listeners=SASL_PLAINTEXT://127.0.0.1:{port}",
    "--set=security.inter.broker.protocol=SASL_PLAINTEXT",
    "--set=sasl.enabled.mechanisms=SCRAM-SHA-256",
    "--set=sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
    f"--set=authorizer.class.name={AUTHORIZED['authorizer.class.name']}",
)
"""Nobody may do anything, nor even come in, before users and rules are there."""


def test_serve_apply_makes_all_changes_before_the_broker_is_ready(
    started: Started, declared: Path, tmp_path: Path
) -> None:
    port = free_port()
    arguments = [f"--apply={declared}", *(each.format(port=port) for each in SECURED)]
    process, said = started(*arguments)
    assert said.index("+ user alice: SCRAM-SHA-256") < said.index(" is ready.")
    assert "geheim" not in said
    login: dict[str, str | int | float | bool] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "geheim",
    }
    topics = AdminClient(login).list_topics(timeout=60).topics
    assert [*topics] == ["orders"], "what alice may see"
    assert len(topics["orders"].partitions) == 3
    process.terminate()
    assert process.wait(120) == 0
    _, again = started(*arguments)
    assert "nothing to change: the broker has all that is declared" in again
    assert " + " not in again


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("topics: {t: {partitons: 1}}", "did you mean partitions?"),
        (
            "topics: {t: {replication: 2}}",
            "cannot apply the declaration: topic t: 2 replicas: create topic t: INV",
        ),
        ("topics: {t: {partitions: 1, records: [{value: v, partition: 5}]}}", "no partition 5"),
    ],
)
def test_serve_apply_does_not_start_the_broker_if_a_change_is_impossible(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    done = run_kwire("serve", "--port=0", f"--apply={file}", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert told in done.stderr
    assert " is ready." not in done.stderr
    assert "Traceback" not in done.stderr


def test_serve_apply_with_several_brokers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(SIMPLE)
    told = CliRunner().invoke(app, ["serve", "--brokers", "2", "--apply", str(file)])
    assert told.exit_code == 2
    assert "--apply works with a single broker" in told.stderr
