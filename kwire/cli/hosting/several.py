"""`kwire serve --brokers N`: a cluster on one machine, without ZooKeeper.

    this process       forks the others, logs when they are ready, and stops them
    the holder         stores the metadata, and shares it over a Unix socket
    N brokers          members of the cluster, each a process like that of a single broker

This process imports all modules before it forks, so that the others start fast and share memory.
A broker that dies stays dead, as it would on another machine, until SIGHUP starts it again.  If
this process dies, the standard input of the others ends, and they stop.
"""

from __future__ import annotations

import logging
import os
import re
import select
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kwire.cli.grammar.statuses import EXIT_FAILURE
from kwire.cli.hosting.children import control_urls
from kwire.cli.hosting.forking import HEARD, fork, how_it_ended
from kwire.cli.repeats import name_broker
from kwire.cli.securing.client_files import CLIENT_FILE
from kwire.cli.serve import DATA_DIR, DEVELOPMENT, Hosting, controlled, with_shorthands
from kwire.cluster.metadata.image import NO_CONTROLLER

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cli.securing.secured import Secured
    from kwire.settings import BrokerConfig
    from kwire.storage.data_folder.kinds import DataFolder

log = logging.getLogger("kwire.serve")

FIRST_PORT: Final = 9092
HOST: Final = "localhost"
OF_EACH = ("node.id", "broker.id", "listeners", "advertised.listeners", "zookeeper.connect")
"""Settings that --brokers sets itself, to another value for each broker."""
OF_ONE: Final = re.compile(r"(\d+):(.+)")
"""The name of a setting of one broker: the broker's number, a colon, and Kafka's name."""
NEVER_OF_ONE: Final = ("node.id", "broker.id", "zookeeper.connect")
OF_EVERY_MEMBER: Final = (
    "kwire.cluster.membership.member",
    "kwire.cluster.stores.shared.holder",
    "kwire.cluster.stores.shared.store",
    "kwire.coordinators.runtime.groups",
    "kwire.cluster.metadata.views",
    "kwire.server.server",
)
"""Modules that a single broker imports when it needs them, and that every member needs."""
OF_CONTROL: Final = ("kwire.testing.hooks.control.server", "kwire.server.network.controlled")
"""Further modules that brokers with --control need."""
OF_METRICS: Final = ("kwire.server.metrics.service", "kwire.server.network.measured_listener")
"""Further modules that brokers with --metrics need."""
READY_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 60
POLL_S: Final = 0.01


def settings_of(
    number: int,
    count: int,
    given: Mapping[str, str],
    first_port: int,
    listeners_at: Callable[[int], str] = f"PLAINTEXT://{HOST}:{{}}".format,
) -> dict[str, str]:
    """The settings of broker `number` of `count`; numbers begin at 1."""
    common = {name: value for name, value in given.items() if not OF_ONE.fullmatch(name)}
    own = {
        match[2]: value
        for name, value in given.items()
        if (match := OF_ONE.fullmatch(name)) and int(match[1]) == number
    }
    copies = str(min(3, count))
    port = first_port + number - 1 if first_port else 0
    data = Path(common.get("log.dirs", DATA_DIR))
    if (first := common.get("metrics.port", "")).isdecimal() and int(first):
        common["metrics.port"] = str(int(first) + number - 1)
    return {
        "group.initial.rebalance.delay.ms": DEVELOPMENT["group.initial.rebalance.delay.ms"],
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": str(min(2, count)),
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": str(min(2, count)),
        **common,
        "node.id": str(number),
        "listeners": listeners_at(port),
        "log.dirs": str(data / f"broker-{number}"),
        **own,
    }


def serve_several(
    count: int,
    settings: dict[str, str],
    data: str | None,
    port: int | None,
    hosting: Hosting,
    owns: Path | None = None,
    *,
    secure: bool = False,
) -> None:
    """Run `count` brokers until Ctrl-C or SIGTERM.

    With --control each broker has a control port of its own; the ports begin at that of `hosting`.
    The folder `owns` holds all data.  It is removed when standard input ends.
    """
    for name in OF_EACH:
        if name in settings:
            raise click.UsageError(f"--brokers gives each broker its own {name}: do not set it")
    for name in settings:
        _check_owner(name, count)
    given = with_shorthands(settings, data, None)
    if "," in given.get("log.dirs", ""):
        raise click.UsageError(
            "--brokers stores the data of all brokers in one folder: name one folder only"
        )
    first_port = FIRST_PORT if port is None else port
    folder = Path(given.get("log.dirs", DATA_DIR))
    secured = _secured(folder, given) if secure else None
    configs = _loaded(count, given, first_port, secured)
    _prepare(folder, count)
    with tempfile.TemporaryDirectory(prefix="kwire-") as private:
        cluster = ClusterProcesses(configs, folder, Path(private) / "metadata", hosting, secured)
        status = cluster.run(exit_on_eof=hosting.exit_on_eof, is_fleeting=owns is not None)
        if owns is not None and cluster.is_abandoned:
            shutil.rmtree(owns, ignore_errors=True)
        raise SystemExit(status)


