"""Protobuf schemas as they are written."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from kwire.console.decoding.problem import CannotDecode
from kwire.console.decoding.proto_text import file_of
from kwire.console.decoding.protobuf import descriptors_of, message_at, message_data
from tests.console.decoding.test_decoding import PERSON, address_file, person_file

PERSON_TEXT = """
syntax = "proto3"; // the comment } of a line
package shop;
import "address.proto";
import public "google/protobuf/timestamp.proto";
/* A comment { of
   several lines. */
option java_package = "com.example; {";
option (own).thing = { a: 1; b: [1, 2] };
message Person {
  Address at = 1 [deprecated = true, (own.option) = {x: "]"}];
  google.protobuf.Timestamp born = 2;
  message Pet { string name = 1; }
}
service Shop { rpc Find (Person) returns (stream Person) { option (a) = B; } }
"""
ADDRESS_TEXT = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
ALL_OF_PROTO3 = """
syntax = 'proto3';
package a.b;
message All {
  reserved 100, 200 to max;
  reserved "old", "older";
  option (own) = true;
  double d = 1; repeated sint64 many = 2 [packed = true];
  optional int32 maybe = 3;
  Colour colour = 4;
  map<string, Inner.Deep> by_the_name = 5;
  oneof choice { option (x) = 1; bytes raw = 6; .a.b.All.Inner inner = 7; }
  message Inner { message Deep { bool message = 1; string enum = 2; int32 option = 3; } };
  enum Colour { option allow_alias = true; RED = 0; GREEN = 1 [deprecated = true]; LIME = 0x1;
    reserved 5 to 7; BELOW = -2; }
  optional string last = 0x10;
}
"""
ALL_OF_PROTO2 = """
message Old {
  required fixed32 id = 1;
  optional string name = 2 [default = "no; \\" name", json_name='n'];
  extensions 100 to 199 [declaration = { number: 100 }];
  extend Old { optional int32 more = 100; }
}
extend Old { optional int32 other = 101; }
"""


def message_of(text: str, *indexes: int, others: tuple[FileDescriptorProto, ...] = ()) -> Any:  # noqa: ANN401 - a descriptor of C
    """The descriptor of a message of a schema."""
    return message_at(descriptors_of([*others, file_of(text, "own.proto")])[-1], list(indexes))


def test_schemas_of_a_registry_are_the_same_as_text_and_serialized() -> None:
    own = file_of(PERSON_TEXT, "person.proto")
    written = message_at(descriptors_of([file_of(ADDRESS_TEXT, "address.proto"), own])[-1], [0])
    given = message_at(descriptors_of([address_file(), person_file()])[-1], [0])
    assert message_data(PERSON, written) == message_data(PERSON, given)
    pet = message_of(PERSON_TEXT, 0, 0, others=(address_file(),))
    assert message_data(b"\x0a\x03Rex", pet) == {"name": "Rex"}


def test_message_with_everything_of_proto3_is_decoded() -> None:
    descriptor = message_of(ALL_OF_PROTO3, 0)
    message: Any = GetMessageClass(descriptor)()
    message.d, message.maybe, message.colour, message.last = 0.5, 0, -2, "z"
    message.many.extend([1, -2])
    message.by_the_name["k"].message = True
    message.by_the_name["k"].option = 5
    message.inner.SetInParent()
    assert message_data(message.SerializeToString(), descriptor) == {
        "d": 0.5,
        "many": ["1", "-2"],
        "maybe": 0,
        "colour": "BELOW",
        "by_the_name": {"k": {"message": True, "option": 5}},
        "inner": {},
        "last": "z",
    }


def test_index_of_a_message_counts_no_message_of_a_map() -> None:
    assert message_of(ALL_OF_PROTO3, 0, 0).name == "Inner"
    assert message_of(ALL_OF_PROTO3, 0, 0, 0).name == "Deep"


def test_schema_without_a_syntax_is_one_of_proto2() -> None:
    descriptor = message_of(ALL_OF_PROTO2, 0)
    data = message_data(b"\x0d\x07\x00\x00\x00\x12\x01a", descriptor)
    assert data == {"id": 7, "name": "a"}


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("message A { group B = 1 {} }", "group"),
        ('edition = "2023"; message A {}', "edition"),
        ("message A { int32 a = x; }", "x as a number"),
        ("message A { int32 a = 1 }", "} instead of ';'"),
        ("message A {", "its end"),
        ("message A { int32 a = 1 [(", "its end"),
        ("fruit A {}", "fruit at its top"),
        ("message A \x00", "'\\x00' at character 10"),
        ('"a', "at character 0"),
        ("message A {" * 40 + "}" * 40, "nested"),
        ("", "no message"),
        (f"message A {{ int32 a = {10**20}; }}", "invalid"),
        ('import "\ud800"; message A {}', "invalid"),
        ("message A { Missing a = 1; }", "invalid"),
        ("message A { int32 a = 1; int32 b = 1; }", "invalid"),
    ],
)
def test_text_that_is_no_schema_is_told(text: str, trouble: str) -> None:
    with pytest.raises(CannotDecode) as told:
        message_of(text, 0)
    assert trouble in str(told.value)


def test_random_changes_of_a_schema_raise_nothing_else() -> None:
    source = random.Random(20261126)
    tokens = ["{", "}", ";", "=", "message", "enum", "[", "]", "<", "map", "option", "-", '"', "1"]
    for _ in range(1_000):
        text = source.choice([ALL_OF_PROTO3, ALL_OF_PROTO2])
        for _ in range(source.randrange(1, 4)):
            start = source.randrange(len(text))
            text = text[:start] + source.choice(tokens) + text[start + source.randrange(3) :]
        try:
            file_of(text, "own.proto")
        except CannotDecode:
            continue
