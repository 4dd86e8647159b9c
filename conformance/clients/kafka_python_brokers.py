"""A pytest plugin of kafka-python's suite that uses the listeners of a running broker.

    PLAIN_BOOTSTRAP=HOST:PORT python -m pytest -p kafka_python_brokers ...

The suite's source archive lacks the code that starts brokers. A test that needs a listener with
SASL or TLS uses the one in `SASL_BOOTSTRAP` or `TLS_BOOTSTRAP`, or is skipped. The plugin needs
nothing of kwire.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

ADDRESSES: Final = {
    "PLAINTEXT": "PLAIN_BOOTSTRAP",
    "SASL_PLAINTEXT": "SASL_BOOTSTRAP",
    "SSL": "TLS_BOOTSTRAP",
}
"""The variable with a listener's address, by the suite's name of the transport."""
SuiteObject: TypeAlias = Any
"""Objects of the suite's own modules, which have no types."""
PARTITIONS: Final = 4
"""Partitions of automatically created topics: the brokers' `num.partitions`."""
AUTHORITY: Final = "TLS_AUTHORITY"


def pytest_configure(config: pytest.Config) -> None:
    """Let the suite's fixtures use the running broker instead of starting one."""
    fixtures = importlib.import_module("test.integration.fixtures")
    folder = tempfile.mkdtemp()
    config.add_cleanup(lambda: shutil.rmtree(folder))
    fixtures.KafkaFixture.instance = RunningBroker(fixtures, Path(folder))
    fixtures.KafkaFixture.get_topic_names = topic_names


class RunningBroker:
    """Replaces the suite's class that starts brokers."""

    def __init__(self, fixtures: SuiteObject, folder: Path) -> None:
        self.fixtures = fixtures
        self.folder = folder

    def __call__(
        self, broker_id: int, *, transport: str = "PLAINTEXT", **more: SuiteObject
    ) -> SuiteObject:
        """Return a broker of the suite that stands for the running one.

        Skip the test if the running broker has no listener with this transport.
        """
        address = os.environ.get(ADDRESSES[transport])
        if address is None:
            pytest.skip(f"there is no listener with {transport}")
        host, _, port = address.rpartition(":")
        broker = self.fixtures.KafkaFixture(
            host,
            int(port),
            broker_id,
            partitions=PARTITIONS,
            transport=transport,
            sasl_mechanism=more.get("sasl_mechanism"),
            external=True,
        )
        broker.open()
        if transport == "SSL":
            shutil.copy(os.environ[AUTHORITY], self.folder / "ca-cert")
            broker.ssl_dir = str(self.folder)
        return broker


def topic_names(broker: SuiteObject) -> list[str]:
    """Return the names of all topics, for which the suite runs a command of Apache Kafka."""
    fixtures, kafka = map(importlib.import_module, ("test.integration.fixtures", "kafka"))
    admin = kafka.KafkaAdminClient(**fixtures.client_params(broker, "names"))
    try:
        return list(admin.list_topics())
    finally:
        admin.close()
