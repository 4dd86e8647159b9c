"""`kwire conformance`: the suite on the command line."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kwire.conformance import local
from kwire.conformance.wire.broker import Broker, NotReady, address_of
from kwire.conformance.wire.cases import all_cases
from kwire.conformance.wire.report import Run, name_of, summary, what_differs, write
from kwire.conformance.wire.runner import WORKERS, Runner, Selection, State, Verdict

EXIT_RED = 1
EXIT_NOT_RUN = 3


@click.group("conformance")
def command() -> None:
    """Compare a broker with another one, request by request.

    \b
      kwire conformance run --bootstrap localhost:9092 --oracle apache
      kwire conformance run --bootstrap localhost:9092 --against other:9092 --only Fetch:12
    """


def _selections(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[Selection, ...]:
    try:
        return tuple(Selection.parse(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@command.command("run")
@click.option(
    "--bootstrap", metavar="HOST:PORT",
    help="The broker that is judged; a kwire of its own is started if none is given.",
)  # fmt: skip
@click.option("--against", metavar="HOST:PORT", help="The broker that is right.")
@click.option(
    "--oracle", type=click.Choice(["apache"]), default="apache", show_default=True,
    help="Without --against: start Apache Kafka (its jars from Maven Central; needs Java 17+).",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="API[:VERSION]", callback=_selections,
    help="Only these, e.g. Fetch or 1:12; may be given several times.",
)  # fmt: skip
@click.option(
    "--report", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Write wire.html, wire.json and wire.xml (JUnit) there.",
)  # fmt: skip
@click.option(
    "--short", is_flag=True, help="Of each API its first, last and first flexible version only."
)
@click.option("--workers", default=WORKERS, show_default=True, help="Cases under way at once.")
def run_command(
    bootstrap: str | None,
    against: str | None,
    oracle: str,
    only: tuple[Selection, ...],
    report: Path | None,
    short: bool,
    workers: int,
) -> None:
    """Send the same requests to both brokers and compare what comes back.

    The exit status is 0 if nothing differs but what is known to, 1 if something does, 3 if the
    brokers could not be asked.
    """
    try:
        with _brokers(bootstrap, against, oracle) as (subject, right):
            found = _run(Runner(subject, right, all_cases(), workers), only, short)
    except (NotReady, OSError, RuntimeError, ValueError) as error:
        click.echo(f"kwire: {error}", err=True)
        raise SystemExit(EXIT_NOT_RUN) from error
    for cell in found.red:
        click.echo(f"{name_of(cell.api_key)} v{cell.version}: {cell.why}")
        for verdict in cell.verdicts:
            if verdict.state is State.RED:
                click.echo(f"  {verdict.case.name}: {what_differs(verdict)}")
    click.echo(summary(found))
    if report is not None:
        write(found, report)
        click.echo(f"report: {report / 'wire.html'}")
    sys.exit(EXIT_RED if found.red else 0)


@contextlib.contextmanager
def _brokers(
    bootstrap: str | None, against: str | None, oracle: str
) -> Iterator[tuple[Broker, Broker]]:
    """The two brokers; those that nobody named are started, and stopped afterwards."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-conformance-")))
        if bootstrap is None:
            bootstrap = stack.enter_context(local.kwire(folder / "kwire"))
        if against is None:
            assert oracle == "apache"
            against = stack.enter_context(local.apache(folder / "apache"))
        yield Broker(address_of(bootstrap)), Broker(address_of(against))


def _run(runner: Runner, only: tuple[Selection, ...], short: bool) -> Run:
    began = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cases", total=None)

        def progress(verdict: Verdict, total: int) -> None:
            described = f"{name_of(verdict.case.api_key)} v{verdict.version}"
            bar.update(task, advance=1, total=total, description=described)

        cells = runner.run(only, progress, short=short)
    names = (runner.subject.bootstrap, runner.oracle.bootstrap)
    return Run(*names, time.monotonic() - began, tuple(cells))
