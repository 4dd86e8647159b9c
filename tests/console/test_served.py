"""`kwire serve --console`: a console that comes and goes with its broker."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kwire.testing import BrokerProcess
from tests.commands.beside import beside_a_broker
from tests.console.conftest import wait_for_metrics
from tests.console.consoles import ConsoleProcess, visit


def status_of(url: str) -> int:
    """The status of the list of topics of a console."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("GET", "/topics")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--brokers", "2"], ["--secure"]], ids=" ".join)
def test_console_of_serve_shows_the_broker_and_ends_with_it(
    tmp_path: Path, options: list[str]
) -> None:
    with beside_a_broker("console", tmp_path, options) as url:
        assert status_of(url) == 200
    with pytest.raises(ConnectionRefusedError):
        status_of(url)


def test_console_finds_the_metrics_of_the_brokers_by_their_settings(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", {"metrics.port": "0"})
    broker.start()
    try:
        with ConsoleProcess(broker.bootstrap, tmp_path) as console:
            wait_for_metrics(console)
            assert "kwire serve --metrics" not in visit(console, "/clients").text
    finally:
        broker.stop()
