"""A pytest plugin for `make mutants`: the tests that call a changed function, the nearest first.

Nearest is the folder that mirrors the module's, and of a folder's tests the fastest: most mutants
are noticed by the first few.  With KWIRE_MUTANTS_BUDGET_S set, a mutant that
those of so many seconds do not notice counts as unnoticed, until a run without it tries it again.
"""

from __future__ import annotations

import json
import os
from itertools import accumulate, takewhile
from pathlib import Path

import pytest

STATS = Path("mutmut-stats.json")  # mutmut runs tests in the folder that holds it
BUDGET = "KWIRE_MUTANTS_BUDGET_S"

ALL_TESTS = ("stats", "fail", "list_all_tests")
"""What mutmut runs or lists them all for; those that it does not find listed it forgets."""

HANGS_S_MIN = 20.0
HANGS_FACTOR = 10.0
"""A test that takes so many times as long as it did unchanged, and so long on top of it, hangs: the
machine may be busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order by how long they took unchanged; the plain run that finds that out has no order yet."""
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")
    if mutant in ("", *ALL_TESTS) or not STATS.exists():
        return
    took: dict[str, float] = json.loads(STATS.read_text())["duration_by_test"]
    items.sort(key=lambda item: (-nearness(item.nodeid, mutant), took.get(item.nodeid, 0.0)))
    for item in items:  # a mutant that hangs is noticed
        timeout_s = HANGS_S_MIN + HANGS_FACTOR * took.get(item.nodeid, 0.0)
        item.add_marker(pytest.mark.timeout(timeout_s), append=False)
    if budget := os.environ.get(BUDGET):
        sums = accumulate(took.get(item.nodeid, 0.0) for item in items)
        within = sum(1 for _ in takewhile(lambda spent: spent <= float(budget), sums))
        del items[max(within, 1) :]


def nearness(test: str, mutant: str) -> int:
    """How many folders they share: 2 for `tests/log/index/x.py::y` and `kwire.log.index.entries…`.

    A function that all tests of a room call is best known to those of its own folder.
    """
    folders = test.partition("::")[0].split("/")[1:-1]
    packages = mutant.split(".")[1:]
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(folders, packages, strict=False))
    return sum(1 for _ in shared)
