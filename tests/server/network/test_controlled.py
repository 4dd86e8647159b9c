"""A broker has connections that may be befallen only where that was asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kwire.testing import BrokerProcess, Faults, free_port
from kwire.testing.control import ControlClient
from tests.security.tls.authority import Authority

IMPORTED = """
import sys
from kwire.cli import serve
import kwire.server.server, kwire.server.startup
print(*sorted(name for name in sys.modules if name.startswith(("kwire.", "h11"))))
"""


@pytest.mark.slow
def test_broker_without_control_imports_no_fault_code(broker: BrokerProcess) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )
    names = done.stdout.split()
    assert "kwire.server.network.connection" in names
    packages = {".".join(name.split(".")[:2]) for name in names}
    assert not packages & {"kwire.testing.hooks.faults", "kwire.testing.hooks.control", "h11"}
    assert "kwire.server.network.controlled" not in names
    assert "The control serves at" not in broker.log


@pytest.mark.slow
def test_each_broker_of_a_cluster_has_its_own_control_port() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kwire.cli", "serve", "--brokers", "3", "--control", "65534"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--control 65534: 3 brokers need 3 ports" in done.stderr


class Controlled(BrokerProcess):
    """One whose control listens at `control_port`."""

    control_port = 0

    def command(self) -> list[str]:
        return [*super().command(), f"--control={self.control_port}"]


@pytest.mark.slow
def test_faults_are_injected_into_tls_connections(tmp_path: Path) -> None:
    authority = Authority()
    own = authority.issue()
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own.write_pem(tmp_path / "own.pem")),
    }
    broker = Controlled(tmp_path, settings)
    broker.control_port, within = free_port(), f"SSL://127.0.0.1:{free_port()}"
    for name in ("listeners", "advertised.listeners"):
        broker.settings[name] += f",{within}"
    with broker:
        faults = Faults(ControlClient(f"http://127.0.0.1:{broker.control_port}"))
        fault = faults.add("leader-moved", api="Produce", times=1)
        producer = Producer(
            {
                "bootstrap.servers": within.removeprefix("SSL://"),
                "security.protocol": "ssl",
                "ssl.ca.pem": authority.pem,
            }
        )
        producer.produce("t", "v")
        assert producer.flush(120) == 0
        fault.assert_happened(times=1)
