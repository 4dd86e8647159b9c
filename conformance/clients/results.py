"""What a suite's tests came to, and the list of those that must pass."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Self
from xml.etree import ElementTree


class Outcome(Enum):
    """What became of one test; the value is its word in a results file."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"


class BadFile(ValueError):
    """A results file or an allow list does not have the form that it must have."""


def parse(text: str) -> dict[str, Outcome]:
    """The outcome by test id of a results file; raises BadFile."""
    words = {outcome.value: outcome for outcome in Outcome}
    found: dict[str, Outcome] = {}
    for number, line in enumerate(text.splitlines(), 1):
        word, tab, test = line.partition("\t")
        if not tab or not test or word not in words:
            raise BadFile(f"results, line {number}: {line!r}")
        if test in found:
            raise BadFile(f"results, line {number}: {test} is there twice")
        found[test] = words[word]
    return found


@dataclass(frozen=True)
class AllowList:
    """The tests that must pass, and the comment at the head of their file."""

    head: tuple[str, ...]
    tests: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises BadFile when it is not sorted, or a comment stands between the tests."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        head = [line for line in lines if line.startswith("#")]
        tests = lines[len(head) :]
        if any(line.startswith("#") for line in tests):
            raise BadFile("allow list: comments stand at its head")
        for before, after in itertools.pairwise(tests):
            if before >= after:
                raise BadFile(f"allow list: {after} stands behind {before}; sorted, each once")
        return cls(tuple(head), frozenset(tests))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Of a file that is not there yet: the empty list."""
        return cls.parse(path.read_text() if path.exists() else "")

    def with_tests(self, tests: Iterable[str]) -> AllowList:
        """The list grown by `tests`; nothing is ever taken out."""
        return AllowList(self.head, self.tests | frozenset(tests))

    def text(self) -> str:
        return "".join(f"{line}\n" for line in (*self.head, *sorted(self.tests)))

    def write(self, path: Path) -> None:
        """Replace the file whole."""
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(self.text())
        fresh.replace(path)


@dataclass(frozen=True)
class Comparison:
    """One run of a suite beside its allow list."""

    suite: str
    outcomes: Mapping[str, Outcome]
    allowed: frozenset[str]
    seconds: float
    log: Path
    """What the failing tests said."""

    def count(self, outcome: Outcome) -> int:
        return sum(each is outcome for each in self.outcomes.values())

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(test for test, each in self.outcomes.items() if each is Outcome.PASS)

    @property
    def lost(self) -> list[str]:
        """Tests of the allow list that did not pass: failed, skipped, or not run at all."""
        return sorted(self.allowed - self.passed)

    @property
    def gained(self) -> list[str]:
        """Tests that passed and are not on the allow list yet."""
        return sorted(self.passed - self.allowed)

    def why(self, test: str) -> str:
        """What became of `test`, in a word."""
        return self.outcomes[test].value if test in self.outcomes else "not run"


def as_junit(runs: Iterable[Comparison]) -> ElementTree.Element:
    """A JUnit document: a test fails in it when the allow list says that it must pass."""
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
