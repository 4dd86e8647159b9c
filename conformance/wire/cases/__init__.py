"""The cases, with a module for each API key.

A module has its cases as `case`.  Its function `access_request`, if any, builds the request that
kwire.conformance.access sends as users with different rights.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.wire.case import Case, Cases
from kwire.conformance.wire.cases.every_key import cases_of


def all_cases() -> Iterator[Case]:
    """Yield the cases that every key has, then those of each key's module."""
    for key in ApiKey:
        yield from cases_of(key)
        yield from own_cases(key)


def own_cases(key: ApiKey) -> Iterator[Case]:
    """Yield the cases of the key's module, if there is one."""
    module = cases_module(key)
    if module is not None:
        cases: Cases = module.case
        yield from cases


def cases_module(key: ApiKey) -> ModuleType | None:
    """Return the module with the key's name, or None if the key has no cases of its own."""
    name = key.name.lower()
    if not Path(__file__).with_name(f"{name}.py").exists():
        return None
    return import_module(f"{__name__}.{name}")
