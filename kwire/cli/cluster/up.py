"""`kwire cluster up`: runs brokers, and ZooKeeper or controllers, on this machine until Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click

from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.text.output import counted, say
from kwire.cli.values import metrics_address, settings_option

if TYPE_CHECKING:
    from kwire.testing import ClusterProcess, ZooKeeperProcess
    from kwire.testing.cluster import BrokerProcesses
    from kwire.testing.controllers import ControllersProcess
    from kwire.testing.hosting.lifetime import ServerProcess

DATA_DIR = "kwire-cluster"
FIRST_PORT = 9092
BROKERS_MAX = 20
"""The most brokers on one machine, of about 35 MB each."""
CONTROLLERS_MAX = 9
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
    "--kraft", is_flag=True,
    help="Start KRaft controllers of Apache Kafka instead of a ZooKeeper.",
)  # fmt: skip
@click.option(
    "--controllers", type=click.IntRange(1, CONTROLLERS_MAX), metavar="N",
    help="With --kraft: the number of controllers of a new cluster. Default: 1.",
)  # fmt: skip
@click.option(
    "--kafka-jars", metavar="FOLDER", type=click.Path(exists=True, file_okay=False),
    envvar="KWIRE_APACHE_KAFKA_LIBS",
    help="With --kraft: folder of Apache Kafka's jars (libs of its distribution). Default: those "
    "of an installed Kafka, or else Maven downloads them.",
)  # fmt: skip
@click.option(
    "--data", metavar="FOLDER", default=DATA_DIR, show_default=True,
    help="Store all data in FOLDER; a later start with it continues the cluster.",
)  # fmt: skip
@click.option(
    "--metrics", type=metrics_address, metavar="[HOST:]PORT",
    help="Serve the metrics of the first broker at PORT, and those of each further broker at the "
    "next port.",
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
    kraft: bool,
    controllers: int | None,
    kafka_jars: str | None,
    data: str,
    metrics: dict[str, str] | None,
    settings: tuple[tuple[str, str], ...],
) -> None:
    """Run a cluster of several brokers on this machine until Ctrl-C or SIGTERM.

    \b
      kwire cluster up
      kwire cluster up --kraft --controllers 3
      kwire cluster up --brokers 5 --racks a,b,c --set num.partitions=6
      kwire cluster up --zookeeper localhost:2181/mine

    The brokers are processes of `kwire serve`.  ZooKeeper coordinates them as it does for Apache
    Kafka 3.9, whose brokers can join the cluster.  ZooKeeper needs Java and its jars, which come
    with pyspark, or which --zookeeper-jars names.

    With --kraft, controllers of Apache Kafka 4.4 coordinate the brokers, and brokers of Apache
    Kafka 4.4 can join the cluster.  The controllers need Java 17 and Apache Kafka's jars.  The
    settings of --set are theirs, too.

    A cluster that needs no Java is started by `kwire serve --brokers 3`.

    When this command ends, the brokers and the ZooKeeper or controllers that it started end, too.
    """
    from kwire.cli.cluster.kafka_jars import KafkaMissing
    from kwire.testing import BrokerStartError, ZooKeeperMissing, ZooKeeperStartError
    from kwire.testing.controllers import ControllersError

    if kraft and zookeeper:
        raise click.UsageError("--kraft starts a cluster without ZooKeeper: leave one of them out")
    if controllers is not None and not kraft:
        raise click.UsageError("--controllers is of a cluster with --kraft")
    folder, plan = Path(data), Plan(count, racks, port, {**dict(settings), **(metrics or {})})
    try:
        with Signals() as signals, _own(folder, kraft=kraft), ExitStack() as stack:
            if kraft:
                quorum = stack.enter_context(
                    _controllers(folder, controllers, kafka_jars, plan, signals)
                )
                _run(_beside_controllers(folder, quorum, plan), quorum)
            elif zookeeper is None:
                own = stack.enter_context(_zookeeper(folder, zookeeper_jars, signals))
                _run(_cluster(folder, own.connect(), plan), own)
            else:
                _run(_cluster(folder, zookeeper, plan), None)
    except Stopped:
        say("stopped")
    except (ZooKeeperMissing, ZooKeeperStartError, KafkaMissing) as error:
        raise _failed(str(error)) from error
    except (BrokerStartError, ControllersError) as error:
        raise _failed("\n".join(str(error).splitlines()[-LOG_LINES:])) from error


def _failed(words: str) -> SystemExit:
    say(f"kwire: {words}")
    return SystemExit(EXIT_FAILURE)


class Plan(NamedTuple):
    """What the command line says of the brokers: `racks` is RACK[,...], assigned to brokers in
    turn; `port` is the first broker's port, or 0 for free ports."""

    brokers: int
    racks: str | None
    port: int
    settings: dict[str, str]

    @property
    def each_rack(self) -> tuple[str, ...]:
        """The racks of the brokers, or none."""
        named = [rack.strip() for rack in self.racks.split(",")] if self.racks else []
        return tuple(named[index % len(named)] for index in range(self.brokers)) if named else ()

    @property
    def each_port(self) -> tuple[int, ...]:
        """The ports of the brokers, or none if any free ports will do."""
        return tuple(self.port + index for index in range(self.brokers)) if self.port else ()


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
def _own(folder: Path, *, kraft: bool) -> Iterator[None]:
    """Lock the folder, after a check that it is one of this command."""
    from kwire.log import LogDir, LogDirError, LogDirLocked
    from kwire.log.directory.files import Files
    from kwire.storage.data_folder.admission import ServingWay, admit

    directory = LogDir(folder, Files())
    try:
        admit(folder, ServingWay.KRAFT_UP if kraft else ServingWay.CLUSTER_UP)
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


