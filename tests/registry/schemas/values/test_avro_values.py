"""Avro records from data, and data from Avro records."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.registry.schemas.kinds import InvalidSchemaError, SchemaKind
from kwire.registry.schemas.values.avro import avro_bytes, avro_data, parsed_avro
from kwire.registry.schemas.values.data import EXACT, Data, Shape
from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode
from kwire.registry.schemas.values.record_schema import RecordSchema

A = {"type": "record", "name": "s.A", "fields": [{"name": "id", "type": "int"}]}
B = {"type": "record", "name": "s.B", "fields": [{"name": "id", "type": "int"}]}
COLOUR = {"type": "enum", "name": "s.Colour", "symbols": ["RED", "BLUE"]}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "next", "type": ["null", "Node"], "default": None},
    ],
}


def logical(kind: Any, name: str, **more: int) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {**(kind if isinstance(kind, dict) else {"type": kind}), "logicalType": name, **more}


def written(schema: Any, data: Data) -> bytes:  # noqa: ANN401 - JSON
    return avro_bytes(data, parsed_avro(json.dumps(schema)))


def read(schema: Any, raw: bytes, shape: Shape = EXACT) -> Data:  # noqa: ANN401 - JSON
    return avro_data(raw, parsed_avro(json.dumps(schema)), None, shape)


@pytest.mark.parametrize(
    ("schema", "data", "raw"),
    [
        ("null", None, b""),
        ("boolean", True, b"\x01"),
        ("int", -(2**31), b"\xff\xff\xff\xff\x0f"),
        ("long", 2**63 - 1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("float", 1.5, b"\x00\x00\xc0\x3f"),
        ("double", "NaN", b"\x00\x00\x00\x00\x00\x00\xf8\x7f"),
        ("double", "-Infinity", b"\x00\x00\x00\x00\x00\x00\xf0\xff"),
        ("string", "ü", b"\x04\xc3\xbc"),
        ("bytes", "0x00ff", b"\x04\x00\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, "0x00ff", b"\x00\xff"),
        (COLOUR, "BLUE", b"\x02"),
        ({"type": "array", "items": "int"}, [1, 2], b"\x04\x02\x04\x00"),
        ({"type": "map", "values": "int"}, {"a": 1}, b"\x02\x02a\x02\x00"),
        (A, {"id": 1}, b"\x02"),
        (NODE, {"id": 1, "next": {"id": 2, "next": None}}, b"\x02\x02\x04\x00"),
        (logical("int", "date"), "1970-01-02", b"\x02"),
        (logical("int", "time-millis"), "00:00:00.001000", b"\x02"),
        (logical("long", "time-micros"), "00:00:00.000001", b"\x02"),
        (logical("long", "timestamp-millis"), "1970-01-01T00:00:00.001000+00:00", b"\x02"),
        (logical("long", "timestamp-micros"), "1970-01-01T00:00:00.000001+00:00", b"\x02"),
        (logical("long", "local-timestamp-millis"), "1970-01-01T00:00:00.001000", b"\x02"),
        (logical("long", "local-timestamp-micros"), "1970-01-01T00:00:00.000001", b"\x02"),
        (logical("bytes", "decimal", precision=4, scale=2), "-1.50", b"\x04\xff\x6a"),
        (
            logical("string", "uuid"),
            "12345678-1234-5678-1234-567812345678",
            b"\x4812345678-1234-5678-1234-567812345678",
        ),
        (["null", "string"], None, b"\x00"),
        (["null", "string"], "a", b"\x02\x02a"),
        (["string", A], {"id": 1}, b"\x02\x02"),
        (["null", A, B], {"s.B": {"id": 1}}, b"\x04\x02"),
        ([A, COLOUR, "string"], {"s.Colour": "RED"}, b"\x02\x00"),
        (["float", "double"], 0.1, b"\x02\x9a\x99\x99\x99\x99\x99\xb9\x3f"),
        (["double", "long"], 5, b"\x02\x0a"),
        (["null", "string", {"type": "map", "values": "string"}], {"string": "x"}, None),
    ],
)
def test_data_of_each_type_become_bytes_and_the_same_data_again(
    schema: Any,  # noqa: ANN401 - JSON
    data: Data,
    raw: bytes | None,
) -> None:
    found = written(schema, data)
    assert raw is None or found == raw
    assert read(schema, found) == data


@pytest.mark.parametrize(
    ("schema", "data", "same"),
    [
        ("bytes", "\u0000\u00ff", "0x00ff"),
        ("double", 5, 5.0),
        (["null", "string"], {"string": "x"}, "x"),
        (["null", A], {"s.A": {"id": 1}}, {"id": 1}),
        (["null", A, B], {"id": 1}, {"s.A": {"id": 1}}),
        (NODE, {"id": 1}, {"id": 1, "next": None}),
        (logical("int", "date"), 1, "1970-01-02"),
        (
            logical("long", "timestamp-millis"),
            "1970-01-01T02:00:00+02:00",
            "1970-01-01T00:00:00+00:00",
        ),
        (logical("long", "timestamp-millis"), 1, "1970-01-01T00:00:00.001000+00:00"),
        (logical("bytes", "decimal", precision=4, scale=2), 1.5, "1.50"),
        (
            {**A, "fields": [{"name": "b", "type": "bytes", "default": "\u00ff"}]},
            {},
            {"b": "0xff"},
        ),
    ],
)
def test_avros_own_json_and_defaults_are_taken(
    schema: Any,  # noqa: ANN401 - JSON
    data: Data,
    same: Data,
) -> None:
    assert read(schema, written(schema, data)) == same


@pytest.mark.parametrize(
    ("schema", "data", "message"),
    [
        ("int", 2**31, r"^\$: 2147483648 is not of the type int"),
        ("int", True, "not int"),
        ("int", 1.0, "not int"),
        ("long", "1", "not long"),
        ("float", 1e39, "not of the type float"),
        ("string", 1, "not string"),
        ("boolean", 1, "not boolean"),
        ("null", 0, "not null"),
        ("bytes", "0xf", "not a text of bytes"),
        ("bytes", "\u0100", "not a text of bytes"),
        ({"type": "fixed", "name": "F", "size": 2}, "0x00", "1 bytes instead of 2"),
        (COLOUR, "GREEN", "'GREEN' is no symbol of s.Colour"),
        ({"type": "array", "items": "int"}, [1, "x"], r"^\$\[1\]: not int"),
        ({"type": "map", "values": "int"}, {"a": "x"}, r"^\$\.a: not int"),
        (A, {}, r"^\$: s\.A needs the field 'id'"),
        (A, {"id": 1, "di": 2}, "has no field 'di'"),
        (A, [1], "not an object of s.A"),
        (["null", A], {"id": "x"}, r"^\$\.id: not int"),
        (["null", A, B], {"s.B": {"id": "x"}}, r"^\$\.id: not int"),
        (["null", "int"], "x", "not null or int"),
        (logical("int", "date"), "yesterday", "not a date of ISO 8601"),
        (logical("bytes", "decimal", precision=3, scale=2), "12.50", "precision"),
        (logical("bytes", "decimal", precision=4, scale=2), True, "not a decimal"),
        (logical("bytes", "decimal", precision=4, scale=2), "NaN", "not a decimal"),
    ],
)
def test_data_of_another_type_are_refused_with_their_place(
    schema: Any,  # noqa: ANN401 - JSON
    data: Data,
    message: str,
) -> None:
    with pytest.raises(CannotEncode, match=message):
        written(schema, data)


def test_data_that_are_nested_too_deeply_are_refused() -> None:
    data: Data = None
    for number in range(100_000):
        data = {"id": number, "next": data}
    with pytest.raises(CannotEncode, match="nested too deeply"):
        written(NODE, data)


def test_unions_within_each_other_are_tried_once_for_each_level() -> None:
    fields = [{"name": "next", "type": ["null", "A", "B"]}, {"name": "id", "type": "int"}]
    schema = {"type": "record", "name": "A", "fields": [
        {"name": "next", "type": ["null", "A", {"type": "record", "name": "B", "fields": fields}]},
        {"name": "id", "type": "int"},
    ]}  # fmt: skip
    data: Data = {"next": None, "id": "wrong"}
    for number in range(60):
        data = {"next": data, "id": number}
    with pytest.raises(CannotEncode):  # else it takes 2 to the power of 60 steps
        written(schema, data)


def test_records_are_read_as_a_later_schema_sees_them() -> None:
    writer = RecordSchema(SchemaKind.AVRO, json.dumps(A))
    fields = [{"name": "id", "type": "long"}, {"name": "more", "type": "string", "default": "-"}]
    reader = RecordSchema(SchemaKind.AVRO, json.dumps({**A, "fields": fields}))
    body = writer.encoded({"id": 7})
    assert writer.decoded(body, reader) == {"id": 7, "more": "-"}
    assert reader.record_name() == "s.A"
    assert RecordSchema(SchemaKind.AVRO, '"long"').record_name() == ""


@pytest.mark.parametrize(
    ("kind", "default", "read_as"),
    [
        ("bytes", "\u00ff", "0xff"),
        ("bytes", "0x01", "0x30783031"),
        (logical("bytes", "decimal", precision=4, scale=2), "\u0001", "0.01"),
        (logical("int", "date"), 1, "1970-01-02"),
        (logical("long", "timestamp-millis"), 1, "1970-01-01T00:00:00.001000+00:00"),
        (["null", "int"], None, None),
        ([COLOUR, A, "null"], "RED", {"s.Colour": "RED"}),
        ({"type": "array", "items": "bytes"}, ["\u0001"], ["0x01"]),
        ({"type": "map", "values": logical("int", "date")}, {"a": 0}, {"a": "1970-01-01"}),
        (
            {
                "type": "record",
                "name": "s.In",
                "fields": [
                    {"name": "b", "type": "bytes", "default": "\u0002"},
                    {"name": "more", "type": ["null", "s.In"], "default": None},
                ],
            },
            {},
            {"b": "0x02", "more": None},
        ),
    ],
)
def test_default_of_the_readers_schema_is_read_as_its_type(
    kind: Any,  # noqa: ANN401 - JSON
    default: Data,
    read_as: Data,
) -> None:
    field = {"name": "new", "type": kind, "default": default}
    reader = parsed_avro(json.dumps({**B, "fields": [*B["fields"], field]}))
    writer = parsed_avro(json.dumps(B))
    raw = avro_bytes({"id": 7}, writer)
    assert avro_data(raw, writer, reader, EXACT) == {"id": 7, "new": read_as}
    own = avro_bytes({"id": 7}, reader)  # the default is written where the field is missing
    assert avro_data(own, reader, None, EXACT) == {"id": 7, "new": read_as}


def test_types_of_references_are_known() -> None:
    outer = {"type": "record", "name": "s.O", "fields": [{"name": "a", "type": "s.A"}]}
    schema = RecordSchema(SchemaKind.AVRO, json.dumps(outer), [("s.A", json.dumps(A))])
    assert schema.decoded(schema.encoded({"a": {"id": 7}})) == {"a": {"id": 7}}
    with pytest.raises(CannotEncode, match="Avro schema is invalid"):
        RecordSchema(SchemaKind.AVRO, json.dumps(outer)).encoded({})
    with pytest.raises(CannotDecode, match="Avro schema is invalid"):
        RecordSchema(SchemaKind.AVRO, json.dumps(outer)).decoded(b"")


@pytest.mark.parametrize("text", ["", "{", '"nothing"', '{"type": 7}', "[" * 100_000, "7"])
def test_text_that_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchemaError, match="Avro schema is invalid"):
        parsed_avro(text)


def test_bytes_are_base64_where_that_is_asked_for() -> None:
    assert read("bytes", b"\x04\x00\xff", Shape(as_base64=True)) == "AP8="


# -- drawn schemas


def drawn() -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Data]]]:
    """A schema, and the data that it has, as they are decoded."""
    floats = st.floats(allow_nan=False, allow_infinity=False)
    leaves: list[tuple[Any, st.SearchStrategy[Any]]] = [
        ("null", st.none()),
        ("boolean", st.booleans()),
        ("int", st.integers(-(2**31), 2**31 - 1)),
        ("long", st.integers(-(2**63), 2**63 - 1)),
        ("double", floats),
        ("string", st.text(max_size=5)),
        ("bytes", st.binary(max_size=5).map(lambda raw: f"0x{raw.hex()}")),
        (logical("int", "date"), st.dates().map(lambda day: day.isoformat())),
    ]

    def array(inner: tuple[Any, Any]) -> tuple[Any, Any]:
        return {"type": "array", "items": inner[0]}, st.lists(inner[1], max_size=3)

    def mapping(inner: tuple[Any, Any]) -> tuple[Any, Any]:
        names = st.text(max_size=3)
        return {"type": "map", "values": inner[0]}, st.dictionaries(names, inner[1], max_size=3)

    def optional(inner: tuple[Any, Any]) -> tuple[Any, Any]:
        schema, data = inner
        if schema == "null" or isinstance(schema, list):
            return inner
        return ["null", schema], st.none() | data

    def extended(
        inner: st.SearchStrategy[tuple[Any, Any]],
    ) -> st.SearchStrategy[tuple[Any, Any]]:
        return inner.map(array) | inner.map(mapping) | inner.map(optional)

    return st.recursive(st.sampled_from(leaves), extended, max_leaves=3)


@given(st.lists(drawn(), min_size=1, max_size=4), st.data())
@settings(max_examples=60, deadline=None)
def test_drawn_data_come_back_as_they_were(
    inner: list[tuple[Any, st.SearchStrategy[Data]]], draw: st.DataObject
) -> None:
    fields = [{"name": f"f{number}", "type": kind} for number, (kind, _) in enumerate(inner)]
    schema = {"type": "record", "name": "R", "fields": fields}
    data = {f"f{number}": draw.draw(each) for number, (_, each) in enumerate(inner)}
    raw = written(schema, data)
    assert read(schema, raw) == data
    assert fastavro.schemaless_reader(io.BytesIO(raw), fastavro.parse_schema(schema), None)
    assert json.loads(json.dumps(data)) == data
