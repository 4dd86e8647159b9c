"""Data checked against JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn
from urllib.parse import urljoin

from kwire.registry.schemas.kinds import InvalidSchemaError
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.problem import CannotDecode, CannotEncode

SHOWN_CHARACTERS_MAX: Final = 300
"""How much of an error is shown: it holds the data that do not fit."""


def _no_number(text: str) -> NoReturn:
    raise CannotDecode(f"{text} is not a JSON number")


JSON: Final = json.JSONDecoder(parse_constant=_no_number)


def json_data(raw: bytes) -> Data:
    """The data of a JSON text in UTF-8.  Raises CannotDecode."""
    try:
        found: Data = JSON.decode(raw.decode())
    except RecursionError:
        raise CannotDecode("the JSON is nested too deeply") from None
    except ValueError as error:
        raise CannotDecode(f"not JSON: {error}") from None
    return found


def json_bytes(data: Data) -> bytes:
    """Data as JSON in UTF-8.  Raises CannotEncode."""
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except RecursionError:
        raise CannotEncode("the data are nested too deeply") from None
    except ValueError as error:  # half a surrogate pair, or a number that JSON lacks
        raise CannotEncode(f"not JSON: {error}") from None


def json_checker(text: str, references: Iterable[tuple[str, str]]) -> Callable[[Data], None]:
    """A function that raises CannotEncode for data that are not valid by a schema.

    `references` are the names and texts of the schemas that `$ref` names.  Nothing is read from
    the network.  A schema without `$schema` is of draft 7, as for Confluent's serializers.
    Raises InvalidSchemaError.
    """
    from jsonschema import validators
    from jsonschema.exceptions import SchemaError, best_match
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7

    schema = parsed_json(text)
    kind = validators.validator_for(schema, default=validators.Draft7Validator)
    try:
        kind.check_schema(schema)
    except (SchemaError, RecursionError) as error:
        raise InvalidSchemaError(f"the JSON Schema is invalid: {_short(error)}") from None
    base = str(schema.get("$id", "")) if isinstance(schema, dict) else ""
    resources = [
        (each_name, Resource.from_contents(parsed_json(each), default_specification=DRAFT7))
        for name, each in references
        for each_name in {name, urljoin(base, name)}
    ]
    keywords = {"pattern": _pattern, "patternProperties": _pattern_properties}
    bounded = validators.extend(kind, keywords)  # type: ignore[no-untyped-call]  # by its stubs
    validator = bounded(schema, registry=Registry().with_resources(resources))

    def check(data: Data) -> None:
        try:
            found = best_match(validator.iter_errors(data))
        except RecursionError:
            raise CannotEncode("the data, or the schema, are nested too deeply") from None
        except Unresolvable as error:
            raise CannotEncode(f"the JSON Schema refers to what is not there: {error}") from None
        if found is not None:
            raise CannotEncode(f"{found.json_path}: {_short(found)}")

    return check


def parsed_json(text: str) -> Any:  # noqa: ANN401 - JSON
    """The JSON of a schema's text.  Raises InvalidSchemaError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"the JSON Schema is not JSON: {error}") from None


def _short(error: Exception) -> str:
    text = str(getattr(error, "message", "") or error)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]} ..."


# -- patterns, by RE2: those of Python can take a time that doubles with each character


def _matches(pattern: str, text: str) -> bool:
    import re2

    options = re2.Options()
    options.log_errors = False  # what is wrong with a pattern is said in the error
    try:
        return re2.compile(pattern, options).search(text) is not None
    except re2.error:
        raise CannotEncode(
            f"the pattern {pattern!r} cannot be checked in a time that has a bound"
        ) from None


def _pattern(_: Any, pattern: str, data: Any, __: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    from jsonschema.exceptions import ValidationError

    if isinstance(data, str) and not _matches(pattern, data):
        yield ValidationError(f"does not match {pattern!r}: {data!r}")


def _pattern_properties(
    validator: Any,  # noqa: ANN401 - of a library
    patterns: dict[str, Any],
    data: Any,  # noqa: ANN401 - JSON
    _: Any,  # noqa: ANN401 - JSON
) -> Iterator[Any]:
    for pattern, schema in patterns.items() if isinstance(data, dict) else ():
        for name, value in data.items():
            if _matches(pattern, name):
                yield from validator.descend(value, schema, path=name, schema_path=pattern)
