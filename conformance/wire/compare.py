"""The first difference between what two brokers did with one case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.conformance.wire.peer import Reply, Unreadable
from kwire.conformance.wire.stage import Step
from kwire.testing.comparing.differences import Difference, differences
from kwire.testing.comparing.normal import Normaliser, Tree, plain


class StepDifference(NamedTuple):
    """The first step of a case that differs, and where in it."""

    number: int
    difference: Difference


def outcome_tree(step: Step, normaliser: Normaliser) -> Tree:
    """What came back, to be compared: a reply's fields, or the name of what came instead."""
    if isinstance(step.outcome, Reply):
        return normaliser.reply(step.outcome.message, step.request)
    if isinstance(step.outcome, Unreadable):
        return f"Unreadable: {step.outcome.why}"
    return type(step.outcome).__name__


def shown(step: Step) -> Tree:
    """What came back, for people."""
    if isinstance(step.outcome, Reply):
        return plain(step.outcome.message)
    if isinstance(step.outcome, Unreadable):
        return f"Unreadable: {step.outcome.why}"
    return type(step.outcome).__name__


def step_differences(
    left: list[Step], right: list[Step], of_left: Normaliser, of_right: Normaliser
) -> Iterator[StepDifference]:
    """All differences, in order; later ones may be there only because of the first."""
    for number, (a, b) in enumerate(zip(left, right, strict=False)):
        for found in differences(outcome_tree(a, of_left), outcome_tree(b, of_right)):
            yield StepDifference(number, found)
    if len(left) != len(right):
        number = min(len(left), len(right))
        yield StepDifference(number, Difference("steps", len(left), len(right)))
