"""JSON records, checked against their schema."""

from __future__ import annotations

import json

import pytest

from kwire.registry.schemas.kinds import SchemaKind
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode
from kwire.registry.schemas.values.record_schema import RecordSchema

ORDER = {
    "$id": "http://example.com/order.json",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "customer": {"$ref": "customer.json"},
        "code": {"type": "string", "pattern": "^[A-Z]+$"},
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "required": ["id"],
}
CUSTOMER = {"type": "object", "properties": {"name": {"type": "string"}}}


def schema_of(schema: object, *references: tuple[str, object]) -> RecordSchema:
    texts = [(name, json.dumps(each)) for name, each in references]
    return RecordSchema(SchemaKind.JSON, json.dumps(schema), texts)


@pytest.fixture
def order() -> RecordSchema:
    return schema_of(ORDER, ("customer.json", CUSTOMER))


def test_valid_data_become_json_and_the_same_data_again(order: RecordSchema) -> None:
    data: Data = {"id": 7, "customer": {"name": "Ädä"}, "code": "AB", "x-a": "b", "more": [1.5]}
    raw = order.encoded(data)
    assert raw.startswith(b'{"id":7,"customer":{"name":"\xc3\x84d')
    assert order.decoded(raw) == data
    assert order.record_name() == "Order"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, r"^\$: 'id' is a required property"),
        ({"id": 0}, r"^\$\.id: 0 is less than the minimum of 1"),
        ({"id": 1, "customer": {"name": 7}}, r"^\$\.customer\.name: 7 is not of type 'string'"),
        ({"id": 1, "code": "ab"}, r"^\$\.code: does not match .*: 'ab'"),
        ({"id": 1, "x-a": 7}, "is not of type 'string'"),
        ([], "is not of type 'object'"),
        ({"id": "x" * 10_000}, r"x \.\.\.$"),
        ({"id": 1, "n": float("nan")}, "not JSON"),
        ({"id": 1, "n": "\ud800"}, "not JSON"),
    ],
)
def test_invalid_data_are_refused_with_their_place(
    order: RecordSchema, data: Data, message: str
) -> None:
    with pytest.raises(CannotEncode, match=message):
        order.encoded(data)


def test_data_are_written_unchecked_where_that_is_asked_for(order: RecordSchema) -> None:
    assert order.encoded({"id": "x"}, checks=False) == b'{"id":"x"}'


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": 7}, "JSON Schema is invalid"),
        ({"$ref": "missing.json"}, "refers to what is not there"),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "refers to what is not there"),
        ({"$ref": "#"}, "nested too deeply"),
        ({"pattern": "(?=a)b"}, "cannot be checked in a time that has a bound"),
    ],
)
def test_schema_that_cannot_be_applied_is_reported(schema: object, message: str) -> None:
    with pytest.raises(CannotEncode, match=message):
        schema_of(schema).encoded("ab")


def test_text_that_is_no_json_is_no_schema() -> None:
    with pytest.raises(CannotEncode, match="not JSON"):
        RecordSchema(SchemaKind.JSON, "{").encoded({})


def test_expensive_pattern_takes_a_time_that_grows_with_the_text() -> None:
    schema = schema_of({"pattern": "^(a+)+$"})
    with pytest.raises(CannotEncode, match="does not match"):  # Python's re would take years
        schema.encoded("a" * 20_000 + "b")


@pytest.mark.parametrize("raw", [b"{", b"", b"\xff", b"NaN", b"[" * 100_000])
def test_bytes_that_are_no_json_are_refused(raw: bytes) -> None:
    with pytest.raises(CannotDecode):
        schema_of({}).decoded(raw)