def _cluster(folder: Path, connect: str, plan: Plan) -> ClusterProcess:
    """Return the cluster to start on the ZooKeeper at `connect`."""
    from kwire.testing import ClusterProcess

    return ClusterProcess(
        folder, connect, plan.brokers, plan.settings, racks=plan.each_rack, ports=plan.each_port
    )


@contextmanager
def _controllers(
    folder: Path, count: int | None, jars: str | None, plan: Plan, signals: Signals
) -> Iterator[ControllersProcess]:
    """Runs the controllers for the duration of the `with` block, like `_zookeeper`."""
    from kwire.cli.cluster.kafka_jars import find_kafka
    from kwire.testing.cluster import replicated
    from kwire.testing.controllers import ControllersProcess

    program = find_kafka(jars)
    settings = {**replicated(plan.brokers), **plan.settings}
    quorum = ControllersProcess(folder, program, count, settings)
    try:
        quorum.format()
        with signals.held():
            quorum.spawn()
        quorum.wait_until_up()
        for number, each in quorum.controllers.items():
            log = _short(each.log_path)
            say(f"controller {number} runs at {each.address}, log in {log}, process {each.pid}")
        yield quorum
    finally:
        quorum.stop()


def _beside_controllers(folder: Path, quorum: ControllersProcess, plan: Plan) -> BrokerProcesses:
    """Return the brokers to start beside the controllers."""
    from kwire.testing.kraft import KraftClusterProcess

    return KraftClusterProcess(
        folder,
        quorum.addresses,
        plan.brokers,
        plan.settings,
        racks=plan.each_rack,
        ports=plan.each_port,
        lifelines=quorum.lifelines,
    )


def _run(cluster: BrokerProcesses, beside: ZooKeeperProcess | ControllersProcess | None) -> None:
    """Run the cluster until Stopped is raised, or until no broker is left or what is beside it."""
    with cluster:
        for broker_id, broker in cluster.brokers.items():
            rack = broker.settings.get("broker.rack")
            where = f"{broker.bootstrap}" + (f" in rack {rack}" if rack else "")
            log = _short(broker.log_path)
            say(f"broker {broker_id} runs at {where}, log in {log}, process {broker.pid}")
        count = counted(len(cluster.brokers), "broker")
        say(f"{count} ready; Ctrl-C stops the cluster. Bootstrap servers:")
        click.echo(cluster.bootstrap)
        _watch(cluster, beside)


def _watch(cluster: BrokerProcesses, beside: ZooKeeperProcess | ControllersProcess | None) -> None:
    """Report each process that ends by itself.  The others go on, as on other machines, unless no
    broker or nothing that coordinates them is left."""
    brokers: dict[str, ServerProcess] = {
        f"broker {broker_id}": broker for broker_id, broker in cluster.brokers.items()
    }
    coordinators = _coordinators(beside)
    is_alone = not coordinators
    while brokers and (coordinators or is_alone):
        time.sleep(POLL_S)
        for left in (brokers, coordinators):
            for name, process in list(left.items()):
                if (status := process.ended) is not None:
                    del left[name]
                    say(f"{name} has ended{_how(status)}: see {_short(process.log_path)}")
                    process.stop()  # It releases what watches the process, whose id is free now.
    raise _failed(
        "no broker is left" if not brokers else "nothing is left that coordinates brokers"
    )


def _coordinators(
    beside: ZooKeeperProcess | ControllersProcess | None,
) -> dict[str, ServerProcess]:
    """Return the processes that this command started beside the brokers, by their names."""
    from kwire.testing.zookeeper import ZooKeeperProcess

    if beside is None:
        return {}
    if isinstance(beside, ZooKeeperProcess):
        return {"ZooKeeper": beside}
    return {f"controller {number}": each for number, each in beside.controllers.items()}


def _how(status: int) -> str:
    return f" by {signal.Signals(-status).name}" if status < 0 else f" with status {status}"


def _short(path: Path) -> str:
    """The path, relative to the working directory if it is in it."""
    absolute, here = path.absolute(), Path(os.getcwd())
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
