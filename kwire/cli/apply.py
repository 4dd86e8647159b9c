"""`kwire apply`: changes a cluster to the state that a file declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kwire.cli.app import connected
from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FOUND, does_check, failure_status
from kwire.cli.text.output import counted, printable, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.cli.declared_state.files import Declaration
    from kwire.cli.declared_state.plan import Change
    from kwire.client.cluster import Cluster

LISTING = Listing(
    110,
    "Change a cluster to the state that a file declares.",
    "make a cluster match [a file of declared state](declared-state.md); plan, `--prune`, "
    "`--check`",
)

NOTHING = "nothing to change"


def _checks(_: click.Context, __: click.Parameter, check: bool) -> bool:
    if check:
        does_check()
    return check


@click.command("apply")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@asking_options()
@click.option(
    "--check", is_flag=True, callback=_checks,
    help="Exit with 1 if something would change (or has changed, with --yes), and with 2 if the"
    " check failed.",
)  # fmt: skip
@click.option(
    "--prune", is_flag=True,
    help="Remove what the sections of the file do not name, except Kafka's internal topics.",
)  # fmt: skip
@click.option(
    "--passwords", is_flag=True,
    help="Set all passwords again, since the cluster does not show whether one differs.",
)  # fmt: skip
@connected
def command(
    cluster: Cluster,
    file: Path,
    yes: bool,
    dry_run: bool,
    check: bool,
    prune: bool,
    passwords: bool,
) -> None:
    """Change a cluster to the state that FILE declares: topics and their first records, users,
    ACLs, quotas, and configs of groups and client metrics.

    Shows the plan and asks before it changes anything.  Applying the same file again changes
    nothing.  docs/declared-state.md describes the file:

    \b
      topics:
        orders:
          partitions: 6
          configs: {cleanup.policy: compact}
          records: [{key: k, value: {fruit: apples}}]
      users:
        alice: {password: {env: ALICE_PASSWORD}}
      acls:
        - {principal: User:alice, topic: orders, operations: [read, describe]}
      quotas:
        - {user: alice, producer_byte_rate: 1048576}
    \b
      kwire apply cluster.yaml
      kwire apply cluster.yaml --dry-run --prune
      kwire apply cluster.yaml --check          exits with 1 if something would change
    """
    from kwire.cli.declared_state.carrying import planned

    declaration = loaded(file)
    plan = planned(cluster, declaration, prune=prune, passwords=passwords)
    show(plan.changes)
    if plan.conflicts:
        for conflict in plan.conflicts:
            complain(conflict)
        say(NOT_CHANGED)
        raise SystemExit(failure_status())
    if not plan.changes:
        say(NOTHING)
        return
    if not (dry_run or (check and not yes)):
        must_agree("Make these changes?", yes=yes)
        carry_out_all(cluster, plan.changes, declaration)
    if check:
        raise SystemExit(EXIT_FOUND)


def loaded(source: Path) -> Declaration:
    """The declaration in a file.  Prints each mistake in an invalid file and exits."""
    from kwire.cli.declared_state.document import DeclarationError
    from kwire.cli.declared_state.files import load

    try:
        return load(source)
    except DeclarationError as problem:
        for line in str(problem).splitlines():
            complain(line)
        raise SystemExit(failure_status()) from None


def complain(sentence: str) -> None:
    """Print an error message on standard error, with control characters escaped."""
    click.echo(f"kwire: {printable(sentence)}", err=True)


def show(changes: Sequence[Change]) -> None:
    """Print the plan, in colours on a terminal."""
    from kwire.cli.declared_state import words

    colours = {words.NEW: "green", words.CHANGED: "yellow", words.GONE: "red"}
    for change in changes:
        sign = words.sign(change)
        click.secho(printable(f"{sign} {words.title(change)}"), fg=colours[sign])
        for detail in words.details(change):
            click.echo(words.INDENT + printable(detail))
    if changes:
        say(words.summary(changes))


def carry_out_all(cluster: Cluster, changes: Sequence[Change], declaration: Declaration) -> None:
    """Make the changes.  Prints each change that failed, and then exits with a failure status."""
    from kwire.cli.declared_state.carrying import carry_out

    outcome = carry_out(cluster, changes, declaration.folder)
    say(f"{counted(len(outcome.done), 'change')} made")
    if outcome.failures:
        for failure in outcome.failures:
            complain(failure)
        left = len(changes) - len(outcome.done)
        say(f"{left} of {counted(len(changes), 'change')} not made")
        raise SystemExit(failure_status())
