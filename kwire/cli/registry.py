"""`kwire registry`: a schema registry beside a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

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
from kwire.cli.hosting.registry import REGISTRY_PORT, check_installed
from kwire.cli.repeats import log_format_option, start_logging

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.registry.serving import RegistryOptions

LISTING = Listing(
    216,
    "Run a schema registry.",
    "run a [schema registry](registry.md) for Avro, Protobuf and JSON Schema",
)

CLIENT_ID: Final = "kwire-registry"
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("registry")
@bootstrap_option
@command_config_option
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=REGISTRY_PORT, show_default=True,
    metavar="N", help="Listen on this port; 0 chooses a free port.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="HOST",
    help="Listen on this address; 0.0.0.0 is all of this machine's.",
)  # fmt: skip
@click.option(
    "--advertised-host", metavar="HOST",
    help="Under this name other instances reach this one. [default: --host, or this machine's "
    "name if that is 0.0.0.0]",
)  # fmt: skip
@click.option(
    "--topic", default="_schemas", show_default=True, metavar="TOPIC",
    help="Keep the schemas in this topic; it is created if it is missing.",
)  # fmt: skip
@click.option(
    "--group", default="schema-registry", show_default=True, metavar="GROUP",
    help="Elect a primary among the instances in this group.",
)  # fmt: skip
@click.option(
    "--never-primary", is_flag=True,
    help="Send changes on to another instance, also if there is none.",
)  # fmt: skip
@click.option(
    "--users", type=FILE, metavar="FILE",
    help="Ask for basic authentication. A line of the file is USER: PASSWORD.",
)  # fmt: skip
@click.option(
    "--tls-certificate", type=FILE, metavar="FILE",
    help="Serve HTTPS with this certificate and those of its issuers, in PEM.",
)  # fmt: skip
@click.option(
    "--tls-key", type=FILE, metavar="FILE", help="The private key of the certificate, in PEM."
)
@click.option(
    "--tls-client-ca", type=FILE, metavar="FILE",
    help="Ask clients for a certificate that one of these authorities has signed.",
)  # fmt: skip
@click.option(
    "--tls-ca", type=FILE, metavar="FILE",
    help="Check the certificates of other instances by these authorities. [default: those of the "
    "system]",
)  # fmt: skip
@log_format_option
@click.option("--exit-on-eof", is_flag=True, help="Stop also when standard input ends.")
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    port: int,
    host: str,
    advertised_host: str | None,
    topic: str,
    group: str,
    never_primary: bool,
    users: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    tls_ca: Path | None,
    log_format: str,
    exit_on_eof: bool,
) -> None:
    """Run a schema registry until Ctrl-C.

    \b
      kwire registry                                  for the cluster at localhost:9092
      kwire registry -b broker:9092 --command-config client.properties
      kwire registry --host 0.0.0.0 --users users.properties
      kwire registry --tls-certificate server.pem --tls-key server.key

    It serves the REST interface of Confluent's registry, and keeps the schemas in the topic
    _schemas, as that one does. Several instances with one topic elect a primary, to which the
    others send changes on.
    """
    check_installed()
    if (tls_certificate is None) != (tls_key is None):
        raise click.UsageError("--tls-certificate and --tls-key belong together")
    if tls_client_ca is not None and tls_certificate is None:
        raise click.UsageError("--tls-client-ca needs --tls-certificate")
    from kwire.registry.serving import RegistryOptions
    from kwire.server.http.process import TlsFiles

    tls = None
    if tls_certificate is not None and tls_key is not None:
        client_ca = None if tls_client_ca is None else str(tls_client_ca)
        tls = TlsFiles(str(tls_certificate), str(tls_key), client_ca)
    options = RegistryOptions(
        host=host, port=port, advertised_host=advertised_host, topic=topic, group_id=group,
        is_eligible=not never_primary, users=users, tls=tls, authorities=tls_ca,
        exit_on_eof=exit_on_eof,
    )  # fmt: skip
    in_words(lambda: _run(bootstrap_server, command_config, options, log_format))


def _run(
    bootstrap_server: str | None,
    command_config: Path | None,
    options: RegistryOptions,
    log_format: str,
) -> None:
    """Serves the registry.  Raises ClientError for invalid client properties or a topic that is not
    fit, and OSError if the port cannot be bound or a file cannot be read."""
    from kwire.client.cluster import Cluster, parse_bootstrap
    from kwire.registry.serving import run_registry

    properties = client_properties(command_config)
    bootstrap = bootstrap_of(bootstrap_server, properties)
    parse_bootstrap(bootstrap)
    security = security_of(properties)

    def connect() -> Cluster:
        return Cluster(
            bootstrap,
            client_id=CLIENT_ID,
            security=security,
            checks_brokers=checks_brokers(properties),
        )

    start_logging("info", log_format)
    run_registry(options, connect, announce)


def announce(url: str) -> None:
    """Print the URL.  It is on standard output, so that a script can read it."""
    click.echo(f"kwire registry: {url}")
