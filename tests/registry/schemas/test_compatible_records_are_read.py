"""What is declared compatible can be read by fastavro, Protobuf's runtime and jsonschema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

import fastavro
import pytest
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.schemas.parsing import parse
from kwire.registry.schemas.protobuf.schema import ProtobufSchema
from tests.registry.schemas import samples
from tests.registry.schemas.pairs import json_schema, protobuf

RANDOM = st.randoms(use_true_random=False)
TRIES = 20
"""Records of each pair."""


def avro_round(rng: Random) -> bool:
    """Write records of a schema and read them by a next version, if that is compatible."""
    old = samples.avro_schema(rng)
    new = samples.avro_next(rng, old)
    writer = parse(SchemaKind.AVRO, json.dumps(old), {})
    reader = parse(SchemaKind.AVRO, json.dumps(new), {})
    if reader.incompatibilities(writer):
        return False
    written, read = (fastavro.parse_schema(json.loads(e.canonical)) for e in (writer, reader))
    for _ in range(TRIES):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, written, samples.avro_value(rng, old))
        stream.seek(0)
        fastavro.schemaless_reader(stream, written, read)
        assert stream.read() == b"", (old, new)
    return True


def protobuf_round(rng: Random) -> bool:
    """The reader knows each field that it has a number for, because the bytes have its type."""
    fields = samples.proto_fields(rng)
    new_fields = samples.proto_next(rng, fields)
    writer = protobuf(samples.proto_text(fields))
    reader = protobuf(samples.proto_text(new_fields))
    assert isinstance(writer, ProtobufSchema)
    assert isinstance(reader, ProtobufSchema)
    if reader.incompatibilities(writer):
        return False
    write, read = (GetMessageClass(each.message([1])) for each in (writer, reader))
    for _ in range(TRIES):
        message = write(**_values(rng, fields))
        found = read.FromString(message.SerializeToString())
        fields_left = UnknownFieldSet(found)
        unknown = {fields_left[index].field_number for index in range(len(fields_left))}
        assert not unknown & new_fields.keys(), (fields, new_fields, message)
    return True


def _values(rng: Random, fields: samples.Fields) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, (label, type_) in fields.items():
        value = samples.proto_value(rng, type_)
        name = f"f{number}"
        if label == "repeated":
            found[name] = [value] * 2
        elif label == "map":
            found[name] = {"k": value}
        else:
            found[name] = value
    return found


def json_round(rng: Random) -> bool:
    """What the writer's schema allowed, the reader's schema accepts."""
    old = samples.json_schema_value(rng)
    new = samples.json_next(rng, old)
    if json_schema(new).incompatibilities(json_schema(old)):
        return False
    writer, reader = Draft7Validator(old), Draft7Validator(new)
    for _ in range(TRIES):
        value = samples.json_value(rng)
        if writer.is_valid(value):
            assert reader.is_valid(value), (old, new, value)
    return True


@given(RANDOM)
def test_avro_records_of_a_compatible_schema_are_read(rng: Random) -> None:
    avro_round(rng)


@given(RANDOM)
def test_protobuf_messages_of_a_compatible_schema_are_read(rng: Random) -> None:
    protobuf_round(rng)


@given(RANDOM)
def test_json_of_a_compatible_schema_is_accepted(rng: Random) -> None:
    json_round(rng)


@pytest.mark.parametrize("attempt", [avro_round, protobuf_round, json_round])
def test_random_pairs_are_of_both_outcomes(attempt: Callable[[Random], bool]) -> None:
    """Otherwise the tests above would show nothing."""
    compatible = sum(attempt(Random(seed)) for seed in range(200))
    assert 30 <= compatible <= 180
