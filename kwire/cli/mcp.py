"""`kwire mcp`: a cluster for an assistant, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from kwire.cli.app import bootstrap_option, command_config_option, in_words
from kwire.cli.console import shown_cluster
from kwire.cli.grammar.listing import Listing
from kwire.cli.hosting.children import check_extra

LISTING = Listing(
    217,
    "Let an assistant examine a cluster (MCP).",
    "tools for an assistant that [speaks MCP](mcp.md): topics, decoded records, groups, health",
)

CLIENT_ID: Final = "kwire-mcp"
NEEDED: Final = ("mcp", "fastavro", "google.protobuf", "markupsafe")


@click.command("mcp")
@bootstrap_option
@command_config_option
@click.option(
    "--registry", metavar="URL", help="Decode records with the schemas of this schema registry."
)
@click.option(
    "--schemas", "schema_files", multiple=True, metavar="TOPIC=FILE",
    type=click.UNPROCESSED,
    help="Decode the values of a topic with a schema, as kwire console does.",
)  # fmt: skip
@click.option(
    "--control", metavar="PORT|URL",
    help="The HTTP control of a kwire broker (kwire serve --control): also offer its clock, "
    "traces, snapshots and faults.",
)  # fmt: skip
@click.option(
    "--allow-writes", is_flag=True,
    help="Also offer tools that change the cluster. Without it, the server cannot change anything.",
)  # fmt: skip
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    registry: str | None,
    schema_files: tuple[str, ...],
    control: str | None,
    allow_writes: bool,
) -> None:
    """Let an assistant examine a cluster, over the Model Context Protocol.

    \b
      kwire mcp                                       the cluster at localhost:9092
      kwire mcp -b broker:9092 --command-config client.properties
      kwire mcp --registry http://localhost:8081      decode Avro, Protobuf and JSON Schema
      kwire mcp --control 9644 --allow-writes         faults, clock and snapshots, too

    An assistant starts it, and speaks with it on standard input and output. It changes nothing,
    unless --allow-writes is given. The assistant sees what the user of the client properties sees.
    """
    check_extra("mcp", NEEDED)
    in_words(
        lambda: _run(
            bootstrap_server, command_config, registry=registry, files=schema_files,
            control=control, allows_writes=allow_writes,
        )
    )  # fmt: skip


def _run(
    bootstrap_server: str | None,
    command_config: Path | None,
    *,
    registry: str | None,
    files: tuple[str, ...],
    control: str | None,
    allows_writes: bool,
) -> None:
    """Serves the tools.  Raises ClientError for invalid client properties and addresses."""
    from kwire import __version__
    from kwire.client.errors import Misuse
    from kwire.console.assistant.serving import run_server
    from kwire.testing.control import ControlClient, ControlError

    shown = shown_cluster(CLIENT_ID, bootstrap_server, command_config, registry, files)
    try:
        client = None if control is None else ControlClient(control_address(control))
    except (ValueError, ControlError) as problem:
        raise Misuse(str(problem)) from None
    run_server(
        shown.connect, shown.bootstrap, shown.decoder, client,
        version=__version__, allows_writes=allows_writes,
    )  # fmt: skip


def control_address(control: str) -> str:
    """The address of a control: a port alone is one of this machine."""
    return f"http://127.0.0.1:{control}" if control.isdecimal() else control
