"""`kwire serve --brokers N`: a cluster on one machine, without ZooKeeper.

    this process       forks the others, tells when they are ready, stops them; it runs no loop
    the holder         keeps the metadata and shares it over a Unix socket
    N brokers          members of the cluster, each a process like that of a single broker

They are forked from one that has everything imported, which is quick and lets them share its pages.
A broker that dies stays dead, as it would on another machine, until SIGHUP starts it again.  If
this process dies, whatever way, the others see the end of their standard input, and stop.
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
from kwire.cli.hosting.forking import HEARD, fork, how_it_ended
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
"""Settings that --brokers gives itself, to each broker its own."""
OF_ONE: Final = re.compile(r"(\d+):(.+)")
"""The name of a setting of one broker alone: its number comes before."""
NEVER_OF_ONE: Final = ("node.id", "broker.id", "zookeeper.connect")
OF_EVERY_MEMBER: Final = (
    "kwire.cluster.membership.member",
    "kwire.cluster.stores.shared.holder",
    "kwire.cluster.stores.shared.store",
    "kwire.coordinators.runtime.groups",
    "kwire.cluster.metadata.views",
    "kwire.server.server",
)
"""Modules that a broker imports late, and a member of a cluster always."""
OF_CONTROL: Final = ("kwire.testing.hooks.control.server", "kwire.server.network.controlled")
"""Likewise, where they are controlled."""
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
    """What broker `number` of `count` runs by; they are counted from 1."""
    common = {name: value for name, value in given.items() if not OF_ONE.fullmatch(name)}
    own = {
        found[2]: value
        for name, value in given.items()
        if (found := OF_ONE.fullmatch(name)) and int(found[1]) == number
    }
    copies = str(min(3, count))
    port = first_port + number - 1 if first_port else 0
    data = Path(common.get("log.dirs", DATA_DIR))
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

    Where they are controlled, each is at a port of its own, from that of `hosting` on.  The folder
    `owns` holds all that they keep: it is removed when standard input ends.
    """
    for name in OF_EACH:
        if name in settings:
            raise click.UsageError(f"--brokers gives each broker its own {name}")
    for name in settings:
        _check_owner(name, count)
    given = with_shorthands(settings, data, None)
    if "," in given.get("log.dirs", ""):
        raise click.UsageError("--brokers takes one folder, in which each broker has its own")
    first_port = FIRST_PORT if port is None else port
    folder = Path(given.get("log.dirs", DATA_DIR))
    secured = _secured(folder, given) if secure else None
    configs = _loaded(count, given, first_port, secured)
    _prepare(folder, count)
    with tempfile.TemporaryDirectory(prefix="kwire-") as private:
        cluster = Cluster(configs, folder, Path(private) / "metadata", hosting, secured)
        status = cluster.run(exit_on_eof=hosting.exit_on_eof, is_fleeting=owns is not None)
        if owns is not None and cluster.is_abandoned:
            shutil.rmtree(owns, ignore_errors=True)
        raise SystemExit(status)


def _prepare(folder: Path, count: int) -> None:
    """Have the folder be a cluster's; says why it cannot be.  Nobody may serve it meanwhile.

    The process that holds the metadata locks it again, for as long as it runs.
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
            _tell_left_out(look(folder), count)
        finally:
            directory.unlock()
    except (LogDirError, LogDirLocked, OSError) as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error


def _tell_left_out(folder: DataFolder, count: int) -> None:
    """Which brokers of the cluster are not started, and how they would be."""
    left_out = [each for each in folder.member_ids() if each > count]
    if left_out:
        log.warning(
            "%s holds the data of %d more brokers, which are not started: --brokers %d starts them",
            folder.path, len(left_out), max(left_out),
        )  # fmt: skip


def _check_owner(name: str, count: int) -> None:
    """Of a setting that may be one broker's.  Raises click.UsageError."""
    found = OF_ONE.fullmatch(name)
    if found is None:
        return
    if not 1 <= int(found[1]) <= count:
        raise click.UsageError(f"{name}: the brokers are 1 to {count}")
    if found[2] in NEVER_OF_ONE:
        raise click.UsageError(f"--brokers gives each broker its own {found[2]}")


