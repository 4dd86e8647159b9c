"""The file of `--command-config`: misspelt names, and a protocol that the listener does not speak.

The broker listens in all four ways, and each listener is asked in a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwire.cli.app import app
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import BrokerProcess
from tests.conftest import finish
from tests.security.tls.authority import Authority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listeners:
    """A broker with a listener of each protocol, and the files by which clients come in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {protocol: free_port() for protocol in PROTOCOLS}
        authority = Authority()
        self.trusted = authority.write(folder / "ca.pem")
        listeners = ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items())
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "sasl.enabled.mechanisms": "PLAIN",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue().write_pem(folder / "server.pem")),
            "connection.failed.authentication.delay.ms": "0",
        }
        for name in ("sasl_plaintext", "sasl_ssl"):
            line = f'{PLAIN} user_alice="pencil";'
            settings[f"listener.name.{name}.plain.sasl.jaas.config"] = line
        self.broker = BrokerProcess(folder / "broker", settings, port=self.ports["PLAINTEXT"])

    def ask(self, listener: str, protocol: str, **more: str) -> Result:
        """`kwire topics list` of a client that speaks `protocol` to that listener."""
        properties = {
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} username="alice" password="pencil";',
        }
        return topics_list(self.folder, properties | more, self.ports[listener])


def topics_list(folder: Path, properties: dict[str, str], port: int) -> Result:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    words = ["topics", "list", "-b", f"localhost:{port}", "--timeout", "20"]
    return CliRunner().invoke(app, [*words, "--command-config", str(file)])


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    made = Listeners(tmp_path_factory.mktemp("listeners"))
    made.broker.start()
    yield made
    finish(made.broker)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_command_with_the_right_protocol_succeeds(listeners: Listeners, protocol: str) -> None:
    done = listeners.ask(protocol, protocol)
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("listener", "protocol", "hint"),
    [
        ("SSL", "PLAINTEXT", "set security.protocol=SSL, or SASL_SSL if it needs a login"),
        ("SASL_SSL", "SASL_PLAINTEXT", "set security.protocol=SASL_SSL"),
        ("PLAINTEXT", "SSL", "if the listener does not use TLS, set security.protocol=PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL", "does not use TLS, set security.protocol=SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "needs a login, set security.protocol=SASL_PLAINTEXT"),
        ("SASL_SSL", "SSL", "needs a login, set security.protocol=SASL_SSL"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "needs no login: set a security.protocol without SASL"),
    ],
)
def test_wrong_protocol_is_reported_with_the_right_one(
    listeners: Listeners, listener: str, protocol: str, hint: str
) -> None:
    done = listeners.ask(listener, protocol)
    assert done.exit_code == 1
    assert done.stderr.rstrip().endswith(hint), done.stderr


def test_misspelt_security_property_is_refused_with_the_nearest(listeners: Listeners) -> None:
    properties = {"security.protcol": "SSL"}
    done = topics_list(listeners.folder, properties, listeners.ports["PLAINTEXT"])
    assert done.exit_code == 1
    hint = "unknown client property security.protcol: did you mean security.protocol?"
    assert done.stderr.rstrip().endswith(hint)


def test_other_misspelt_property_is_ignored_with_a_warning(listeners: Listeners) -> None:
    more = {"request.timeout": "1000", "sasl.mechanisms": "PLAIN"}
    done = listeners.ask("PLAINTEXT", "PLAINTEXT", **more)
    assert done.exit_code == 0
    first, second = done.stderr.splitlines()
    assert first.endswith("request.timeout: did you mean request.timeout.ms? It is ignored.")
    assert second.endswith("sasl.mechanisms: did you mean sasl.mechanism? It is ignored.")
