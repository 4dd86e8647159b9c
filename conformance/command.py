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
from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.behaviour.scenario import BRISK
from kwire.conformance.hostile.cases import SEED
from kwire.conformance.kraft_cluster import APACHE, KWIRE
from kwire.conformance.parts import Suite
from kwire.conformance.report import ReportPart
from kwire.conformance.selection import PARTS, Chosen
from kwire.conformance.wire.allowed import BESIDE_CONTROLLERS
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
    """Return the selection in the arguments; raise BadParameter if they name nothing."""
    try:
        return selection.parse(values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@command.command("run")
@click.option(
    "-b", "--bootstrap-server", "bootstrap", metavar="HOST:PORT",
    help="The broker to test; a kwire broker is started if none is given.",
)  # fmt: skip
@click.option(
    "--other-bootstrap-server", "against", metavar="HOST:PORT", help="The reference broker."
)
@click.option("--bootstrap", "old_bootstrap", hidden=True)
@click.option("--against", "old_against", hidden=True)
@click.option(
    "--oracle", type=click.Choice(["apache"]), default="apache", show_default=True,
    help="Without another broker: start Apache Kafka (jars from Maven Central; needs Java 17+).",
)  # fmt: skip
@click.option(
    "--oracle-version", metavar="VERSION", default=VERSION, show_default=True,
    help="The release of Apache Kafka to start.",
)  # fmt: skip
@click.option(
    "--kraft", is_flag=True,
    help="The brokers that are started have controllers of Apache Kafka (KRaft), one each.",
)  # fmt: skip
@click.option(
    "--only", "chosen", multiple=True, metavar="WHAT", callback=_chosen,
    help="A part (wire, behaviour, hostile), some of one (behaviour:groups, hostile:batch/gzip)"
    " or an API of the wire part (Fetch, 1:12); may be given several times.",
)  # fmt: skip
@click.option(
    "--brisk", is_flag=True,
    help=f"Brokers given by address have {BRISKLY}: also run scenarios that wait for retention.",
)  # fmt: skip
@click.option(
    "--report", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help=f"Folder for {', '.join(report.FILES)} (JUnit).",
)  # fmt: skip
@click.option(
    "--short", is_flag=True,
    help="Each case in one version: its API's first, last or first flexible one, by the seed.",
)  # fmt: skip
@click.option("--seed", default=SEED, show_default=True, help="Seed of the random choices.")
@click.option("--workers", default=WORKERS, show_default=True, help="Cases at the same time.")
def run_command(
    bootstrap: str | None,
    against: str | None,
    old_bootstrap: str | None,
    old_against: str | None,
    oracle: str,
    oracle_version: str,
    kraft: bool,
    chosen: Chosen,
    brisk: bool,
    folder: Path | None,
    short: bool,
    seed: str,
    workers: int,
) -> None:
    """Send the same requests to both brokers and compare their responses.

    Three parts: every API in every version (wire), scenarios of several requests (behaviour), and
    invalid requests (hostile), which may leave topics and groups with strange names.

    The exit status is 0 if there is no unknown difference, 1 if there is one, 2 if the command line
    is wrong or a broker does not answer.
    """
    bootstrap, against = bootstrap or old_bootstrap, against or old_against
    if kraft and oracle_version != VERSION:
        raise click.UsageError(f"--kraft starts Apache Kafka {VERSION} only.")
    brisk = brisk or (bootstrap is None and against is None)
    parts: list[ReportPart] = []
    try:
        with _brokers(bootstrap, against, oracle_version, brisk, kraft) as (subject, right):
            suite = Suite(
                subject,
                right,
                brisk=brisk,
                short=short,
                workers=workers,
                seed=seed,
                excuses=BESIDE_CONTROLLERS if kraft else (),
            )
            for name in PARTS:
                if name in chosen.parts:
                    parts.append(_run(suite, name, chosen))
                    _print_result(parts[-1])
    except (NotReady, OSError, RuntimeError, ValueError) as error:
        click.echo(f"kwire: {error}", err=True)
        raise SystemExit(EXIT_NOT_RUN) from error
    if folder is not None:
        report.write(parts, subject, right, folder)
        click.echo(f"report: {folder / report.FILES[0]}")
    sys.exit(EXIT_RED if any(part.red for part in parts) else 0)


def _print_result(part: ReportPart) -> None:
    for line in part.words():
        click.echo(line)
    click.echo(f"{part.name}: {part.summary}")


@contextlib.contextmanager
def _brokers(
    bootstrap: str | None, against: str | None, version: str, brisk: bool, kraft: bool
) -> Iterator[tuple[str, str]]:
    """Yield the addresses of both brokers; starts those without an address, and stops them at the
    end."""
    settings = BRISK if brisk else {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-conformance-")))
        if bootstrap is None:
            own = (
                local.beside_controller(folder / "kwire", KWIRE, settings)
                if kraft
                else local.kwire(folder / "kwire", settings)
            )
            bootstrap = stack.enter_context(own)
        if against is None:
            node = (
                local.beside_controller(folder / "apache", APACHE, settings)
                if kraft
                else local.apache(folder / "apache", settings, version=version)
            )
            against = stack.enter_context(node)
        yield bootstrap, against


def _run(suite: Suite, name: str, chosen: Chosen) -> ReportPart:
    """Run one part of the suite with a progress bar on standard error; return its results."""
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
