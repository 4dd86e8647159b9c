"""Schemas of Protobuf: what is accepted, and the text under which they are kept."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from kwire.registry.schemas.kinds import InvalidSchemaError, SchemaKind
from kwire.registry.schemas.parsing import parse
from kwire.registry.schemas.protobuf.schema import ProtobufSchema
from kwire.registry.schemas.protobuf.well_known import RUNTIME, TEXTS, well_known
from tests.registry.schemas import samples
from tests.registry.schemas.pairs import NO_REFERENCES, protobuf

HEAD = 'syntax = "proto3";\n'

CANONICAL = r"""syntax = "proto2";
package shop.v1;

import "google/protobuf/timestamp.proto";
import public "google/protobuf/any.proto";

option java_package = "com.example \"x\" \\ \n";
option (own).thing = {
  a: 1,
  b: [
    "x",
    -inf
  ],
  c: {
    d: true
  }
};

message Order {
  reserved 5, 7 to 9, "old";
  reserved 1000 to max;

  option deprecated = true;

  required string id = 1;
  repeated int32 counts = 2 [packed = true];
  optional Kind kind = 3 [
    deprecated = true,
    default = BIG,
    json_name = "k"
  ];
  map<string, Line> lines = 4;
  optional .google.protobuf.Timestamp at = 6;

  oneof payment {
    string card = 10;
    Line.Cash cash = 11;
  }

  optional group Extra = 12 {
    optional bool on = 1;
  }

  extensions 100 to 199, 250;

  extend Order {
    optional string nested = 101;
  }

  message Line {
    message Cash {
      optional float amount = 1;
    }
  }
  enum Kind {
    reserved 9;
    option allow_alias = true;
    SMALL = 0;
    BIG = 1 [deprecated = true];
    LARGE = 1;
    NEGATIVE = -1;
  }
}
message Empty {}

extend Order {
  optional string note = 100;
}

service Orders {
  option deprecated = true;

  rpc Get (Order) returns (stream Order);
  rpc Put (stream Order) returns (Empty) {
    option deprecated = true;
  };
}
"""


def schema_of(text: str) -> ProtobufSchema:
    found = protobuf(text)
    assert isinstance(found, ProtobufSchema)
    return found


def test_canonical_text_of_a_canonical_text_is_the_same() -> None:
    assert protobuf(CANONICAL).canonical == CANONICAL


def test_canonical_text_has_no_comments_and_one_form_of_spaces_and_texts() -> None:
    text = """
    // A comment } of a line
    syntax = 'proto3'; package p ;
    /* several
     * lines { */ message M { string a=1[ json_name='x' "y" ]; ; enum E{A=0x0;} ; }
    """
    assert protobuf(text).canonical == (
        'syntax = "proto3";\npackage p;\n\nmessage M {\n  string a = 1 [json_name = "xy"];\n\n'
        "  enum E {\n    A = 0;\n  }\n}\n"
    )


def test_words_of_the_language_are_names_of_fields_and_types_too() -> None:
    body = """
      message message { string optional = 1; }
      message Other {
        message message = 1; string option = 2; string reserved = 3; string oneof = 4;
        string map = 5; string group = 6; string repeated = 7; string extensions = 8;
        repeated message required = 9; string syntax = 10; string import = 11;
      }
      enum E { option = 0; reserved = 1; }
    """
    canonical = protobuf(HEAD + body).canonical
    assert "  message message = 1;" in canonical
    assert "  repeated message required = 9;" in canonical
    assert protobuf(canonical).canonical == canonical


def test_normalized_text_has_full_names_and_numbers_in_order() -> None:
    text = (
        HEAD + 'package p; option z = "1"; option a = "2"; message M { reserved "b", 9, 7; N b = 2;'
        " string a = 1 [json_name = 'x', deprecated = true]; oneof o { int32 d = 6; int32 c = 5; }"
        " map<int32, N> m = 3; message N {} enum E { B = 1; A = 0; } }"
    )
    with pytest.raises(InvalidSchemaError):
        protobuf(text)  # in proto3 the first value is 0
    assert protobuf(text.replace("B = 1; A = 0;", "A = 0; C = 2; B = 1;")).normalized() == (
        'syntax = "proto3";\npackage p;\n\noption a = "2";\noption z = "1";\n\nmessage M {\n'
        '  reserved 7;\n  reserved 9;\n  reserved "b";\n\n  string a = 1 [\n'
        '    deprecated = true,\n    json_name = "x"\n  ];\n'
        "  .p.M.N b = 2;\n  map<int32, .p.M.N> m = 3;\n\n"
        "  oneof o {\n    int32 c = 5;\n    int32 d = 6;\n  }\n\n  message N {}\n"
        "  enum E {\n    A = 0;\n    B = 1;\n    C = 2;\n  }\n}\n"
    )


def test_serialized_descriptor_is_accepted_and_means_the_same() -> None:
    schema = schema_of(CANONICAL)
    again = schema_of(schema.formatted("serialized"))
    assert again.canonical == protobuf(again.canonical).canonical
    assert again.incompatibilities(schema) == schema.incompatibilities(again) == []
    one, other = (FileDescriptorProto.FromString(base64.b64decode(each.formatted("serialized")))
                  for each in (schema, again))  # fmt: skip
    for each in (one, other):
        each.ClearField("options")  # those of somebody's own are not in a descriptor
    assert [m.name for m in one.message_type] == [m.name for m in other.message_type]
    assert one.message_type[0].field == other.message_type[0].field


@pytest.mark.parametrize("name", ["descriptor", "struct", "wrappers", "empty"])
def test_descriptor_that_a_compiler_made_becomes_a_text_with_the_same_descriptor(name: str) -> None:
    """The files of Protobuf's runtime, under another package so that they can be there twice."""
    from importlib import import_module

    module = import_module(f"google.protobuf.{name}_pb2")
    compiled = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    moved = compiled.SerializeToString().replace(b"google.protobuf", b"google.protobux")
    text = protobuf(base64.b64encode(moved).decode()).canonical
    schema = schema_of(text)
    made = schema.descriptors[-1]
    compiled = FileDescriptorProto.FromString(moved)
    for file in (made, compiled):
        file.name = "same"
        file.ClearField("options")
        _clear_what_a_text_has_not(file)
    assert made == compiled


