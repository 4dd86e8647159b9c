"""Random schemas, what becomes of them in a next version, and random records of them.

A next version is made by a few changes, so that it is often compatible; whether it is, the registry
has to say.
"""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

Json: TypeAlias = Any

# -- Avro

AVRO_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
WIDER = {"int": "long", "long": "float", "float": "double", "string": "bytes", "bytes": "string"}
SYMBOLS = ("A", "B", "C")


def avro_schema(rng: Random, name: str = "T", depth: int = 3) -> Json:
    """A schema whose named types have names of their places."""
    kind = rng.choice(
        ("primitive", "enum", "fixed")
        if depth == 0
        else ("primitive", "enum", "fixed", "array", "map", "union", "record", "record")
    )
    match kind:
        case "primitive":
            return rng.choice(AVRO_PRIMITIVES)
        case "enum":
            symbols = rng.sample(SYMBOLS, rng.randint(1, 3))
            default = {"default": symbols[0]} if rng.random() < 0.3 else {}
            return {"type": "enum", "name": f"{name}E", "symbols": symbols, **default}
        case "fixed":
            return {"type": "fixed", "name": f"{name}F", "size": rng.choice((2, 4))}
        case "array":
            return {"type": "array", "items": avro_schema(rng, f"{name}I", depth - 1)}
        case "map":
            return {"type": "map", "values": avro_schema(rng, f"{name}V", depth - 1)}
        case "union":
            return list(rng.sample(AVRO_PRIMITIVES, rng.randint(1, 3)))
    fields = [avro_field(rng, name, each, depth) for each in rng.sample("abcd", rng.randint(0, 3))]
    return {"type": "record", "name": f"{name}R", "fields": fields}


def avro_field(rng: Random, record: str, name: str, depth: int) -> Json:
    """A field of a record; some ints have a default."""
    if rng.random() < 0.4:
        return {"name": name, "type": "int", "default": 7}
    return {"name": name, "type": avro_schema(rng, f"{record}_{name}", depth - 1)}


def avro_next(rng: Random, schema: Json, name: str = "T") -> Json:
    """A next version of a schema."""
    if rng.random() < 0.05:
        return avro_schema(rng, name, 1)
    if isinstance(schema, str):
        if rng.random() < 0.2:
            return WIDER.get(schema, schema)
        return ["null", schema] if rng.random() < 0.1 and schema != "null" else schema
    if isinstance(schema, list):
        return _avro_union_next(rng, schema)
    found = dict(schema)
    match schema["type"]:
        case "array":
            found["items"] = avro_next(rng, schema["items"], f"{name}I")
        case "map":
            found["values"] = avro_next(rng, schema["values"], f"{name}V")
        case "enum" if rng.random() < 0.3:
            found["symbols"] = rng.sample(SYMBOLS, rng.randint(1, 3))
            found.pop("default", None)
            if rng.random() < 0.5:
                found["default"] = found["symbols"][0]
        case "record":
            found["fields"] = _avro_fields_next(rng, schema["fields"], name)
    return found


def _avro_union_next(rng: Random, schema: list[Json]) -> Json:
    branches = list(schema)
    if rng.random() < 0.3:
        branches += [each for each in rng.sample(AVRO_PRIMITIVES, 1) if each not in branches]
    if rng.random() < 0.2 and len(branches) > 1:
        branches.pop()
    if rng.random() < 0.2:
        branches.reverse()
    return branches[0] if len(branches) == 1 and rng.random() < 0.3 else branches


def _avro_fields_next(rng: Random, fields: list[Json], name: str) -> list[Json]:
    kept = [each for each in fields if rng.random() < 0.9]
    found = [{**e, "type": avro_next(rng, e["type"], f"{name}_{e['name']}")} for e in kept]
    for each in found:
        if each["type"] != "int":
            each.pop("default", None)
    if rng.random() < 0.3:
        found.append({"name": "e", "type": "string", "default": "new"})
    if rng.random() < 0.05:
        found.append({"name": "f", "type": "string"})
    rng.shuffle(found)
    return found