def _prepare(folder: Path, count: int) -> None:
    """Convert the data folder to that of a cluster.  Logs an error and exits if that is impossible.

    The folder is locked meanwhile.  The holder locks it again for as long as it runs.
    """
    from kwire.log import LogDir, LogDirError, LogDirLocked
    from kwire.log.directory.files import Files
    from kwire.server.startup import finish_restoring
    from kwire.storage.data_folder import growing
    from kwire.storage.data_folder.admission import ServingWay, admit
    from kwire.storage.data_folder.kinds import look

    try:
        finish_restoring(folder)
        admit(folder, ServingWay.SEVERAL)
        directory = LogDir(folder, Files())
        directory.open()
        try:
            growing.put_back(folder)
            growing.prepare(admit(folder, ServingWay.SEVERAL), count)
            _warn_of_left_out(look(folder), count)
        finally:
            directory.unlock()
    except (LogDirError, LogDirLocked, OSError) as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error


def _warn_of_left_out(folder: DataFolder, count: int) -> None:
    """Warn if the folder has data of brokers that are not started."""
    left_out = [broker_id for broker_id in folder.member_ids() if broker_id > count]
    if left_out:
        log.warning(
            "%s holds the data of %d more brokers, which are not started: --brokers %d starts them",
            folder.path, len(left_out), max(left_out),
        )  # fmt: skip


def _check_owner(name: str, count: int) -> None:
    """Raise click.UsageError if a setting of one broker names no broker, or cannot be set."""
    match = OF_ONE.fullmatch(name)
    if match is None:
        return
    if not 1 <= int(match[1]) <= count:
        raise click.UsageError(
            f"{name}: there is no broker {match[1]}, the brokers are 1 to {count}"
        )
    if match[2] in NEVER_OF_ONE:
        raise click.UsageError(f"--brokers gives each broker its own {match[2]}: do not set it")


def _secured(folder: Path, given: dict[str, str]) -> Secured:
    """The folder of secrets for --secure; adds the settings that use it to `given`."""
    from kwire.cli.securing.secured import OWN_OF_SEVERAL, Secured, refuse_own, settings_of_several

    refuse_own(given, OWN_OF_SEVERAL)
    secured = Secured.beside(str(folder))
    try:
        given |= {**settings_of_several(secured), **given}
    except (OSError, ValueError) as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error
    return secured


def _loaded(
    count: int, given: Mapping[str, str], first_port: int, secured: Secured | None
) -> list[BrokerConfig]:
    """Return the settings of `count` brokers.  Logs an error and exits if they are wrong."""
    from kwire.settings import ConfigError, load

    ways = () if secured is None else (secured.listeners_at,)
    by_broker = {
        number: settings_of(number, count, given, first_port, *ways)
        for number in range(1, count + 1)
    }
    if secured is not None:
        secured.write_broker_files(by_broker)
    try:
        return [load(None, of_broker, {}) for of_broker in by_broker.values()]
    except ConfigError as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error


