"""By which clients a scenario is played."""

from __future__ import annotations

import pytest

LANGUAGES = ("python", "java", "go")


def by_all(*quick: str) -> pytest.MarkDecorator:
    """Clients of Python, Java and Go; those of Java and Go before a release, but for `quick`."""
    return pytest.mark.parametrize(
        "clients", [_played_by(each, quick) for each in LANGUAGES], indirect=True
    )


def _played_by(language: str, quick: tuple[str, ...]) -> object:
    marks = [pytest.mark.slow]
    if language == "java":
        marks.append(pytest.mark.java)
    if language != "python" and language not in quick:
        marks.append(pytest.mark.long)
    return pytest.param(language, marks=marks)