def _secured(folder: Path, given: dict[str, str]) -> Secured:
    """The folder of secrets; `given` gets the settings that use it."""
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
    from kwire.settings import ConfigError, load

    ways = () if secured is None else (secured.listeners_at,)
    wanted = {
        number: settings_of(number, count, given, first_port, *ways)
        for number in range(1, count + 1)
    }
    if secured is not None:
        secured.write_broker_files(wanted)
    try:
        return [load(None, each, {}) for each in wanted.values()]
    except ConfigError as error:
        log.error("%s", error)
        raise SystemExit(EXIT_FAILURE) from error


class Cluster:
    """The processes, seen from the one that forks them."""

    def __init__(
        self,
        configs: list[BrokerConfig],
        folder: Path,
        metadata: Path,
        hosting: Hosting,
        secured: Secured | None = None,
    ) -> None:
        self._configs = {config.node_id: config for config in configs}
        self._folder = folder
        self._metadata = metadata
        self._hosting = hosting
        self._secured = secured
        self._pids: dict[int, int] = {}
        """Of the brokers that run, by id; the holder's is 0."""
        self._alive = os.pipe()
        self._ready = os.pipe()
        self._signals = os.pipe()
        self._listening: socket.socket | None = None
        self._missing: set[int] = set()
        """Brokers that have died."""
        self.is_abandoned = False
        """Whether standard input has ended: who started the cluster is gone."""

    def run(self, *, exit_on_eof: bool, is_fleeting: bool = False) -> int:
        """Until it is told to stop, or the holder ends; gives the exit status.

        Where `is_fleeting`, nobody needs the data once standard input has ended: all are killed.
        """
        _import_all(OF_CONTROL if self._hosting.control is not None else ())
        from kwire.cluster.stores.shared.server import listen

        self._listening = listen(self._metadata)
        self._hear_signals()
        self._fork(0, self._hold)
        self._listening.close()
        for broker_id in self._configs:
            self._fork(broker_id, self._broker)
        status = self._watch(exit_on_eof)
        if is_fleeting and self.is_abandoned:
            self._kill()
        else:
            self._stop()
        return status

    # -- the children

    def _fork(self, broker_id: int, work: Callable[[int], None]) -> None:
        inherited = (*self._alive, self._ready[0], *self._signals)
        self._pids[broker_id] = fork(
            lambda: work(broker_id), f"broker {broker_id}", self._alive[0], inherited
        )

    def _hold(self, _: int) -> None:
        from kwire.cluster.decisions.new_cluster import first_changes
        from kwire.cluster.stores.contract import StoreError
        from kwire.cluster.stores.shared.holder import hold
        from kwire.log import LogDirLocked

        assert self._listening is not None
        first = first_changes(self._configs[min(self._configs)])
        try:
            hold(self._folder, self._listening, lambda: self._tell_ready(0), first)
        except (LogDirLocked, StoreError, OSError) as error:
            log.error("%s", error)
            raise SystemExit(EXIT_FAILURE) from error

    def _broker(self, broker_id: int) -> None:
        from kwire.cluster.stores.contract import StoreError
        from kwire.log import LogDirError, LogDirLocked
        from kwire.server.server import run as run_server
        from kwire.settings import ConfigError

        try:
            run_server(
                self._configs[broker_id],
                self._tell_when_ready,
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

    def _tell_when_ready(self, broker: Broker) -> None:
        """It is once it knows all that were started with it, and who is the controller."""
        count = len(self._configs) - len(self._missing)
        broker.membership.call_when(
            lambda image: len(image.brokers) >= count and image.controller_id != NO_CONTROLLER,
            lambda: self._tell_ready(broker.node_id, broker.config.advertised_listeners[0].port),
        )

    def _tell_ready(self, broker_id: int, port: int = 0) -> None:
        os.write(self._ready[1], f"{broker_id} {port}\n".encode())

    # -- this process

    def _hear_signals(self) -> None:
        for end in self._signals:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._signals[1], warn_on_full_buffer=False)
        for number in HEARD:
            signal.signal(number, lambda *_: None)

    def _watch(self, exit_on_eof: bool) -> int:
        """Until something ends it; gives the exit status."""
        ports: dict[int, int] = {}
        told = b""
        watched = [self._signals[0], self._ready[0], *([0] if exit_on_eof else [])]
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            is_ready = len(ports) >= len(self._configs)
            left = None if is_ready else max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select(watched, [], [], left)
            if not readable:
                log.error("the brokers were not ready within %d s", READY_TIMEOUT_S)
                return EXIT_FAILURE
            if 0 in readable and not os.read(0, 4096):
                self.is_abandoned = True
                log.info("standard input has ended: shutting down")
                return 0
            if self._ready[0] in readable:
                told += os.read(self._ready[0], 4096)
                *lines, told = told.split(b"\n")
                for line in lines:
                    broker_id, port = map(int, line.split())
                    if broker_id:
                        ports[broker_id] = port
                        self._tell_where(broker_id, port)
                if not is_ready and len(ports) >= len(self._configs):
                    self._announce(ports)
            if self._signals[0] in readable:
                status = self._on_signals(os.read(self._signals[0], 4096), is_ready)
                if status is not None:
                    return status

    def _tell_where(self, broker_id: int, port: int) -> None:
        """Also for the broker's next start: clients look for it there."""
        config = self._configs[broker_id]
        ports = {each.listener: 0 for each in config.listeners}  # those for brokers: any again
        ports[config.listeners[0].listener] = port
        self._configs[broker_id] = config.with_bound_ports(ports)
        pid = self._pids.get(broker_id, -1)
        log.info("broker %d is ready at %s:%d, process %d", broker_id, HOST, port, pid)

    def _announce(self, ports: Mapping[int, int]) -> None:
        where = ",".join(f"{HOST}:{port}" for _, port in sorted(ports.items()))
        log.info("for clients: %s", where)
        if self._secured is not None:
            self._secured.write_client_files(where)
        log.info(
            "%s ready: a cluster of one machine, to develop against (one that outlives a machine "
            "takes ZooKeeper)",
            "1 broker is" if len(ports) == 1 else f"{len(ports)} brokers are",
        )

    def _on_signals(self, numbers: bytes, is_ready: bool) -> int | None:
        """What signals ask for; the exit status if it is the end."""
        for broker_id, why in self._reap():
            if broker_id == 0:
                log.error("the process that holds the metadata %s: the cluster stops", why)
                return EXIT_FAILURE
            if not is_ready:
                return EXIT_FAILURE  # it has said why
            log.warning("broker %d %s; SIGHUP to %d starts it again", broker_id, why, os.getpid())
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                log.info("%s: shutting down", signal.Signals(number).name)
                return 0
            if number == signal.SIGHUP:
                for broker_id in sorted(self._configs.keys() & self._missing):
                    self._missing.discard(broker_id)
                    self._fork(broker_id, self._broker)
                    pid = self._pids[broker_id]
                    log.info("broker %d is started again, process %d", broker_id, pid)
        return None

    def _reap(self) -> list[tuple[int, str]]:
        """Who has ended, and how."""
        ended = []
        for broker_id, pid in list(self._pids.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                del self._pids[broker_id]
                self._missing.add(broker_id)
                ended.append((broker_id, how_it_ended(status)))
        return ended

    def _stop(self) -> None:
        """One broker after the other, which the others take over from; the holder is the last.

        Who takes too long is killed; who ends by itself while another is waited for is left out.
        """
        for broker_id in sorted(self._pids, reverse=True):
            if (pid := self._pids.get(broker_id)) is not None:
                self._end(broker_id, pid)

    def _kill(self) -> None:
        """End all at once, also those that stand still, and wait for that."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids.values():
            os.waitpid(pid, 0)
        self._pids.clear()

    def _end(self, broker_id: int, pid: int) -> None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while broker_id in self._pids and time.monotonic() < deadline:
            select.select([self._signals[0]], [], [], POLL_S)
            self._reap()
        if broker_id in self._pids:
            log.warning("broker %d does not stop: it is killed", broker_id)
            os.kill(pid, signal.SIGKILL)
            while broker_id in self._pids:
                time.sleep(POLL_S)
                self._reap()


def _import_all(more: Iterable[str]) -> None:
    """What every broker of a cluster needs, once for all of them."""
    import gc
    from importlib import import_module

    from kwire.requests.routes import CLUSTER_ROUTES, ROUTES

    handlers = [route.handler_module for route in (*ROUTES, *CLUSTER_ROUTES)]
    for module in (*OF_EVERY_MEMBER, *handlers, *more):
        import_module(module)
    gc.collect()
    gc.freeze()  # a collection would write to each object's page, and have it copied
