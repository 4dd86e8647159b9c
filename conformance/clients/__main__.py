"""`python -m kwire.conformance.clients [NAME...]`: runs client suites and checks what passes."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from xml.etree import ElementTree

import click
from rich.console import Console
from rich.table import Table

from kwire.conformance import clusters, local
from kwire.conformance.clients import more_listeners
from kwire.conformance.clients.results import AllowList, Comparison, Outcome, as_junit
from kwire.conformance.clients.suites import NotRun, Suite, suites

EXIT_LOST = 1
EXIT_NOT_RUN = 3
Start = Callable[[Path, Mapping[str, str]], AbstractContextManager[str]]
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
@click.option(
    "--brokers", type=click.IntRange(2, 9), metavar="N",
    help="A cluster of N brokers instead of one: `kwire serve --brokers N`, or KRaft nodes.",
)  # fmt: skip
@click.option(
    "--zookeeper", is_flag=True,
    help="Of --brokers: on a ZooKeeper, where Apache Kafka's are 3.9.2.",
)  # fmt: skip
@click.option(
    "--against", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="A report of an earlier run, in the allow lists' place: what passed there has to pass.",
)  # fmt: skip
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
    brokers: int | None,
    zookeeper: bool,
    against: Path | None,
    update: bool,
    tests: tuple[str, ...],
    report: Path,
) -> None:
    """Run the suites of public clients (all, or those named) and compare with their allow lists.

    \b
      python -m kwire.conformance.clients --brokers 3 --zookeeper --oracle --report apache
      python -m kwire.conformance.clients --brokers 3 --zookeeper --against apache

    The exit status is 0 if all tests of the allow lists passed, 1 if one did not, 3 if a suite
    could not be run.
    """
    chosen = _chosen(names)
    if oracle and (bootstrap or update):
        raise click.UsageError("--oracle starts a broker of its own, whose results are not kwire's")
    if bootstrap and brokers:
        raise click.UsageError("--brokers starts them, --bootstrap names those that run")
    if (against or brokers) and update:
        raise click.UsageError("the allow lists are of what passes on a broker alone")
    if zookeeper and brokers is None:
        raise click.UsageError("--zookeeper is of --brokers")
    if tests and len(chosen) != 1:
        raise click.UsageError("--test wants the name of one suite")
    start = _starter(brokers, oracle=oracle, zookeeper=zookeeper)
    done: list[Comparison] = []
    failed: list[str] = []
    for suite in chosen:
        click.echo(f"{suite.name} ...", err=True)
        try:
            with _brokers(suite, bootstrap, start, apache=oracle and not brokers) as (
                address,
                more,
            ):
                name = f"{suite.name}.tsv"
                before = against / name if against else None
                done.append(suite.run(address, report / name, tests, against=before, more=more))
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


def _starter(brokers: int | None, *, oracle: bool, zookeeper: bool) -> Start:
    """What starts one broker, or so many, of Apache Kafka's or of kwire's."""
    if brokers is None:
        return local.apache if oracle else local.kwire
    start = clusters.starter(oracle=oracle, zookeeper=zookeeper)
    return lambda folder, settings: start(folder, brokers, settings)


@contextlib.contextmanager
def _brokers(
    suite: Suite, bootstrap: str | None, start: Start, *, apache: bool
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The addresses given, or those of brokers that live as long as the suite runs; and what `run`
    is told of more listeners, if the suite has users and the broker is on its own."""
    if bootstrap is not None:
        yield bootstrap, {}
        return
    settings = suite.settings(apache=apache)
    with tempfile.TemporaryDirectory(prefix="kwire-clients-") as folder:
        if suite.users and start in (local.apache, local.kwire):
            with more_listeners.broker(Path(folder), suite.users, settings, apache=apache) as found:
                yield found
        else:
            with start(Path(folder), settings) as addresses:
                yield addresses, {}


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
