"""The questions of docs/operations.md are those of the tests, and name metrics that exist.

A question that the page answers with `kwire top`, or with the console, has a test that reads it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kwire.server.metrics.declared import METRICS
from tests.operations import test_questions_about_a_broker, test_questions_about_a_cluster

PAGE = Path(__file__).parents[2] / "docs/operations.md"
NAME = re.compile(r"(?:kafka|kwire)_\w+")
SECTION = "## Questions and where their answers are"


class Answers(NamedTuple):
    """Where the page finds the answer to a question; empty where it does not."""

    metrics: str
    top: str
    console: str


def rows() -> dict[str, Answers]:
    """The answers to each question, by the name of its test."""
    found = {}
    for line in PAGE.read_text().partition(SECTION)[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].endswith("?"):
            words = re.findall(r"[a-z]+", cells[0].lower())
            found["_".join(["test", *words])] = Answers(*cells[1:4])
    return found


def questions() -> dict[str, Callable[..., None]]:
    """The test of each question, by its name."""
    modules = (test_questions_about_a_broker, test_questions_about_a_cluster)
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if name.startswith("test_")
    }


def test_each_question_of_the_page_has_a_test_and_each_test_a_question() -> None:
    assert rows().keys() == questions().keys()


def test_each_answer_of_the_page_is_read_by_the_test_of_its_question() -> None:
    for name, answers in rows().items():
        fixtures = inspect.signature(questions()[name]).parameters.keys()
        wanted = {"top"} if answers.top else set()
        wanted |= {"pages"} if answers.console else set()
        assert fixtures & {"top", "pages"} == wanted, name


def test_twenty_questions_are_answered_by_all_three() -> None:
    assert sum(all(answers) for answers in rows().values()) >= 20


def test_metrics_of_the_page_are_declared() -> None:
    named = [name for each in rows().values() for name in NAME.findall(each.metrics)]
    assert len(named) > len(rows()) / 2
    assert [name for name in named if name not in METRICS] == []
