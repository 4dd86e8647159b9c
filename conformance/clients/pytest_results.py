"""A pytest plugin that writes the results file of a suite; it runs in the suite's environment.

    PYTHONPATH=conformance/clients python -m pytest -p pytest_results --results FILE

It needs pytest and nothing of kwire. A test's id is pytest's own; a fixture that fails fails the
test. What failing tests said goes to FILE.log.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PASS, FAIL, SKIP = "pass", "fail", "skip"


class Results:
    """The outcomes so far, written when the session ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.said: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Each test has three phases; a failure in any of them counts, then a skip."""
        before = self.outcomes.get(report.nodeid, PASS)
        if report.failed:
            self.outcomes[report.nodeid] = FAIL
            parts = [f"=== {report.nodeid} ({report.when})", report.longreprtext]
            parts += [f"--- {title}\n{text}" for title, text in report.sections]
            self.said.append("\n".join(parts) + "\n")
        elif report.skipped and before is PASS:
            self.outcomes[report.nodeid] = SKIP
        else:
            self.outcomes[report.nodeid] = before

    def pytest_sessionfinish(self) -> None:
        lines = [f"{self.outcomes[test]}\t{test}\n" for test in sorted(self.outcomes)]
        self.path.with_name(f"{self.path.name}.log").write_text("\n".join(self.said))
        self.path.write_text("".join(lines))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, required=True, help="the results file to write")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Results(config.getoption("--results")))