def avro_value(rng: Random, schema: Json) -> Any:  # noqa: ANN401 - any value of Avro
    """A value of a schema."""
    if isinstance(schema, list):
        return avro_value(rng, rng.choice(schema))
    if isinstance(schema, str):
        return _avro_primitive(rng, schema)
    match schema["type"]:
        case "array":
            return [avro_value(rng, schema["items"]) for _ in range(rng.randint(0, 2))]
        case "map":
            return {key: avro_value(rng, schema["values"]) for key in "xy"[: rng.randint(0, 2)]}
        case "enum":
            return rng.choice(schema["symbols"])
        case "fixed":
            return b"z" * schema["size"]
    return {each["name"]: avro_value(rng, each["type"]) for each in schema["fields"]}


def _avro_primitive(rng: Random, kind: str) -> object:
    match kind:
        case "null":
            return None
        case "boolean":
            return rng.random() < 0.5
        case "int" | "long":
            return rng.randint(-1000, 1000)
        case "float" | "double":
            return rng.randint(-1000, 1000) / 4
        case "bytes":
            return b"bytes"
    return rng.choice(("", "text"))


# -- Protobuf

PROTO_SCALARS = (
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "float", "double", "bool", "string", "bytes",
)  # fmt: skip
PROTO_TYPES = (*PROTO_SCALARS, "E", "N")
Fields: TypeAlias = "dict[int, tuple[str, str]]"
"""Number -> label and type; the label of a member of the oneof is `oneof`."""


def proto_fields(rng: Random) -> Fields:
    """The fields of a message."""
    return {number: _proto_field(rng) for number in rng.sample(range(1, 9), rng.randint(1, 5))}


def _proto_field(rng: Random) -> tuple[str, str]:
    label = rng.choice(("optional", "optional", "repeated", "oneof", "map"))
    return label, rng.choice(PROTO_TYPES)


def proto_next(rng: Random, fields: Fields) -> Fields:
    """The fields of a next version."""
    found = {number: each for number, each in fields.items() if rng.random() < 0.9}
    for number, (label, type_) in list(found.items()):
        if rng.random() < 0.2:
            found[number] = (label, rng.choice(PROTO_TYPES))
        elif rng.random() < 0.1:
            found[number] = ("oneof" if label == "optional" else "optional", type_)
    if rng.random() < 0.5:
        found.setdefault(rng.randint(1, 12), _proto_field(rng))
    return found


def proto_text(fields: Fields) -> str:
    """The text of a schema with a message of these fields."""
    lines, members = [], []
    for number, (label, type_) in fields.items():
        if label == "oneof":
            members.append(f"{type_} f{number} = {number};")
        elif label == "map":
            lines.append(f"map<string, {type_}> f{number} = {number};")
        else:
            lines.append(f"{label} {type_} f{number} = {number};")
    oneof = f"oneof o {{ {' '.join(members)} }}" if members else ""
    return (
        'syntax = "proto3"; enum E { Z = 0; Y = 1; } message N { optional int32 x = 1; }'
        f" message M {{ {' '.join(lines)} {oneof} }}"
    )


def proto_value(rng: Random, type_: str) -> Any:  # noqa: ANN401 - any value of Protobuf
    """A value of a type that all types of its kind can hold."""
    match type_:
        case "float" | "double":
            return 0.25
        case "bool":
            return True
        case "string":
            return "text"
        case "bytes":
            return b"bytes"
        case "N":
            return {"x": 3}
    return rng.choice((0, 1))


# -- JSON Schema

JSON_TYPES = ("null", "boolean", "string", "number", "array", "object")
LIMITS = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "multipleOf"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def json_schema_value(rng: Random, depth: int = 2) -> Json:
    """A schema that names the type of each part, and whose choices have different types."""
    kind = rng.random()
    if depth and kind < 0.15:
        return {rng.choice(("oneOf", "anyOf")): _choices(rng, depth)}
    if depth and kind < 0.2:
        return {"not": json_schema_value(rng, 0)}
    if kind < 0.27:
        return {"enum": rng.sample([1, 2, "a", None, True], rng.randint(1, 3))}
    return _typed(rng, rng.choice(JSON_TYPES), depth)


