"""`python -m kwire.conformance.clients [NAME...]`: run client suites and judge what passes."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import click
from rich.console import Console
from rich.table import Table

from kwire.conformance import local
from kwire.conformance.clients.results import AllowList, Comparison, Outcome, as_junit
from kwire.conformance.clients.suites import NotRun, Suite, suites

EXIT_LOST = 1
EXIT_NOT_RUN = 3
REPORT = Path("artifacts", "clients")
SHOWN_MAX = 40
"""Of the tests that are named; all are in the results file."""


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--bootstrap", metavar="HOST:PORT",
    help="The broker that is judged; without it a fresh kwire is started for each suite.",
)  # fmt: skip
@click.option("--oracle", is_flag=True, help="Start Apache Kafka instead of kwire.")
@click.option("--update", is_flag=True, help="Add what passes now to the allow lists.")
@click.option("--test", "tests", multiple=True, metavar="ID", help="Only this; of one suite.")
@click.option(
    "--report", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    default=REPORT, show_default=True, help="Where results, logs and clients.xml (JUnit) go.",
)  # fmt: skip
def main(
    names: tuple[str, ...],
    bootstrap: str | None,
    oracle: bool,
    update: bool,
    tests: tuple[str, ...],
    report: Path,
) -> None:
    """Run the suites of public clients (all, or those named) and compare with their allow lists.

    The exit status is 0 if all tests of the allow lists passed, 1 if one did not, 3 if a suite
    could not be run.
    """
    chosen = _chosen(names)
    if oracle and (bootstrap or update):
        raise click.UsageError("--oracle starts a broker of its own, whose results are not kwire's")
    if tests and len(chosen) != 1:
        raise click.UsageError("--test wants the name of one suite")
    done: list[Comparison] = []
    failed: list[str] = []
    for suite in chosen:
        click.echo(f"{suite.name} ...", err=True)
        try:
            with _broker(suite, bootstrap, oracle=oracle) as address:
                done.append(suite.run(address, report / f"{suite.name}.tsv", tests))
        except (NotRun, OSError, RuntimeError, ValueError) as error:
            failed.append(str(error))
    if update:
        _update(chosen, done)
    _show(done, report)
    for message in failed:
        click.echo(f"not run: {message}", err=True)
    sys.exit(EXIT_NOT_RUN if failed else EXIT_LOST if any(run.lost for run in done) else 0)


def _chosen(names: Sequence[str]) -> list[Suite]:
    found = suites()
    unknown = [name for name in names if name not in found]
    if unknown:
        raise click.UsageError(f"no suite {', '.join(unknown)}; there are {', '.join(found)}")
    return [found[name] for name in names or found]


@contextlib.contextmanager
def _broker(suite: Suite, bootstrap: str | None, *, oracle: bool) -> Iterator[str]:
    """The address of the broker given, or of one that lives as long as the suite runs."""
    if bootstrap is not None:
        yield bootstrap
        return
    start = local.apache if oracle else local.kwire
    with (
        tempfile.TemporaryDirectory(prefix="kwire-clients-") as folder,
        start(Path(folder), suite.settings(apache=oracle)) as address,
    ):
        yield address


def _update(chosen: Sequence[Suite], done: Sequence[Comparison]) -> None:
    folders = {suite.name: suite for suite in chosen}
    for run in done:
        path = folders[run.suite].allow_file
        AllowList.read(path).with_tests(run.gained).write(path)


def _show(done: Sequence[Comparison], report: Path) -> None:
    """The table, the tests that make a difference, and the JUnit file."""
    table = Table(title="client suites")
    for title in ("suite", "passed", "failed", "skipped", "total", "lost", "gained", "seconds"):
        table.add_column(title, justify="left" if title == "suite" else "right")
    for run in done:
        counts = [run.count(each) for each in (Outcome.PASS, Outcome.FAIL, Outcome.SKIP)]
        figures = [*counts, len(run.outcomes), len(run.lost), len(run.gained), int(run.seconds)]
        table.add_row(run.suite, *map(str, figures))
    Console().print(table)
    for run in done:
        lost = [f"{test} ({run.why(test)})" for test in run.lost]
        _name(f"{run.suite}: on the allow list, and did not pass", lost)
        _name(f"{run.suite}: passed, and not on the allow list", run.gained)
        if run.count(Outcome.FAIL):
            click.echo(f"{run.suite}: what the failing tests said: {run.log}")
    report.mkdir(parents=True, exist_ok=True)
    document = ElementTree.ElementTree(as_junit(done))
    document.write(report / "clients.xml", encoding="utf-8", xml_declaration=True)


def _name(title: str, tests: Sequence[str]) -> None:
    if tests:
        click.echo(f"{title}:")
    for test in tests[:SHOWN_MAX]:
        click.echo(f"  {test}")
    if len(tests) > SHOWN_MAX:
        click.echo(f"  and {len(tests) - SHOWN_MAX} more")


if __name__ == "__main__":
    main(prog_name="python -m kwire.conformance.clients")
