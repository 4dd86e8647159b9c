"""`kwire serve`: a broker in the foreground, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kwire import UnsupportedSystem, check_system
from kwire.cli import EXIT_INTERRUPTED
from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.hosting.folders import one_if_cluster
from kwire.cli.repeats import CollapsingHandler
from kwire.cli.text.output import say
from kwire.cli.values import settings_option

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cli.declared_state.files import Declaration
    from kwire.cli.hosting.renewable import Place
    from kwire.log.directory.files import Files
    from kwire.server.server import Declare, Prepare, Turn
    from kwire.settings import BrokerConfig
    from kwire.testing.hooks.control.service import Control

DATA_DIR = "kwire-data"
DEVELOPMENT = {
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": DATA_DIR,
    # One broker holds one replica of the topics that Kafka keeps for itself.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The first consumer of a group begins at once: nobody starts a hundred of them here.
    "group.initial.rebalance.delay.ms": "0",
}
"""What holds where no server.properties is given: a broker to develop against.  With a file,
everything it does not say has Kafka's own default."""

OTHER_NAMES = {"node.id": "broker.id", "log.dirs": "log.dir"}
"""Of a setting that has two the first one counts, and a default would hide what was asked for."""

BROKERS_MAX = 16
"""On one machine: each takes a processor's time and some 30 MB."""

PORTS = 65_536
"""How many there are."""


class Hosting(NamedTuple):
    """What of a broker is no setting of Kafka's."""

    exit_on_eof: bool = False
    """Whether it ends when its standard input does."""
    control: int | None = None
    """The port at which tests ask for faults."""
    declaration: Declaration | None = None
    """What it is to have before it is ready."""
    max_versions: Mapping[int, int] | None = None
    """By API key, where clients are not told of all."""
    said_versions: tuple[str, ...] = ()
    """What was said of them."""
    is_fleeting: bool = False
    """Whether nothing of it is wanted any more once the machine is off."""
    ahead_ms: int = 0
    """How far its time is ahead of the world's from the start, with `control`."""


LEVELS = ["debug", "info", "warning", "error"]

log = logging.getLogger("kwire.serve")


