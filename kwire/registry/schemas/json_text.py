"""JSON of schemas: read within limits, and written without white space."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn, TypeAlias

from kwire.registry.schemas.kinds import InvalidSchemaError

Json: TypeAlias = Any
"""What `json.loads` returns.  Each use looks at the type."""

NESTED_MAX: Final = 100
"""Levels of arrays and objects.  All that reads a document calls itself for each level, which takes
up to five calls, and Python allows a thousand."""


def document(text: str) -> Json:
    """The JSON of a text.  Raises InvalidSchemaError if it is none, or nested too deeply."""
    try:
        found = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # also a number with thousands of digits
        raise InvalidSchemaError(f"the schema is not JSON: {error}") from None
    level = [found]
    for _ in range(NESTED_MAX):
        level = [each for node in level for each in _below(node)]
        if not level:
            return found
    raise _too_deep()


def compact(value: Json, *, is_sorted: bool = False) -> str:
    """The text of JSON without white space; with the keys in order if `is_sorted`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=is_sorted)


def _below(node: Json) -> list[Json]:
    """The arrays and objects directly inside a value."""
    if isinstance(node, dict):
        return [each for each in node.values() if isinstance(each, dict | list)]
    if isinstance(node, list):
        return [each for each in node if isinstance(each, dict | list)]
    return []


def _too_deep() -> InvalidSchemaError:
    return InvalidSchemaError(f"the schema has more than {NESTED_MAX} nested levels")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number