def _clear_what_a_text_has_not(holder: Any) -> None:  # noqa: ANN401 - files and messages
    """Names in JSON that follow from names, and declarations of extensions."""
    messages = holder.message_type if hasattr(holder, "message_type") else holder.nested_type
    for message in messages:
        for field in message.field:
            field.ClearField("json_name")
            field.options.ClearField("edition_defaults")
            field.options.ClearField("targets")
            field.options.ClearField("feature_support")
            if not field.options.ByteSize():
                field.ClearField("options")
        for value in (value for enum in message.enum_type for value in enum.value):
            value.ClearField("options")
        for extensions in message.extension_range:
            extensions.ClearField("options")
        _clear_what_a_text_has_not(message)


def test_text_and_descriptor_of_a_schema_have_the_same_normalized_text() -> None:
    """One client registers the text, and another one the descriptor that was made of it."""
    for seed in range(30):
        schema = schema_of(samples.proto_text(samples.proto_fields(Random(seed))))
        assert schema_of(schema.formatted("serialized")).normalized() == schema.normalized()


def test_message_is_found_by_its_indexes() -> None:
    schema = schema_of(HEAD + "package p; message A {} message B { message C { message D {} } }")
    assert schema.message([0]).full_name == "p.A"
    assert schema.message([1, 0, 0]).full_name == "p.B.C.D"
    for wrong in ([2], [0, 0], [-1]):
        with pytest.raises(InvalidSchemaError, match="no message"):
            schema.message(wrong)


