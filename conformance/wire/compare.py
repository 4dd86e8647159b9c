"""Finds the differences between the responses of two brokers to one case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.wire.peer import Reply, Unreadable
from kwire.conformance.wire.stage import CaseStep
from kwire.testing.comparing.differences import Difference, differences
from kwire.testing.comparing.normal import Normaliser, Tree, plain


class StepDifference(NamedTuple):
    """The number of a step that differs, and the difference in its response."""

    number: int
    difference: Difference


def outcome_tree(step: CaseStep, normaliser: Normaliser) -> Tree:
    """Return the outcome of a step in a comparable form: a response's fields, or the kind of the
    failure."""
    if isinstance(step.outcome, Reply):
        return normaliser.reply(step.outcome.message, step.request)
    if isinstance(step.outcome, Unreadable):
        return f"Unreadable: {step.outcome.why}"
    return type(step.outcome).__name__


def shown(step: CaseStep) -> Tree:
    """Return the outcome of a step in a form for reports."""
    if isinstance(step.outcome, Reply):
        return plain(step.outcome.message)
    if isinstance(step.outcome, Unreadable):
        return f"Unreadable: {step.outcome.why}"
    return type(step.outcome).__name__


def step_differences(
    left: list[CaseStep], right: list[CaseStep], of_left: Normaliser, of_right: Normaliser
) -> Iterator[StepDifference]:
    """Yield all differences in the order of the steps; later ones may only follow from the
    first."""
    for number, (a, b) in enumerate(zip(left, right, strict=False)):
        for difference in differences(outcome_tree(a, of_left), outcome_tree(b, of_right)):
            yield StepDifference(number, difference)
    if len(left) != len(right):
        number = min(len(left), len(right))
        yield StepDifference(number, Difference("steps", len(left), len(right)))
