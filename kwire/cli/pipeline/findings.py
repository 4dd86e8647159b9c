"""What the commands that report findings share: options of the report, and the exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli.grammar.bounds import LISTED_COUNT
from kwire.cli.grammar.statuses import EXIT_FOUND
from kwire.cli.pipeline.job import SparkJob
from kwire.cli.text.output import print_table, say
from kwire.cli.values import duration_s

if TYPE_CHECKING:
    from kwire.pipeline.audit import Comparison, Finding, Report

F = TypeVar("F", bound=Callable[..., Any])

NEVER = "never"
SEVERITIES = ("info", "warning", "error")


def report_options(default: str) -> Callable[[F], F]:
    """Add --html, --fail-on and --examples."""

    def decorate(command: F) -> F:
        """Adds the options to a command."""
        for option in (
            click.option(
                "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                help="Write the report to FILE as one self-contained page.",
            ),
            click.option(
                "--fail-on", type=click.Choice([*SEVERITIES, NEVER]), default=default,
                show_default=True, help="Exit with 1 on findings of this severity or a higher one.",
            ),
            click.option(
                "--examples", type=LISTED_COUNT, default=5, show_default=True,
                metavar="N", help="Show N examples of each finding.",
            ),
        ):  # fmt: skip
            command = option(command)
        return command

    return decorate


def duration_ms(text: str) -> int:
    """`90s`, `2m`, `1.5h`, `7d`: whole milliseconds."""
    return round(1000 * duration_s(text))


@contextmanager
def stages(job: SparkJob) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current stage: in one line on a terminal, else in lines."""
    if job.quiet:
        yield lambda stage: None
    elif sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            yield lambda stage: status.update(f"{stage} ...")
    else:
        yield lambda stage: say(f"{stage} ...")


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the findings as a table, each with its first example."""
    if not findings:
        return
    rows = [(f.severity, f.topic, f.kind, f.count, f.says, _first_case(f)) for f in findings]
    print_table(["severity", "topic", "finding", "count", "what", "for example"], rows)


def _first_case(finding: Finding) -> str | None:
    """Return the first example of a finding as text, or None if it has none.  An offset of -1
    means that the example has no position."""
    if not finding.examples:
        return None
    case = finding.examples[0]
    key = "" if case.key is None else f"key {case.key}: "
    place = f"{case.partition} at {case.offset}: " if case.offset >= 0 else ""
    return f"{place}{key}{case.detail}"


def finish(job: SparkJob, report: Report | Comparison, html: Path | None, fail_on: str) -> None:
    """Write the report, print its summary, and exit with the status for its findings."""
    if html is not None:
        from kwire.pipeline.audit import page

        html.write_text(page(report), encoding="utf-8")
    found = len(report.findings)
    told = "nothing was found" if not found else f"findings: {found}, the worst: {report.worst()}"
    job.summary(report.as_json(), told + (f"; {html} has the report" if html else ""))
    worst = report.worst()
    if worst is None or fail_on == NEVER:
        return
    if SEVERITIES.index(worst) >= SEVERITIES.index(fail_on):
        raise SystemExit(EXIT_FOUND)
