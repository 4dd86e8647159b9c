"""What `make mutants` goes by is true of the code as it is now."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

PLAN = Path(__file__).parent
ROOT = PLAN.parent.parent
ROOMS = tomllib.loads((PLAN / "rooms.toml").read_text())
EQUIVALENT = tomllib.loads((PLAN / "equivalent.toml").read_text())["equivalent"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_pattern_names_something(room: str) -> None:
    patterns = [
        *ROOMS[room]["modules"],
        *ROOMS[room]["tests"],
        *ROOMS[room].get("without", ()),
    ]
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []


def test_what_is_called_equivalent_is_still_there() -> None:
    """A line that has changed since may be one that a test must notice."""
    stale = []
    for each in EQUIVALENT:
        module = ROOT / each["module"]
        source = " ".join(module.read_text().split()) if module.exists() else ""
        if " ".join(each["before"].split()) not in source:
            stale.append(f"{each['module']}: {each['before']}")
    assert stale == []


def test_every_reason_is_given_once() -> None:
    said = [
        (each["module"], each["function"], each["before"], each["after"]) for each in EQUIVALENT
    ]
    assert len(said) == len(set(said))
    assert all(each["reason"].strip() for each in EQUIVALENT)
