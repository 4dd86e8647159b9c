"""franz-go's client of registries, pkg/sr, against kwire's registry."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kwire.registry.client.framing import frame_of
from kwire.registry.client.registered import RegisteredSchemas
from kwire.registry.client.rest import RegistryClient
from kwire.testing.registry import Registry

HERE = Path(__file__).parent / "go_sr"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("NOT TESTED: no go in PATH: Go 1.26 or newer is needed")
    found = tmp_path_factory.mktemp("sr") / "sr"
    build = ["go", "build", "-o", str(found), "."]
    done = subprocess.run(build, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "go: " in done.stderr:  # a module, or a newer Go, cannot be had
        pytest.skip(f"NOT TESTED: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.long  # Go compiles its library first, where it has no cache
@pytest.mark.slow
def test_franz_go_registers_checks_deletes_and_serializes(
    program: Path, kafka_registry: Registry, unique: str
) -> None:
    done = subprocess.run(
        [program, kafka_registry.url, unique], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    record = base64.b64decode(found.pop("record"))
    text = json.loads(found.pop("text"))
    assert text["fields"] == [{"name": "id", "type": "long"}]
    schema_id = found.pop("id")
    assert found == {
        "version": 1,
        "looked_up": schema_id,
        "versions": [1],
        "compatible": False,
        "refused": 409,
        "level": "FULL",
        "deleted": [1],
    }
    frame = frame_of(record)
    assert frame is not None
    assert frame.schema_id == schema_id
    schemas = RegisteredSchemas(RegistryClient(kafka_registry.url))
    assert schemas.of_frame(frame).decoded(frame.body) == {"id": 7}
