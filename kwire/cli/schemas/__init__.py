"""`kwire schemas`: lists, describes, registers, checks and deletes the schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kwire.cli.grammar.asking import NOT_CHANGED, asking_options, must_agree
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.options import with_options
from kwire.cli.grammar.statuses import EXIT_FOUND, checks
from kwire.cli.schemas.options import (
    FORMATS,
    kind_of,
    reference_option,
    schema_text,
    with_registry,
)
from kwire.cli.text.output import counted, json_option, print_json, print_table, printable, say

if TYPE_CHECKING:
    from kwire.registry.client.described import RegisteredVersion
    from kwire.registry.client.rest import RegistryClient
    from kwire.registry.schemas.kinds import Reference

LISTING = Listing(
    45,
    "List, describe, register, check and delete schemas of a registry.",
    "list, describe, register, check and delete the schemas of a schema registry",
)

VERSION = click.option(
    "--version", type=click.IntRange(min=1), metavar="N", help="This version only."
)


@click.group("schemas", cls=Commands, old={"show": "describe"})
def command() -> None:
    """List, describe, register, check and delete schemas of Avro, Protobuf and JSON Schema.

    The registry is kwire's, or another with the REST interface of Confluent's.  A topic's records
    have their schemas under the subjects TOPIC-key and TOPIC-value, if nothing else is chosen.

    \b
      kwire schemas register orders-value order.avsc
      kwire schemas check orders-value order-2.avsc
      kwire schemas describe orders-value
      kwire schemas list
      kwire schemas delete orders-value --version 1
    """


@command.command("list")
@click.argument("prefix", default="")
@click.option("--deleted", is_flag=True, help="Also what is deleted, but not permanently.")
@json_option
@with_registry
def list_command(client: RegistryClient, prefix: str, deleted: bool, as_json: bool) -> None:
    """List the subjects, or those that begin with PREFIX, with the latest version of each."""
    found = client.latest_versions(prefix, deleted=deleted)
    if as_json:
        print_json([_described(each) for each in found])
        return
    rows = [(each.subject, each.version, each.schema_id, each.schema.kind) for each in found]
    print_table(["subject", "version", "id", "type"], rows)


def _described(version: RegisteredVersion) -> dict[str, Any]:
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.schema_id,
        "type": version.schema.kind.value,
    }


@command.command("describe")
@click.argument("subject", required=False)
@VERSION
@click.option("--id", "schema_id", type=click.IntRange(min=1), metavar="N", help="By its id.")
@click.option("--deleted", is_flag=True, help="Also if it is deleted, but not permanently.")
@json_option
@with_registry
def describe_command(
    client: RegistryClient,
    subject: str | None,
    version: int | None,
    schema_id: int | None,
    deleted: bool,
    as_json: bool,
) -> None:
    """Describe a schema: the latest version of SUBJECT, or that of an id.

    Its text is on standard output, and what it is on standard error.  With --json all that the
    registry says of it is printed.
    """
    if (subject is None) == (schema_id is None) or (schema_id is not None and version is not None):
        raise click.UsageError("give a SUBJECT, with or without --version, or --id")
    if schema_id is not None:
        found = client.schema(schema_id)
    else:
        assert subject is not None
        found = client.version(subject, version or "latest", deleted=deleted)
    if as_json:
        print_json(dict(found.answer))
        return
    place = f"id {found.schema_id if schema_id is None else schema_id}"
    if found.subject is not None and found.version is not None:
        place = f"{found.subject} version {found.version}, {place}"
    say(printable(f"{place}, {found.schema.kind}"))
    for each in found.schema.references:
        say(printable(f"refers to {each.name}: {each.subject} version {each.version}"))
    click.echo(_readable(found.schema.text))


def _readable(text: str) -> str:
    """JSON with indentation; any other text, and JSON that is nested too deeply, as it is.

    Control characters are escaped, but tabs and the ends of lines.
    """
    try:
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = text.rstrip("\n")
    lines = ("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
    return "\n".join(lines)


WRITTEN: tuple[Callable[[Any], Any], ...] = (
    click.argument("subject"),
    click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True)),
    click.option(
        "--type",
        "kind",
        type=click.Choice(list(FORMATS)),
        help="The type of the schema. [default: by the suffix .avsc, .proto or .json]",
    ),
    reference_option,
    click.option("--normalize", is_flag=True, help="Let the registry normalize the schema."),
)
"""The arguments and options of a schema that is sent to the registry."""


def written_schema(command: Any) -> Any:  # noqa: ANN401 - a command
    """Add the arguments and options of a schema that is sent to the registry."""
    return with_options(command, WRITTEN)


@command.command("register")
@written_schema
@with_registry
def register_command(
    client: RegistryClient,
    subject: str,
    file: str,
    kind: str | None,
    references: tuple[Reference, ...],
    normalize: bool,
) -> None:
    """Register the schema in FILE (`-`: standard input) as a version of SUBJECT; print its id.

    It is refused if it is not compatible with earlier versions.  A schema that is registered
    already keeps its id.
    """
    text = schema_text(file, kind_of(file, kind), references)
    click.echo(client.register(subject, text, normalize=normalize))


@command.command("check")
@written_schema
@VERSION
@checks
@with_registry
def check_command(
    client: RegistryClient,
    subject: str,
    file: str,
    kind: str | None,
    references: tuple[Reference, ...],
    normalize: bool,
    version: int | None,
) -> None:
    """Check whether the schema in FILE is compatible with SUBJECT, without registering it.

    It is compared with the versions that the compatibility level of the subject names, or with
    --version.  Exits with 1 if it is not compatible, with the reasons on standard output.
    """
    text = schema_text(file, kind_of(file, kind), references)
    found = client.check(subject, text, version, normalize=normalize)
    if found.is_compatible:
        say(f"the schema is compatible with {printable(subject)}")
        return
    say(f"the schema is not compatible with {printable(subject)}")
    for message in found.messages:
        click.echo(printable(message))
    raise SystemExit(EXIT_FOUND)


@command.command("delete")
@click.argument("subject")
@VERSION
@click.option(
    "--permanent",
    is_flag=True,
    help="Delete what is deleted already for ever: records with its id cannot be read any more.",
)
@asking_options()
@with_registry
def delete_command(
    client: RegistryClient,
    subject: str,
    version: int | None,
    permanent: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete all versions of SUBJECT, or one.  Shows them and asks before it deletes.

    They are marked as deleted: producers do not find them any more, and records that have them
    can still be read.  Until they are deleted permanently, the registry keeps them.
    """
    if dry_run or not yes:
        numbers = client.versions(subject, deleted=permanent)
        chosen = [each for each in numbers if version in (None, each)]
        found = [client.version(subject, each, deleted=permanent) for each in chosen]
        rows = [(each.subject, each.version, each.schema_id) for each in found]
        print_table(["subject", "version", "id"], rows)
        what = counted(len(found), "version")
        if dry_run or not found:
            say(f"{NOT_CHANGED}: {what} would be deleted")
            return
        must_agree(f"Delete {what}{' for ever' if permanent else ''}?", yes=yes)
    if version is None:
        deleted = client.delete_subject(subject, permanent=permanent)
    else:
        deleted = [client.delete_version(subject, version, permanent=permanent)]
    say(f"{counted(len(deleted), 'version')} of {printable(subject)} deleted")
