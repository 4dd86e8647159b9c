"""Hostile schemas end in an error, or are accepted, in bounded time and memory.

Time is counted in steps that the code itself limits, and not with a clock: each limit has a test
that shows it, and what has none takes one pass over a text of limited size.
"""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Callable

import pytest

from kwire.registry.schemas.kinds import InvalidSchemaError, ParsedSchema, SchemaKind
from kwire.registry.schemas.pairs import TOO_COMPLEX
from kwire.registry.schemas.parsing import (
    REFERENCES_BYTES_MAX,
    REFERENCES_MAX,
    TEXT_BYTES_MAX,
    parse,
)
from tests.registry.schemas.pairs import avro, json_schema, protobuf

MIB = 1024 * 1024


@pytest.mark.parametrize("kind", SchemaKind)
def test_schema_of_10_mb_is_refused_without_being_read(kind: SchemaKind) -> None:
    text = '"' + "x" * (10 * MIB) + '"'
    tracemalloc.start()
    try:
        with pytest.raises(InvalidSchemaError, match="more than 1,000,000 are not accepted"):
            parse(kind, text, {})
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", SchemaKind)
def test_limit_counts_bytes_and_not_characters(kind: SchemaKind) -> None:
    with pytest.raises(InvalidSchemaError, match="are not accepted"):
        parse(kind, "ü" * (TEXT_BYTES_MAX // 2 + 1), {})


@pytest.mark.parametrize("kind", SchemaKind)
def test_too_many_or_too_long_references_are_refused(kind: SchemaKind) -> None:
    with pytest.raises(InvalidSchemaError, match="more than 1,000 schemas"):
        parse(kind, '"int"', {str(number): "" for number in range(REFERENCES_MAX + 1)})
    half = "x" * (REFERENCES_BYTES_MAX // 2 + 1)
    with pytest.raises(InvalidSchemaError, match="have more than"):
        parse(kind, '"int"', {"a": half, "b": half})


@pytest.mark.parametrize("kind", SchemaKind)
@pytest.mark.parametrize("text", ["", " \n\t", "\x00", "\ud800", '{"a": "\ud800"}', "\ufeff{}"])
def test_text_without_a_schema_is_refused(kind: SchemaKind, text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse(kind, text, {})


@pytest.mark.parametrize(
    "text", [r'{"title": "\ud800"}', r'{"enum": ["\udc00"]}', r'{"properties": {"\ud800": {}}}']
)
def test_half_of_a_surrogate_pair_in_an_escape_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchemaError, match="UTF-8"):
        parse(SchemaKind.JSON, text, {})


@pytest.mark.parametrize("kind", [SchemaKind.AVRO, SchemaKind.JSON])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 400_000,
        '{"items":' * 100_000,
        '{"type":"array","items":' * 40_000 + '"int"' + "}" * 40_000,
        '{"not":' * 100 + "{}" + "}" * 100,
        "[" * 300 + "]" * 300,
        '{"a":' + "9" * 100_000 + "}",
        '{"maximum": 1e999}',
        '{"maximum": NaN}',
        '{"maximum": -Infinity}',
        "{" * 1000,
        '"' + "\\" * 9999,
    ],
    ids=range(11),
)
def test_json_that_is_nested_too_deeply_or_damaged_is_refused(kind: SchemaKind, text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse(kind, text, {})


@pytest.mark.parametrize(
    "text",
    [
        "message M {" * 5_000,
        "message M {" * 31 + "}" * 31,
        "option a = " + "{a:" * 5_000,
        "option a = " + "[" * 5_000,
        "message M { optional group G = 1 {" + "optional group G = 1 {" * 5_000,
        "/*" * 400_000,
        "/*" + "*" * 800_000,
        '"' * 100_001,
        '"' + "\\" * 800_000,
        "a." * 400_000,
        "message M { string a = " + "9" * 800_000,
        "message M { reserved " + "1," * 50_000,
        "import " * 20_000,
        "((" * 50_000,
    ],
    ids=range(14),
)
def test_protobuf_that_is_nested_too_deeply_or_damaged_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        protobuf(text)


def test_serialized_descriptor_that_is_nested_too_deeply_is_refused() -> None:
    inner = b""
    for _ in range(200):  # a message with the name M, in the field of nested messages
        inner = b"\x0a\x01M" + b"\x1a" + _length(inner) + inner
    file = b"\x0a\x01f" + b"\x22" + _length(inner) + inner
    with pytest.raises(InvalidSchemaError):
        protobuf(base64.b64encode(file).decode())


def _length(raw: bytes) -> bytes:
    size = len(raw)
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def test_json_schemas_that_refer_to_each_other_are_compared_to_an_end() -> None:
    """Each of 40 definitions refers to all of them: 40 factorial ways through them."""
    names = [f"d{number}" for number in range(40)]

    def schema(type_: str) -> object:
        properties = {name: {"$ref": f"#/definitions/{name}"} for name in names}
        node = {"type": "object", "properties": {**properties, "v": {"type": type_}}}
        return {**node, "definitions": dict.fromkeys(names, node)}

    old = json_schema(schema("integer"))
    assert json_schema(schema("number")).incompatibilities(old) == []
    assert json_schema(schema("string")).incompatibilities(old) != []


def test_choices_with_many_members_are_too_complex_to_be_compared() -> None:
    choice = {"anyOf": [{"type": "string", "maxLength": n} for n in range(400)]}
    other = {"anyOf": [{"type": "string", "minLength": n} for n in range(1, 400)]}
    [found] = json_schema(other).incompatibilities(json_schema(choice))
    assert found.error_type == "TOO_COMPLEX"


def test_unions_with_many_members_are_too_complex_to_be_compared() -> None:
    def union(size_bytes: int) -> object:
        return [{"type": "fixed", "name": f"F{n}", "size": size_bytes} for n in range(400)]

    [found] = avro(union(2)).incompatibilities(avro(union(1)))
    assert found.error_type == "TOO_COMPLEX"


def chain(length: int, end: str) -> object:
    """Definitions of which each refers to the next one."""
    links = {
        f"d{number}": {
            "type": "object",
            "properties": {"p": {"$ref": f"#/definitions/d{number + 1}"}},
        }
        for number in range(length)
    }
    return {"$ref": "#/definitions/d0", "definitions": {**links, f"d{length}": {"type": end}}}


def test_long_chain_of_references_is_too_complex_to_be_compared() -> None:
    [found] = json_schema(chain(5_000, "string")).incompatibilities(
        json_schema(chain(5_000, "number"))
    )
    assert found.error_type == "TOO_COMPLEX"
    [found] = json_schema(chain(70, "string")).incompatibilities(json_schema(chain(70, "number")))
    assert found.error_type == "TYPE_CHANGED"


DEEP_STACK = 250
"""Calls of a server around the registry; trio and the HTTP server make fewer than a hundred."""


def below_calls(count: int, work: Callable[[], None]) -> None:
    """Do something with so many calls around it."""
    if count:
        below_calls(count - 1, work)
    else:
        work()


@pytest.mark.parametrize(
    ("start", "end", "levels"),
    [
        ('{"type":"array","items":', "}", 99),
        ('{"not":', "}", 99),
        ('{"if":', "}", 99),
        ('{"type":["array"],"items":', "}", 99),
        ('{"type":"object","properties":{"p":', "}}", 49),
        ('{"type":"object","patternProperties":{"p":', "}}", 49),
        ('{"type":"object","additionalProperties":', "}", 99),
        ('{"type":"array","items":[', "]}", 49),
        ('{"allOf":[', "]}", 49),
        ('{"anyOf":[{},', "]}", 49),
        ('{"type":"object","dependencies":{"p":', "}}", 49),
    ],
)
def test_json_schema_nested_to_the_limit_is_read_and_compared_below_many_calls(
    start: str, end: str, levels: int
) -> None:
    def work() -> None:
        schema = parse(SchemaKind.JSON, start * levels + "{}" + end * levels, {})
        assert [e.error_type for e in schema.incompatibilities(schema)] in ([], ["TOO_COMPLEX"])
        assert len(schema.normalized()) == len(schema.canonical)

    below_calls(DEEP_STACK, work)


def test_avro_schema_nested_to_the_limit_is_read_and_compared_below_many_calls() -> None:
    def work() -> None:
        array = '{"type":"array","items":' * 100 + '"int"' + "}" * 100
        for text in (array, nested_records(33)):
            schema = parse(SchemaKind.AVRO, text, {})
            assert schema.incompatibilities(schema) in ([], [TOO_COMPLEX])
            assert parse(SchemaKind.AVRO, schema.normalized(), {}).canonical == schema.canonical

    below_calls(DEEP_STACK, work)


def nested_records(levels: int) -> str:
    """Records inside each other, each three levels of JSON."""
    text = '"int"'
    for number in range(levels):
        text = f'{{"type":"record","name":"R{number}","fields":[{{"name":"f","type":{text}}}]}}'
    return text


def test_protobuf_schema_nested_to_the_limit_is_read_and_compared_below_many_calls() -> None:
    def work() -> None:
        text = 'syntax = "proto2";' + "message M {" * 30 + "}" * 30
        schema = protobuf(text)
        assert schema.incompatibilities(schema) == []
        assert protobuf(schema.normalized()).canonical == schema.canonical

    below_calls(DEEP_STACK, work)


def test_long_chain_of_named_types_is_too_complex_to_be_compared() -> None:
    def union(length: int, end: str) -> object:
        first = {"type": "record", "name": "R0", "fields": [{"name": "f", "type": end}]}
        return [
            first,
            *(
                {"type": "record", "name": f"R{n}", "fields": [{"name": "f", "type": f"R{n - 1}"}]}
                for n in range(1, length)
            ),
        ]

    def last(length: int, end: str) -> ParsedSchema:
        name = f"R{length - 1}"
        references = json.dumps(union(length, end))
        return parse(SchemaKind.AVRO, json.dumps({"type": "array", "items": name}),
                     {"all": references})  # fmt: skip

    old, new = last(3_000, "int"), last(3_000, "string")
    [found] = new.incompatibilities(old)
    assert found.error_type == "TOO_COMPLEX"


@pytest.mark.parametrize(("length", "is_accepted"), [(200, True), (201, False)])
def test_files_that_import_one_another_in_a_row_are_accepted_up_to_a_limit(
    length: int, is_accepted: bool
) -> None:
    head = 'syntax = "proto3"; '
    references = {f"f{n}.proto": f'{head} import "f{n + 1}.proto";' for n in range(1, length)}
    references[f"f{length}.proto"] = head

    def work() -> None:
        if is_accepted:
            protobuf(f'{head} import "f1.proto";', references)
        else:
            with pytest.raises(InvalidSchemaError, match="more than 200 files"):
                protobuf(f'{head} import "f1.proto";', references)

    below_calls(DEEP_STACK, work)


def test_definition_that_is_used_everywhere_does_not_multiply_the_differences() -> None:
    """Each level has the one below twice: 2 to the power of 60 differences without a limit."""

    def schema(type_: str) -> object:
        levels = {
            f"l{n}": {
                "type": "object",
                "properties": {side: {"$ref": f"#/definitions/l{n + 1}"} for side in "ab"},
            }
            for n in range(60)
        }
        return {"$ref": "#/definitions/l0", "definitions": {**levels, "l60": {"type": type_}}}

    found = json_schema(schema("string")).incompatibilities(json_schema(schema("number")))
    assert len(found) == 100


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*$", "(x{1000}){1000}", "(" * 5_000, "a{99999999}", "[" * 4_000,
     "(?:a*)*" * 500, "(?=(a+)+$)", "x" * 12_000],
)  # fmt: skip
def test_expensive_pattern_is_refused_or_compared_without_being_applied_by_backtracking(
    pattern: str,
) -> None:
    def schema(**properties: object) -> object:
        return {
            "type": "object",
            "properties": properties,
            "patternProperties": {pattern: {"type": "string"}},
            "additionalProperties": False,
        }

    try:
        old = json_schema(schema(**{"a" * 200 + "!": {"type": "string"}}))
    except InvalidSchemaError:
        return
    for found in json_schema(schema()).incompatibilities(old):
        assert "PROPERTY_REMOVED" in found.error_type


def test_schema_with_many_patterns_is_refused() -> None:
    """Compiling one takes up to 6 ms."""
    patterns = {f"^a{number}": {"type": "string"} for number in range(501)}
    with pytest.raises(InvalidSchemaError, match="more than 500 patterns"):
        json_schema({"patternProperties": patterns})
    with pytest.raises(InvalidSchemaError, match="more than 500 patterns"):
        json_schema({"anyOf": [{"pattern": each} for each in patterns]})
    assert json_schema({"anyOf": [{"pattern": "^a"}] * 501}).canonical


def test_many_properties_beside_many_patterns_are_too_complex_to_be_compared() -> None:
    patterns = {f"^a{number}$": {"type": "string"} for number in range(500)}

    def schema(count: int) -> object:
        properties = {f"p{number}": True for number in range(count)}
        return {"properties": properties, "patternProperties": patterns}

    [found] = json_schema(schema(0)).incompatibilities(json_schema(schema(500)))
    assert found.error_type == "TOO_COMPLEX"


BIG: dict[str, Callable[[], object]] = {
    "object": lambda: {"properties": {f"p{n}": {"type": "string"} for n in range(10_000)}},
    "record": lambda: {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{n}", "type": "int"} for n in range(8_000)],
    },
}


@pytest.mark.slow
def test_large_schemas_are_read_and_compared() -> None:
    objects = json_schema(BIG["object"]())
    assert objects.incompatibilities(json_schema(BIG["object"]())) == []
    records = avro(BIG["record"]())
    assert records.incompatibilities(avro(BIG["record"]())) == []
    fields = "".join(f"string f{n} = {n};\n" for n in range(1, 1_000))
    messages = "".join(f"message M{n} {{ {fields} }}" for n in range(8))
    file = protobuf(f'syntax = "proto3"; {messages}')
    assert file.incompatibilities(file) == []


def test_message_with_more_fields_than_the_runtime_takes_is_refused() -> None:
    fields = "".join(f"string f{n} = {n};\n" for n in range(1, 5_000))
    with pytest.raises(InvalidSchemaError, match="size exceeded maximum"):
        protobuf(f'syntax = "proto3"; message M {{ {fields} }}')
