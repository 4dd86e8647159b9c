"""The command `kwire`, and what its commands share: lookup, the cluster, error messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli import EXIT_INTERRUPTED
from kwire.cli.grammar.bounds import TIMEOUT_S as TIMEOUT
from kwire.cli.grammar.command_table import MODULES, SUMMARIES
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.statuses import EXIT_FAILURE, failure_status, tell_of_file
from kwire.cli.streams import OutputFailed, ReaderGone, drop_output

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity

R = TypeVar("R")

BOOTSTRAP_SERVERS = "bootstrap.servers"
CHECK_BROKERS = "metadata.cluster.check.enable"
BOOTSTRAP_DEFAULT = "localhost:9092"
TIMEOUT_S = 30.0
EXIT_READER_GONE = 0
"""The exit status when the reader has closed the pipe: `kwire consume t | head` is no error."""


def print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from kwire import __version__

        click.echo(f"kwire {__version__}")
        ctx.exit()


@click.group(
    cls=Commands, summaries=SUMMARIES, modules=MODULES,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version,
    help="Show the version and exit.",
)  # fmt: skip
def app() -> None:
    """A broker that speaks Apache Kafka's protocol, and tools for any Kafka cluster.

    \b
    Start a broker on localhost:9092 that stores its data in ./kwire-data:
      kwire serve
    \b
    In another terminal, create a topic, write a record and read it:
      kwire topics create greetings --partitions 3
      echo "hello" | kwire produce greetings
      kwire consume greetings --from-beginning --exit

    Help for a command: kwire COMMAND --help

    \b
    To let the shell complete commands and options, add this line to ~/.bashrc:
      eval "$(_KWIRE_COMPLETE=bash_source kwire)"
    For zsh use zsh_source; for fish run: _KWIRE_COMPLETE=fish_source kwire | source
    """


def run(command: click.Command, name: str) -> int:
    """Run a command with the arguments of this process, and return its exit status."""
    try:
        # In standalone mode click prints "Aborted!" after Ctrl-C, and handles broken pipes itself.
        status = command.main(prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ReaderGone:
        drop_output()
        return EXIT_READER_GONE
    except OutputFailed as error:
        drop_output()
        click.echo(f"kwire: {error}", err=True)
        return EXIT_FAILURE
    except OSError as error:
        tell_of_file(error)
        return EXIT_FAILURE
    return status if isinstance(status, int) else 0


def in_words(run: Callable[[], R]) -> R:
    """The result of `run`.  A failure of the client becomes a message and an exit status."""
    from kwire.cli.text.output import printable
    from kwire.client.errors import ClientError

    try:
        return run()
    except ClientError as error:
        click.echo(f"kwire: {printable(str(error))}", err=True)
        raise SystemExit(failure_status()) from error
    except OSError as error:  # A file cannot be read or written.
        tell_of_file(error)
        raise SystemExit(failure_status()) from error


def connected(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options that name the cluster, and pass the connected cluster to the command."""
    return connected_within(TIMEOUT_S)(command)


