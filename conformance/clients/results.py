"""The outcomes of a suite's tests, and the list of those that must pass."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Self
from xml.etree import ElementTree


class SuiteOutcome(Enum):
    """The outcome of one test; the value is its word in a results file."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


class BadFile(ValueError):
    """A results file or an allow list has a wrong format."""


def parse(text: str) -> dict[str, SuiteOutcome]:
    """Return the outcome of each test in a results file, by test id. Raises BadFile."""
    words = {outcome.value: outcome for outcome in SuiteOutcome}
    outcomes: dict[str, SuiteOutcome] = {}
    for number, line in enumerate(text.splitlines(), 1):
        word, tab, test = line.partition("\t")
        if not tab or not test or word not in words:
            raise BadFile(f"results, line {number}: {line!r}")
        if test in outcomes:
            raise BadFile(f"results, line {number}: {test} occurs twice")
        outcomes[test] = words[word]
    return outcomes


@dataclass(frozen=True)
class AllowList:
    """The tests that must pass, and the comment at the head of the file."""

    head: tuple[str, ...]
    tests: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the list in a file.

        Raises BadFile if it is not sorted or has comments between the tests.
        """
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        head = [line for line in lines if line.startswith("#")]
        tests = lines[len(head) :]
        if any(line.startswith("#") for line in tests):
            raise BadFile("allow list: comments must be at the head of the file")
        for before, after in itertools.pairwise(tests):
            if before >= after:
                raise BadFile(
                    f"allow list: {after} follows {before}; tests must be sorted and unique"
                )
        return cls(tuple(head), frozenset(tests))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the list in a file, or the empty list if the file does not exist."""
        return cls.parse(path.read_text() if path.exists() else "")

    def with_tests(self, tests: Iterable[str]) -> AllowList:
        """Return the list with `tests` added; no test is ever removed."""
        return AllowList(self.head, self.tests | frozenset(tests))

    def text(self) -> str:
        return "".join(f"{line}\n" for line in (*self.head, *sorted(self.tests)))

    def write(self, path: Path) -> None:
        """Replace the file atomically."""
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(self.text())
        fresh.replace(path)


@dataclass(frozen=True)
class SuiteComparison:
    """The outcomes of one run of a suite, and the tests that must pass."""

    suite: str
    outcomes: Mapping[str, SuiteOutcome]
    allowed: frozenset[str]
    seconds: float
    log: Path
    """The file with the output of the failed tests."""

    def count(self, outcome: SuiteOutcome) -> int:
        return sum(test_outcome is outcome for test_outcome in self.outcomes.values())

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(
            test for test, outcome in self.outcomes.items() if outcome is SuiteOutcome.PASS
        )

    @property
    def lost(self) -> list[str]:
        """Tests of the allow list that did not pass: failed, skipped, or not run at all."""
        return sorted(self.allowed - self.passed)

    @property
    def gained(self) -> list[str]:
        """Tests that passed and are not on the allow list yet."""
        return sorted(self.passed - self.allowed)

    def why(self, test: str) -> str:
        """Return the outcome of `test` in a word."""
        return self.outcomes[test].value if test in self.outcomes else "not run"


def as_junit(runs: Iterable[SuiteComparison]) -> ElementTree.Element:
    """Return a JUnit document, in which a test fails if the allow list has it and it did not
    pass."""
    root = ElementTree.Element("testsuites", name="kwire client suites")
    for run in runs:
        lost, tests = set(run.lost), sorted(run.outcomes.keys() | run.allowed)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=run.suite,
            tests=str(len(tests)),
            failures=str(len(lost)),
            skipped=str(len(tests) - len(lost) - len(run.passed)),
            time=f"{run.seconds:.3f}",
        )
        for test in tests:
            case = ElementTree.SubElement(suite, "testcase", classname=run.suite, name=test)
            if test in lost:
                ElementTree.SubElement(case, "failure", message=run.why(test))
            elif test not in run.passed:
                message = f"not on the allow list: {run.why(test)}"
                ElementTree.SubElement(case, "skipped", message=message)
    return root
