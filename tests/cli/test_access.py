"""`kwire users` and `kwire acls`, as people and programs call them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.cli.grammar.asking import NO_TERMINAL
from kwire.testing import BrokerProcess
from kwire.testing.hosting.ports import free_port
from tests.cli.conftest import Kwire
from tests.commands.forked import run_kwire
from tests.conftest import finish
from tests.security.scram_client import SCRAM, SCRAM_512, can_log_in

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker with an authorizer, and the port where its users log in."""
    port, sasl = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}"
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": f"{SCRAM},{SCRAM_512}",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": MODULE,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": MODULE,
        "connection.failed.authentication.delay.ms": "0",
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
    }
    broker = BrokerProcess(tmp_path_factory.mktemp("guarded"), settings, port=port)
    broker.start()
    yield broker, sasl
    finish(broker)


@pytest.fixture
def bootstrap(guarded: tuple[BrokerProcess, int]) -> str:
    return guarded[0].bootstrap


@pytest.fixture
def sasl(guarded: tuple[BrokerProcess, int]) -> int:
    return guarded[1]


def listed(kwire: Kwire, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kwire(*words, "--json").stdout)
    return found


def test_user_is_added_changed_and_removed(kwire: Kwire, sasl: int, unique: str) -> None:
    done = kwire("users", "add", unique, stdin="pencil\nnot this\n")
    assert done.stderr == f"user {unique} added, for {SCRAM}\n"
    assert can_log_in(sasl, unique, "pencil")
    again = kwire("users", "add", unique, stdin="other\n", status=1)
    assert f"user {unique} has a password for {SCRAM} already" in again.stderr
    assert can_log_in(sasl, unique, "pencil")
    kwire("users", "add", unique, "-m", "scram-sha-512", "--iterations", "5000", stdin="x y")
    assert listed(kwire, "users", "list", unique) == [
        {"user": unique, "mechanisms": {SCRAM: 4096, SCRAM_512: 5000}}
    ]
    assert [line.split() for line in kwire("users", "list").stdout.splitlines()] >= [
        ["USER", "MECHANISM", "ITERATIONS"],
        [unique, SCRAM, "4096"],
        [unique, SCRAM_512, "5000"],
    ]
    made_up = kwire("users", "password", unique, "--generate").stdout.removesuffix("\n")
    assert len(made_up) == 32
    assert can_log_in(sasl, unique, made_up)
    assert can_log_in(sasl, unique, made_up, SCRAM_512)
    kwire("users", "remove", unique, "--mechanism", SCRAM_512)
    assert not can_log_in(sasl, unique, made_up, SCRAM_512)
    kwire("users", "remove", unique)
    assert not can_log_in(sasl, unique, made_up)
    for words in (("remove", unique), ("password", unique)):
        gone = kwire("users", *words, status=1)
        assert (
            gone.stderr
            == f"kwire: user {unique} does not exist: `kwire users list` shows all users\n"
        )


def test_users_add_refuses_a_password_as_an_argument(kwire: Kwire, unique: str) -> None:
    refused = kwire("users", "add", unique, status=2)
    assert "no password: standard input is empty, and there is no terminal" in refused.stderr
    assert "unexpected extra argument" in kwire("users", "add", unique, "x", status=2).stderr
    assert "4096<=x<=16384" in kwire("users", "add", unique, "--iterations", "1", status=2).stderr


def rule(name: str, principal: str, operation: str, **more: str) -> dict[str, str]:
    sound = {"resource": "topic", "name": name, "pattern": "literal", "principal": principal}
    return sound | {"host": "*", "operation": operation, "permission": "allow"} | more


