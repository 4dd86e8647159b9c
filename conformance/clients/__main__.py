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
from kwire.conformance.clients.results import AllowList, SuiteComparison, SuiteOutcome, as_junit
from kwire.conformance.clients.suites import ClientSuite, NotRun, suites
from kwire.testing.registry import Registry, RegistryStartError

EXIT_LOST = 1
EXIT_NOT_RUN = 3
Start = Callable[[Path, Mapping[str, str]], AbstractContextManager[str]]
REPORT = Path("artifacts", "clients")
SHOWN_MAX = 40
"""Limit on the listed tests; the results file has all of them."""


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--bootstrap", metavar="HOST:PORT",
    help="The broker to test; without it a new kwire is started for each suite.",
)  # fmt: skip
@click.option("--oracle", is_flag=True, help="Start Apache Kafka instead of kwire.")
@click.option(
    "--brokers", type=click.IntRange(2, 9), metavar="N",
    help="A cluster of N brokers instead of one: `kwire serve --brokers N`, or KRaft nodes.",
)  # fmt: skip
@click.option(
    "--zookeeper", is_flag=True,
    help="With --brokers: on ZooKeeper; Apache Kafka's version is then 3.9.2.",
)  # fmt: skip
@click.option(
    "--against", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="An earlier report, used instead of the allow lists: what passed there must pass.",
)  # fmt: skip
@click.option("--update", is_flag=True, help="Add what passes now to the allow lists.")
@click.option("--test", "tests", multiple=True, metavar="ID", help="Only this test of one suite.")
@click.option(
    "--report", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    default=REPORT, show_default=True, help="Folder for results, logs and clients.xml (JUnit).",
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
        raise click.UsageError("--oracle starts Apache Kafka, whose results are not kwire's")
    if bootstrap and brokers:
        raise click.UsageError("--brokers starts brokers, --bootstrap names running ones; use one")
    if (against or brokers) and update:
        raise click.UsageError("--update needs a single broker, for which the allow lists are")
    if zookeeper and brokers is None:
        raise click.UsageError("--zookeeper needs --brokers")
    if tests and len(chosen) != 1:
        raise click.UsageError("--test needs the name of one suite")
    start = _starter(brokers, oracle=oracle, zookeeper=zookeeper)
    done: list[SuiteComparison] = []
    failed: list[str] = []
    for suite in chosen:
        click.echo(f"{suite.name} ...", err=True)
        try:
            with (
                _brokers(suite, bootstrap, start, apache=oracle and not brokers) as (
                    address,
                    listeners,
                ),
                registry_for(suite, address) as registry,
            ):
                more = {**listeners, **registry}
                name = f"{suite.name}.tsv"
                before = against / name if against else None
                done.append(suite.run(address, report / name, tests, against=before, more=more))
        except (NotRun, OSError, RegistryStartError, RuntimeError, ValueError) as error:
            failed.append(str(error))
    if update:
        _update(chosen, done)
    _show(done, report)
    for message in failed:
        click.echo(f"not run: {message}", err=True)
    sys.exit(EXIT_NOT_RUN if failed else EXIT_LOST if any(run.lost for run in done) else 0)


def _chosen(names: Sequence[str]) -> list[ClientSuite]:
    """Return the suites of these names, or all; raise UsageError for an unknown name."""
    all_suites = suites()
    unknown = [name for name in names if name not in all_suites]
    if unknown:
        raise click.UsageError(f"no suite {', '.join(unknown)}; there are {', '.join(all_suites)}")
    return [all_suites[name] for name in names or all_suites]


def _starter(brokers: int | None, *, oracle: bool, zookeeper: bool) -> Start:
    """Return the function that starts one broker or a cluster, of Apache Kafka or of kwire."""
    if brokers is None:
        return local.apache if oracle else local.kwire
    start = clusters.starter(oracle=oracle, zookeeper=zookeeper)
    return lambda folder, settings: start(folder, brokers, settings)


@contextlib.contextmanager
def _brokers(
    suite: ClientSuite, bootstrap: str | None, start: Start, *, apache: bool
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the addresses of the brokers, and the environment variables of additional listeners.

    Without `bootstrap`, the brokers are started and stopped. A single broker has additional
    listeners if the suite has users.
    """
    if bootstrap is not None:
        yield bootstrap, {}
        return
    settings = suite.settings(apache=apache)
    with tempfile.TemporaryDirectory(prefix="kwire-clients-") as folder:
        if suite.users and start in (local.apache, local.kwire):
            with more_listeners.broker(
                Path(folder), suite.users, settings, apache=apache
            ) as address_and_variables:
                yield address_and_variables
        else:
            with start(Path(folder), settings) as addresses:
                yield addresses, {}


@contextlib.contextmanager
def registry_for(suite: ClientSuite, bootstrap: str) -> Iterator[Mapping[str, str]]:
    """Yield the variable with the address of a registry that keeps its schemas on these brokers.

    There is no variable and no registry if the suite uses none.
    """
    if not suite.uses_registry:
        yield {}
        return
    with Registry(bootstrap) as registry:
        yield {"REGISTRY_URL": registry.url}


def _update(chosen: Sequence[ClientSuite], done: Sequence[SuiteComparison]) -> None:
    """Add the tests that passed for the first time to the allow list of their suite."""
    folders = {suite.name: suite for suite in chosen}
    for run in done:
        path = folders[run.suite].allow_file
        AllowList.read(path).with_tests(run.gained).write(path)


def _show(done: Sequence[SuiteComparison], report: Path) -> None:
    """Print the table and the lost and gained tests, and write the JUnit file."""
    table = Table(title="client suites")
    for title in ("suite", "passed", "failed", "skipped", "total", "lost", "gained", "seconds"):
        table.add_column(title, justify="left" if title == "suite" else "right")
    for run in done:
        counts = [
            run.count(outcome)
            for outcome in (SuiteOutcome.PASS, SuiteOutcome.FAIL, SuiteOutcome.SKIP)
        ]
        figures = [*counts, len(run.outcomes), len(run.lost), len(run.gained), int(run.seconds)]
        table.add_row(run.suite, *map(str, figures))
    Console().print(table)
    for run in done:
        lost = [f"{test} ({run.why(test)})" for test in run.lost]
        _list_tests(f"{run.suite}: on the allow list, and did not pass", lost)
        _list_tests(f"{run.suite}: passed, and not on the allow list", run.gained)
        if run.count(SuiteOutcome.FAIL):
            click.echo(f"{run.suite}: output of the failed tests: {run.log}")
    report.mkdir(parents=True, exist_ok=True)
    document = ElementTree.ElementTree(as_junit(done))
    document.write(report / "clients.xml", encoding="utf-8", xml_declaration=True)


def _list_tests(title: str, tests: Sequence[str]) -> None:
    """Print the first SHOWN_MAX tests below a title, and how many more there are."""
    if tests:
        click.echo(f"{title}:")
    for test in tests[:SHOWN_MAX]:
        click.echo(f"  {test}")
    if len(tests) > SHOWN_MAX:
        click.echo(f"  and {len(tests) - SHOWN_MAX} more")


if __name__ == "__main__":
    main(prog_name="python -m kwire.conformance.clients")
