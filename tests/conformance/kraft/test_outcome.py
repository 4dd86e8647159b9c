"""How two runs differ."""

from __future__ import annotations

import re
from collections import Counter

from kwire.conformance.kraft.naming import RecordLine
from kwire.conformance.kraft.outcome import EXCUSED, RunOutcome, StepOutcome, differences
from kwire.conformance.kraft.steps import STEPS


def run(kinds: str, *lines: tuple[str, str], step: str = "a topic is created") -> RunOutcome:
    outcome = StepOutcome(step)
    outcome.add(RecordLine(*line) for line in lines)
    return RunOutcome(kinds, [outcome])


FIRST, SECOND, OTHER = ("t-0", "isr=[1]"), ("t-0", "isr=[1, 2]"), ("t-1", "isr=[2]")


def test_runs_with_the_same_lines_of_each_subject_do_not_differ() -> None:
    assert [*differences(run("kkk", FIRST, OTHER, SECOND), run("aaa", FIRST, SECOND, OTHER))] == []


def test_another_order_of_one_subject_is_a_difference() -> None:
    [text] = differences(run("kkk", SECOND, FIRST), run("aaa", FIRST, SECOND))
    assert text.splitlines() == [
        "a topic is created: t-0",
        "    kkk: isr=[1, 2]",
        "    kkk: isr=[1]",
        "    aaa: isr=[1]",
        "    aaa: isr=[1, 2]",
    ]


def test_line_that_one_run_lacks_is_a_difference_either_way() -> None:
    more, less = run("kkk", FIRST, OTHER), run("aaa", FIRST)
    assert [*differences(more, less)] == [
        "a topic is created: t-1\n    kkk: isr=[2]\n    aaa: (nothing)"
    ]
    assert len([*differences(less, more)]) == 1


def test_intended_difference_is_none() -> None:
    register = "RegisterBrokerRecord features=[{} max_supported_version=33)]"
    for ours, theirs in EXCUSED.items():
        left = run("kkk", ("broker 1", register.format(ours)))
        right = run("aaa", ("broker 1", register.format(theirs)))
        assert [*differences(left, right)] == []


def test_step_that_was_not_run_is_a_difference() -> None:
    nothing = RunOutcome("kkk", [])
    assert [*differences(nothing, run("aaa", FIRST))] == ["a topic is created: not run with kkk"]


def test_outcome_is_the_same_after_a_file() -> None:
    outcome = run("kka", FIRST, SECOND, OTHER)
    assert RunOutcome.from_json(outcome.to_json()) == outcome
    assert outcome.record_count == 3


def test_each_step_has_a_name_of_its_own() -> None:
    counts = Counter(step.name for step in STEPS)
    assert max(counts.values()) == 1
    assert all(re.fullmatch("[A-Za-z0-9, ]+", name) for name in counts)
