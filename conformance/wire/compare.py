"""The first difference between what two brokers did with one case."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from kwire.conformance.wire.normal import Normaliser, Tree, plain
from kwire.conformance.wire.peer import Reply, Unreadable
from kwire.conformance.wire.stage import Step

ABSENT = "(nothing)"


class Difference(NamedTuple):
    """Where two trees part: `path` in the form topics[0].error_code, and what is there."""

    path: str
    left: Tree
    right: Tree


class StepDifference(NamedTuple):
    """The first step of a case that differs, and where in it."""

    number: int
    difference: Difference


def first_difference(left: Tree, right: Tree, path: str = "") -> Difference | None:
    """The first place, in the order of the fields, where two trees differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        names = [*left, *(name for name in right if name not in left)]
        for name in names:
            below = f"{path}.{name}" if path else name
            found = first_difference(left.get(name, ABSENT), right.get(name, ABSENT), below)
            if found:
                return found
        return None
    if isinstance(left, list) and isinstance(right, list):
        for index, (a, b) in enumerate(zip_longest(left, right, fillvalue=ABSENT)):
            found = first_difference(a, b, f"{path}[{index}]")
            if found:
                return found
        return None
    # True == 1 in Python; on the wire they are two types, but never of one field.
    return None if left == right and type(left) is type(right) else Difference(path, left, right)


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


def first_step_difference(
    left: list[Step], right: list[Step], of_left: Normaliser, of_right: Normaliser
) -> StepDifference | None:
    """The first step that differs; later ones may differ only because it did."""
    for number, (a, b) in enumerate(zip(left, right, strict=False)):
        found = first_difference(outcome_tree(a, of_left), outcome_tree(b, of_right))
        if found:
            return StepDifference(number, found)
    if len(left) != len(right):
        number = min(len(left), len(right))
        return StepDifference(number, Difference("steps", len(left), len(right)))
    return None
