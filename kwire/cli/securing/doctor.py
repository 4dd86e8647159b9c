"""`kwire doctor`: what a broker's settings leave open, before somebody finds out."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.grammar.statuses import EXIT_FOUND, checks
from kwire.cli.text.output import json_option, print_json, print_table, say
from kwire.cli.values import settings_option

if TYPE_CHECKING:
    from kwire.security.checkup import SecurityFinding


@click.command("doctor")
@click.argument("properties", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--security", is_flag=True, help="Who may come in, read and do what: all there is.")
@settings_option("-s", "--set", "settings", help="A setting by Kafka's name; goes before the file.")
@json_option
@checks
def command(
    properties: Path, security: bool, settings: tuple[tuple[str, str], ...], as_json: bool
) -> None:
    """Look at a server.properties, and say what is wrong with it.

    Of each finding it is told whether something is open (somebody may come in, do or read what
    they should not), broken (it does not do what it says, or will not soon), or weak.  No secret
    is shown.  It ends with 1 where anything is open or broken.

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
        says = "it has secrets in it, and others than its owner may read it"
        yield SecurityFinding(Grade.OPEN, str(path), says)
