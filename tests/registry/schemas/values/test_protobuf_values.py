"""Protobuf records from data, and data from Protobuf records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.schemas.protobuf.schema import ProtobufSchema
from kwire.registry.schemas.values.data import EXACT, Data
from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode
from kwire.registry.schemas.values.protobuf import indexes_bytes, message_indexes
from kwire.registry.schemas.values.record_schema import RecordSchema

TEXT = """
syntax = "proto3";
package shop;
import "address.proto";
import "google/protobuf/timestamp.proto";
message Person {
  string name = 1;
  int64 id = 2;
  repeated Address at = 3;
  map<string, int32> counts = 4;
  google.protobuf.Timestamp born = 5;
  bytes picture = 6;
  optional double weight = 7;
  Kind kind = 8;
  message Pet { string name = 1; message Toy { string name = 1; } }
  enum Kind { UNKNOWN = 0; GOOD = 1; }
}
message Other { string name = 1; }
"""
ADDRESS = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
PERSON: Data = {
    "name": "Ada",
    "id": "9007199254740993",
    "at": [{"city": "Rome"}],
    "counts": {"a": 1},
    "born": "1970-01-01T00:00:10Z",
    "picture": "AP8=",
    "weight": "NaN",
    "kind": "GOOD",
}


def schema() -> RecordSchema:
    return RecordSchema(SchemaKind.PROTOBUF, TEXT, [("address.proto", ADDRESS)])


def test_message_becomes_bytes_and_the_same_data_again() -> None:
    raw = schema().encoded(PERSON)
    assert raw[0] == 0
    assert schema().decoded(raw) == PERSON


def test_serialized_descriptor_describes_the_same_bytes() -> None:
    person = ProtobufSchema(TEXT, {"address.proto": ADDRESS}).formatted("serialized")
    address = ProtobufSchema(ADDRESS, {}).formatted("serialized")
    same = RecordSchema(SchemaKind.PROTOBUF, person, [("address.proto", address)])
    assert same.decoded(schema().encoded(PERSON)) == PERSON


@pytest.mark.parametrize(
    ("message", "prefix"),
    [
        ("", b"\x00"),
        ("Person", b"\x00"),
        ("shop.Other", b"\x02\x02"),
        ("Person.Pet", b"\x04\x00\x00"),
        ("shop.Person.Pet.Toy", b"\x06\x00\x00\x00"),
    ],
)
def test_message_is_named_by_its_indexes(message: str, prefix: bytes) -> None:
    raw = schema().encoded({"name": "x"}, message)
    assert raw == prefix + b"\x0a\x01x"
    assert schema().decoded(raw) == {"name": "x"}


def test_fields_without_presence_have_their_defaults_in_the_exact_shape() -> None:
    found = schema().decoded(schema().encoded({}), shape=EXACT)
    assert found == {
        "name": "",
        "id": "0",
        "at": [],
        "counts": {},
        "picture": "",
        "kind": "UNKNOWN",
    }
    assert schema().decoded(schema().encoded({})) == {}


@pytest.mark.parametrize(
    ("data", "message", "why"),
    [
        ({"nam": "x"}, "", 'no field named "nam"'),
        ({"name": 7}, "", "name"),
        ({"id": "x"}, "", "id"),
        ([], "", "not an object of the message shop.Person"),
        (None, "", "not an object"),
        ({"kind": "BAD"}, "", "kind"),
        ({}, "Nobody", "has no message 'Nobody'"),
    ],
)
def test_data_of_another_type_are_refused(data: Data, message: str, why: str) -> None:
    with pytest.raises(CannotEncode, match=why) as told:
        schema().encoded(data, message)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "no end"),
        (b"\x02\x08", r"has no message \[4\]"),
        (b"\x00\xff", "not a Protobuf message"),
        (b"\x80\x80\x80\x80\x01", "not a Protobuf record"),
    ],
)
def test_bytes_of_another_schema_are_refused(raw: bytes, why: str) -> None:
    with pytest.raises(CannotDecode, match=why):
        schema().decoded(raw)


@pytest.mark.parametrize("text", ["message {", 'syntax = "proto3"; message A { B b = 1; }', "x"])
def test_invalid_schema_is_reported(text: str) -> None:
    with pytest.raises(CannotEncode):
        RecordSchema(SchemaKind.PROTOBUF, text).encoded({})
    with pytest.raises(CannotDecode):
        RecordSchema(SchemaKind.PROTOBUF, text).decoded(b"\x00")


def test_schema_without_a_message_is_reported() -> None:
    with pytest.raises(CannotEncode, match="no message"):
        RecordSchema(SchemaKind.PROTOBUF, 'syntax = "proto3";').encoded({})


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_message_indexes_that_were_written_are_read_back(indexes: list[int]) -> None:
    raw = indexes_bytes(indexes) + b"rest"
    found, end = message_indexes(raw)
    assert (found, raw[end:]) == (indexes, b"rest")
