"""The command `kwire conformance`, which compares two brokers."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kwire.conformance import local, report, selection
from kwire.conformance.behaviour.scenario import BRISK
from kwire.conformance.hostile.cases import SEED
from kwire.conformance.parts import Suite
from kwire.conformance.report import ReportPart
from kwire.conformance.selection import PARTS, Chosen
from kwire.conformance.wire.broker import NotReady
from kwire.conformance.wire.runner import WORKERS

EXIT_RED = 1
EXIT_NOT_RUN = 2
BRISKLY = " ".join(f"{name}={value}" for name, value in BRISK.items())


@click.group("conformance")
def command() -> None:
    """Compare a broker with another one, request by request.

    \b
      kwire conformance run -b localhost:9092 --oracle apache
      kwire conformance run -b localhost:9092 --other-bootstrap-server other:9092 --only Fetch:12
    """


def _chosen(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Chosen:
    try:
        return selection.parse(values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@command.command("run")
@click.option(
    "-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT",
    help="The broker that is judged; a kwire of its own is started if none is given.",
)  # fmt: skip
@click.option(
    "--other-bootstrap-server", "against", metavar="HOST:PORT", help="The broker that is right."
)
@click.option("--bootstrap", "old_bootstrap", hidden=True)
@click.option("--against", "old_against", hidden=True)
@click.option(
    "--oracle", type=click.Choice(["apache"]), default="apache", show_default=True,
    help="Without another broker: start Apache Kafka (jars from Maven Central; needs Java 17+).",
)  # fmt: skip
@click.option(
    "--only", "chosen", multiple=True, metavar="WHAT", callback=_chosen,
    help="A part (wire, behaviour, hostile), some of one (behaviour:groups, hostile:batch/gzip)"
    " or an API of the wire part (Fetch, 1:12); may be given several times.",
)  # fmt: skip
@click.option(
    "--brisk", is_flag=True,
    help=f"Brokers given by address have {BRISKLY}: play what waits for retention too.",
)  # fmt: skip
@click.option(
    "--report", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help=f"Write {', '.join(report.FILES)} (JUnit) there.",
)  # fmt: skip
@click.option(
    "--short", is_flag=True,
    help="Each case at one version: its API's first, last or first flexible one, by the seed.",
)  # fmt: skip
@click.option("--seed", default=SEED, show_default=True, help="Of what is drawn by chance.")
@click.option("--workers", default=WORKERS, show_default=True, help="Cases under way at once.")
def run_command(
    bootstrap: str | None,
    against: str | None,
    old_bootstrap: str | None,
    old_against: str | None,
    oracle: str,
    chosen: Chosen,
    brisk: bool,
    folder: Path | None,
    short: bool,
    seed: str,
    workers: int,
) -> None:
    """Send the same requests to both brokers and compare what comes back.

    Three parts: every API at every version (wire), stories over several of them (behaviour), and
    what no client should send (hostile), which may leave topics and groups of odd names behind.

    The exit status is 0 if nothing differs but what is known to, 1 if something does, 2 if the
    command line is wrong or the brokers could not be asked.
    """
    bootstrap, against = bootstrap or old_bootstrap, against or old_against
    brisk = brisk or (bootstrap is None and against is None)
    parts: list[ReportPart] = []
    try:
        with _brokers(bootstrap, against, oracle, brisk) as (subject, right):
            suite = Suite(subject, right, brisk=brisk, short=short, workers=workers, seed=seed)
            for name in PARTS:
                if name in chosen.parts:
                    parts.append(_run(suite, name, chosen))
                    _tell(parts[-1])
    except (NotReady, OSError, RuntimeError, ValueError) as error:
        click.echo(f"kwire: {error}", err=True)
        raise SystemExit(EXIT_NOT_RUN) from error
    if folder is not None:
        report.write(parts, subject, right, folder)
        click.echo(f"report: {folder / report.FILES[0]}")
    sys.exit(EXIT_RED if any(part.red for part in parts) else 0)


def _tell(part: ReportPart) -> None:
    for line in part.words():
        click.echo(line)
    click.echo(f"{part.name}: {part.summary}")


@contextlib.contextmanager
def _brokers(
    bootstrap: str | None, against: str | None, oracle: str, brisk: bool
) -> Iterator[tuple[str, str]]:
    """The two brokers' addresses; those that nobody named are started, and stopped afterwards."""
    settings = BRISK if brisk else {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-conformance-")))
        if bootstrap is None:
            bootstrap = stack.enter_context(local.kwire(folder / "kwire", settings))
        if against is None:
            assert oracle == "apache"
            against = stack.enter_context(local.apache(folder / "apache", settings))
        yield bootstrap, against


def _run(suite: Suite, name: str, chosen: Chosen) -> ReportPart:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        return suite.run(
            name,
            chosen,
            lambda case, total: bar.update(
                task, advance=1, total=total, description=f"{name}: {case:.60}"
            ),
        )
