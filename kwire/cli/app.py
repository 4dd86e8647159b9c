"""The root command and what its commands share: looking them up, the cluster, failures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kwire.cli import EXIT_INTERRUPTED
from kwire.cli.grammar.bounds import TIMEOUT_S as TIMEOUT
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.statuses import EXIT_FAILURE, failure_status, tell_of_file
from kwire.cli.streams import OutputFailed, ReaderGone, drop_output

if TYPE_CHECKING:
    from kwire.client.security import ClientSecurity

R = TypeVar("R")

COMMANDS = {
    "serve": "Run a broker.",
    "topics": "List, create, describe, alter and delete topics.",
    "produce": "Write records to a topic.",
    "consume": "Read records of topics.",
    "groups": "List, describe, reset and delete consumer groups.",
    "configs": "Describe and alter settings of topics, brokers and groups.",
    "users": "List, add and remove users, and change their passwords.",
    "acls": "List, add and remove rules of who may do what.",
    "tokens": "Create, list, renew and expire delegation tokens.",
    "quotas": "List, set and remove quotas of users, clients and addresses.",
    "apply": "Have a cluster be as a file declares it.",
    "export": "Write what a cluster has as such a file.",
    "telemetry": "List and describe the metrics that clients push.",
    "fault": "Have requests befallen by faults, for a test.",
    "trace": "Show requests and their answers as they come.",
    "clock": "Describe a broker's time and have it pass, for a test.",
    "snapshot": "Keep what a broker holds, go back to it, and fork it.",
    "certs": "Make certificates to develop with.",
    "doctor": "Say what a broker's settings leave open.",
    "log": "Look into the files of a log directory, and check them.",
    "cluster": "Look after a cluster of several brokers.",
    "ping": "Tell whether a cluster answers.",
    "conformance": "Compare a broker with Apache Kafka, request by request.",
    "pipeline": "Archive, replay, mirror, audit and query topics with Spark.",
}
"""Each command is `command` in the module of its name; the words are here so that `kwire --help`
imports none of them."""

FOLDERS = {
    "certs": "securing",
    "clock": "testing",
    "doctor": "securing",
    "fault": "testing",
    "snapshot": "testing",
    "tokens": "securing",
    "trace": "testing",
}
"""Of commands whose modules stand in a folder of their own."""

BOOTSTRAP_SERVERS = "bootstrap.servers"
BOOTSTRAP_DEFAULT = "localhost:9092"
TIMEOUT_S = 30.0
EXIT_READER_GONE = 0
"""Whoever read our output has enough: `kwire consume t | head` is no failure."""


def _module(name: str) -> str:
    return ".".join(["kwire.cli", *([FOLDERS[name]] if name in FOLDERS else []), name])


def print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from kwire import __version__

        click.echo(f"kwire {__version__}")
        ctx.exit()


@click.group(
    cls=Commands, summaries=COMMANDS, modules={name: _module(name) for name in COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version,
    help="Show the version and exit.",
)  # fmt: skip
def app() -> None:
    """kwire is a broker that speaks Apache Kafka's protocol, and tools for any Kafka cluster.

    \b
    A broker on localhost:9092, its data in ./kwire-data:
      kwire serve
    \b
    In another terminal, a topic, some records in and out:
      kwire topics create greetings --partitions 3
      echo "hello" | kwire produce greetings
      kwire consume greetings --from-beginning --exit

    Every command explains itself: kwire COMMAND --help

    \b
    The shell completes commands and options with this line in ~/.bashrc:
      eval "$(_KWIRE_COMPLETE=bash_source kwire)"
    For zsh it is zsh_source; for fish: _KWIRE_COMPLETE=fish_source kwire | source
    """


def run(command: click.Command, name: str) -> int:
    """Run a command with the arguments of this process; returns the exit status."""
    try:
        # Alone, click says "Aborted!" of Ctrl-C, and has a word of its own for a broken pipe.
        done = command.main(prog_name=name, standalone_mode=False)
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
    return done if isinstance(done, int) else 0


def in_words(run: Callable[[], R]) -> R:
    """Turn the client's failures into one sentence on stderr and an exit status."""
    from kwire.cli.text.output import printable
    from kwire.client.errors import ClientError

    try:
        return run()
    except ClientError as error:
        click.echo(f"kwire: {printable(str(error))}", err=True)
        raise SystemExit(failure_status()) from error
    except OSError as error:  # a file that cannot be read or written
        tell_of_file(error)
        raise SystemExit(failure_status()) from error


