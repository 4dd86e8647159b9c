"""`kwire console`: pages in a browser that show a cluster."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from kwire.cli.app import (
    bootstrap_of,
    bootstrap_option,
    checks_brokers,
    client_properties,
    command_config_option,
    in_words,
    security_of,
)
from kwire.cli.grammar.listing import Listing
from kwire.cli.hosting.console import CONSOLE_PORT, check_installed
from kwire.cli.repeats import log_format_option, start_logging

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.console.decoding.decoder import Decoder

LISTING = Listing(
    215,
    "Show a cluster in a browser.",
    "show a cluster in a browser: topics, messages ([filters](console-filters.md)), configs",
)

CLIENT_ID: Final = "kwire-console"


@click.command("console")
@bootstrap_option
@command_config_option
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=CONSOLE_PORT, show_default=True, metavar="N",
    help="Listen on this port; 0 chooses a free port.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST",
    help="Listen on this address. Elsewhere than on this machine, a token is needed; the link that "
    "is printed has it.",
)  # fmt: skip
@click.option(
    "--allow-host", "allowed_hosts", multiple=True, metavar="NAME",
    help="Also answer to this host name, such as that of a proxy; may be given several times.",
)  # fmt: skip
@click.option(
    "--registry", metavar="URL", help="Decode records with the schemas of this schema registry."
)
@click.option(
    "--schemas", "schema_files", multiple=True, metavar="TOPIC=FILE",
    type=click.UNPROCESSED,
    help="Decode the values of a topic with a schema: .avsc of Avro, or a descriptor set of "
    "protoc (.desc). TOPIC:key=FILE is for keys, FILE#MESSAGE names a Protobuf message.",
)  # fmt: skip
@click.option(
    "--metrics", multiple=True, metavar="URL",
    help="Address of a broker's metrics endpoint (kwire serve --metrics); may be given several "
    "times. [default: those that the brokers' settings name]",
)  # fmt: skip
@click.option(
    "--control", "controls", multiple=True, metavar="URL",
    help="Address of a broker's HTTP control (kwire serve --control); may be given several times.",
)  # fmt: skip
@log_format_option
@click.option("--exit-on-eof", is_flag=True, help="Stop also when standard input ends.")
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    port: int,
    host: str,
    allowed_hosts: tuple[str, ...],
    registry: str | None,
    schema_files: tuple[str, ...],
    metrics: tuple[str, ...],
    controls: tuple[str, ...],
    log_format: str,
    exit_on_eof: bool,
) -> None:
    """Show a cluster in a browser, until Ctrl-C.

    \b
      kwire console                                   the cluster at localhost:9092
      kwire console -b broker:9092 --command-config client.properties
      kwire console --registry http://localhost:8081  decode Avro, Protobuf and JSON Schema
      kwire console --host 0.0.0.0                    for other machines, with a token

    The pages show and change what the user of the client properties may see and change.
    """
    check_installed()
    in_words(
        lambda: _run(
            bootstrap_server, command_config, port=port, host=host, allowed_hosts=allowed_hosts,
            registry=registry, files=schema_files, metrics=metrics, controls=controls,
            log_format=log_format, exit_on_eof=exit_on_eof,
        )
    )  # fmt: skip


def _run(
    bootstrap_server: str | None,
    command_config: Path | None,
    *,
    port: int,
    host: str,
    allowed_hosts: tuple[str, ...],
    registry: str | None,
    files: tuple[str, ...],
    metrics: tuple[str, ...],
    controls: tuple[str, ...],
    log_format: str,
    exit_on_eof: bool,
) -> None:
    """Serves the console.  Raises ClientError for invalid client properties, and OSError if the
    port cannot be bound."""
    from kwire.console.decoding.decoder import DECODER
    from kwire.console.serving import ConsoleOptions, run_console

    shown = shown_cluster(CLIENT_ID, bootstrap_server, command_config, registry, files)
    start_logging("info", log_format)
    options = ConsoleOptions(
        shown.bootstrap, host, port, allowed_hosts, metrics, controls,
        command_options(shown.bootstrap, command_config), exit_on_eof, {DECODER: shown.decoder},
    )  # fmt: skip
    run_console(options, shown.connect, announce)


class ShownCluster(NamedTuple):
    """A cluster whose topics, records and groups are shown."""

    bootstrap: str
    connect: Callable[[], Cluster]
    """Makes a client of the cluster, with the times that the console's questions need."""
    decoder: Decoder


def shown_cluster(
    client_id: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    registry: str | None,
    files: tuple[str, ...],
) -> ShownCluster:
    """The cluster that the options of `kwire console` and `kwire mcp` name.

    Raises ClientError for invalid client properties, addresses and schemas.
    """
    from kwire.client.cluster import Cluster, parse_bootstrap
    from kwire.client.errors import Misuse
    from kwire.client.inspection.survey import ROLE
    from kwire.console.decoding.decoder import Decoder
    from kwire.console.decoding.files import schema_files
    from kwire.console.pool import REQUEST_TIMEOUT_S, SURVEY_TIMEOUT_S
    from kwire.registry.client.configured import client_of
    from kwire.registry.client.registered import RegisteredSchemas

    properties = client_properties(command_config)
    bootstrap = bootstrap_of(bootstrap_server, properties)
    parse_bootstrap(bootstrap)
    security = security_of(properties)

    def connect() -> Cluster:
        cluster = Cluster(
            bootstrap,
            client_id=client_id,
            timeout_s=REQUEST_TIMEOUT_S,
            security=security,
            checks_brokers=checks_brokers(properties),
        )
        cluster.role_timeouts_s[ROLE] = SURVEY_TIMEOUT_S
        return cluster

    schemas = RegisteredSchemas(client_of(registry, properties)) if registry else None
    try:
        decoder = Decoder(schemas, schema_files(files))
    except ValueError as problem:
        raise Misuse(str(problem)) from None
    return ShownCluster(bootstrap, connect, decoder)


def command_options(bootstrap: str, command_config: Path | None) -> str:
    """The options by which another `kwire` command reaches the same cluster."""
    words = ["-b", bootstrap]
    if command_config is not None:
        words += ["--command-config", str(command_config)]
    return " " + shlex.join(words)


def announce(url: str) -> None:
    """Print the URL to open.  It is on standard output, so that a script can read it."""
    click.echo(f"kwire console: {url}")
