"""`kwire tokens`, as people and programs call it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.client.access.users import set_passwords
from kwire.client.cluster import Cluster
from kwire.settings.properties import parse_properties
from kwire.testing import BrokerProcess
from kwire.testing.hosting.ports import free_port
from tests.cli.conftest import Kwire
from tests.conftest import finish
from tests.security.scram_client import SCRAM

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, int]]:
    """One that gives tokens, and the port where its users log in."""
    port, sasl = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}"
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": SCRAM,
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{MODULE};",
        "connection.failed.authentication.delay.ms": "0",
        "delegation.token.secret.key": "a secret of the brokers",
    }
    process = BrokerProcess(tmp_path_factory.mktemp("tokens"), settings, port=port)
    process.start()
    with Cluster(process.bootstrap) as cluster:
        set_passwords(cluster, {name: "pencil" for name in ("alice", "bob", "eve")})
    yield process, sasl
    finish(process)


@pytest.fixture
def bootstrap(broker: tuple[BrokerProcess, int]) -> str:
    return f"127.0.0.1:{broker[1]}"


@pytest.fixture
def alice(tmp_path: Path) -> str:
    """A file of her client properties."""
    return _properties(tmp_path, "alice")


def _properties(directory: Path, name: str, login: str = "") -> str:
    login = login or (
        f'sasl.mechanism={SCRAM}\nsasl.jaas.config={MODULE} username="{name}" password="pencil";\n'
    )
    path = directory / f"{name}.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\n{login}", encoding="utf-8")
    return str(path)


def _listed(kwire: Kwire, config: str, *owners: str) -> dict[str, dict[str, Any]]:
    words = ["tokens", "list", *owners, "--json", "--command-config", config]
    return {each["token"]: each for each in json.loads(kwire(*words).stdout)}


def test_token_is_created_logs_in_and_expires(kwire: Kwire, alice: str, tmp_path: Path) -> None:
    config = ["--command-config", alice]
    done = kwire("tokens", "create", *config)
    login = parse_properties(done.stdout)
    assert login["sasl.mechanism"] == SCRAM
    (token,) = [each for each in _listed(kwire, alice) if each in login["sasl.jaas.config"]]
    assert done.stderr.startswith(f"token {token} of User:alice expires at 20")
    by_token = _properties(tmp_path, "token", done.stdout)
    kwire("topics", "list", "--command-config", by_token)
    refused = kwire("tokens", "list", "--command-config", by_token, status=1)
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in refused.stderr
    shown = kwire("tokens", "list", *config)
    assert token in shown.stdout
    assert login["sasl.jaas.config"].split('password="')[1].split('"')[0] not in shown.stdout
    assert kwire("tokens", "expire", token, *config).stderr == f"token {token} expired\n"
    assert token not in _listed(kwire, alice)
    gone = kwire("topics", "list", "--command-config", by_token, status=1)
    assert "SCRAM-SHA-256" in gone.stderr
    unknown = kwire("tokens", "renew", token, *config, status=1).stderr
    assert unknown == (
        f"kwire: you see no delegation token {token}: `kwire tokens list` shows all you see\n"
    )


def test_renewer_renews_a_token(kwire: Kwire, alice: str, tmp_path: Path) -> None:
    made = kwire(
        "tokens", "create", "--renewer", "User:bob", "--max-life", "3h", "--json",
        "--command-config", alice,
    )  # fmt: skip
    created = json.loads(made.stdout)
    token = created["token"]
    assert created["owner"] == created["requester"] == "User:alice"
    assert created["renewers"] == ["User:bob"]
    assert len(created["password"]) == 88
    bob = _properties(tmp_path, "bob")
    assert token in _listed(kwire, bob)
    before = _listed(kwire, alice, "User:alice")[token]
    assert before["expires"] == before["ends"]
    kwire("tokens", "expire", token, "--in", "1h", "--command-config", bob)
    sooner = _listed(kwire, alice)[token]
    assert before["issued"] < sooner["expires"] < before["expires"]
    kwire("tokens", "renew", token, "--for", "2h", "--command-config", bob)
    assert sooner["expires"] < _listed(kwire, alice)[token]["expires"] < before["ends"]
    assert _listed(kwire, alice, "User:bob").keys() >= {token}
    assert not _listed(kwire, alice, "User:eve")


def test_tokens_refuses_invalid_principals(kwire: Kwire, alice: str, bootstrap: str) -> None:
    config = ["--command-config", alice]
    said = kwire("tokens", "create", "--renewer", "bob", *config, status=2).stderr
    assert "'bob' is not like User:alice" in said
    assert "INVALID_PRINCIPAL_TYPE" in (
        kwire("tokens", "create", "--renewer", "Group:staff", *config, status=1).stderr
    )


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.long
def test_tokens_list_matches_kafkas_tool(
    kwire: Kwire, alice: str, bootstrap: str, apache_kafka_libs: Path
) -> None:
    from kwire.conformance.apache_kafka import run

    def tool(*words: str) -> str:
        done = run(
            "org.apache.kafka.tools.DelegationTokenCommand",
            ["--bootstrap-server", bootstrap, "--command-config", alice, *words],
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    made = json.loads(
        kwire("tokens", "create", "--max-life", "3h", "--json", "--command-config", alice).stdout
    )
    assert made["password"] in tool("--describe", "--owner-principal", "User:alice")
    theirs = tool("--create", "--max-life-time-period", str(HOUR_MS), "--renewer-principal",
                  "User:bob").splitlines()[-1].split()  # fmt: skip
    ours = _listed(kwire, alice)[theirs[0]]
    assert ours["renewers"] == ["User:bob"]
    tool("--expire", "--expiry-time-period", "-1", "--hmac", made["password"])
    assert made["token"] not in _listed(kwire, alice)
