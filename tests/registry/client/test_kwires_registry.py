"""The client and the commands against kwire's own registry; the double is for its failures."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kwire.registry.client.described import SchemaText
from kwire.registry.client.errors import RegistryRefused
from kwire.registry.client.framing import SchemaFrame
from kwire.registry.client.registered import RegisteredSchemas
from kwire.registry.client.rest import RegistryClient
from kwire.registry.schemas.kinds import Reference, SchemaKind
from kwire.testing.registry import Registry
from tests.commands.forked import run_kwire

pytestmark = pytest.mark.slow


def order(name: str, kind: str = "long") -> SchemaText:
    """A schema of Avro that no other test has: its record has the name."""
    fields = [{"name": "id", "type": kind}]
    text = json.dumps({"type": "record", "name": name, "fields": fields}, separators=(",", ":"))
    return SchemaText(SchemaKind.AVRO, text)


@pytest.fixture
def client(kafka_registry: Registry) -> RegistryClient:
    return RegistryClient(kafka_registry.url)


@pytest.fixture
def name(unique: str) -> str:
    """A name that Avro takes."""
    return f"R{unique.replace('-', '_')}"


def test_client_registers_finds_and_deletes(client: RegistryClient, unique: str, name: str) -> None:
    subject, schema = f"{unique}/a b?", order(name)
    schema_id = client.register(subject, schema)
    assert client.register(subject, schema, normalize=True) == schema_id
    assert client.look_up(subject, schema).version == 1
    found = client.version(subject)
    assert (found.subject, found.version, found.schema_id) == (subject, 1, schema_id)
    assert found.schema == schema
    assert client.schema(schema_id).schema == schema
    assert client.places(schema_id) == [(subject, 1)]
    assert client.subjects(unique) == [subject]
    assert [each.schema_id for each in client.latest_versions(unique)] == [schema_id]
    assert sorted(client.kinds()) == ["AVRO", "JSON", "PROTOBUF"]
    assert "." in client.contexts()
    assert found.guid is not None
    by_guid = RegisteredSchemas(client).of_frame(SchemaFrame(b"", guid=found.guid))
    assert by_guid.decoded(by_guid.encoded({"id": 7})) == {"id": 7}
    assert client.delete_version(subject, 1) == 1
    assert client.versions(subject, deleted=True) == [1]
    assert client.delete_subject(subject, permanent=True) == [1]
    with pytest.raises(RegistryRefused) as told:
        client.version(subject)
    assert told.value.code == 40401


def test_client_checks_by_level_and_mode(client: RegistryClient, unique: str, name: str) -> None:
    client.register(unique, order(name))
    assert client.check(unique, order(name)).is_compatible
    refused = client.check(unique, order(name, "string"), None)
    assert not refused.is_compatible
    assert "TYPE_MISMATCH" in refused.messages[0]
    with pytest.raises(RegistryRefused) as told:
        client.register(unique, order(name, "string"))
    assert told.value.status == 409
    with pytest.raises(RegistryRefused) as told:
        client.config(unique)
    assert told.value.code == 40408
    client.set_config({"compatibility": "NONE"}, unique)
    assert client.config(unique)["compatibilityLevel"] == "NONE"
    client.register(unique, order(name, "string"))
    client.delete_config(unique)
    assert client.set_mode("READONLY", unique) == "READONLY"
    assert client.mode(unique) == "READONLY"
    client.delete_mode(unique)
    assert client.mode(unique, falls_back=True) == client.mode()


def test_references_are_resolved(client: RegistryClient, unique: str, name: str) -> None:
    inner = f'syntax = "proto3"; message {name} {{ string city = 1; }}'
    outer = f'syntax = "proto3"; import "in.proto"; message Out {{ {name} at = 1; }}'
    client.register(f"{unique}-in", SchemaText(SchemaKind.PROTOBUF, inner))
    reference = Reference("in.proto", f"{unique}-in", 1)
    text = SchemaText(SchemaKind.PROTOBUF, outer, (reference,))
    schema_id = client.register(unique, text)
    assert client.version(unique).schema.references == (reference,)
    assert client.referenced_by(f"{unique}-in", 1) == [schema_id]
    schema = client.record_schema(schema_id)
    assert schema.decoded(schema.encoded({"at": {"city": "Rome"}})) == {"at": {"city": "Rome"}}


def test_commands_register_check_write_and_read(
    kafka_registry: Registry, unique: str, name: str, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "KWIRE_BOOTSTRAP_SERVERS": kafka_registry.bootstrap,
        "KWIRE_SCHEMA_REGISTRY": kafka_registry.url,
    }

    def kwire(*words: str, stdin: str = "", status: int = 0) -> str:
        done = run_kwire(*words, stdin=stdin, environment=environment)
        assert done.returncode == status, done.stderr
        return done.stdout

    good, bad = tmp_path / "good.avsc", tmp_path / "bad.avsc"
    good.write_text(order(name).text)
    bad.write_text(order(name, "string").text)
    kwire("topics", "create", unique, "-p", "1")
    kwire("produce", unique, "-f", "avro", "--schema", str(good), stdin='{"id": 7}\n')
    kwire("produce", unique, "-f", "avro", stdin='{"id": 8}\n')
    kwire("produce", unique, "-f", "avro", "--schema", str(bad), stdin='{"id": "x"}', status=1)
    read = kwire("consume", unique, "-o", "earliest", "-e", "-f", "avro")
    assert read == '{"id": 7}\n{"id": 8}\n'
    (listed,) = json.loads(kwire("schemas", "list", unique, "--json"))
    assert (listed["subject"], listed["version"]) == (f"{unique}-value", 1)
    assert json.loads(kwire("schemas", "describe", f"{unique}-value"))["name"] == name
    assert "TYPE_MISMATCH" in kwire("schemas", "check", f"{unique}-value", str(bad), status=1)
    kwire("schemas", "delete", f"{unique}-value", "--yes")
    assert json.loads(kwire("schemas", "list", unique, "--json")) == []
