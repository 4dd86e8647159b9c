"""Options of commands that use a schema registry."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kwire.cli.app import client_properties, command_config_option, in_words

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.registry.client.described import SchemaText
    from kwire.registry.client.rest import RegistryClient
    from kwire.registry.schemas.kinds import Reference, SchemaKind

R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])

FORMATS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}
"""The kind of schema by the format that the user names."""
SUFFIXES: Final = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
STANDARD_INPUT: Final = "-"


def registry_option(command: C) -> C:
    """Add --registry, which the command gets as `registry`, None if nothing gives one."""
    return click.option(
        "--registry", metavar="URL[,...]", envvar="KWIRE_SCHEMA_REGISTRY",
        help="Addresses of the schema registry. Default: $KWIRE_SCHEMA_REGISTRY, or "
        "schema.registry.url in the --command-config file, or http://localhost:8081.",
    )(command)  # fmt: skip


def with_registry(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options that name the registry, and pass its client to the command."""

    @registry_option
    @command_config_option
    def run(
        *args: Any,  # noqa: ANN401 - whatever the command takes
        registry: str | None,
        command_config: Path | None,
        **kwargs: Any,  # noqa: ANN401 - whatever the command takes
    ) -> R:
        """Runs the command with a client; errors become a message and an exit status."""

        def with_client() -> R:
            from kwire.registry.client.configured import client_of

            client = client_of(registry, client_properties(command_config))
            return command(client, *args, **kwargs)

        return in_words(with_client)

    return update_wrapper(run, command)


def registry_of(registry: str | None, cluster: Cluster) -> RegistryClient:
    """The client of the registry, with the client properties of the cluster.  Raises Misuse."""
    from kwire.registry.client.configured import client_of

    properties: Mapping[str, str] = {}
    if cluster.security is not None:
        properties = cluster.security.properties
    return client_of(registry, properties)


def check_installed(kind: SchemaKind) -> None:
    """Exit with a message if the library for schemas of a kind is not installed."""
    from kwire.cli.hosting.children import check_extra

    needed = {"AVRO": "fastavro", "PROTOBUF": "google.protobuf", "JSON": "jsonschema"}[kind]
    check_extra("registry", (needed,))


def reference(text: str) -> Reference:
    """The reference of `NAME=SUBJECT:VERSION`, as an option's type."""
    from kwire.registry.schemas.kinds import Reference

    found = re.fullmatch(r"(.+?)=(.+):([0-9]+)", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not like NAME=SUBJECT:VERSION")
    return Reference(found[1], found[2], int(found[3]))


def reference_option(command: C) -> C:
    """Add --reference, which the command gets as `references`."""
    return click.option(
        "--reference", "references", type=reference, multiple=True,
        metavar="NAME=SUBJECT:VERSION",
        help="A registered schema that the schema refers to by NAME: an import of Protobuf, a $ref,"
        " or a type of Avro. May be given several times.",
    )(command)  # fmt: skip


def kind_of(path: str, given: str | None) -> SchemaKind:
    """The kind of a schema from the option, or from the suffix of its file.  Raises UsageError."""
    from kwire.registry.schemas.kinds import SchemaKind

    kind = FORMATS[given] if given else SUFFIXES.get(Path(path).suffix)
    if kind is None:
        raise click.UsageError(
            f"the type of the schema in {path} is not known by its suffix: give --type"
        )
    return SchemaKind(kind)


def schema_text(path: str, kind: SchemaKind, references: tuple[Reference, ...] = ()) -> SchemaText:
    """The schema in a file, or that of standard input for `-`.  Raises UsageError, OSError."""
    from kwire.registry.client.described import SchemaText

    try:
        text = sys.stdin.read() if path == STANDARD_INPUT else Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not text in UTF-8") from None
    return SchemaText(kind, text, references)


def schema_file(help: str) -> Callable[[Any], Any]:  # noqa: A002 - click's own word
    """Add --schema, a file, which the command gets as `schema`."""
    return click.option(
        "--schema", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help=help
    )
