"""A cluster on one machine without ZooKeeper, for tests: `kwire serve --brokers 3`.

with SharedClusterProcess(tmp_path) as cluster:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    cluster.brokers[2].kill()
    cluster.wait_until_members([1, 3])
    cluster.brokers[2].start()
    cluster.wait_until_members()

    with SharedClusterProcess(tmp_path, cuttable=True) as cluster:
        cluster.cut(2)
        ...
        cluster.heal()

Brokers are killed, paused and started again as in `ClusterProcess`, with one difference: starting
one broker starts all brokers that are down.  A cut separates brokers only.  Each broker reaches the
process that holds the metadata over a Unix socket, which cannot be cut: it stops working only when
the holder (`pause_holder`, `lose_holder`) or the broker (`SharedBroker.pause`) stops.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Final

from kwire.testing.cluster import agreed_controller, cluster_view
from kwire.testing.hosting.ending import PATIENCE_S, end, process_exists
from kwire.testing.hosting.folders import Folder
from kwire.testing.hosting.host import Host
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.ports import free_ports
from kwire.testing.hosting.process import (
    POLL_S,
    START_TIMEOUT_S,
    BrokerStartError,
    answers,
    hold_lifeline,
)
from kwire.testing.lines import Wiring

_PROCESS: Final = re.compile(r"broker (\d+) (?:is ready at \S+|starts again), process (\d+)")
_STATUSES: Final = {"ended with status 0": 0, "was ended by SIGTERM": -signal.SIGTERM}
_ALL_READY: Final = "ready: a cluster on one machine"


class SharedBroker:
    """One broker of the cluster, forked by the cluster's main process."""

    host: Final = Host("localhost")
    """The host name that the broker advertises."""

    def __init__(self, cluster: SharedClusterProcess, broker_id: int, port: int) -> None:
        """`port` is the port at which the broker serves clients.  The cluster starts and stops the
        process."""
        self._cluster = cluster
        self.broker_id = broker_id
        self.port = port
        self.data_dir = cluster.data_dir / f"broker-{broker_id}"
        self.running = False
        """Whether it was started and not killed since; it may have died by itself."""
        self._old_pid = 0
        """The last process that was killed, or was found dead before a restart."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host.address}:{self.port}"

    @property
    def pid(self) -> int:
        """Id of the broker's latest process, as the cluster's log reports it."""
        return self._cluster.pid_of(self.broker_id)

    @property
    def log(self) -> str:
        """The log of the whole cluster."""
        return self._cluster.log

    @property
    def ended(self) -> int | None:
        """-1 if the process ended by itself; None if it runs or is being started."""
        if not self.running or self.pid == self._old_pid or process_exists(self.pid):
            return None
        return -1

    def pause(self) -> None:
        """Pause the process (SIGSTOP): connections stay open, and no request is answered."""
        self._await_start()
        if process_exists(self.pid):
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process after `pause`."""
        if process_exists(self.pid):
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        if self.running:
            self._await_start()
            self.end(signal.SIGKILL)

    def stop(self) -> int:
        """Shut the broker down cleanly, without the others; returns its exit status.

        0 after a clean shutdown; -15 if SIGTERM ended it, as it does before the broker serves.
        """
        if not self.running:
            return 0
        self._await_start()
        if self.ended is not None:
            self.running = False
            return 1
        end_line = re.compile(rf"broker {self.broker_id} (ended with status \d+|was ended by \w+)")
        ends_before = len(end_line.findall(self.log))
        self.end(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while len(ends := end_line.findall(self.log)) == ends_before:
            if time.monotonic() > deadline:
                return 1  # the main process, which logs the end, has ended or is paused
            time.sleep(POLL_S)
        return _STATUSES.get(ends[-1], 1)

    def _await_start(self) -> None:
        """If the broker is being started, wait until the log reports its process.

        Raises BrokerStartError.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.pid == self._old_pid:
            if time.monotonic() > deadline:
                raise BrokerStartError(
                    f"Broker {self.broker_id} did not start within {START_TIMEOUT_S} s:\n{self.log}"
                )
            time.sleep(POLL_S)

    def end(self, number: signal.Signals) -> None:
        """Send the signal to the latest process and wait for its end, which its parent logs."""
        pid = self._old_pid = self.pid
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGCONT)  # a paused process does not handle SIGTERM
            os.kill(pid, number)
            while process_exists(pid):  # the parent reaps it as soon as it ends
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(POLL_S)
        self.running = False

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the broker again; returns once it answers a request.  Raises BrokerStartError."""
        self.spawn()
        self.wait_until_up(timeout_s)

    def expect_restart(self) -> None:
        """Note that the cluster starts this broker again if it is dead; see `ended`."""
        self.running = True
        if not process_exists(self.pid):
            self._old_pid = self.pid

    def spawn(self) -> None:
        """Start this and all other dead brokers again, and return at once."""
        if not self.running:
            self._cluster.revive()

    def wait_until_up(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return once the broker answers a request.  Raises BrokerStartError."""
        deadline = time.monotonic() + timeout_s
        while not (process_exists(self.pid) and answers("127.0.0.1", self.port)):
            if self.ended is not None:
                raise BrokerStartError(f"Broker {self.broker_id} has ended:\n{self.log}")
            if time.monotonic() > deadline:
                raise BrokerStartError(
                    f"Broker {self.broker_id} did not answer within {timeout_s:g} s:\n{self.log}"
                )
            time.sleep(POLL_S)


class SharedClusterProcess(Startable):
    """A `kwire serve --brokers COUNT`, which can be stopped and started again.

    It keeps its ports and its data over restarts.  `settings` are settings of all brokers;
    `launcher` is put before the command line.  With `cuttable`, brokers can be cut off from each
    other while clients and the holder of the metadata still reach them (kwire.testing.lines).
    With `controlled`, each broker has an HTTP control, at the ports from `first_control_port` on.
    All processes end when the process that started them ends; then the folder `owned` is removed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        launcher: Sequence[str] = (),
        cuttable: bool = False,
        controlled: bool = False,
        owned: Folder | None = None,
    ) -> None:
        """Prepares `count` brokers with ids from 1 on, at adjacent free ports; `start` starts them.
        `launcher` is a command that runs the main process.  `cuttable`: a test can cut connections
        between brokers.  `controlled`: each broker has an HTTP control.  `owned` is a folder that
        is removed with the cluster."""
        self.directory = Path(directory)
        self.data_dir = self.directory / "data"
        self.log_path = self.directory / "broker.log"
        self.launcher = tuple(launcher)
        self.settings = {"group.initial.rebalance.delay.ms": "0", **(settings or {})}
        self.first_port = free_ports(count)
        self.first_control_port = free_ports(count) if controlled else None
        self.brokers = {
            number: SharedBroker(self, number, self.first_port + number - 1)
            for number in range(1, count + 1)
        }
        self._owned = owned
        self._process: Popen[bytes] | None = None
        self._pid = 0
        """Id of the latest main process."""
        self._log_start = 0
        """Position in the log at which the latest main process began."""
        self._wiring = self._make_wiring() if cuttable else None

    def _make_wiring(self) -> Wiring:
        """Returns proxies between the brokers, and adds the listeners that use them to the
        settings."""
        wiring = Wiring(self._pids)
        for broker_id, broker in self.brokers.items():
            listeners = wiring.listeners_of(broker_id, broker.port, broker.host.address)
            self.settings |= {f"{broker_id}:{name}": value for name, value in listeners.items()}
        return wiring

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`: all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        """Ids of the brokers that were started and not killed since."""
        return [broker_id for broker_id, broker in self.brokers.items() if broker.running]

    @property
    def log(self) -> str:
        """Everything that the cluster logged, over all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def pid_of(self, broker_id: int) -> int:
        """Id of the broker's latest process, as the log reports it."""
        return self._logged_pids()[broker_id]

    def _logged_pids(self) -> dict[int, int]:
        log = self.log.encode()[self._log_start :].decode(errors="replace")
        return {int(match[1]): int(match[2]) for match in _PROCESS.finditer(log)}

    def _pids(self) -> dict[int, int]:
        """Process ids by broker id, also of brokers that start for the first time.

        The log does not report those yet; they are the children in the order of broker ids.
        """
        first_children = dict(zip(self.brokers, self._children()[1:], strict=False))
        return {**first_children, **self._logged_pids()}

    def _children(self) -> list[int]:
        """Child processes of the main process in fork order: the metadata holder, then brokers.

        Raises FileNotFoundError if the main process does not run.
        """
        pid = self._pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    def command(self) -> list[str]:
        """Return the command that starts the cluster.  With --exit-on-eof it ends when this
        process ends."""
        serve = [sys.executable, "-m", "kwire.cli", "serve", "--exit-on-eof"]
        sets = [f"--set={name}={value}" for name, value in self.settings.items()]
        where = [f"--port={self.first_port}", f"--data={self.data_dir}"]
        if self.first_control_port is not None:
            where.append(f"--control={self.first_control_port}")
        if self._owned is not None:
            where.append(f"--owns={self._owned.path}")
        return [*self.launcher, *serve, f"--brokers={len(self.brokers)}", *where, *sets]

    def start(self) -> None:
        """Start the cluster; returns once all brokers know each other.  Raises BrokerStartError."""
        assert self._process is None, "The cluster is running."
        if self._wiring is not None:
            self._wiring.open()
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = Popen(
                self.command(),
                bufsize=0,
                stdin=PIPE,
                stdout=log,
                stderr=log,
                pass_fds=() if self._owned is None else (self._owned.lock,),
                start_new_session=True,
            )
        self._pid = self._process.pid
        assert self._process.stdin is not None
        hold_lifeline(self._process.stdin)
        self._await_ready()
        for broker in self.brokers.values():
            broker.running = True

    def _await_ready(self) -> None:
        """Waits until the main process logs that all brokers are ready.  Raises BrokerStartError if
        it ends before that, or is not ready within START_TIMEOUT_S seconds."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while _ALL_READY not in self.log.encode()[self._log_start :].decode(errors="replace"):
            status = self._process.poll()
            if status is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerStartError(f"The cluster did not start (status {status}):\n{self.log}")
            time.sleep(POLL_S)

    def revive(self) -> None:
        """Start all dead brokers again (SIGHUP), without waiting; see SharedBroker.wait_until_up.

        Raises BrokerStartError if the main process does not run, e.g. after a failed start.
        """
        if self._process is None:
            raise BrokerStartError("The cluster is not running.")
        for broker in self.brokers.values():
            broker.expect_restart()
        os.kill(self._process.pid, signal.SIGHUP)

    @property
    def holder_pid(self) -> int:
        """Id of the process that holds the metadata: the first child of the main process."""
        return self._children()[0]

    def pause_holder(self) -> None:
        """Pause the holder of the metadata (SIGSTOP), so that no metadata can change."""
        os.kill(self.holder_pid, signal.SIGSTOP)

    def resume_holder(self) -> None:
        os.kill(self.holder_pid, signal.SIGCONT)

    def lose_holder(self) -> None:
        """Kill the holder (SIGKILL): all brokers and the main process end, until `start`."""
        os.kill(self.holder_pid, signal.SIGKILL)
        assert self._process is not None, "The cluster is not running."
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._end(signal.SIGKILL)

    def wait_until_members(self, ids: Iterable[int] | None = None) -> int:
        """Does what `ClusterProcess.wait_until_members` does."""
        members = frozenset(self.running if ids is None else ids)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            views = [cluster_view(self.brokers[broker_id].port) for broker_id in sorted(members)]
            controller_id = agreed_controller(views, members)
            if controller_id is not None:
                return controller_id
            if time.monotonic() > deadline:
                raise BrokerStartError(
                    f"The brokers did not agree within {START_TIMEOUT_S} s: {views}\n{self.log}"
                )
            time.sleep(POLL_S)

    # -- the network between brokers, where it is `cuttable`

    def cut(self, broker_id: int, *others: int) -> None:
        """Cut this broker off from the `others`, or from all other brokers."""
        for other in others or self.brokers.keys() - {broker_id}:
            self._cuttable.cut(broker_id, other)

    def cut_one_way(self, source: int, target: int) -> None:
        """Hold back what `source` sends to `target`, until `mend_one_way` or `heal`."""
        self._cuttable.cut_one_way(source, target)

    def mend_one_way(self, source: int, target: int) -> None:
        self._cuttable.mend_one_way(source, target)

    def heal(self) -> None:
        """Undo all cuts; data that was held back is delivered."""
        self._cuttable.mend_all()

    @property
    def _cuttable(self) -> Wiring:
        assert self._wiring is not None, "The cluster was made without cuttable=True."
        return self._wiring

    # -- stopping

    def stop(self) -> int:
        """Shut all brokers down cleanly (SIGTERM); returns the main process's exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all brokers and the main process (SIGKILL)."""
        for broker in self.brokers.values():
            if broker.running:
                broker.end(signal.SIGKILL)
        self._end(signal.SIGKILL)

    def _end(self, signal_number: signal.Signals) -> int:
        """Sends a signal to the main process, which ends the brokers, and waits; returns its exit
        status, or 0 if it does not run."""
        process, self._process = self._process, None
        for broker in self.brokers.values():
            broker.running = False
        if process is None:
            return 0
        try:
            return end(process, signal_number)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            if self._wiring is not None:
                self._wiring.close()