@click.command("serve")
@click.argument("properties", required=False, type=click.Path(exists=True, dir_okay=False))
@settings_option("-s", "--set", "settings", help="A setting by Kafka's name; goes before the file.")
@click.option("--data", metavar="FOLDER", help="Where the data is kept: log.dirs.")
@click.option("--port", type=click.IntRange(0, 65_535), metavar="N", help="Listen on localhost:N.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option(
    "--brokers",
    type=click.IntRange(1, BROKERS_MAX),
    metavar="N",
    help="A cluster of N brokers on this machine, at N ports from --port on; takes over the data "
    "of one broker.",
)
@click.option(
    "--secure", is_flag=True, help="TLS, passwords, ACLs and tokens, with one user made: admin."
)
@click.option(
    "--control",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Let tests ask for faults at http://127.0.0.1:PORT, each broker at the next port.",
)
@click.option(
    "--apply",
    "declared",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Have what FILE declares, as `kwire apply`, before it is ready (docs/declared-state.md).",
)
@click.option(
    "--max-version",
    "max_versions",
    multiple=True,
    metavar="RELEASE|API=N",
    help="Look like an older broker: one of release 2.1, 2.8 ..., or with no higher version of an "
    "API. With --control.",
)
@click.option("--exit-on-eof", is_flag=True, help="Stop when standard input ends, too.")
@click.option("--container", is_flag=True, hidden=True, help="As the container image does.")
@click.option("--renewable", is_flag=True, hidden=True, help="As kwire.testing orders on stdin.")
@click.option("--owns", type=click.Path(path_type=Path), hidden=True, help="Removed at the end.")
def command(
    properties: str | None,
    settings: tuple[tuple[str, str], ...],
    data: str | None,
    port: int | None,
    log_level: str,
    brokers: int | None,
    secure: bool,
    control: int | None,
    declared: Path | None,
    max_versions: tuple[str, ...],
    exit_on_eof: bool,
    container: bool,
    renewable: bool,
    owns: Path | None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM.

    Without PROPERTIES, a server.properties as Apache Kafka's, it listens on localhost:9092 and
    keeps its data in ./kwire-data.

    \b
      kwire serve
      kwire serve --port 0 --data /tmp/scratch          any free port
      kwire serve --set num.partitions=3 --set auto.create.topics.enable=false
      kwire serve server.properties --set log.retention.hours=1
      kwire serve --brokers 3                           localhost:9092, 9093 and 9094
      kwire serve --brokers 3 --set 2:broker.rack=b     a setting of broker 2 alone
      kwire serve --secure                              TLS and SCRAM; ready client.properties
      kwire serve --secure --brokers 3                  the same for each of three
      kwire serve --apply cluster.yaml                  topics, users, records ... from the start
    \b
    Clients in other containers or on other machines: listen on all interfaces, and advertise an
    address that they can reach.
      kwire serve --set listeners=PLAINTEXT://0.0.0.0:9092 \\
                  --set advertised.listeners=PLAINTEXT://my-host:9092
    """
    _check_system()
    if not (brokers or properties or declared or container or renewable):
        brokers = one_if_cluster(dict(settings), data or DATA_DIR)
    if brokers is not None:
        _check_several(brokers, declared, control)
    if max_versions and control is None:
        raise click.UsageError("--max-version takes --control")
    hosting = Hosting(
        exit_on_eof, control, _declaration(declared), _versions(max_versions), max_versions
    )
    if secure and (properties is not None or container):
        raise click.UsageError("--secure takes settings by --set only: it makes a properties file")
    if brokers is not None:
        if properties is not None or container:
            raise click.UsageError("--brokers takes settings by --set only")
        from kwire.cli.several import serve_several

        start_logging(log_level)
        serve_several(brokers, dict(settings), data, port, hosting, owns, secure=secure)
        return
    if renewable:
        serve_anew(dict(settings), data, port, log_level, hosting, owns)
        return
    try:
        if secure:
            start_logging(log_level)
            serve_secured(dict(settings), data, port, hosting)
            return
        serve(properties, dict(settings), data, port, log_level, container, hosting)
    except KeyboardInterrupt as error:  # before it listens to signals itself
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
    """As kwire.cli.hosting.renewing has it."""
    from kwire.cli.hosting.renewing import serve_renewable

    start_logging(log_level)
    wanted = developed(with_shorthands(settings, data, port))
    run_it = partial(run_forked, hosting._replace(is_fleeting=owns is not None))
    is_controlled = hosting.control is not None
    serve_renewable(wanted, run_it, owns, is_controlled=is_controlled, developed=developed)


def _check_several(brokers: int, declared: Path | None, control: int | None) -> None:
    """Raises UsageError where that is for one broker only."""
    if declared is not None:
        raise click.UsageError("--apply is for one broker")
    if control and control + brokers > PORTS:
        raise click.UsageError(f"--control {control}: there are no {brokers} ports from it on")


def _check_system() -> None:
    try:
        check_system()
    except UnsupportedSystem as problem:
        raise click.ClickException(str(problem)) from None


def _declaration(source: Path | None) -> Declaration | None:
    """What the file declares; where that is not to be understood the broker does not start."""
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
    """Put together what the command line says, and run."""
    if container:
        from kwire.cli.container import log_level as container_level

        log_level = container_level(os.environ, log_level)
    start_logging(log_level)
    overrides = with_shorthands(settings, data, port)
    if container:
        from kwire.cli.container import container_settings

        path, overrides, environ = container_settings(os.environ, overrides)
        run(path, overrides, environ, hosting, container=True)
    elif properties is None:
        run(None, developed(overrides), {}, hosting)
    else:
        run(Path(properties), overrides, {}, hosting)


def serve_secured(
    settings: dict[str, str], data: str | None, port: int | None, hosting: Hosting
) -> None:
    """As kwire.cli.securing.secured has it."""
    from kwire.cli.securing.secured import BROKER_FILE, preparing, secured_settings

    given = with_shorthands(settings, data, None)
    folder = given.get("log.dirs") or given.get("log.dir") or DATA_DIR
    try:
        secured, wanted = secured_settings(given, folder, port)
    except (OSError, ValueError) as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error
    complete = developed(wanted)
    secured.write_broker_file(BROKER_FILE, complete)
    run(None, complete, {}, hosting, prepare=preparing(secured))


def developed(overrides: Mapping[str, str]) -> dict[str, str]:
    """The settings to develop against, each giving way also to Kafka's other name of it."""
    defaults = dict(DEVELOPMENT)
    for name, other in OTHER_NAMES.items():
        if other in overrides:
            del defaults[name]
    return {**defaults, **overrides}


def with_shorthands(settings: dict[str, str], data: str | None, port: int | None) -> dict[str, str]:
    """The settings with those that --data and --port stand for; they may not be given twice."""
    for option, given, names in (
        ("--data", data, ("log.dirs", "log.dir")),
        ("--port", port, ("listeners",)),
    ):
        twice = [name for name in names if given is not None and name in settings]
        if twice:
            raise click.UsageError(f"give {option} or --set {twice[0]}, not both")
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
    """As `run`, in a process that ends with the one that it was forked from."""
    hosting = hosting._replace(exit_on_eof=True, control=place.control, ahead_ms=place.ahead_ms)
    run(None, settings, {}, hosting, turn=turn, on_ready=on_ready)


def run(
    path: Path | None,
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    hosting: Hosting,
    *,
    container: bool = False,
    prepare: Prepare | None = None,
    turn: Turn | None = None,
    on_ready: Callable[[Broker], None] | None = None,
) -> None:
    """Load the configuration, serve, and tell in one sentence where that cannot be.

    `turn` is as in kwire.server.server.run; nothing is logged before it has come.
    """
    from kwire.cluster.stores.contract import StoreError
    from kwire.log import LogDirError, LogDirLocked
    from kwire.settings import ConfigError, load

    ports: dict[str, int] = {}
    control = controlled(hosting)

    def tell_ready(broker: Broker) -> None:
        announce(broker, container)
        if on_ready is not None and not ports:
            on_ready(broker)
        ports.update((each.listener, each.port) for each in broker.config.listeners)

    try:
        config = load(path, overrides, environ)
        if turn is None:
            tell_configuration(config, path)
        else:
            turn = telling_then(turn, partial(tell_configuration, config, path))
        if container and (cluster_id := environ.get("CLUSTER_ID")):
            from kwire.cli.container import adopt_cluster_id

            adopt_cluster_id(config.log_dirs, config.node_id, cluster_id)
        from kwire.server.server import run as run_server

        declare = declared_at_start(hosting.declaration, config)
        while True:
            run_server(
                config,
                tell_ready,
                exit_on_eof=hosting.exit_on_eof,
                prepare=prepare,
                control=control,
                declare=declare,
                files=fleeting() if hosting.is_fleeting else None,
                turn=turn,
            )
            if control is None or control.snapshots.restoring is None:
                return
            # It goes on at the ports it had, with what the snapshot holds and no more.
            control = control.restored(config.log_dirs)
            config = config.with_bound_ports(ports)
            prepare = declare = turn = None
    except (ConfigError, LogDirError, LogDirLocked, StoreError) as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error
    except OSError as error:
        log.error("%s", sentence_of(error))
        raise SystemExit(EXIT_FAILURE) from error
    finally:
        if control is not None:
            control.close()


def telling_then(turn: Turn, tell: Callable[[], None]) -> Turn:
    """The same, and what is told when it has come."""

    async def told() -> None:
        await turn()
        tell()

    return told


def fleeting() -> Files:
    """The disk of a broker whose data goes with the tests that had it started."""
    from kwire.log.directory.files import FleetingFiles

    return FleetingFiles()


def declared_at_start(declaration: Declaration | None, config: BrokerConfig) -> Declare | None:
    """What has it all there before anybody is let in.  Raises ConfigError."""
    if declaration is None:
        return None
    if config.zookeeper_connect is not None:
        from kwire.settings import ConfigError

        raise ConfigError("--apply is for a broker by itself: `kwire apply` changes a cluster")
    from kwire.cli.at_start import declaring

    return declaring(declaration)


def controlled(hosting: Hosting) -> Control | None:
    """What tests ask of the broker, if that was asked for."""
    if hosting.control is None:
        return None
    if importlib.util.find_spec("h11") is None:
        from kwire.client.extras import how_to_install

        log.error("--control takes h11, which is not installed: %s", how_to_install("testing"))
        raise SystemExit(EXIT_FAILURE)
    from kwire.testing.hooks.control.service import Control

    versions = hosting.max_versions, hosting.said_versions
    return Control(hosting.control, *versions, ahead_ms=hosting.ahead_ms)


def _versions(said: tuple[str, ...]) -> dict[int, int] | None:
    if not said:
        return None
    from kwire.testing.hooks.control.versions import read_max_versions
    from kwire.testing.hooks.faults.rules import BadRule

    try:
        return read_max_versions(said)
    except BadRule as problem:
        raise click.UsageError(f"--max-version: {problem}") from None


def tell_configuration(config: BrokerConfig, path: Path | None) -> None:
    """What was given, where it is kept, and what of it is left out, unknown or does nothing."""
    from kwire import __version__

    source = f", settings of {path}" if path else ""
    log.info("kwire %s, node %d%s", __version__, config.node_id, source)
    for directory in config.log_dirs:
        log.info("data in %s", Path(directory).absolute())
    for note in config.notes:
        log.warning("%s", note)
    if idle := config.without_effect():
        log.warning("without effect here: %s (docs/settings.md says why)", ", ".join(idle))


def announce(broker: Broker, container: bool) -> None:
    """What clients will be told, and where that cannot work."""
    from kwire.cli.advertised import listener_lines, warn_in_background

    for line in listener_lines(broker.config):
        log.info("%s", line)
    warn_in_background(broker.config)
    # Testcontainers' Kafka module waits for the words that Apache Kafka's broker writes.
    running = " Transitioning from RECOVERY to RUNNING." if container else ""
    log.info("broker %d is ready.%s", broker.node_id, running)


def sentence_of(error: OSError) -> str:
    """The system's words, with what they are about."""
    if isinstance(error, socket.gaierror):
        return "a host name in listeners cannot be resolved: name an interface of this machine"
    words = (error.strerror or str(error)).lower()
    return f"{error.filename}: {words}" if error.filename else words


def start_logging(level: str) -> None:
    """One line an event on stderr: time, level if it is not plain information, who, what."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=level.upper(), handlers=[CollapsingHandler(handler)])


class PlainFormatter(logging.Formatter):
    """`2026-03-01 12:00:00.123 WARNING connection: ...`, in local time."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        name = record.name.removeprefix("kwire.")
        text = f"{self.formatTime(record)} {level}{name}: {record.getMessage()}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return text
