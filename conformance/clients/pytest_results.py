"""A pytest plugin that writes the results file of a suite, in the suite's own environment.

    PYTHONPATH=conformance/clients python -m pytest -p pytest_results --results FILE

It needs pytest and nothing of kwire. A test's id is pytest's own; a fixture that fails fails the
test. The output of failed tests goes to FILE.log.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PASS, FAIL, SKIP = "pass", "fail", "skip"


class ResultsWriter:
    """Collects the outcomes, and writes them when the session ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a phase; a test has three, and a failure in any of them counts."""
        before = self.outcomes.get(report.nodeid, PASS)
        if report.failed:
            self.outcomes[report.nodeid] = FAIL
            parts = [f"=== {report.nodeid} ({report.when})", report.longreprtext]
            parts += [f"--- {title}\n{text}" for title, text in report.sections]
            self.failures.append("\n".join(parts) + "\n")
        elif report.skipped and before is PASS:
            self.outcomes[report.nodeid] = SKIP
        else:
            self.outcomes[report.nodeid] = before

    def pytest_sessionfinish(self) -> None:
        lines = [f"{self.outcomes[test]}\t{test}\n" for test in sorted(self.outcomes)]
        self.path.with_name(f"{self.path.name}.log").write_text("\n".join(self.failures))
        self.path.write_text("".join(lines))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, required=True, help="the results file to write")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ResultsWriter(config.getoption("--results")))
