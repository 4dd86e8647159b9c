"""`kwire serve`: runs a broker in the foreground until SIGTERM or Ctrl-C."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kwire import UnsupportedSystem, check_system
from kwire.cli import EXIT_INTERRUPTED
from kwire.cli.grammar.listing import Listing
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.hosting.console import CONSOLE_PORT
from kwire.cli.hosting.folders import one_if_cluster
from kwire.cli.hosting.registry import REGISTRY_PORT
from kwire.cli.repeats import PLAIN, log_format_option, name_broker, start_logging
from kwire.cli.text.output import say
from kwire.cli.values import metrics_address, settings_option

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cli.declared_state.files import Declaration
    from kwire.cli.hosting.children import Child
    from kwire.cli.hosting.renewable import Place
    from kwire.cli.image.start import ImageStart
    from kwire.log.directory.files import Files
    from kwire.server.server import Declare, Prepare, Turn
    from kwire.settings import BrokerConfig
    from kwire.testing.hooks.control.service import Control

LISTING = Listing(
    10,
    "Run a broker.",
    "run a broker until Ctrl-C or SIGTERM; with `--control PORT`, [for tests](testing.md)",
)

DATA_DIR = "kwire-data"
DEVELOPMENT = {
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": DATA_DIR,
    # A single broker can hold only one replica of Kafka's internal topics.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The first consumer of a group starts at once.  In development few consumers follow it.
    "group.initial.rebalance.delay.ms": "0",
}
"""Settings of a broker without a server.properties: defaults for development.  With a file, each
setting that the file does not have keeps Kafka's own default."""

OTHER_NAMES = {"node.id": "broker.id", "log.dirs": "log.dir"}
"""The second name of a setting.  The first name wins, so a default for it would hide a value that
is given by the second name."""

BROKERS_MAX = 16
"""The most brokers on one machine: each needs processor time and about 30 MB."""

PORTS = 65_536
"""The number of TCP ports."""


class Hosting(NamedTuple):
    """The options of a broker that are not settings of Kafka."""

    exit_on_eof: bool = False
    """Whether the broker stops when its standard input ends."""
    control: int | None = None
    """The port of the HTTP control for tests; None without one."""
    declaration: Declaration | None = None
    """The declaration that is applied before the broker is ready."""
    max_versions: Mapping[int, int] | None = None
    """The highest version that clients may see, by API key; None for no limits."""
    said_versions: tuple[str, ...] = ()
    """The texts of --max-version."""
    is_fleeting: bool = False
    """Whether the data need not survive the machine, so that nothing is flushed to disk."""
    ahead_ms: int = 0
    """How far the broker's clock is ahead of the system's clock at the start; needs `control`."""
    children: tuple[Child, ...] = ()
    """The console and the registry, which start when the broker is ready, and end with it."""
    log_format: str = PLAIN
    """The format of log lines."""


LEVELS = ["debug", "info", "warning", "error"]

log = logging.getLogger("kwire.serve")