def _choices(rng: Random, depth: int) -> list[Json]:
    return [_typed(rng, each, depth - 1) for each in rng.sample(JSON_TYPES, rng.randint(1, 3))]


def _typed(rng: Random, type_: str, depth: int) -> Json:
    if type_ == "number" and rng.random() < 0.5:
        type_ = "integer"
    found: dict[str, Json] = {"type": type_}
    for name in LIMITS.get(type_, ()):
        if rng.random() < 0.2:
            found[name] = rng.randint(1, 4)
    if depth and type_ == "array":
        _fill_array(rng, found, depth)
    if depth and type_ == "object":
        _fill_object(rng, found, depth)
    return found


def _fill_array(rng: Random, found: dict[str, Json], depth: int) -> None:
    if rng.random() < 0.5:
        found["items"] = json_schema_value(rng, depth - 1)
    elif rng.random() < 0.6:
        found["items"] = [json_schema_value(rng, depth - 1) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.6:
            found["additionalItems"] = rng.choice((False, {"type": "string"}))
    if rng.random() < 0.2:
        found["uniqueItems"] = True


def _fill_object(rng: Random, found: dict[str, Json], depth: int) -> None:
    names = rng.sample("abc", rng.randint(0, 3))
    found["properties"] = {name: json_schema_value(rng, depth - 1) for name in names}
    if names and rng.random() < 0.3:
        found["required"] = rng.sample(names, 1)
    if rng.random() < 0.6:
        found["additionalProperties"] = rng.choice((False, False, {"type": "string"}))
    if len(names) > 1 and rng.random() < 0.2:
        found["dependencies"] = {names[0]: [names[1]]}


def json_next(rng: Random, schema: Json, depth: int = 2) -> Json:
    """A next version of a schema."""
    if rng.random() < 0.05:
        return json_schema_value(rng, depth)
    found = {
        name: _keyword_next(rng, name, value, depth)
        for name, value in schema.items()
        if not (_is_limit(value) and rng.random() < 0.3)
    }
    if "required" in found:
        found["required"] = [name for name in found["required"] if name in found["properties"]]
    return found


def _is_limit(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _keyword_next(rng: Random, name: str, value: Json, depth: int) -> Json:
    match name, value:
        case _, int() if _is_limit(value):
            return value if rng.random() < 0.7 else rng.randint(1, 4)
        case "type", "integer":
            return "number" if rng.random() < 0.3 else value
        case "properties", dict():
            return _properties_next(rng, value, depth)
        case "items" | "additionalItems" | "additionalProperties" | "not", dict():
            return json_next(rng, value, depth - 1)
        case "oneOf" | "anyOf" | "items", list():
            return [json_next(rng, each, depth - 1) for each in value]
        case "enum", list() if rng.random() < 0.3:
            return [*value, "b"]
    return value


def _properties_next(rng: Random, properties: dict[str, Json], depth: int) -> dict[str, Json]:
    found = {
        name: json_next(rng, value, depth - 1)
        for name, value in properties.items()
        if rng.random() < 0.9
    }
    if rng.random() < 0.2:
        found.setdefault("d", json_schema_value(rng, 0))
    return found


def json_value(rng: Random, depth: int = 2) -> Json:
    """Any value of JSON."""
    kind = rng.randrange(8 if depth else 6)
    match kind:
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2 | 3:
            return rng.choice((0, 1, 2, 3, 4, 2.5, 6))
        case 4 | 5:
            return rng.choice(("", "a", "b", "abc", "abcde"))
        case 6:
            return [json_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    names = rng.sample("abcde", rng.randint(0, 4))
    return {name: json_value(rng, depth - 1) for name in names}
