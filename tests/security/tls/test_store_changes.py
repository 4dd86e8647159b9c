"""Certificates that are set while a broker runs, on kwire and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_configs import AlterableConfig as WholeConfig
from kwire.codecs.messages.alter_configs import AlterConfigsRequest
from kwire.codecs.messages.alter_configs import AlterConfigsResource as WholeResource
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.security.talk import Talk
from tests.security.tls.authority import PASSWORD, Authority

pytestmark = pytest.mark.slow
BROKER, SET, DELETE = 4, 0, 1
PREFIX = "listener.name.ssl.ssl."

CASES: dict[str, tuple[dict[str, str], bool]] = {
    "a keystore that is not there": ({"keystore.location": "nowhere.p12"}, False),
    "a keystore that is none": ({"keystore.location": "junk"}, False),
    "another password": ({"keystore.password": "x"}, False),
    "another name": ({"keystore.location": "name.p12"}, False),
    "another host": ({"keystore.location": "host.p12"}, False),
    "a certificate of another authority": ({"keystore.location": "authority.p12"}, True),
    "another type": ({"keystore.type": "PEM"}, False),
    "a type that nobody knows": ({"keystore.type": "ODD"}, False),
    "a key beside the store": ({"keystore.key": "junk"}, False),
    "a truststore that is not there": ({"truststore.location": "nowhere.pem"}, False),
    "a truststore that is none": ({"truststore.location": "junk"}, False),
    "another truststore": ({"truststore.location": "authority.pem"}, True),
    "a word for client.auth": ({"client.auth": "perhaps"}, False),
    "a renewed certificate": ({"keystore.location": "renewed.p12"}, True),
    "the same file": ({"keystore.location": "own.p12"}, True),
}
"""What is set, and whether it is taken."""


def write_stores(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    authority, other = Authority(), Authority()
    authority.write(directory / "ca.pem")
    other.write(directory / "authority.pem")
    authority.issue().write_p12(directory / "own.p12")
    authority.issue().write_p12(directory / "renewed.p12")
    authority.issue("other").write_p12(directory / "name.p12")
    authority.issue(hosts=("elsewhere",)).write_p12(directory / "host.p12")
    other.issue().write_p12(directory / "authority.p12")
    (directory / "junk").write_text("junk")


def settings(directory: Path, plain: int) -> dict[str, str]:
    write_stores(directory)
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{free_port()}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        f"{PREFIX}keystore.type": "PKCS12",
        f"{PREFIX}keystore.location": str(directory / "own.p12"),
        f"{PREFIX}keystore.password": PASSWORD,
        f"{PREFIX}key.password": PASSWORD,
        f"{PREFIX}truststore.type": "PEM",
        f"{PREFIX}truststore.location": str(directory / "ca.pem"),
    }


class Setter:
    """Sets a broker's own configs; each answer is an error code."""

    def __init__(self, port: int, directory: Path) -> None:
        self._talk = Talk(port)
        self._directory = directory

    def change(
        self, changed: Mapping[str, str], operation: int = SET, *, validate_only: bool = False
    ) -> tuple[int, str | None]:
        configs = [
            AlterableConfig(PREFIX + name, operation, self._value(name, value))
            for name, value in changed.items()
        ]
        resource = AlterConfigsResource(BROKER, "1", configs)
        request = IncrementalAlterConfigsRequest([resource], validate_only)
        response: Any = self._talk.ask(request, 1)
        return response.responses[0].error_code, response.responses[0].error_message

    def replace(self, changed: Mapping[str, str], *, validate_only: bool) -> int:
        configs = [WholeConfig(PREFIX + n, self._value(n, v)) for n, v in changed.items()]
        request = AlterConfigsRequest([WholeResource(BROKER, "1", configs)], validate_only)
        response: Any = self._talk.ask(request, 1)
        code: int = response.responses[0].error_code
        return code

    def _value(self, name: str, value: str) -> str:
        return str(self._directory / value) if name.endswith(".location") else value

    def close(self) -> None:
        self._talk.close()


def outcomes(setter: Setter) -> dict[str, int]:
    codes = {}
    for name, (changed, _) in CASES.items():
        codes[name] = setter.change(changed)[0]
        assert setter.change(changed, DELETE)[0] == 0, name
    setter.close()
    return codes


WANTED = {
    name: ErrorCode.NONE if taken else ErrorCode.INVALID_REQUEST
    for name, (_, taken) in CASES.items()
}


@pytest.fixture(scope="module")
def setter(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401 - a generator's
    directory, port = tmp_path_factory.mktemp("kwire"), free_port()
    broker = BrokerProcess(directory / "broker", settings(directory / "stores", port), port=port)
    broker.start()
    found = Setter(port, directory / "stores")
    yield found
    found.close()
    finish(broker)


def test_allowed_store_change_is_applied(setter: Setter) -> None:
    found = {}
    for name, (changed, _) in CASES.items():
        only_asked = setter.change(changed, validate_only=True)[0]
        whole = setter.replace(changed, validate_only=True)
        found[name] = setter.change(changed)[0]
        assert {only_asked, whole} == {found[name]}, name
        assert setter.change(changed, DELETE)[0] == 0, name
    assert found == WANTED


def test_refused_store_change_has_a_reason(setter: Setter) -> None:
    _, why = setter.change({"keystore.location": "name.p12"})
    assert why is not None
    assert "Keystore DistinguishedName does not match: existing={DN=CN=localhost}" in why
    _, why = setter.change({"keystore.password": "wrong-secret"})
    assert why is not None
    assert "own.p12" in why
    assert "secret" not in why


@pytest.mark.java
@pytest.mark.long
def test_apache_kafka_accepts_and_refuses_the_same_store_changes(tmp_path: Path) -> None:
    port, controller = free_port(), free_port()
    given = settings(tmp_path / "stores", port)
    given["listeners"] += f",CONTROLLER://localhost:{controller}"
    given["controller.quorum.voters"] = f"1@localhost:{controller}"
    given["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
    with ApacheKafka(tmp_path / "broker", port=port, settings=given):
        assert outcomes(Setter(port, tmp_path / "stores")) == WANTED