@click.command("serve")
@click.argument("properties", required=False, type=click.Path(exists=True, dir_okay=False))
@settings_option(
    "-s", "--set", "settings", help="Set a setting by Kafka's name; it wins over the file."
)
@click.option("--data", metavar="FOLDER", help="Store the data in FOLDER (log.dirs).")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="N",
    help="Listen on localhost:N; 0 chooses a free port.",
)  # fmt: skip
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@log_format_option
@click.option(
    "--brokers", type=click.IntRange(1, BROKERS_MAX), metavar="N",
    help="Run a cluster of N brokers on this machine, on N ports starting at --port. It takes over "
    "the data of a single broker.",
)  # fmt: skip
@click.option(
    "--secure", is_flag=True,
    help="Turn on TLS, passwords, ACLs and delegation tokens, and create the user admin.",
)  # fmt: skip
@click.option(
    "--control", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Let tests control the broker (faults, traces, clock, snapshots) at "
    "http://127.0.0.1:PORT. With --brokers, each further broker uses the next port.",
)  # fmt: skip
@click.option(
    "--console", type=click.IntRange(0, 65_535), is_flag=False, flag_value=CONSOLE_PORT,
    metavar="[PORT]",
    help=f"Show the broker in a browser, at http://127.0.0.1:PORT [default: {CONSOLE_PORT}]. "
    "See kwire console.",
)  # fmt: skip
@click.option(
    "--registry", type=click.IntRange(0, 65_535), is_flag=False, flag_value=REGISTRY_PORT,
    metavar="[PORT]",
    help=f"Run a schema registry at http://127.0.0.1:PORT [default: {REGISTRY_PORT}]. "
    "See kwire registry.",
)  # fmt: skip
@click.option(
    "--metrics", type=metrics_address, metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus and health checks over HTTP, on 127.0.0.1 without HOST. "
    "With --brokers, each further broker uses the next port.",
)  # fmt: skip
@click.option(
    "--apply", "declared", metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Apply the declaration in FILE, as `kwire apply` does, before the broker is ready "
    "(docs/declared-state.md).",
)  # fmt: skip
@click.option(
    "--max-version", "max_versions", multiple=True, metavar="RELEASE|API=N",
    help="Serve only what an older broker serves: of RELEASE (2.1, 2.8 ...), or API up to version "
    "N. Needs --control.",
)  # fmt: skip
@click.option("--exit-on-eof", is_flag=True, help="Stop also when standard input ends.")
@click.option("--container", is_flag=True, hidden=True, help="As the container image does.")
@click.option("--renewable", is_flag=True, hidden=True, help="As kwire.testing orders on stdin.")
@click.option("--owns", type=click.Path(path_type=Path), hidden=True, help="Removed at the end.")
def command(
    properties: str | None,
    settings: tuple[tuple[str, str], ...],
    data: str | None,
    port: int | None,
    log_level: str,
    log_format: str,
    brokers: int | None,
    secure: bool,
    control: int | None,
    console: int | None,
    registry: int | None,
    metrics: dict[str, str] | None,
    declared: Path | None,
    max_versions: tuple[str, ...],
    exit_on_eof: bool,
    container: bool,
    renewable: bool,
    owns: Path | None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    PROPERTIES is a server.properties file of Apache Kafka. Without it the broker listens on
    localhost:9092 and stores its data in ./kwire-data.

    \b
      kwire serve --port 0 --data /tmp/scratch          on any free port
      kwire serve --set num.partitions=3 --set auto.create.topics.enable=false
      kwire serve server.properties --set log.retention.hours=1
      kwire serve --brokers 3                           on localhost:9092, 9093 and 9094
      kwire serve --brokers 3 --set 2:broker.rack=b     a setting of broker 2 only
      kwire serve --secure                              TLS and SCRAM; writes client.properties
      kwire serve --apply cluster.yaml                  with topics, users, records ...
      kwire serve --console --registry                  pages at localhost:8080, schemas at 8081
    \b
    To serve clients in other containers or on other machines, listen on all interfaces and
    advertise an address that the clients can reach:
      kwire serve --set listeners=PLAINTEXT://0.0.0.0:9092 \\
                  --set advertised.listeners=PLAINTEXT://my-host:9092
    """
    _check_system()
    given = _with_metrics(dict(settings), metrics)
    if not (brokers or properties or declared or container or renewable):
        brokers = one_if_cluster(given, data or DATA_DIR)
    _check_several(brokers, declared, control)
    versions = _versions(max_versions, control), max_versions
    hosting = Hosting(exit_on_eof, control, _declaration(declared), *versions)._replace(
        children=_children(console, registry, log_format), log_format=log_format
    )
    for option, is_given in (("--secure", secure), ("--brokers", brokers is not None)):
        if is_given and (properties is not None or container):
            raise click.UsageError(f"with {option}, give settings by --set, not by PROPERTIES")
    if brokers is not None or secure:
        start_logging(log_level, log_format)
    if brokers is not None:
        from kwire.cli.hosting.several import serve_several

        serve_several(brokers, given, data, port, hosting, owns, secure=secure)
        return
    if renewable:
        serve_anew(given, data, port, log_level, hosting, owns)
        return
    try:
        if secure:
            serve_secured(given, data, port, hosting)
            return
        serve(properties, given, data, port, log_level, container, hosting)
    except KeyboardInterrupt as error:  # The broker does not handle signals yet.
        say("kwire: interrupted before the broker was ready")
        raise SystemExit(EXIT_INTERRUPTED) from error


def serve_anew(
    settings: dict[str, str],
    data: str | None,
    port: int | None,
    log_level: str,
    hosting: Hosting,
    owns: Path | None,
) -> None:
    """Serve brokers that kwire.testing orders on standard input (kwire.cli.hosting.renewing)."""
    from kwire.cli.hosting.renewing import serve_renewable

    start_logging(log_level, hosting.log_format)
    wanted = developed(with_shorthands(settings, data, port))
    run_it = partial(run_forked, hosting._replace(is_fleeting=owns is not None))
    is_controlled = hosting.control is not None
    serve_renewable(wanted, run_it, owns, is_controlled=is_controlled, developed=developed)


def _with_metrics(settings: dict[str, str], metrics: dict[str, str] | None) -> dict[str, str]:
    """`settings` with those of --metrics.  Raises UsageError if one is set twice."""
    for name in metrics or {}:
        if name in settings:
            raise click.UsageError(f"give --metrics or --set {name}, not both")
    return {**settings, **(metrics or {})}


def _check_several(brokers: int | None, declared: Path | None, control: int | None) -> None:
    """Raise UsageError for options that several brokers cannot have; None: there is one broker."""
    if brokers is None:
        return
    if declared is not None:
        raise click.UsageError(
            "--apply works with a single broker: run `kwire apply` when the cluster is ready"
        )
    if control and control + brokers > PORTS:
        raise click.UsageError(
            f"--control {control}: {brokers} brokers need {brokers} ports, and ports end at "
            f"{PORTS - 1}"
        )


def _check_system() -> None:
    try:
        check_system()
    except UnsupportedSystem as problem:
        raise click.ClickException(str(problem)) from None


def _children(console: int | None, registry: int | None, log_format: str) -> tuple[Child, ...]:
    """The console and the registry at their ports, not started; None: without it.  Exits if the
    extra for one is not installed."""
    from kwire.cli.hosting import console as consoles
    from kwire.cli.hosting import registry as registries

    children: list[Child] = []
    if console is not None:
        consoles.check_installed()
        children.append(consoles.ConsoleChild(console, log_format, registry))
    if registry is not None:
        registries.check_installed()
        children.append(registries.RegistryChild(registry, log_format))
    return tuple(children)


def _declaration(source: Path | None) -> Declaration | None:
    """The declaration in a file.  Prints the mistakes in an invalid file and exits."""
    if source is None:
        return None
    from kwire.cli.apply import loaded

    return loaded(source)


def serve(
    properties: str | None,
    settings: dict[str, str],
    data: str | None,
    port: int | None,
    log_level: str,
    container: bool,
    hosting: Hosting,
) -> None:
    """Run a single broker with the settings of the command line, the file and the environment."""
    if container:
        from kwire.cli.image.settings import log_level as container_level

        log_level = container_level(os.environ, log_level)
    start_logging(log_level, hosting.log_format)
    overrides = with_shorthands(settings, data, port)
    if container:
        serve_image(overrides, hosting)
    elif properties is None:
        run(None, developed(overrides), {}, hosting)
    else:
        run(Path(properties), overrides, {}, hosting)


def serve_image(overrides: Mapping[str, str], hosting: Hosting) -> None:
    """Run a single broker as the container image does, by its variables."""
    from kwire.cli.image.start import ImageStart
    from kwire.settings import ConfigError

    try:
        image = ImageStart(os.environ)
        path, overrides, environ = image.settings(overrides)
    except ConfigError as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error
    run(path, overrides, environ, hosting, image=image)
    if image.failure:
        raise SystemExit(EXIT_FAILURE)


def serve_secured(
    settings: dict[str, str], data: str | None, port: int | None, hosting: Hosting
) -> None:
    """Run a single broker with TLS, passwords and ACLs (kwire.cli.securing.secured)."""
    from kwire.cli.securing.client_files import CLIENT_FILE
    from kwire.cli.securing.secured import BROKER_FILE, preparing, secured_settings

    given = with_shorthands(settings, data, None)
    folder = given.get("log.dirs") or given.get("log.dir") or DATA_DIR
    try:
        secured, wanted = secured_settings(given, folder, port)
    except (OSError, ValueError) as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error
    for child in hosting.children:
        child.client_file = secured.folder / CLIENT_FILE
    complete = developed(wanted)
    secured.write_broker_file(BROKER_FILE, complete)
    run(None, complete, {}, hosting, prepare=preparing(secured))


def developed(overrides: Mapping[str, str]) -> dict[str, str]:
    """`overrides` with the defaults for development; either name of a setting replaces them."""
    defaults = dict(DEVELOPMENT)
    for name, other in OTHER_NAMES.items():
        if other in overrides:
            del defaults[name]
    return {**defaults, **overrides}


def with_shorthands(settings: dict[str, str], data: str | None, port: int | None) -> dict[str, str]:
    """`settings` with those that --data and --port set.  Raises UsageError if one is set twice."""
    for option, given, names in (
        ("--data", data, ("log.dirs", "log.dir")),
        ("--port", port, ("listeners",)),
    ):
        duplicates = [name for name in names if given is not None and name in settings]
        if duplicates:
            raise click.UsageError(f"give {option} or --set {duplicates[0]}, not both")
    if data is not None:
        settings["log.dirs"] = data
    if port is not None:
        settings["listeners"] = f"PLAINTEXT://localhost:{port}"
    return settings


def run_forked(
    hosting: Hosting,
    place: Place,
    settings: Mapping[str, str],
    turn: Turn,
    on_ready: Callable[[Broker], None],
) -> None:
    """Does what `run` does, in a forked process that ends when its parent ends."""
    hosting = hosting._replace(exit_on_eof=True, control=place.control, ahead_ms=place.ahead_ms)
    run(None, settings, {}, hosting, turn=turn, on_ready=on_ready)


def run(
    path: Path | None,
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    hosting: Hosting,
    *,
    image: ImageStart | None = None,
    prepare: Prepare | None = None,
    turn: Turn | None = None,
    on_ready: Callable[[Broker], None] | None = None,
) -> None:
    """Loads the configuration and serves.  Logs one message and exits if that is impossible.

    The broker binds its ports when `turn` returns (see kwire.server.server.run).  Nothing is logged
    before that.
    """
    from kwire.cluster.stores.contract import StoreError
    from kwire.log import LogDirError, LogDirLocked
    from kwire.settings import ConfigError, load

    ports: dict[str, int] = {}
    control = controlled(hosting)

    def when_ready(broker: Broker) -> None:
        """Logs that the broker is ready.  Calls `on_ready` only at the first start, not after a
        restore."""
        if image is None:
            log_ready(broker)
        else:
            image.when_ready(broker, partial(log_ready, broker))
        start_children(hosting, broker)
        if on_ready is not None and not ports:
            on_ready(broker)
        ports.update((each.listener, each.port) for each in broker.config.listeners)

    try:
        config = load(path, overrides, environ)
        if turn is None:
            log_configuration(config, path, str if image is None else image.reading.explained)
        else:
            turn = followed_by(turn, partial(log_configuration, config, path))
        declaration = hosting.declaration if image is None else image.prepare(config)
        from kwire.server.server import run as run_server

        declare = declared_at_start(declaration, config)
        while True:
            run_server(
                config,
                when_ready,
                exit_on_eof=hosting.exit_on_eof,
                prepare=prepare,
                control=control,
                declare=declare,
                files=fleeting() if hosting.is_fleeting else None,
                turn=turn,
            )
            if control is None or control.snapshots.restoring is None:
                return
            # A snapshot is restored: serve its data, at the ports that the broker had.
            control = control.restored(config.log_dirs)
            config = config.with_bound_ports(ports)
            prepare = declare = turn = None
    except (ConfigError, LogDirError, LogDirLocked, StoreError) as error:
        log.error("%s", error if image is None else image.reading.explained(str(error)))
        raise SystemExit(EXIT_FAILURE) from error
    except OSError as error:
        log.error("%s", sentence_of(error))
        raise SystemExit(EXIT_FAILURE) from error
    finally:
        close(control, hosting.children)


def close(control: Control | None, children: Iterable[Child]) -> None:
    """Close what a broker has besides its listeners."""
    if control is not None:
        control.close()
    for child in children:
        child.stop()


def start_children(hosting: Hosting, broker: Broker) -> None:
    """Start the console and the registry of a single broker, if it has them and they do not run."""
    from kwire.cli.hosting.children import control_urls

    address = broker.config.advertised_listeners[0]
    for child in hosting.children:
        child.start(f"{address.host}:{address.port}", control_urls(hosting.control))


def followed_by(turn: Turn, call: Callable[[], None]) -> Turn:
    """A turn that waits for `turn` and then makes the call."""

    async def turn_and_call() -> None:
        await turn()
        call()

    return turn_and_call


def fleeting() -> Files:
    """Files that are never flushed to disk, for a broker whose data only its tests need."""
    from kwire.log.directory.files import FleetingFiles

    return FleetingFiles()


def declared_at_start(declaration: Declaration | None, config: BrokerConfig) -> Declare | None:
    """The function that applies the declaration before clients connect, or None without one.

    Raises ConfigError for a member of a cluster.
    """
    if declaration is None:
        return None
    if config.is_member:
        from kwire.settings import ConfigError

        raise ConfigError(
            "--apply works with a single broker: change a cluster of several by `kwire apply`"
        )
    from kwire.cli.hosting.at_start import declaring

    return declaring(declaration)


def controlled(hosting: Hosting) -> Control | None:
    """The control for tests, or None without --control."""
    if hosting.control is None:
        return None
    if importlib.util.find_spec("h11") is None:
        from kwire.client.extras import how_to_install

        log.error("--control needs h11, which is not installed: %s", how_to_install("testing"))
        raise SystemExit(EXIT_FAILURE)
    from kwire.testing.hooks.control.service import Control

    versions = hosting.max_versions, hosting.said_versions
    return Control(hosting.control, *versions, ahead_ms=hosting.ahead_ms)


def _versions(texts: tuple[str, ...], control: int | None) -> dict[int, int] | None:
    """The highest version by API key, from the texts of --max-version; None without any.

    `control` is the port of --control.  Raises UsageError without it, or for an invalid text.
    """
    if not texts:
        return None
    if control is None:
        raise click.UsageError("--max-version needs --control")
    from kwire.testing.hooks.control.versions import read_max_versions
    from kwire.testing.hooks.faults.rules import BadRule

    try:
        return read_max_versions(texts)
    except BadRule as problem:
        raise click.UsageError(f"--max-version: {problem}") from None


def log_configuration(
    config: BrokerConfig, path: Path | None, explained: Callable[[str], str] = str
) -> None:
    """Log version, file and log directories; warn about settings without effect.

    `explained` adds to a note where its settings come from.
    """
    from kwire import __version__

    name_broker(config.node_id)
    source = f", settings from {path}" if path else ""
    log.info("kwire %s, node %d%s", __version__, config.node_id, source)
    for directory in config.log_dirs:
        log.info("data in %s", Path(directory).absolute())
    for note in config.notes:
        log.warning("%s", explained(note))
    if idle := config.without_effect():
        log.warning("settings without effect: %s (see docs/settings.md)", ", ".join(idle))


def log_ready(broker: Broker, said: str = "") -> None:
    """Log the addresses, warn about those that clients cannot use, and say that it is ready.

    `said` follows on the line: words of Apache Kafka for which tools wait.
    """
    from kwire.cli.hosting.advertised import listener_lines, warn_in_background

    for line in listener_lines(broker.config):
        log.info("%s", line)
    warn_in_background(broker.config)
    log.info("broker %d is ready.%s", broker.node_id, f" {said}" if said else "")


def sentence_of(error: OSError) -> str:
    """The system's error message, with the file that it is about."""
    if isinstance(error, socket.gaierror):
        return (
            "cannot resolve a host name in listeners: use a name or address of this machine, or "
            "leave the host empty"
        )
    words = (error.strerror or str(error)).lower()
    return f"{error.filename}: {words}" if error.filename else words
