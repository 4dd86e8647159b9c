"""`kwire cluster up`: runs ZooKeeper and brokers on this machine until Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import say
from kwire.cli.values import settings_option

if TYPE_CHECKING:
    from kwire.testing import ClusterProcess, ZooKeeperProcess

DATA_DIR = "kwire-cluster"
FIRST_PORT = 9092
BROKERS_MAX = 20
"""The most brokers on one machine, of about 35 MB each."""
LOG_LINES = 15
"""The number of log lines that are shown of a broker that did not start."""
POLL_S = 0.2


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):
    """SIGTERM, SIGINT or SIGHUP has arrived."""


@click.command("up")
@click.option(
    "-n", "--brokers", "count", type=click.IntRange(1, BROKERS_MAX), default=3, metavar="N",
    show_default=True, help="The number of brokers.",
)  # fmt: skip
@click.option("--racks", metavar="A,B,...", help="Racks to put the brokers into, in turn.")
@click.option(
    "--port", type=click.IntRange(0, 65_535 - BROKERS_MAX), default=FIRST_PORT, metavar="N",
    show_default=True,
    help="Port of the first broker, followed by those of the others; 0 chooses free ports.",
)  # fmt: skip
@click.option(
    "--zookeeper", metavar="HOST:PORT[/CHROOT]",
    help="Use a running ZooKeeper. Default: start one.",
)  # fmt: skip
@click.option(
    "--zookeeper-jars", metavar="FOLDER", type=click.Path(exists=True, file_okay=False),
    envvar="KWIRE_ZOOKEEPER_JARS",
    help="Folder of ZooKeeper's jars (lib of its distribution). Default: those of pyspark.",
)  # fmt: skip
@click.option(
    "--data", metavar="FOLDER", default=DATA_DIR, show_default=True,
    help="Store all data in FOLDER; a later start with it continues the cluster.",
)  # fmt: skip
@settings_option(
    "-s", "--set", "settings", help="Set a setting of all brokers; may be given several times."
)
def command(
    count: int,
    racks: str | None,
    port: int,
    zookeeper: str | None,
    zookeeper_jars: str | None,
    data: str,
    settings: tuple[tuple[str, str], ...],
) -> None:
    """Run a cluster of several brokers on this machine until Ctrl-C or SIGTERM.

    \b
      kwire cluster up
      kwire cluster up --brokers 5 --racks a,b,c --set num.partitions=6
      kwire cluster up --zookeeper localhost:2181/mine

    The brokers are processes of `kwire serve`.  ZooKeeper coordinates them as it does for Apache
    Kafka 3.9, whose brokers can join the cluster.  ZooKeeper needs Java and its jars, which come
    with pyspark, or which --zookeeper-jars names.  A cluster that needs no ZooKeeper is started by
    `kwire serve --brokers 3`.

    When this command ends, the brokers and the ZooKeeper that it started end, too.
    """
    from kwire.testing import BrokerStartError, ZooKeeperMissing, ZooKeeperStartError

    folder = Path(data)
    try:
        with Signals() as signals, _own(folder), ExitStack() as stack:
            own = None
            if zookeeper is None:
                own = stack.enter_context(_zookeeper(folder, zookeeper_jars, signals))
            connect = zookeeper or (own.connect() if own else "")
            cluster = _cluster(folder, connect, count, racks, port, dict(settings))
            _run(cluster, own)
    except Stopped:
        say("stopped")
    except (ZooKeeperMissing, ZooKeeperStartError) as error:
        raise _failed(str(error)) from error
    except BrokerStartError as error:
        raise _failed("\n".join(str(error).splitlines()[-LOG_LINES:])) from error


def _failed(words: str) -> SystemExit:
    say(f"kwire: {words}")
    return SystemExit(EXIT_FAILURE)


class Signals:
    """Raises Stopped at the first Ctrl-C, SIGTERM or SIGHUP, and ignores all further signals.

    So a second signal does not interrupt the stop.
    """

    def __init__(self) -> None:
        self._is_held = self._is_asked = False

    def __enter__(self) -> Signals:
        self._before = {each: signal.signal(each, self._hear) for each in STOPPING}
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        """Handles the first SIGINT or SIGTERM: raises Stopped, or only records it while signals are
        held.  Further signals are ignored, so that they do not interrupt the stopping."""
        for each in STOPPING:
            signal.signal(each, signal.SIG_IGN)
        self._is_asked = True
        say("stopping ...")
        if not self._is_held:
            raise Stopped

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raise Stopped only after the block, so that the process it starts is recorded."""
        self._is_held = True
        yield
        self._is_held = False
        if self._is_asked:
            raise Stopped


