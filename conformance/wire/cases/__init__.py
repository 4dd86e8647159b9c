"""The cases, a module for each API key."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.wire.case import Case, Cases
from kwire.conformance.wire.cases.every_key import cases_of


def all_cases() -> Iterator[Case]:
    """What every key has, then what each has of its own."""
    for key in ApiKey:
        yield from cases_of(key)
        yield from own_cases(key)


def own_cases(key: ApiKey) -> Iterator[Case]:
    """The cases of the module of that key's name, if there is one."""
    name = key.name.lower()
    if Path(__file__).with_name(f"{name}.py").exists():
        cases: Cases = import_module(f"{__name__}.{name}").case
        yield from cases
