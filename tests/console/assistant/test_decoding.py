"""Values that a schema of a registry decodes for an assistant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire.testing import Kafka
from kwire.testing.registry import Registry
from tests.commands.forked import run_kwire
from tests.console.assistant.assisted import asked, assistant

pytestmark = pytest.mark.slow

SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "total", "type": "double"}]}'


async def test_avro_values_are_decoded_and_filtered_by_the_registry(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(SCHEMA)
    with Kafka() as kafka, Registry(kafka) as registry:
        produced = run_kwire(
            "produce", "orders", "-b", kafka.bootstrap, "--registry", registry.url, "-f", "avro",
            "--schema", str(tmp_path / "order.avsc"), stdin='{"total": 7.0}\n{"total": 1.0}\n',
        )  # fmt: skip
        assert produced.returncode == 0, produced.stderr
        async with assistant(kafka.bootstrap, "--registry", registry.url) as client:
            found = await asked(client, "read_messages", topic="orders", where="value.total > 5")
    (record,) = found["records"]
    assert (json.loads(record["value"]), record["value_kind"]) == ({"total": 7.0}, "avro")