@contextmanager
def _own(folder: Path) -> Iterator[None]:
    """Lock the folder, after a check that it is one of this command."""
    from kwire.log import LogDir, LogDirError, LogDirLocked
    from kwire.log.directory.files import Files
    from kwire.storage.data_folder.admission import ServingWay, admit

    directory = LogDir(folder, Files())
    try:
        admit(folder, ServingWay.CLUSTER_UP)
        directory.open()
    except (LogDirError, LogDirLocked, OSError) as error:
        raise _failed(str(error)) from error
    try:
        yield
    finally:
        directory.unlock()


@contextmanager
def _zookeeper(folder: Path, jars: str | None, signals: Signals) -> Iterator[ZooKeeperProcess]:
    """Runs ZooKeeper for the duration of the `with` block.  Signals are held while the process is
    created, so that it is stopped in any case."""
    from kwire.testing import ZooKeeperProcess

    zookeeper = ZooKeeperProcess(folder / "zookeeper", jars=jars)
    try:
        with signals.held():
            zookeeper.spawn()
        zookeeper.wait_until_up()
        say(f"ZooKeeper runs at {zookeeper.address}, log in {_short(zookeeper.log_path)}")
        yield zookeeper
    finally:
        zookeeper.stop()


def _cluster(
    folder: Path, connect: str, count: int, racks: str | None, port: int, settings: dict[str, str]
) -> ClusterProcess:
    """Return the cluster to start.  `racks` is RACK[,...], assigned to brokers in turn; `port` is
    the first broker's port, or 0 for free ports."""
    from kwire.testing import ClusterProcess

    named = [rack.strip() for rack in racks.split(",")] if racks else []
    return ClusterProcess(
        folder,
        connect,
        count,
        settings,
        racks=[named[index % len(named)] for index in range(count)] if named else (),
        ports=[port + index for index in range(count)] if port else (),
    )


def _run(cluster: ClusterProcess, zookeeper: ZooKeeperProcess | None) -> None:
    """Run the cluster until Stopped is raised, or until no broker is left."""
    with cluster:
        for broker_id, broker in cluster.brokers.items():
            rack = broker.settings.get("broker.rack")
            where = f"{broker.bootstrap}" + (f" in rack {rack}" if rack else "")
            log = _short(broker.log_path)
            say(f"broker {broker_id} runs at {where}, log in {log}, process {broker.pid}")
        say(f"{len(cluster.brokers)} brokers are ready; Ctrl-C stops them. Bootstrap servers:")
        click.echo(cluster.bootstrap)
        _watch(cluster, zookeeper)


def _watch(cluster: ClusterProcess, zookeeper: ZooKeeperProcess | None) -> None:
    """Report each broker that ends by itself.  The others go on, as on other machines."""
    left = dict(cluster.brokers)
    while left:
        time.sleep(POLL_S)
        for broker_id, broker in list(left.items()):
            if (status := broker.ended) is not None:
                del left[broker_id]
                say(f"broker {broker_id} has ended{_how(status)}: see {_short(broker.log_path)}")
        if zookeeper is not None and zookeeper.ended is not None:
            log = _short(zookeeper.log_path)
            raise _failed(f"ZooKeeper has ended{_how(zookeeper.ended)}: see {log}")
    raise _failed("no broker is left")


def _how(status: int) -> str:
    return f" by {signal.Signals(-status).name}" if status < 0 else f" with status {status}"


def _short(path: Path) -> str:
    """The path, relative to the working directory if it is in it."""
    absolute, here = path.absolute(), Path(os.getcwd())
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