def test_acls_are_listed_added_and_removed(kwire: Kwire, unique: str) -> None:
    alice, eve = f"User:{unique}", f"User:eve-{unique}"
    wanted = [rule(unique, alice, "describe"), rule(unique, alice, "write")]
    add = ["acls", "add", "--allow-principal", alice, "--topic", unique]
    add += ["--operation", "write", "--operation", "describe"]
    planned = listed(kwire, *add, "--dry-run")
    assert planned == [{**each, "state": "new"} for each in reversed(wanted)]
    assert listed(kwire, "acls", "list", "--topic", unique) == []
    assert kwire(*add).stderr == "2 rules added\n"
    assert kwire(*add).stderr == "nothing is changed: 0 rules would be added\n"
    assert {each["state"] for each in listed(kwire, *add)} == {"there"}
    deny = ["acls", "add", "--deny-principal", eve, "--deny-host", "10.0.0.0/8"]
    assert kwire(*deny, "--topic", unique[:3], "--resource-pattern-type", "prefixed").stderr == (
        "1 rule added\n"
    )
    denied = rule(unique[:3], eve, "all", pattern="prefixed", host="10.0.0.0/8", permission="deny")
    found = listed(kwire, "acls", "list", "--topic", unique)
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, [*wanted, denied]))
    literal = ("--resource-pattern-type", "literal")
    assert len(listed(kwire, "acls", "list", "--topic", unique, *literal)) == 2
    assert listed(kwire, "acls", "list", "-p", eve) == [denied]
    assert listed(kwire, "acls", "list", "--permission", "deny", "--host", "10.0.0.0/8", "-p", eve)
    assert not listed(kwire, "acls", "list", "--host", "10.0.0.7", "-p", eve)
    shown = kwire("acls", "list", "-p", eve).stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        ["topic", unique[:3], "prefixed", eve, "10.0.0.0/8", "all", "deny"],
    ]
    remove = ["acls", "remove", "--topic", unique]
    assert kwire(*remove, "--dry-run").stderr == "nothing is changed: 2 rules would be removed\n"
    assert NO_TERMINAL in kwire(*remove, stdin="y\n", status=2).stderr
    assert len(listed(kwire, "acls", "list", "-p", alice)) == 2
    assert kwire(*remove, "--operation", "read", "--yes").stderr.startswith("nothing is changed")
    assert kwire(*remove, "--yes").stderr.endswith("2 rules removed\n")
    assert kwire("acls", "remove", "--principal", eve, "--yes").stderr == "1 rule removed\n"
    assert listed(kwire, "acls", "list", "-p", eve, "-p", alice) == []


def test_acls_add_producer_and_consumer_add_the_rules_of_kafka_acls(
    kwire: Kwire, unique: str
) -> None:
    who = f"User:{unique}"
    words = ["--allow-principal", who, "--producer", "--consumer", "--topic", f"t {unique}"]
    words += ["--group", unique, "--transactional-id", unique]
    ours = listed(kwire, "acls", "add", *words)
    assert {(each["resource"], each["operation"]) for each in ours} == {
        ("topic", "read"),
        ("topic", "write"),
        ("topic", "describe"),
        ("topic", "create"),
        ("group", "read"),
        ("transactional-id", "write"),
        ("transactional-id", "describe"),
    }
    assert kwire("acls", "remove", "-p", who, "--yes").stderr == "7 rules removed\n"


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
def test_kafka_acls_lists_the_same_rules(
    kwire: Kwire, bootstrap: str, unique: str, apache_kafka_libs: Path
) -> None:
    from kwire.conformance.apache_kafka import run

    who = f"User:{unique}"
    of_both = ["--allow-principal", who, "--topic", unique]
    producer = [*of_both, "--producer", "--transactional-id", unique]
    consumer = [*of_both, "--consumer", "--group", unique]
    ranged = [*of_both, "--allow-host", "10.0.0.0/8", "--allow-host", "2001:db8::/32"]
    for words in (producer, consumer, ranged):
        kwire("acls", "add", *words)
        ours = listed(kwire, "acls", "list", "-p", who)
        kwire("acls", "remove", "-p", who, "--yes")
        tool = "org.apache.kafka.tools.AclCommand"
        done = run(tool, ["--bootstrap-server", bootstrap, "--add", *words])
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert listed(kwire, "acls", "list", "-p", who) == ours
        kwire("acls", "remove", "-p", who, "--yes")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "--topic", "t"], "give --allow-principal or --deny-principal"),
        (["add", "--allow-principal", "User:a"], "give the resource: --topic, --group"),
        (["add", "--allow-principal", "alice", "--topic", "t"], "'alice' is not like User:alice"),
        (["add", "--allow-principal", "User:a", "--deny-host", "h", "--topic", "t"],
         "--deny-host needs --deny-principal"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--consumer"],
         "a consumer needs --group"),
        (["add", "--allow-principal", "User:a", "--producer", "--cluster", "--topic", "t"],
         "--cluster does not go with --producer"),
        (["add", "--deny-principal", "User:a", "--producer", "--topic", "t"],
         "--producer and --consumer choose the operations"),
        (["remove"], "give options that select rules, or --all"),
        (["remove", "--all", "--topic", "t"], "give options that select rules, or --all"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--operation", "fly"],
         "'fly' is not one of"),
    ],
)  # fmt: skip
def test_acls_refuses_contradicting_options(kwire: Kwire, words: list[str], said: str) -> None:
    assert said in " ".join(kwire("acls", *words, status=2).stderr.split())


def test_acls_list_reports_a_broker_without_an_authorizer(shared_broker: BrokerProcess) -> None:
    done = run_kwire("acls", "list", "-b", shared_broker.bootstrap)
    assert done.returncode == 1
    assert "No Authorizer is configured on the broker" in done.stderr
