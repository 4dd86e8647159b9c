"""Schemas of Avro: what is accepted, and the text under which they are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kwire.registry.schemas.kinds import InvalidSchemaError, SchemaKind
from kwire.registry.schemas.parsing import parse
from tests.registry.schemas.pairs import avro


def record(*fields: object, **rest: object) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": list(fields), **rest}


def field(type_: object, **rest: object) -> dict[str, object]:
    return {"name": "f", "type": type_, **rest}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('"int"', '"int"'),
        ('{"type": "int"}', '"int"'),
        ('{ "type" : "int", "logicalType" : "date" }', '{"type":"int","logicalType":"date"}'),
        ('["null", {"type": "string"}]', '["null","string"]'),
        ('{"items": "int", "type": "array"}', '{"type":"array","items":"int"}'),
        ('{"values": "int", "x": 1, "type": "map"}', '{"type":"map","values":"int","x":1}'),
        (
            '{"fields": [], "name": "a.b.R", "type": "record", "doc": "said", "z": 1, "aliases":'
            ' ["S", "x.T"]}',
            '{"type":"record","name":"R","namespace":"a.b","doc":"said","fields":[],"z":1,'
            '"aliases":["S","x.T"]}',
        ),
        (
            '{"type": "enum", "symbols": ["A", "B"], "name": "E", "namespace": "n", "default":'
            ' "A"}',
            '{"type":"enum","name":"E","namespace":"n","symbols":["A","B"],"default":"A"}',
        ),
        ('{"size": 4, "type": "fixed", "name": "F"}', '{"type":"fixed","name":"F","size":4}'),
        (
            '{"type": "record", "name": "R", "namespace": "n", "fields": [{"type": "R", "name":'
            ' "r", "order": "ignore", "x": {"b": 1, "a": 2}, "default": null, "aliases": ["q"]},'
            ' {"name": "n", "type": ["null", "n.R"], "default": null, "doc": "d", "order":'
            ' "ascending"}]}'.replace('"default": null, "aliases"', '"aliases"', 1),
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"r","type":"R","order":'
            '"ignore","aliases":["q"],"x":{"b":1,"a":2}},{"name":"n","type":["null","R"],"doc":"d"'
            ',"default":null}]}',
        ),
    ],
)
def test_canonical_text_has_the_order_of_avros_java_library(text: str, canonical: str) -> None:
    schema = parse(SchemaKind.AVRO, text, {})
    assert schema.canonical == canonical
    assert parse(SchemaKind.AVRO, canonical, {}).canonical == canonical


def test_type_of_another_namespace_is_named_in_full_inside_a_type() -> None:
    inner = {"type": "fixed", "name": "F", "namespace": "other", "size": 1}
    fields = [field(inner), {"name": "g", "type": "other.F"}]
    schema = avro(record(*fields, namespace="own"))
    assert json.loads(schema.canonical)["fields"][1]["type"] == "other.F"


def test_empty_namespace_inside_a_namespace_is_kept() -> None:
    inner = {"type": "fixed", "name": "F", "namespace": "", "size": 1}
    canonical = avro(record(field(inner), namespace="own")).canonical
    assert '"name":"F","namespace":"","size":1' in canonical


def test_normalized_text_has_attributes_and_aliases_in_order() -> None:
    value = record(
        field("int", z=1, a=2, default=1),
        {"name": "m", "type": {"type": "map", "values": "int"}, "default": {"b": 1, "a": 2}},
        doc="",
        aliases=["T", "S"],
        z=1,
        b={"d": 1, "c": 2},
    )
    assert json.loads(avro(value).normalized()) == {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "f", "type": "int", "default": 1, "a": 2, "z": 1},
            {
                "name": "m",
                "type": {"type": "map", "values": "int"},
                "default": {"a": 2, "b": 1},
            },
        ],
        "b": {"c": 2, "d": 1},
        "z": 1,
        "aliases": ["S", "T"],
    }
    shuffled = dict(reversed(list(value.items())))
    assert avro(shuffled).normalized() == avro(value).normalized()
    assert avro(shuffled).canonical != avro(value).canonical


def test_attributes_of_a_logical_type_come_first_in_the_normalized_text() -> None:
    value = {"type": "bytes", "a": 1, "scale": 2, "precision": 4, "logicalType": "decimal"}
    assert list(json.loads(avro(value).normalized())) == [
        "type", "logicalType", "precision", "scale", "a",
    ]  # fmt: skip


FIXED = {"type": "fixed", "name": "F", "size": 1}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nothing", 'the type "nothing" is not defined'),
        (17, "17 is no type"),
        (None, "null is no type"),
        ({}, "no type is given"),
        ({"type": {"type": "int"}}, "no type is given"),
        ({"type": "array"}, "no items is given"),
        ({"type": "map"}, "no values is given"),
        ({"type": "record", "name": "R"}, "no fields is given"),
        ({"type": "record", "fields": []}, "no name is given"),
        (record(name="9"), "a type cannot have the name"),
        (record(name="a-b"), "a type cannot have the name"),
        (record(name="int"), "primitive"),
        (record(17), "17 is no field"),
        ({"type": "record", "name": "R", "fields": {}}, "are no list"),
        (record({"name": "f"}), "no type is given"),
        (record({"type": "int"}), "a field of R cannot have the name null"),
        (record(field("int"), field("int")), "the field f twice"),
        (record(field("int", order="up")), "no order"),
        (record(field("int", aliases="x")), "no list of names"),
        (record(field(FIXED), {"name": "g", "type": FIXED}), "F is defined twice"),
        (record(field("int", default="x")), "no value of its type"),
        (record(field("int", default=2**31)), "no value of its type"),
        (record(field("int", default=True)), "no value of its type"),
        (record(field("string", default=None)), "no value of its type"),
        (record(field(["null", "int"], default="x")), "no value of its type"),
        (record(field({"type": "array", "items": "int"}, default=["x"])), "no value"),
        (record(field({"type": "map", "values": "int"}, default={"a": "x"})), "no value"),
        (record(field({**record(field("int")), "name": "S"}, default={})), "no value"),
        (["int", "int"], 'the type "int" twice'),
        (["int", ["null"]], "directly inside a union"),
        ({"type": "enum", "name": "E"}, "no symbols is given"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "a symbol twice"),
        ({"type": "enum", "name": "E", "symbols": ["a b"]}, "cannot have the name"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "is no symbol"),
        ({"type": "fixed", "name": "F"}, "no size is given"),
        ({"type": "fixed", "name": "F", "size": -1}, "cannot have the size"),
        ({"type": "fixed", "name": "F", "size": "1"}, "is no number"),
        ({"type": "fixed", "name": "F", "size": True}, "is no number"),
    ],
)
def test_invalid_schema_is_refused_with_the_reason(value: object, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        avro(value)


@pytest.mark.parametrize(
    "value",
    [
        record(field(["null", "int"], default=1)),
        record(field("double", default=1)),
        record(field("bytes", default="\u00ff")),
        record(field({**record(field("int", default=1)), "name": "S"}, default={})),
        record(field({"type": "array", "items": ["null", "string"]}, default=[None, "x"])),
        record(field("int", order="DESCENDING")),
        record(name="grüße"),
        {"type": "error", "name": "E", "fields": []},
        [],
    ],
)
def test_valid_schema_of_rare_form_is_accepted(value: object) -> None:
    schema = avro(value)
    assert parse(SchemaKind.AVRO, schema.canonical, {}).canonical == schema.canonical


def test_reference_defines_its_types_and_is_not_repeated_in_the_text() -> None:
    address = json.dumps({**record(field("string")), "name": "shop.Address"})
    value = record(field("shop.Address"))
    with pytest.raises(InvalidSchemaError, match=r"shop\.Address"):
        avro(value)
    schema = parse(SchemaKind.AVRO, json.dumps(value), {"any name": address})
    assert json.loads(schema.canonical) == value
    resolved: dict[str, Any] = json.loads(schema.formatted("resolved"))
    assert resolved["fields"][0]["type"]["name"] == "Address"
    assert resolved["fields"][0]["type"]["namespace"] == "shop"


def test_reference_may_use_the_types_of_references_before_it() -> None:
    references = {"a": json.dumps(FIXED), "b": json.dumps({**record(field("F")), "name": "S"})}
    schema = parse(SchemaKind.AVRO, json.dumps(record(field("S"))), references)
    assert '"size":1' in schema.formatted("resolved")
    assert parse(SchemaKind.AVRO, schema.formatted("resolved"), {}).canonical == schema.formatted(
        "resolved"
    )


def test_invalid_reference_is_named_in_the_error() -> None:
    with pytest.raises(
        InvalidSchemaError, match="the reference shop is invalid: the schema is not"
    ):
        parse(SchemaKind.AVRO, '"int"', {"shop": "{"})


@pytest.mark.parametrize("kind", SchemaKind)
def test_format_that_a_kind_has_not_stands_for_the_canonical_text(kind: SchemaKind) -> None:
    text = (
        'syntax = "proto3"; message M { }' if kind is SchemaKind.PROTOBUF else '{"type": "string"}'
    )
    schema = parse(kind, text, {})
    assert schema.formatted("anything") == schema.formatted("") == schema.canonical != text


def test_place_of_an_incompatibility_is_a_pointer_into_the_readers_schema() -> None:
    def nested(type_: str) -> object:
        inner = {
            "type": "record",
            "name": "I",
            "fields": [field({"type": "array", "items": type_})],
        }
        return record({"name": "a", "type": "int"}, {"name": "b", "type": ["null", inner]})

    [found] = avro(nested("int")).incompatibilities(avro(nested("string")))
    assert found.description == (
        "The reader schema is missing a type inside a union field at path '/fields/1/type/1' in"
        " the writer schema"
    )
    [found] = avro(record(field(FIXED))).incompatibilities(
        avro(record(field({**FIXED, "size": 2})))
    )
    assert "at path '/fields/0/type/size' in" in found.description
    assert found.additional_info == "expected: 2, found: 1"