class ClusterProcesses:
    """The holder and the brokers, as child processes of this process."""

    def __init__(
        self,
        configs: list[BrokerConfig],
        folder: Path,
        metadata: Path,
        hosting: Hosting,
        secured: Secured | None = None,
    ) -> None:
        """`folder` holds the data of all brokers, and `metadata` is the path of the Unix
        socket at which the holder serves the metadata.  Nothing is started yet."""
        self._configs = {config.node_id: config for config in configs}
        self._folder = folder
        self._metadata = metadata
        self._hosting = hosting
        self._secured = secured
        self._pids: dict[int, int] = {}
        """The process ids of running brokers by broker id; that of the holder under 0."""
        self._alive = os.pipe()
        """The children read it as standard input, which ends when this process ends."""
        self._ready = os.pipe()
        """The children write a line `BROKER_ID PORT` to it when they are ready."""
        self._signals = os.pipe()
        """The signals that this process received."""
        self._listening: socket.socket | None = None
        self._missing: set[int] = set()
        """The brokers that have died."""
        self.is_abandoned = False
        """Whether standard input has ended, since the process that started the cluster is gone."""

    def run(self, *, exit_on_eof: bool, is_fleeting: bool = False) -> int:
        """Run the cluster until a signal stops it or the holder ends; returns the exit status.

        If `is_fleeting` and standard input has ended, nobody needs the data, and all processes are
        killed.
        """
        configs = self._configs.values()
        has_metrics = any(config.metrics.metrics_port is not None for config in configs)
        _import_all(
            (
                *(OF_CONTROL if self._hosting.control is not None else ()),
                *(OF_METRICS if has_metrics else ()),
            )
        )
        from kwire.cluster.stores.shared.server import listen

        self._listening = listen(self._metadata)
        self._receive_signals()
        self._fork(0, self._hold)
        self._listening.close()
        for broker_id in self._configs:
            self._fork(broker_id, self._broker)
        status = self._watch(exit_on_eof)
        for child in self._hosting.children:
            child.stop()
        if is_fleeting and self.is_abandoned:
            self._kill()
        else:
            self._stop()
        return status

    # -- in the child processes

    def _fork(self, broker_id: int, work: Callable[[int], None]) -> None:
        """Forks a child that does `work`.  It closes the pipe ends that only this process uses."""
        inherited = (*self._alive, self._ready[0], *self._signals)
        self._pids[broker_id] = fork(
            lambda: work(broker_id), f"broker {broker_id}", self._alive[0], inherited
        )

    def _hold(self, _: int) -> None:
        """Runs the holder, the child process that stores the cluster's metadata and serves it to
        brokers."""
        from kwire.cluster.decisions.new_cluster import first_changes
        from kwire.cluster.stores.contract import StoreError
        from kwire.cluster.stores.shared.holder import hold
        from kwire.log import LogDirLocked

        assert self._listening is not None
        first = first_changes(self._configs[min(self._configs)])
        try:
            hold(self._folder, self._listening, lambda: self._report_ready(0), first)
        except (LogDirLocked, StoreError, OSError) as error:
            log.error("%s", error)
            raise SystemExit(EXIT_FAILURE) from error

    def _broker(self, broker_id: int) -> None:
        """Runs one broker in a child process until it is stopped.  Exits with a failure if it
        cannot start."""
        from kwire.cluster.stores.contract import StoreError
        from kwire.log import LogDirError, LogDirLocked
        from kwire.server.server import run as run_server
        from kwire.settings import ConfigError

        name_broker(broker_id)
        try:
            run_server(
                self._configs[broker_id],
                self._report_when_ready,
                exit_on_eof=True,
                metadata=self._metadata,
                prepare=None if self._secured is None else self._secured.add_user,
                control=controlled(self._hosting_of(broker_id)),
            )
        except (ConfigError, LogDirError, LogDirLocked, StoreError, OSError) as error:
            log.error("broker %d: %s", broker_id, error)
            raise SystemExit(EXIT_FAILURE) from error

    def _hosting_of(self, broker_id: int) -> Hosting:
        first = self._hosting.control
        return self._hosting._replace(control=first + broker_id - 1 if first else first)

    def _report_when_ready(self, broker: Broker) -> None:
        """Report that the broker is ready once it knows the controller and all other brokers."""
        count = len(self._configs) - len(self._missing)
        broker.membership.call_when(
            lambda image: len(image.brokers) >= count and image.controller_id != NO_CONTROLLER,
            lambda: self._report_ready(broker.node_id, broker.config.advertised_listeners[0].port),
        )

    def _report_ready(self, broker_id: int, port: int = 0) -> None:
        os.write(self._ready[1], f"{broker_id} {port}\n".encode())

    # -- in this process

    def _receive_signals(self) -> None:
        """Has Python write signals to a pipe, so that `_watch` can wait for them by `select`."""
        for end in self._signals:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._signals[1], warn_on_full_buffer=False)
        for number in HEARD:
            signal.signal(number, lambda *_: None)

    def _watch(self, exit_on_eof: bool) -> int:
        """Handle signals and reports of the children until the end; returns the exit status."""
        ports: dict[int, int] = {}
        pending = b""
        watched = [self._signals[0], self._ready[0], *([0] if exit_on_eof else [])]
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            is_ready = len(ports) >= len(self._configs)
            left_s = None if is_ready else max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select(watched, [], [], left_s)
            if not readable:
                log.error("the brokers were not ready within %d s: shutting down", READY_TIMEOUT_S)
                return EXIT_FAILURE
            if 0 in readable and not os.read(0, 4096):
                self.is_abandoned = True
                log.info("standard input has ended: shutting down")
                return 0
            if self._ready[0] in readable:
                pending += os.read(self._ready[0], 4096)
                *lines, pending = pending.split(b"\n")
                for line in lines:
                    broker_id, port = map(int, line.split())
                    if broker_id:
                        ports[broker_id] = port
                        self._on_ready(broker_id, port)
                if not is_ready and len(ports) >= len(self._configs):
                    self._log_all_ready(ports)
            if self._signals[0] in readable:
                status = self._on_signals(os.read(self._signals[0], 4096), is_ready)
                if status is not None:
                    return status

    def _on_ready(self, broker_id: int, port: int) -> None:
        """Log the broker's address, and keep the port for its next start: clients know it."""
        config = self._configs[broker_id]
        # The listener between brokers may have another port after a restart.
        ports = {endpoint.listener: 0 for endpoint in config.listeners}
        ports[config.listeners[0].listener] = port
        self._configs[broker_id] = config.with_bound_ports(ports)
        pid = self._pids.get(broker_id, -1)
        log.info("broker %d is ready at %s:%d, process %d", broker_id, HOST, port, pid)

    def _log_all_ready(self, ports: Mapping[int, int]) -> None:
        """Logs the bootstrap servers, and that the cluster is ready; tests wait for that line."""
        bootstrap = ",".join(f"{HOST}:{port}" for _, port in sorted(ports.items()))
        log.info("bootstrap servers: %s", bootstrap)
        if self._secured is not None:
            self._secured.write_client_files(bootstrap)
        for child in self._hosting.children:
            if self._secured is not None:
                child.client_file = self._secured.folder / CLIENT_FILE
            child.start(bootstrap, control_urls(self._hosting.control, len(ports)))
        log.info(
            "%s ready: a cluster on one machine, for development (a cluster that survives the loss "
            "of a machine has ZooKeeper or KRaft controllers: docs/clusters.md)",
            "1 broker is" if len(ports) == 1 else f"{len(ports)} brokers are",
        )

    def _on_signals(self, numbers: bytes, is_ready: bool) -> int | None:
        """Handle the signals received; returns the exit status if the cluster has to stop."""
        for broker_id, how in self._reap():
            if broker_id == 0:
                log.error("the process that holds the metadata %s: shutting down", how)
                return EXIT_FAILURE
            if not is_ready:
                return EXIT_FAILURE  # The broker has logged the reason.
            log.warning("broker %d %s: `kill -HUP %d` starts it again", broker_id, how, os.getpid())
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                log.info("%s: shutting down", signal.Signals(number).name)
                return 0
            if number == signal.SIGHUP:
                for broker_id in sorted(self._configs.keys() & self._missing):
                    self._missing.discard(broker_id)
                    self._fork(broker_id, self._broker)
                    pid = self._pids[broker_id]
                    log.info("broker %d starts again, process %d", broker_id, pid)
        return None

    def _reap(self) -> list[tuple[int, str]]:
        """(broker id, how it ended) of each child that has ended since the last call."""
        ended = []
        for broker_id, pid in list(self._pids.items()):
            ended_pid, status = os.waitpid(pid, os.WNOHANG)
            if ended_pid:
                del self._pids[broker_id]
                self._missing.add(broker_id)
                ended.append((broker_id, how_it_ended(status)))
        return ended

    def _stop(self) -> None:
        """Stop the brokers one after the other, so that the next ones take over, then the holder.

        A process that does not stop in time is killed.
        """
        for broker_id in sorted(self._pids, reverse=True):
            if (pid := self._pids.get(broker_id)) is not None:
                self._end(broker_id, pid)

    def _kill(self) -> None:
        """Kill all processes, also paused ones, and wait until they have ended."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids.values():
            os.waitpid(pid, 0)
        self._pids.clear()

    def _end(self, broker_id: int, pid: int) -> None:
        """Stops a broker by SIGTERM, and kills it if it runs for STOP_TIMEOUT_S seconds more."""
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while broker_id in self._pids and time.monotonic() < deadline:
            select.select([self._signals[0]], [], [], POLL_S)
            self._reap()
        if broker_id in self._pids:
            log.warning("broker %d did not stop within %d s: killing it", broker_id, STOP_TIMEOUT_S)
            os.kill(pid, signal.SIGKILL)
            while broker_id in self._pids:
                time.sleep(POLL_S)
                self._reap()


def _import_all(more: Iterable[str]) -> None:
    """Import what every broker needs before the fork, so that all processes share the memory."""
    import gc
    from importlib import import_module

    from kwire.requests.routes import CLUSTER_ROUTES, ROUTES

    handlers = [route.handler_module for route in (*ROUTES, *CLUSTER_ROUTES)]
    for module in (*OF_EVERY_MEMBER, *handlers, *more):
        import_module(module)
    gc.collect()
    gc.freeze()  # A collection in a child would write to the shared pages, which copies them.
