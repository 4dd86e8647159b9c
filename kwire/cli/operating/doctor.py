"""`kwire doctor`: checks a running cluster, and the security of a broker's settings."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.core import ParameterSource

from kwire.cli.app import connected_within
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FOUND, EXIT_NOT_CHECKED, checks
from kwire.cli.text.output import (
    Cell,
    counted,
    json_option,
    print_json,
    print_table,
    printable,
    say,
)
from kwire.cli.values import settings_option

if TYPE_CHECKING:
    from kwire.client.checkup.examine import Examination
    from kwire.client.cluster import Cluster
    from kwire.security.checkup import SecurityFinding

LISTING = Listing(
    190,
    "Check a running cluster, or the settings of a broker.",
    "report what is wrong with a [running cluster](operations.md#kwire-doctor), or what a broker's"
    " settings leave open or broken; with remedies",
)

PATIENCE_S = 5.0
"""The timeout of each broker: short, so that a broker that hangs is found soon."""
COLOURS = {"broken": "red", "open": "red", "risk": "yellow", "weak": "yellow"}


class DoctorLine(NamedTuple):
    """One finding as it is printed: about a cluster, or about a file of settings."""

    grade: str
    about: str
    says: str
    remedy: str | None = None
    check: str | None = None
    """The name of the check; None for a finding about a file."""
    fails: bool = False
    """Whether the command exits with 1 because of it."""


@click.command("doctor")
@click.argument(
    "properties", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--security", is_flag=True, help="Check only the security of PROPERTIES, as without -b."
)
@settings_option(
    "-s", "--set", "settings", help="Set a setting by Kafka's name; it wins over the file."
)
@json_option
@checks
@connected_within(PATIENCE_S)
def command(
    cluster: Cluster,
    properties: Path | None,
    security: bool,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Check a running cluster, or the security of a server.properties file, and list the findings.

    Without PROPERTIES, the cluster is checked as its clients see it from this machine: the
    addresses that brokers advertise, name resolution and ports, clocks, disks, limits of open
    files, settings that bite, and the state of brokers and partitions. Nothing is changed. Each
    finding has a remedy. It is broken (something does not work, or soon will not), a risk (records
    or availability are lost if one more thing fails), or a note.

    With PROPERTIES, its security is checked. A finding is open (somebody can connect, read or
    change what they should not), broken (a setting does not work, or soon will not), or weak. No
    secret is shown. With PROPERTIES and -b, both are checked.

    Exits with 1 if a finding is open, broken or a risk, and with 2 if no broker answers.

    \b
      kwire doctor
      kwire doctor -b broker:9092 --json
      kwire doctor server.properties
      kwire doctor kwire-data-secure/broker.properties
    """
    if properties is None and (settings or security):
        raise click.UsageError("--set and --security are about PROPERTIES, which is not given")
    lines: list[DoctorLine] = []
    if properties is not None:
        lines += _lines_of_file(properties, dict(settings))
    examined: Examination | None = None
    if properties is None or (_names_a_cluster() and not security):
        from kwire.client.checkup.examine import examine

        examined = examine(cluster)
        lines += _lines_of_cluster(examined)
    _print(lines, examined, as_json=as_json)
    if examined is not None and not examined.is_complete:
        say("kwire: no broker answers, so nothing else of the cluster was checked")
        raise SystemExit(EXIT_NOT_CHECKED)
    if any(each.fails for each in lines):
        raise SystemExit(EXIT_FOUND)


def _names_a_cluster() -> bool:
    """Return whether -b was given on the command line; the environment names a cluster for all
    commands, also for those that need none."""
    source = click.get_current_context().get_parameter_source("bootstrap_server")
    return source is ParameterSource.COMMANDLINE


# -- the findings as lines


def _lines_of_cluster(examined: Examination) -> Iterator[DoctorLine]:
    from kwire.client.checkup.finding import CheckGrade

    for each in examined.findings:
        fails = each.grade in (CheckGrade.BROKEN, CheckGrade.RISK)
        yield DoctorLine(each.grade.value, each.about, each.says, each.remedy, each.check, fails)


def _lines_of_file(path: Path, settings: dict[str, str]) -> Iterator[DoctorLine]:
    """Yield the findings about a file, the worst first."""
    from kwire.security.checkup import Grade

    order = list(Grade)
    for each in sorted(_findings(path, settings), key=lambda each: order.index(each.grade)):
        yield DoctorLine(
            each.grade.value, each.about, each.says, fails=each.grade is not Grade.WEAK
        )


def _findings(path: Path, settings: dict[str, str]) -> Iterator[SecurityFinding]:
    """Yield the security findings about the settings in a file, and about the file's own
    permissions."""
    from kwire.security.checkup import Grade, SecurityFinding, findings
    from kwire.security.checkup.certificates import readable_by_others
    from kwire.security.checkup.secrets import has_secrets
    from kwire.settings import ConfigError, load

    try:
        config = load(path, settings)
    except ConfigError as problem:
        yield SecurityFinding(Grade.BROKEN, str(path), str(problem))
        return
    yield from findings(config, datetime.datetime.now(datetime.UTC))
    if has_secrets(config) and readable_by_others(path):
        says = "the file holds secrets, and users other than its owner can read it"
        yield SecurityFinding(Grade.OPEN, str(path), says)


# -- printing


def _print(lines: Sequence[DoctorLine], examined: Examination | None, *, as_json: bool) -> None:
    """Print the findings, and on standard error a last line that says what was checked."""
    if as_json:
        print_json([_as_object(each) for each in lines])
        return
    if examined is None:
        if lines:
            rows: list[tuple[Cell, ...]] = [(each.grade, each.about, each.says) for each in lines]
            print_table(("grade", "about", "finding"), rows)
        else:
            say("nothing is open, broken or weak")
        return
    for each in lines:
        _print_block(each)
    if examined.is_complete:
        say(_verdict(lines, examined))


def _as_object(line: DoctorLine) -> dict[str, str | None]:
    """Return a finding as JSON.  One about a file has neither a check nor a remedy."""
    common: dict[str, str | None] = {
        "grade": line.grade, "about": line.about, "says": line.says
    }  # fmt: skip
    if line.check is None:
        return common
    return {**common, "check": line.check, "remedy": line.remedy}


def _print_block(line: DoctorLine) -> None:
    """Print a finding on up to three lines: a table would fold its sentences and commands."""
    # click.echo removes the colour where the output is no terminal.
    grade = click.style(line.grade.upper(), fg=COLOURS.get(line.grade), bold=True)
    name = "" if line.check is None else f"  [{line.check}]"
    click.echo(f"{grade}  {printable(line.about)}{name}")
    click.echo(f"  {printable(line.says)}")
    if line.remedy is not None:
        click.echo(f"  -> {printable(line.remedy)}")


def _verdict(lines: Sequence[DoctorLine], examined: Examination) -> str:
    """`checked 3 brokers and 12 topics of cluster ID: 1 broken, 2 risks`."""
    counts: dict[str, int] = {}
    for each in lines:
        counts[each.grade] = counts.get(each.grade, 0) + 1
    said = (
        counted(count, grade) if grade in ("risk", "note") else f"{count} {grade}"
        for grade, count in counts.items()
    )
    result = ", ".join(said) or "nothing found"
    return (
        f"checked {counted(examined.brokers, 'broker')} and {counted(examined.topics, 'topic')}"
        f" of cluster {examined.cluster_id}: {result}"
    )
