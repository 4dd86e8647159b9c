"""`kwire doctor`: checks the security of a broker's settings."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FOUND, checks
from kwire.cli.text.output import json_option, print_json, print_table, say
from kwire.cli.values import settings_option

if TYPE_CHECKING:
    from kwire.security.checkup import SecurityFinding

LISTING = Listing(
    190,
    "Check the security of a broker's settings.",
    "report what a broker's settings leave open or broken",
)


@click.command("doctor")
@click.argument("properties", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--security", is_flag=True, help="Check security, which is the only check so far.")
@settings_option(
    "-s", "--set", "settings", help="Set a setting by Kafka's name; it wins over the file."
)
@json_option
@checks
def command(
    properties: Path, security: bool, settings: tuple[tuple[str, str], ...], as_json: bool
) -> None:
    """Check the security of a server.properties file, and list the findings.

    A finding is open (somebody can connect, read or change what they should not), broken (a setting
    does not work, or soon will not), or weak.  No secret is shown.  Exits with 1 if a finding is
    open or broken.

    \b
      kwire doctor server.properties
      kwire doctor kwire-data-secure/broker.properties
      kwire doctor server.properties --json
    """
    from kwire.security.checkup import Grade

    found = sorted(_findings(properties, dict(settings)), key=lambda each: _order(each))
    if as_json:
        print_json(
            [{"grade": each.grade.value, "about": each.about, "says": each.says} for each in found]
        )
    elif found:
        print_table(("grade", "about", "finding"), [(each[0].value, *each[1:]) for each in found])
    else:
        say("nothing is open, broken or weak")
    if any(each.grade is not Grade.WEAK for each in found):
        raise SystemExit(EXIT_FOUND)


def _order(finding: SecurityFinding) -> int:
    from kwire.security.checkup import Grade

    return list(Grade).index(finding.grade)


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
