"""Records of the registry's topic, byte for byte."""

from __future__ import annotations

import hashlib
import json

import pytest

from kwire.registry.schemas.kinds import Reference
from kwire.registry.subjects.records import (
    InvalidRecordError,
    Key,
    KeyKind,
    digest_of,
    read_key,
    read_version,
)

# As Confluent's registry 7.6 writes them.
KEYS = [
    (Key(KeyKind.SCHEMA, "a-value", 3),
     b'{"keytype":"SCHEMA","subject":"a-value","version":3,"magic":1}'),
    (Key(KeyKind.CONFIG), b'{"keytype":"CONFIG","subject":null,"magic":0}'),
    (Key(KeyKind.CONFIG, "a"), b'{"keytype":"CONFIG","subject":"a","magic":0}'),
    (Key(KeyKind.MODE, "a"), b'{"keytype":"MODE","subject":"a","magic":0}'),
    (Key(KeyKind.DELETE_SUBJECT, "a"), b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}'),
    (Key(KeyKind.CLEAR_SUBJECT, "a"), b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}'),
    (Key(KeyKind.CONTEXT, ".lab"),
     b'{"keytype":"CONTEXT","tenant":"default","context":".lab","magic":0}'),
    (Key(KeyKind.NOOP), b'{"keytype":"NOOP","magic":0}'),
]  # fmt: skip


@pytest.mark.parametrize(("key", "data"), KEYS, ids=[str(data) for _, data in KEYS])
def test_key_has_the_bytes_of_confluents_registry(key: Key, data: bytes) -> None:
    assert key.encoded() == data
    assert read_key(data) == key


@pytest.mark.parametrize("subject", ['a"b', "a\\", "ä", '","version":7', "\x00"])
def test_key_of_any_subject_is_read_as_it_was_written(subject: str) -> None:
    key = Key(KeyKind.SCHEMA, subject, 1)
    assert read_key(key.encoded()) == key
    spaced = json.dumps(json.loads(key.encoded())).encode()
    assert read_key(spaced) == key


def test_key_of_an_unknown_kind_is_none() -> None:
    assert read_key(b'{"keytype":"EXPORTER","magic":0}') is None


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"no json",
        b"[]",
        b'{"keytype":"SCHEMA","subject":"a","magic":1}',
        b'{"keytype":"SCHEMA","subject":"a","version":true,"magic":1}',
        b'{"keytype":"SCHEMA","subject":1,"version":1,"magic":1}',
        b'{"keytype":"DELETE_SUBJECT","subject":null,"magic":0}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_key_that_is_none_of_the_registrys_is_an_error(data: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        read_key(data)


def test_value_of_a_version_has_the_fields_of_confluents_registry() -> None:
    value = {
        "subject": "a", "version": 2, "id": 7, "schemaType": "PROTOBUF",
        "references": [{"name": "b.proto", "subject": "b", "version": 1}],
        "schema": 'syntax = "proto3";', "deleted": False,
    }  # fmt: skip
    version = read_version(value)
    assert version.references == (Reference("b.proto", "b", 1),)
    assert json.dumps(version.value()) == json.dumps(value)


def test_value_of_an_avro_schema_has_no_type() -> None:
    value = {"subject": "a", "version": 1, "id": 1, "schema": '"int"', "deleted": True}
    version = read_version(value)
    assert version.kind == "AVRO"
    assert version.deleted
    assert version.value() == value


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": None},
        {"version": "1"},
        {"id": 1.5},
        {"schema": None},
        {"schema": "\ud800"},
        {"references": 1},
        {"references": [{"name": "x"}]},
        {"references": ["x"]},
    ],
)
def test_value_with_a_wrong_field_is_an_error(changed: dict[str, object]) -> None:
    value = {"subject": "a", "version": 1, "id": 1, "schema": '"int"', **changed}
    with pytest.raises(InvalidRecordError):
        read_version(value)


def test_digest_is_the_md5_of_text_and_references() -> None:
    reference = Reference("name", "subject", 258)
    expected = hashlib.md5(b"text" + b"namesubject" + b"\x00\x00\x01\x02").digest()
    assert digest_of("text", (reference,), None, None) == expected


def test_digest_depends_on_metadata_and_rules() -> None:
    digests = {
        digest_of("text", (), None, None),
        digest_of("text", (), {"properties": {"a": "b"}}, None),
        digest_of("text", (), None, {"domainRules": []}),
    }
    assert len(digests) == 3
