"""A pytest plugin of kafka-python's suite: what it would start are listeners of one broker.

    PLAIN_BOOTSTRAP=HOST:PORT python -m pytest -p kafka_python_brokers ...

What starts brokers is not in the suite's source archive.  A test that wants a listener with SASL or
TLS gets the one that `SASL_BOOTSTRAP` or `TLS_BOOTSTRAP` names, or is skipped.  It needs nothing of
kwire.
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
"""The variable with the listener's address, by what the suite calls its transport."""
Theirs: TypeAlias = Any
"""Of the suite's own modules, which have no types."""
PARTITIONS: Final = 4
"""Of topics that are made by their first use: the brokers' `num.partitions`."""
AUTHORITY: Final = "TLS_AUTHORITY"


def pytest_configure(config: pytest.Config) -> None:
    fixtures = importlib.import_module("test.integration.fixtures")
    folder = tempfile.mkdtemp()
    config.add_cleanup(lambda: shutil.rmtree(folder))
    fixtures.KafkaFixture.instance = Running(fixtures, Path(folder))
    fixtures.KafkaFixture.get_topic_names = topic_names


class Running:
    """Stands for what would start a broker."""

    def __init__(self, fixtures: Theirs, folder: Path) -> None:
        self.fixtures = fixtures
        self.folder = folder

    def __call__(self, broker_id: int, *, transport: str = "PLAINTEXT", **more: Theirs) -> Theirs:
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


def topic_names(broker: Theirs) -> list[str]:
    """What the suite asks Apache Kafka's own command."""
    fixtures, kafka = map(importlib.import_module, ("test.integration.fixtures", "kafka"))
    admin = kafka.KafkaAdminClient(**fixtures.client_params(broker, "names"))
    try:
        return list(admin.list_topics())
    finally:
        admin.close()
