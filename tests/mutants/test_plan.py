"""The files in tests/mutants agree with the present code."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

PLAN = Path(__file__).parent
ROOT = PLAN.parent.parent
ROOMS = tomllib.loads((PLAN / "rooms.toml").read_text())
EQUIVALENT = tomllib.loads((PLAN / "equivalent.toml").read_text())["equivalent"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_pattern_of_a_room_matches_a_file(room: str) -> None:
    patterns = [
        *ROOMS[room]["modules"],
        *ROOMS[room]["tests"],
        *ROOMS[room].get("without", ()),
    ]
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []


def test_every_equivalent_mutant_changes_an_existing_line() -> None:
    """If a line has changed, a test may have to notice its mutants now."""
    stale = []
    for each in EQUIVALENT:
        module = ROOT / each["module"]
        source = " ".join(module.read_text().split()) if module.exists() else ""
        if " ".join(each["before"].split()) not in source:
            stale.append(f"{each['module']}: {each['before']}")
    assert stale == []


def test_every_equivalent_mutant_is_listed_once_with_a_reason() -> None:
    said = [
        (each["module"], each["function"], each["before"], each["after"]) for each in EQUIVALENT
    ]
    assert len(said) == len(set(said))
    assert all(each["reason"].strip() for each in EQUIVALENT)
