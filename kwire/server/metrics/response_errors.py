"""Counts the error codes in responses, of each class of message by a function made for it.

These are the fields `error_code` at any depth, as Apache Kafka counts them; fields like
`topic_config_error_code` say something else.  Where newer versions have the errors in a list, the
code at the top of the message does not count beside that list (`_INSTEAD_OF_TOP`).

A response with thousands of partitions is counted on the broker's loop, so the functions look only
at these fields and at parts that have some.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import fields
from typing import Any, Final, get_args, get_origin, get_type_hints

from kwire.codecs.messages.find_coordinator import FindCoordinatorResponse
from kwire.codecs.messages.metadata import MetadataResponse
from kwire.codecs.messages.offset_fetch import OffsetFetchResponse
from kwire.codecs.primitives import Struct

_INSTEAD_OF_TOP: Final[dict[type[Struct], str]] = {
    FindCoordinatorResponse: "coordinators",
    MetadataResponse: "topics",
    OffsetFetchResponse: "groups",
}
"""The list of a response; if it is not empty, the code at the top of the response says nothing."""

Counts = MutableMapping[int, int]
"""How often each error code was seen; a missing code counts from 0, as in a defaultdict."""

CountErrors = Callable[[Any, Counts], None]
"""Adds the error codes in a message to the counts."""

_made: Final[dict[type[Struct], CountErrors | None]] = {}


def count_errors(response: Struct, counts: Counts) -> None:
    """Add all error codes in `response` to `counts`; one without any field for them has NONE."""
    kind = type(response)
    if kind not in _made:
        _made[kind] = _counter(kind)
    count = _made[kind]
    if count is None:
        counts[0] += 1
    else:
        count(response, counts)


def _counter(kind: type[Struct]) -> CountErrors | None:
    """Return the function for one class of messages; None if it has no error codes."""
    codes: list[str] = []
    parts: list[tuple[str, CountErrors]] = []
    hints = get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]  # each message is a dataclass
        if field.name == "error_code":
            codes.append(field.name)
            continue
        part = _part_of(hints[field.name])
        inner = None if part is None else _counter(part)
        if inner is not None:
            parts.append((field.name, inner))
    if not codes and not parts:
        return None
    # A handler's class of a message is a subclass of the generated one.
    instead = next(
        (_INSTEAD_OF_TOP[each] for each in kind.__mro__ if each in _INSTEAD_OF_TOP), None
    )
    return _of_fields(codes, parts) if instead is None else _of_list(instead, codes, parts)


def _of_list(name: str, codes: list[str], parts: list[tuple[str, CountErrors]]) -> CountErrors:
    """Return the function for a class whose own codes count only if the list `name` is empty."""
    count_all, count_parts = _of_fields(codes, parts), _of_fields([], parts)

    def count(message: Any, counts: Counts) -> None:  # noqa: ANN401 - each class has other fields
        (count_parts if getattr(message, name) else count_all)(message, counts)

    return count


def _of_fields(codes: list[str], parts: list[tuple[str, CountErrors]]) -> CountErrors:
    """Return the function for a class with these error codes, and these fields with parts."""

    def count(message: Any, counts: Counts) -> None:  # noqa: ANN401 - each class has other fields
        for name in codes:
            counts[getattr(message, name)] += 1
        for name, count_part in parts:
            value = getattr(message, name)
            if value.__class__ is list:
                for element in value:
                    count_part(element, counts)
            elif value is not None:
                count_part(value, counts)

    return count


def _part_of(hint: object) -> type[Struct] | None:
    """The class of messages in a field with this type, `Part`, `list[Part]` or either or None."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint if issubclass(hint, Struct) else None
    for argument in get_args(hint):
        part = _part_of(argument)
        if part is not None:
            return part
    return None