def test_messages_of_maps_do_not_count_among_the_indexes() -> None:
    schema = schema_of(HEAD + "message M { map<string, N> m = 1; message N { int32 x = 1; } }")
    message = GetMessageClass(schema.message([0, 0]))(x=5)
    assert message.SerializeToString() == b"\x08\x05"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message M {", "has its end instead of"),
        ("message M { string a = 1 }", "instead of ';'"),
        ("message M { string a = 0; }", "cannot have the number 0"),
        ("message M { string a = 536870912; }", "cannot have the number"),
        ("message M { string a = x; }", "instead of a number"),
        ("message M { Missing a = 1; }", 'the type "Missing" is not defined'),
        ("message M { .M.N a = 1; }", "is not defined"),
        ("message M { string a = 1; string b = 1; }", "invalid"),
        ("message M { string a = 1; string a = 2; }", "invalid"),
        ("message M {} message M {}", "invalid"),
        ("message M { required string a = 1; }", "required"),
        ("message M { map<float, string> a = 1; }", "keys of float"),
        ("message M { repeated map<string, string> a = 1; }", "a label"),
        ("message M { oneof o { repeated string a = 1; } }", "a label"),
        ("message M { reserved 5 to 2; }", "no range"),
        ("message M { string a = 1 [deprecated = maybe]; }", "no value of the option"),
        ("enum E {}", "invalid"),
        ("enum E { A = 99999999999; }", "cannot have the number"),
        ("what M {}", "outside of messages"),
        ('import "missing.proto";', "which no reference has"),
        ('syntax = "proto4";', "not supported"),
        ('edition = "2023";', "edition"),
        ("message M { string a = 1; } §", "in line 2"),
        ('option a = "unfinished;', "in line 2"),
        ("/* unfinished", "in line 2"),
        (r'option a = "\ud800";', "no character"),
        ("service S { rpc A (M) returns (M); }", "is not defined"),
        ("extend Missing { string a = 1; }", "is not defined"),
    ],
)
def test_invalid_schema_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        protobuf(HEAD + text)


def test_base64_that_is_no_descriptor_is_refused() -> None:
    for raw in (b"\xff\xff\xff", b"\x0a\x7fshort"):
        with pytest.raises(InvalidSchemaError, match="the descriptor is invalid"):
            protobuf(base64.b64encode(raw).decode())


def test_import_is_found_by_the_name_of_its_reference() -> None:
    references = {
        "a.proto": HEAD + 'package a; import "b.proto"; message A { b.B b = 1; }',
        "b.proto": HEAD + "package b; message B {}",
    }
    text = HEAD + 'import "a.proto"; message M { a.A a = 1; }'
    schema = parse(SchemaKind.PROTOBUF, text, references)
    assert isinstance(schema, ProtobufSchema)
    assert [each.name for each in schema.descriptors] == ["b.proto", "a.proto", "default"]


def test_reference_may_be_a_descriptor_in_base64() -> None:
    inner = schema_of(HEAD + "package b; message B { int32 x = 1; }").formatted("serialized")
    text = HEAD + 'import "b.proto"; message M { b.B b = 1; }'
    schema = parse(SchemaKind.PROTOBUF, text, {"b.proto": inner})
    assert isinstance(schema, ProtobufSchema)
    found = schema.message([0]).fields_by_name["b"].message_type
    assert found is not None
    assert found.full_name == "b.B"


def test_imports_in_a_circle_are_refused() -> None:
    references = {
        "a.proto": HEAD + 'import "b.proto";',
        "b.proto": HEAD + 'import "a.proto";',
    }
    with pytest.raises(InvalidSchemaError, match="import each other"):
        parse(SchemaKind.PROTOBUF, HEAD + 'import "a.proto";', references)


@pytest.mark.parametrize("name", [*TEXTS, *(f"google/protobuf/{name}.proto" for name in RUNTIME)])
def test_well_known_file_can_be_imported_without_a_reference(name: str) -> None:
    file = well_known(name)
    assert file is not None
    types = [*(each.name for each in file.messages), *(each.name for each in file.enums)]
    uses = "".join(f" .{file.package}.{each} f{n} = {n};" for n, each in enumerate(types, 1))
    schema = parse(SchemaKind.PROTOBUF, f'{HEAD} import "{name}"; message M {{{uses} }}',
                   NO_REFERENCES)  # fmt: skip
    assert isinstance(schema, ProtobufSchema)
    assert len(schema.message([0]).fields) == len(types) > 0


def test_sentence_names_the_place_by_messages_and_number() -> None:
    old = protobuf(HEAD + "message A { message B { int32 x = 3; } }")
    new = protobuf(HEAD + "message A { message B { string x = 3; } }")
    [found] = new.incompatibilities(old)
    assert found.message == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path'
        " '#/A/B/3' in the reader schema does not match its kind in the writer schema\"}"
    )
