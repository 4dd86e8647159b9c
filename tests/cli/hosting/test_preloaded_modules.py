"""Modules that `kwire serve` imports before it forks brokers."""

from __future__ import annotations

import importlib.util

import pytest

from kwire.cli.hosting import renewing, several

PRELOADED = sorted(
    {
        *renewing.AT_ONCE,
        *renewing.OF_CONTROL,
        *renewing.IN_TIME_OF_CONTROL,
        *renewing.IN_TIME,
        *several.OF_EVERY_MEMBER,
        *several.OF_CONTROL,
    }
)


@pytest.mark.parametrize("name", PRELOADED)
def test_preloaded_module_exists(name: str) -> None:
    assert importlib.util.find_spec(name) is not None
