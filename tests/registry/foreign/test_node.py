"""The registry clients of Confluent and KafkaJS for Node, against kwire's registry."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kwire.testing.registry import Registry

HERE = Path(__file__).parent / "node_sr"
INSTALL = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program and the packages that it needs."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("NOT TESTED: no node and npm in PATH: Node 18 or newer is needed")
    found = tmp_path_factory.mktemp("node")
    for file in HERE.iterdir():
        shutil.copy(file, found)
    done = subprocess.run(INSTALL, cwd=found, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"NOT TESTED: npm cannot install the clients: {done.stderr.strip()[-300:]}")
    return found


@pytest.mark.long  # npm downloads the clients
@pytest.mark.slow
def test_clients_for_node_register_encode_and_decode(
    folder: Path, kafka_registry: Registry, unique: str
) -> None:
    command = ["node", "main.js", kafka_registry.url, unique]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    value = {"a": "x"}
    assert json.loads(done.stdout) == {
        "kafkajs": {"AVRO": value, "JSON": value, "PROTOBUF": value},
        "confluent": {"AVRO": value, "JSON": value, "PROTOBUF": 5},
        "compatible": True,
        "config": {"compatibility": "FULL"},
        "deleted": [1],
    }