def connected(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that say where the cluster is, and the cluster itself."""
    return connected_within(TIMEOUT_S)(command)


def connected_within(timeout_s: float) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """As `connected`, for a command whose --timeout is another unless somebody says so."""

    def decorated(command: Callable[..., R]) -> Callable[..., R]:
        return _connected(command, timeout_s)

    return decorated


def client_properties(file: Path | None, given: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """The properties of a file, if there is one, and those of the command line before them.

    A name that is nearly one of Kafka's client properties is told on standard error.  Raises Misuse
    where security would fall away by it.
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
    from kwire.cli.text.output import printable
    from kwire.client.errors import Misuse
    from kwire.settings.client_properties import misspelt

    where = "" if file is None else f"{file}: "
    for name, nearest, is_of_security in misspelt(properties):
        hint = f"there is no client property {name}: did you mean {nearest}?"
        if is_of_security and nearest not in properties:
            raise Misuse(f"{where}{hint}")
        click.echo(f"kwire: {printable(f'{where}{hint}')} It is ignored.", err=True)


def _security(properties: dict[str, str]) -> ClientSecurity | None:
    """What those client properties ask for."""
    if not properties:
        return None
    from kwire.client.security import ClientSecurity

    return ClientSecurity(properties)


def bootstrap_of(given: str | None, properties: Mapping[str, str]) -> str:
    """Where the cluster is: by the command line or environment, else by the file, else here."""
    if given is not None:
        return given
    return properties.get(BOOTSTRAP_SERVERS, "").strip() or BOOTSTRAP_DEFAULT


def bootstrap_option(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command `bootstrap_server`, or None where neither line nor environment say it."""
    return click.option(
        "-b", "--bootstrap-server", metavar="HOST:PORT[,...]", envvar="KWIRE_BOOTSTRAP_SERVERS",
        help="Where the cluster is; if not given $KWIRE_BOOTSTRAP_SERVERS, else bootstrap.servers "
        f"of the --command-config file, else {BOOTSTRAP_DEFAULT}.",
    )(command)  # fmt: skip


def command_config_option(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command `command_config`, a file of client properties."""
    return click.option(
        "--command-config", metavar="FILE", envvar="KWIRE_COMMAND_CONFIG",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Client properties, as Kafka's tools take them: bootstrap.servers, security.protocol, "
        "ssl.*, sasl.*; $KWIRE_COMMAND_CONFIG if not given.",
    )(command)  # fmt: skip


def _connected(command: Callable[..., R], timeout_s: float) -> Callable[..., R]:
    @bootstrap_option
    @click.option(
        "--timeout", type=TIMEOUT, metavar="SECONDS", default=timeout_s,
        show_default=True, help="How long to try before giving up.",
    )  # fmt: skip
    @command_config_option
    def run(
        *args: Any,  # noqa: ANN401 - whatever the command takes
        bootstrap_server: str | None,
        timeout: float,
        command_config: Path | None,
        **kwargs: Any,  # noqa: ANN401 - whatever the command takes
    ) -> R:
        def with_cluster() -> R:
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
                    security=_security(properties),
                ) as cluster,
                patient(cluster, bootstrap),
                suggesting(cluster),
            ):
                return command(cluster, *args, **kwargs)

        return in_words(with_cluster)

    return update_wrapper(run, command)
