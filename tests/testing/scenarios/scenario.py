"""By which clients a scenario is played."""

from __future__ import annotations

import pytest

LANGUAGES = {
    "python": [pytest.mark.slow],
    "java": [pytest.mark.slow, pytest.mark.java, pytest.mark.long],
    "go": [pytest.mark.slow, pytest.mark.long],
}

by_all = pytest.mark.parametrize(
    "clients",
    [pytest.param(language, marks=marks) for language, marks in LANGUAGES.items()],
    indirect=True,
)
"""Clients of Python, Java and Go; to compile those of Java and Go takes longer than many tests do,
so they play before a release."""
