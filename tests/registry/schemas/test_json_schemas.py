"""Schemas of JSON Schema: what is accepted, and the text under which they are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from kwire.registry.schemas.kinds import InvalidSchemaError, SchemaKind
from kwire.registry.schemas.parsing import parse
from tests.registry.schemas.pairs import json_schema

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def test_canonical_text_keeps_the_order_and_drops_spaces() -> None:
    text = '{ "type" : "object",\n "properties" : { "b" : true, "a" : {"title": "grüße"} } }'
    schema = parse(SchemaKind.JSON, text, {})
    assert schema.canonical == ('{"type":"object","properties":{"b":true,"a":{"title":"grüße"}}}')
    assert schema.normalized() == (
        '{"properties":{"a":{"title":"grüße"},"b":true},"type":"object"}'
    )


@pytest.mark.parametrize("text", ["true", "false", "{}"])
def test_schema_that_accepts_all_or_nothing_is_a_schema(text: str) -> None:
    assert parse(SchemaKind.JSON, text, {}).canonical == text


VALID = [
    {"type": "integer", "minimum": 1.5, "multipleOf": 0.1},
    {"type": ["null", "string"], "maxLength": 3, "minLength": 0, "pattern": "^a+$"},
    {"pattern": "^(?!x)(?=y)(a)\\1\\u00e9.{1,2000}(?<!z)$"},
    {"enum": [1, None, "x", {"a": []}]},
    {"const": None},
    {"items": [{"type": "string"}, True], "additionalItems": False, "uniqueItems": True},
    {"items": {"type": "string"}, "contains": {"const": 1}, "maxItems": 2.0},
    {"properties": {"a": {}}, "required": ["a", "b"], "dependencies": {"a": ["b"], "b": {}}},
    {"patternProperties": {"^a": False}, "propertyNames": {"maxLength": 3}},
    {"if": {"type": "string"}, "then": {"minLength": 1}, "else": False},
    {"allOf": [{}], "anyOf": [True], "oneOf": [{"not": {"type": "null"}}]},
    {"$schema": DRAFT_2020, "prefixItems": [{}], "items": False, "dependentRequired": {"a": ["b"]}},
    {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#"}}},
    {"unknown": {"type": 17}, "format": "anything"},
]
INVALID: list[Any] = [
    {"type": "text"},
    {"type": 17},
    {"type": ["string", "text"]},
    {"type": []},
    {"minLength": -1},
    {"minLength": "1"},
    {"maxItems": 1.5},
    {"maxProperties": True},
    {"minimum": "1"},
    {"multipleOf": 0},
    {"multipleOf": -2},
    {"pattern": "("},
    {"pattern": 1},
    {"required": "a"},
    {"required": [1]},
    {"enum": "a"},
    {"uniqueItems": 1},
    {"properties": []},
    {"properties": {"a": 1}},
    {"patternProperties": {"(": {}}},
    {"additionalProperties": "no"},
    {"items": 3},
    {"items": [3]},
    {"allOf": {}},
    {"anyOf": [1]},
    {"not": "a"},
    {"if": 1},
    {"contains": 1},
    {"propertyNames": []},
    {"dependencies": {"a": [1]}},
    {"dependencies": []},
    {"title": 1},
    {"description": None},
    {"$ref": 1},
    {"properties": {"a": {"items": {"type": "text"}}}},
    17,
    "text",
    [],
    None,
]


@pytest.mark.parametrize("value", VALID)
def test_valid_schema_is_accepted_as_by_the_meta_schema(value: dict[str, object]) -> None:
    validator_for(value, default=Draft7Validator).check_schema(value)
    assert json.loads(json_schema(value).canonical) == value


@pytest.mark.parametrize("value", INVALID)
def test_invalid_schema_is_refused_as_by_the_meta_schema(
    value: Any,  # noqa: ANN401 - any JSON
) -> None:
    if value not in ({"pattern": "("}, {"patternProperties": {"(": {}}}):  # formats, not checked
        with pytest.raises(SchemaError):
            Draft7Validator.check_schema(value)
    with pytest.raises(InvalidSchemaError):
        json_schema(value)


def test_first_items_of_draft_2020_must_be_a_list() -> None:
    with pytest.raises(InvalidSchemaError):
        json_schema({"$schema": DRAFT_2020, "type": "array", "prefixItems": [7]})


@pytest.mark.parametrize(
    ("reference", "rest"),
    [
        ("#/definitions/a", {"definitions": {"a": {"type": "string"}}}),
        ("#/definitions/a~1b%25", {"definitions": {"a/b%": {"type": "string"}}}),
        ("#/parts/0", {"parts": [{"type": "string"}]}),
        ("#named", {"definitions": {"a": {"$id": "#named", "type": "string"}}}),
        ("a.json", {"definitions": {"a": {"$id": "a.json", "type": "string"}}}),
        (
            "http://example.com/b/a.json",
            {"$id": "http://example.com/b/c.json",
             "definitions": {"a": {"$id": "a.json", "type": "string"}}},
        ),
        ("c.json#/definitions/a", {"$id": "http://example.com/b/c.json",
                                   "definitions": {"a": {"type": "string"}}}),
        ("#/definitions/a", {"id": "urn:x", "definitions": {"a": {"type": "string"}}}),
    ],
)  # fmt: skip
def test_reference_inside_the_schema_is_followed(reference: str, rest: dict[str, object]) -> None:
    def schema(type_: str) -> object:
        text = json.dumps({"properties": {"p": {"$ref": reference}}, **rest})
        return json.loads(text.replace('"string"', f'"{type_}"'))

    old, same, other = (json_schema(schema(each)) for each in ("string", "string", "number"))
    assert same.incompatibilities(old) == []
    found = other.incompatibilities(old)
    assert any("#/properties/p" in each.description for each in found)


def test_reference_to_another_schema_is_found_by_its_name_or_its_id() -> None:
    other = json.dumps({"$id": "http://example.com/o.json", "definitions": {"a": {"type": "null"}}})
    for reference in ("other", "http://example.com/o.json#/definitions/a", "other#/definitions/a"):
        schema = parse(SchemaKind.JSON, json.dumps({"$ref": reference}), {"other": other})
        assert json.loads(schema.canonical) == {"$ref": reference}


def test_reference_of_a_reference_is_read_against_its_own_address() -> None:
    references = {
        "http://example.com/b.json": json.dumps({"type": "string"}),
        "http://example.com/a.json": json.dumps({"properties": {"b": {"$ref": "b.json"}}}),
    }
    text = json.dumps({"$ref": "http://example.com/a.json"})
    old = parse(SchemaKind.JSON, text, references)
    references["http://example.com/b.json"] = json.dumps({"type": "number"})
    [found] = parse(SchemaKind.JSON, text, references).incompatibilities(old)
    assert found.error_type == "TYPE_CHANGED"


@pytest.mark.parametrize(
    "reference",
    ["other.json", "#/definitions/missing", "#missing", "#/allOf/7", "http://[", "urn:x", "#/a~2"],
)
def test_reference_to_what_is_not_there_is_refused(reference: str) -> None:
    with pytest.raises(InvalidSchemaError, match="which is not there"):
        json_schema({"properties": {"a": {"$ref": reference}}, "allOf": [{}]})


def test_schema_may_refer_to_the_schema_of_schemas() -> None:
    schema = json_schema({"$ref": "http://json-schema.org/draft-07/schema#"})
    assert schema.incompatibilities(schema) == []


def test_references_that_go_in_a_circle_accept_everything() -> None:
    circle = {"$ref": "#/definitions/a", "definitions": {
        "a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}}  # fmt: skip
    assert json_schema(circle).incompatibilities(json_schema({"type": "string"})) == []


def test_keywords_beside_a_reference_count_since_draft_2019() -> None:
    def schema(**rest: object) -> object:
        return {"$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}, **rest}

    old = json_schema(schema())
    assert json_schema(schema(maxLength=3)).incompatibilities(old) == []
    modern = {"$schema": DRAFT_2020}
    [found] = json_schema(schema(maxLength=3, **modern)).incompatibilities(
        json_schema(schema(**modern))
    )
    assert found.error_type == "TYPE_CHANGED"


def test_pattern_that_looks_around_covers_no_property() -> None:
    def schema(*names: str) -> object:
        return {
            "type": "object",
            "properties": {name: {"type": "string"} for name in names},
            "patternProperties": {"^(?!x)": {"type": "string"}},
            "additionalProperties": False,
        }

    [found] = json_schema(schema()).incompatibilities(json_schema(schema("a")))
    assert found.error_type == "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
