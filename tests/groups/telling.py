"""Prints messages and records as a line of text, with every field that is not the default."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import Struct
from kwire.coordinators.contract.machine import MachineRecord
from kwire.groups.offset_record import OffsetCommit
from tests.coordinators.contract.simulation import START_MS

TIMES = {
    "assignment_timestamp",
    "timestamp",
    "current_state_timestamp",
    "commit_timestamp",
    "expire_timestamp",
}
"""Fields that are told as ms since the test began."""


def told(value: object, names: Mapping[bytes, str]) -> str:
    """`names`: of topics, by their ids."""
    if isinstance(value, Struct):
        return "{" + " ".join(fields(value, names)) + "}"
    if isinstance(value, list):
        return "[" + " ".join(told(each, names) for each in value) + "]"
    if isinstance(value, bytes):
        return names[value] if value in names else repr(value)
    return str(value)


def fields(message: Struct, names: Mapping[bytes, str]) -> Iterator[str]:
    """What is as it is by default is left out."""
    known: Any = message
    for field in dataclasses.fields(known):
        value = getattr(message, field.name)
        made = field.default_factory
        if value == (field.default if made is dataclasses.MISSING else made()):
            continue
        if field.name == "error_code":
            yield ErrorCode(value).name
        elif field.name == "error_message":
            yield f"({value})"
        elif field.name in TIMES and value:
            yield f"{field.name}=+{value - START_MS}"
        else:
            yield f"{field.name}={told(value, names)}"


def record(appended: MachineRecord, names: Mapping[bytes, str]) -> str:
    """`Name key: value`, the value's fields, or `deleted`."""
    known: Any = appended
    kind = type(appended).__name__.removesuffix("Asked")
    if isinstance(known, OffsetCommit):
        told_key, told_value = known.as_messages()
    else:
        told_key, told_value = known.key, known.value
    key = "/".join(str(getattr(told_key, each.name)) for each in dataclasses.fields(told_key))
    value = "deleted" if told_value is None else " ".join(fields(told_value, names))
    return f"{kind} {key}: {value}".rstrip()


def timer(timer: object) -> str:
    """What it brings back, beside what its key says."""
    known: Any = timer
    names = [each.name for each in dataclasses.fields(known)]
    values = {name: getattr(timer, name) for name in names}
    return "".join(f" {name}={value}" for name, value in values.items() if value not in known.key)
