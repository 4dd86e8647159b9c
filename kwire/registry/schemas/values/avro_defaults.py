"""Defaults of a reader's schema as fastavro would read them from bytes.

fastavro itself gives the default of a field as it stands in the schema: the text of bytes, and the
number of a date.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from kwire.registry.schemas.values.avro_values import AvroValues, is_named, name_of


def with_read_defaults(schema: Any, named: Mapping[str, Any], *, names_branches: bool) -> Any:  # noqa: ANN401 - JSON
    """A copy of a parsed schema, whose defaults are values.

    Raises CannotEncode for a default that is not of its field's type.
    """
    found, types = copy.deepcopy((schema, dict(named)))
    defaults = AvroValues(types, of_defaults=True)
    changed: set[int] = set()
    for record in _records(found, types):
        for field in record["fields"]:
            if "default" in field and id(field) not in changed:
                changed.add(id(field))
                value = defaults.value(field["default"], field["type"], f"$.{field['name']}")
                field["value"] = _as_read(value, field["type"], types, names_branches)
    for record in _records(found, types):
        for field in record["fields"]:
            if "value" in field:
                field["default"] = field.pop("value")
    return found


def _records(schema: Any, named: Mapping[str, Any]) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - JSON
    """The records of a schema, each once."""
    seen: set[int] = set()
    waiting = [schema, *named.values()]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict) and id(each) not in seen:
            seen.add(id(each))
            if each.get("type") in ("record", "error"):
                yield each
                waiting += [field["type"] for field in each["fields"]]
            else:
                waiting += [each[name] for name in ("type", "items", "values") if name in each]
            waiting += each.get("__named_schemas", {}).values()


def _as_read(value: Any, schema: Any, named: Mapping[str, Any], names: bool) -> Any:  # noqa: ANN401 - JSON
    """A value that could be written, as it would be read.  `names`: a branch of a union with
    several named types has its name."""
    if isinstance(schema, list):
        name, inner = value
        by_name = {name_of(each): each for each in schema}
        found = _as_read(inner, by_name[name], named, names)
        several = sum(is_named(each, named) for each in schema) > 1
        return (name, found) if names and several and is_named(by_name[name], named) else found
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if isinstance(schema, str):
        return value
    kind = schema["type"]
    if not isinstance(kind, str) or kind in named:
        return _as_read(value, kind, named, names)
    match kind:
        case "record" | "error":
            types = {field["name"]: field["type"] for field in schema["fields"]}
            return {each: _as_read(value[each], types[each], named, names) for each in value}
        case "array":
            return [_as_read(each, schema["items"], named, names) for each in value]
        case "map":
            return {
                each: _as_read(inner, schema["values"], named, names)
                for each, inner in value.items()
            }
    return _logical(value, schema, kind)


def _logical(value: Any, schema: dict[str, Any], kind: str) -> Any:  # noqa: ANN401 - JSON
    from fastavro.read import LOGICAL_READERS

    reader = LOGICAL_READERS.get(f"{kind}-{schema.get('logicalType')}")
    return value if reader is None else reader(value, schema, None)