def connected_within(timeout_s: float) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator as `connected`, with another default of --timeout, in seconds."""

    def decorated(command: Callable[..., R]) -> Callable[..., R]:
        return _connected(command, timeout_s)

    return decorated


def client_properties(file: Path | None, given: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """The client properties of a file and of the command line; the latter win.

    Warns on standard error about a misspelt name.  Raises Misuse if the misspelt property is about
    security, because the connection would be less secure without it, and if the file is invalid.
    """
    from kwire.client.errors import Misuse
    from kwire.settings.error import ConfigError
    from kwire.settings.properties import read_properties

    if file is None and not given:
        return {}
    try:
        properties = ({} if file is None else dict(read_properties(file))) | dict(given)
    except ConfigError as problem:
        raise Misuse(str(problem)) from None
    _check_names(properties, file)
    return properties


def _check_names(properties: Mapping[str, str], file: Path | None) -> None:
    """Warns of client properties whose names look misspelt.  Raises Misuse for a security property,
    since the connection would be less secure than intended."""
    from kwire.cli.text.output import printable
    from kwire.client.errors import Misuse
    from kwire.settings.client_properties import misspelt

    where = "" if file is None else f"{file}: "
    for name, nearest, is_of_security in misspelt(properties):
        hint = f"unknown client property {name}: did you mean {nearest}?"
        if is_of_security and nearest not in properties:
            raise Misuse(f"{where}{hint}")
        click.echo(f"kwire: {printable(f'{where}{hint}')} It is ignored.", err=True)


def checks_brokers(properties: Mapping[str, str]) -> bool:
    """Whether connections check that they reach the broker that was meant."""
    return properties.get(CHECK_BROKERS, "true").strip() != "false"


def security_of(properties: dict[str, str]) -> ClientSecurity | None:
    """The security that client properties ask for, or None without any property."""
    if not properties:
        return None
    from kwire.client.security import ClientSecurity

    return ClientSecurity(properties)


def bootstrap_of(given: str | None, properties: Mapping[str, str]) -> str:
    """The bootstrap servers: from the command line or the environment, the file, or the default."""
    if given is not None:
        return given
    return properties.get(BOOTSTRAP_SERVERS, "").strip() or BOOTSTRAP_DEFAULT


def bootstrap_option(command: Callable[..., R]) -> Callable[..., R]:
    """Add --bootstrap-server.  The command gets `bootstrap_server`, None if nothing gives one."""
    return click.option(
        "-b", "--bootstrap-server", metavar="HOST:PORT[,...]", envvar="KWIRE_BOOTSTRAP_SERVERS",
        help="Addresses of brokers of the cluster. Default: $KWIRE_BOOTSTRAP_SERVERS, or "
        f"bootstrap.servers in the --command-config file, or {BOOTSTRAP_DEFAULT}.",
    )(command)  # fmt: skip


def command_config_option(command: Callable[..., R]) -> Callable[..., R]:
    """Add --command-config.  The command gets `command_config`, a file of client properties."""
    return click.option(
        "--command-config", metavar="FILE", envvar="KWIRE_COMMAND_CONFIG",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File of client properties, as for Kafka's tools: bootstrap.servers, "
        "security.protocol, ssl.*, sasl.*. Default: $KWIRE_COMMAND_CONFIG.",
    )(command)  # fmt: skip


def _connected(command: Callable[..., R], timeout_s: float) -> Callable[..., R]:
    """Adds the options of a cluster to a command, and passes the connected cluster as its first
    argument.  `timeout_s` is the default of --timeout, in seconds."""

    @bootstrap_option
    @click.option(
        "--timeout", type=TIMEOUT, metavar="SECONDS", default=timeout_s,
        show_default=True, help="How long to retry before the command fails.",
    )  # fmt: skip
    @command_config_option
    def run(
        *args: Any,  # noqa: ANN401 - whatever the command takes
        bootstrap_server: str | None,
        timeout: float,
        command_config: Path | None,
        **kwargs: Any,  # noqa: ANN401 - whatever the command takes
    ) -> R:
        """Runs the command with a connected cluster; errors become a message and an exit status."""

        def with_cluster() -> R:
            """Connects to the cluster, runs the command, and closes the connections."""
            from kwire.cli.patience import patient
            from kwire.cli.text.suggestions import suggesting
            from kwire.client.cluster import Cluster

            properties = client_properties(command_config)
            bootstrap = bootstrap_of(bootstrap_server, properties)
            with (
                Cluster(
                    bootstrap,
                    client_id="kwire-cli",
                    timeout_s=timeout,
                    security=security_of(properties),
                    checks_brokers=checks_brokers(properties),
                ) as cluster,
                patient(cluster, bootstrap),
                suggesting(cluster),
            ):
                return command(cluster, *args, **kwargs)

        return in_words(with_cluster)

    return update_wrapper(run, command)
