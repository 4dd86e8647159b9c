"""The questions of docs/operations.md are those of the tests, and name metrics that exist."""

from __future__ import annotations

import re
from pathlib import Path

from kwire.server.metrics.declared import METRICS
from tests.operations import test_questions_about_a_broker, test_questions_about_a_cluster

PAGE = Path(__file__).parents[2] / "docs/operations.md"
SECTION = "## Questions and where their answers are"


def rows() -> dict[str, str]:
    """The names of metrics, as text, by the name that the test of a question has."""
    found = {}
    for line in PAGE.read_text().partition(SECTION)[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].endswith("?"):
            words = re.findall(r"[a-z]+", cells[0].lower())
            found["_".join(["test", *words])] = cells[1]
    return found


def test_each_question_of_the_page_has_a_test_and_each_test_a_question() -> None:
    modules = (test_questions_about_a_broker, test_questions_about_a_cluster)
    tests = {name for module in modules for name in vars(module) if name.startswith("test_")}
    assert rows().keys() == tests


def test_metrics_of_the_page_are_declared() -> None:
    named = [name for cell in rows().values() for name in re.findall(r"(?:kafka|kwire)_\w+", cell)]
    assert len(named) > len(rows()) / 2
    assert [name for name in named if name not in METRICS] == []
