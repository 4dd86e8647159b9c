"""Which values a keyword of JSON Schema may have.

Source: the meta-schemas of drafts 4 to 2020-12.  They are themselves schemas, but to apply them
with the package jsonschema takes 4 to 14 s for a text of a megabyte.
"""

from __future__ import annotations

import re
from typing import Final

import re2

from kwire.registry.schemas.json_text import Json, compact
from kwire.registry.schemas.kinds import InvalidSchemaError

TYPES: Final = ("null", "boolean", "object", "array", "number", "string", "integer")

COUNTS: Final = (
    "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties",
    "maxContains", "minContains",
)  # fmt: skip
TEXTS: Final = ("$id", "$schema", "$ref", "$anchor", "$comment", "title", "description", "format")
NUMBERS: Final = ("maximum", "minimum", "multipleOf")
LIMITS_OF_DRAFT_4: Final = ("exclusiveMaximum", "exclusiveMinimum")
"""Numbers since draft 6; in draft 4 they say whether the maximum itself is allowed."""
SHOWN_MAX: Final = 80
PATTERN_CHARACTERS_MAX: Final = 10_000
PATTERN_BYTES_MAX: Final = 2**18
"""Memory of a compiled pattern, which takes up to 6 ms to compile with this limit."""
LOOKING: Final = re.compile(r"\(\?(?:<?[=!]|>)")
"""What looks ahead or back, and groups that are not tried again."""
ESCAPED: Final = re.compile(r"\\(?:([1-9]|k<\w+>|u[0-9a-fA-F]{4}|c[A-Za-z])|.)", re.DOTALL)
COUNTED: Final = re.compile(r"\{\d{1,9}(?:,\d{0,9})?\}")
"""How often something is repeated; RE2 counts to a thousand."""


def check_keywords(schema: dict[str, Json]) -> None:
    """Raise InvalidSchemaError if a keyword has a value that it cannot have.

    Those whose values are schemas are checked where these are read.
    """
    for name in schema:
        if name in _CHECKED and not _is_valid(name, schema[name]):
            raise invalid(name, schema[name])


def invalid(name: str, value: Json) -> InvalidSchemaError:
    """An error that says what a keyword cannot have."""
    return InvalidSchemaError(f'"{name}" cannot be {compact(value)[:SHOWN_MAX]}')


def _is_valid(name: str, value: Json) -> bool:
    if name in COUNTS:
        return is_count(value)
    if name in TEXTS:
        return isinstance(value, str)
    if name in NUMBERS:
        return is_number(value) and (name != "multipleOf" or value > 0)
    if name in LIMITS_OF_DRAFT_4:
        return is_number(value) or isinstance(value, bool)
    match name:
        case "required":
            return _is_list_of_names(value)
        case "enum":
            return isinstance(value, list)
        case "uniqueItems":
            return isinstance(value, bool)
        case "pattern":
            return isinstance(value, str) and is_pattern(value)
        case "patternProperties":
            return isinstance(value, dict) and all(map(is_pattern, value))
    return _is_type(value)


def _is_type(value: Json) -> bool:
    types = value if isinstance(value, list) and value else [value]
    return all(isinstance(each, str) and each in TYPES for each in types)


def _is_list_of_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def is_number(value: Json) -> bool:
    """Whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Json) -> bool:
    """Whether a value is a whole number from 0 on; 2.0 is one too."""
    return is_number(value) and value >= 0 and int(value) == value


def is_pattern(text: str) -> bool:
    """Whether a text is a regular expression.

    What RE2 has not, such as expressions that look around themselves, is valid all the same: the
    rest of the text is checked, and the pattern is never applied to anything.
    """
    if len(text) > PATTERN_CHARACTERS_MAX:
        return False
    return compiled(text) is not None or compiled(_without_rare_forms(text)) is not None


def _without_rare_forms(pattern: str) -> str:
    """A pattern with groups for what looks around, and a letter for what RE2 does not escape."""
    plain = ESCAPED.sub(lambda found: found[0] if found[1] is None else "a", pattern)
    return COUNTED.sub("{1}", LOOKING.sub("(?:", plain))


def compiled(pattern: str) -> re2._Regexp[str] | None:
    """A pattern that takes time in proportion to what it is applied to, None if RE2 has it not."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


_CHECKED: Final = frozenset(
    (*COUNTS, *TEXTS, *NUMBERS, *LIMITS_OF_DRAFT_4, "required", "enum", "uniqueItems", "pattern",
     "patternProperties", "type")
)  # fmt: skip
