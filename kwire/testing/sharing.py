"""A cluster on one machine without ZooKeeper, for a test: `kwire serve --brokers 3`.

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

Its brokers are killed, paused and started again as those of `ClusterProcess`, but one that is
started brings all others back that are down.  A cut is between brokers alone: to the process that
shares the metadata they have a Unix socket, which fails only where that process does
(`pause_holder`, `lose_holder`), or stands still with the broker itself (`SharedBroker.pause`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from kwire.testing.cluster import agreed_controller, membership
from kwire.testing.hosting.ending import PATIENCE_S, end, lives
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

_PROCESS: Final = re.compile(r"broker (\d+) is (?:ready at \S+|started again), process (\d+)")
_STATUSES: Final = {"ended with status 0": 0, "was ended by SIGTERM": -signal.SIGTERM}
_ALL_READY: Final = "ready: a cluster of one machine"


class SharedBroker:
    """One broker of the cluster: a process that the cluster's own process forks."""

    host: Final = Host("localhost")
    """As it advertises itself."""

    def __init__(self, cluster: SharedClusterProcess, broker_id: int, port: int) -> None:
        self._cluster = cluster
        self.broker_id = broker_id
        self.port = port
        self.data_dir = cluster.data_dir / f"broker-{broker_id}"
        self.running = False
        """Whether it was started and not killed since; it may have died in between."""
        self._gone_pid = 0
        """The process that was killed, or was found dead when the next one was asked for."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host.address}:{self.port}"

    @property
    def pid(self) -> int:
        """The process that was last told of."""
        return self._cluster.pid_of(self.broker_id)

    @property
    def log(self) -> str:
        """What all of the cluster has logged."""
        return self._cluster.log

    @property
    def ended(self) -> int | None:
        """-1 for a process that has ended by itself; None if it runs, or is being started."""
        if not self.running or self.pid == self._gone_pid or lives(self.pid):
            return None
        return -1

    def pause(self) -> None:
        """Stand still (SIGSTOP): connections stay open and nothing is answered."""
        self._await_start()
        if lives(self.pid):
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Go on after `pause`."""
        if lives(self.pid):
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        if self.running:
            self._await_start()
            self.end(signal.SIGKILL)

    def stop(self) -> int:
        """Have it shut down cleanly, and the others go on; 0 if it says that it did.

        -15 if it was ended by the signal (SIGTERM), as one is that has not begun to serve.
        """
        if not self.running:
            return 0
        self._await_start()
        if self.ended is not None:
            self.running = False
            return 1
        told = re.compile(rf"broker {self.broker_id} (ended with status \d+|was ended by \w+)")
        before = len(told.findall(self.log))
        self.end(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        while len(ends := told.findall(self.log)) == before:
            if time.monotonic() > deadline:
                return 1  # who would say so is gone, or stands still
            time.sleep(POLL_S)
        return _STATUSES.get(ends[-1], 1)

    def _await_start(self) -> None:
        """Where it is being started: until its new process is known.  Raises BrokerStartError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.pid == self._gone_pid:
            if time.monotonic() > deadline:
                raise BrokerStartError(f"no process within {START_TIMEOUT_S} s:\n{self.log}")
            time.sleep(POLL_S)

    def end(self, number: signal.Signals) -> None:
        """End the process that is known; the cluster's process hears of the end, and says so."""
        pid = self._gone_pid = self.pid
        deadline = time.monotonic() + PATIENCE_S
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGCONT)  # it may be paused
            os.kill(pid, number)
            while lives(pid):  # its parent waits for it at once when it ends
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(POLL_S)
        self.running = False

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start it again, and return once it replies to a request.  Raises BrokerStartError."""
        self.spawn()
        self.wait_until_up(timeout_s)

    def expect_another(self) -> None:
        """It is about to be started again, if it is dead: what becomes of that is `ended`."""
        self.running = True
        if not lives(self.pid):
            self._gone_pid = self.pid

    def spawn(self) -> None:
        """Have it started again, with all others that are dead, and return at once."""
        if not self.running:
            self._cluster.revive()

    def wait_until_up(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return once it replies to a request.  Raises BrokerStartError."""
        deadline = time.monotonic() + timeout_s
        while not (lives(self.pid) and answers("127.0.0.1", self.port)):
            if self.ended is not None:
                raise BrokerStartError(f"broker {self.broker_id} has ended:\n{self.log}")
            if time.monotonic() > deadline:
                raise BrokerStartError(f"no reply within {timeout_s:g} s:\n{self.log}")
            time.sleep(POLL_S)


class SharedClusterProcess(Startable):
    """`kwire serve --brokers count` over its life; it keeps its ports and its data.

    `settings` are those of all brokers; `launcher` are words before its command line.  Where it is
    `cuttable`, brokers can be cut off from each other, while clients and the process that shares
    the metadata reach them (kwire.testing.lines says how).  Where it is
    `controlled`, each broker has a port at which it is asked for faults, from `first_control_port`
    on.  All ends with the process that started it, and then the folder `owned` is removed.
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
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        """Of the process that was started last."""
        self._log_start = 0
        self._wiring = self._wired() if cuttable else None

    def _wired(self) -> Wiring:
        wiring = Wiring(self._pids)
        for number, broker in self.brokers.items():
            own = wiring.listeners_of(number, broker.port, broker.host.address)
            self.settings |= {f"{number}:{name}": value for name, value in own.items()}
        return wiring

    @property
    def bootstrap(self) -> str:
        """All brokers, as a client takes them as its bootstrap servers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        """The brokers that were started and not killed since."""
        return [number for number, broker in self.brokers.items() if broker.running]

    @property
    def log(self) -> str:
        """Everything that was logged, over all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def pid_of(self, broker_id: int) -> int:
        """The process of a broker, as was told last."""
        return self._told_pids()[broker_id]

    def _told_pids(self) -> dict[int, int]:
        told = self.log.encode()[self._log_start :].decode(errors="replace")
        return {int(each[1]): int(each[2]) for each in _PROCESS.finditer(told)}

    def _pids(self) -> dict[int, int]:
        """Also of brokers that are on their first way up: those were forked in their order."""
        return {**dict(zip(self.brokers, self._children()[1:], strict=False)), **self._told_pids()}

    def _children(self) -> list[int]:
        """Of the cluster's process: the holder of the metadata, then brokers, as it forked them.

        FileNotFoundError where it does not run, or has ended.
        """
        pid = self._pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    def command(self) -> list[str]:
        serve = [sys.executable, "-m", "kwire.cli", "serve", "--exit-on-eof"]
        sets = [f"--set={name}={value}" for name, value in self.settings.items()]
        where = [f"--port={self.first_port}", f"--data={self.data_dir}"]
        if self.first_control_port is not None:
            where.append(f"--control={self.first_control_port}")
        if self._owned is not None:
            where.append(f"--owns={self._owned.path}")
        return [*self.launcher, *serve, f"--brokers={len(self.brokers)}", *where, *sets]

    def start(self) -> None:
        """Start it, and return when all brokers know of each other.  Raises BrokerStartError."""
        assert self._process is None, "the cluster is running"
        if self._wiring is not None:
            self._wiring.open()
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self.command(),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=() if self._owned is None else (self._owned.lock,),
                start_new_session=True,
            )
        self._pid = self._process.pid
        assert self._process.stdin is not None
        hold_lifeline(self._process.stdin)
        self._await_all()
        for broker in self.brokers.values():
            broker.running = True

    def _await_all(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while _ALL_READY not in self.log.encode()[self._log_start :].decode(errors="replace"):
            status = self._process.poll()
            if status is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerStartError(f"the cluster did not start (status {status}):\n{self.log}")
            time.sleep(POLL_S)

    def revive(self) -> None:
        """Have the dead brokers started again (SIGHUP); see SharedBroker.wait_until_up.

        Raises BrokerStartError where the cluster itself does not run: its start may have failed.
        """
        if self._process is None:
            raise BrokerStartError("the cluster is not running")
        for broker in self.brokers.values():
            broker.expect_another()
        os.kill(self._process.pid, signal.SIGHUP)

    @property
    def holder_pid(self) -> int:
        """The process that shares the metadata: the first that the cluster's own has forked."""
        return self._children()[0]

    def pause_holder(self) -> None:
        """Have it stand still (SIGSTOP): nothing of the metadata can change."""
        os.kill(self.holder_pid, signal.SIGSTOP)

    def resume_holder(self) -> None:
        os.kill(self.holder_pid, signal.SIGCONT)

    def lose_holder(self) -> None:
        """Kill it (SIGKILL): all brokers stop, and the cluster's process ends; `start` it anew."""
        os.kill(self.holder_pid, signal.SIGKILL)
        assert self._process is not None, "the cluster is not running"
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._end(signal.SIGKILL)

    def wait_until_members(self, ids: Iterable[int] | None = None) -> int:
        """As of `ClusterProcess`: the controller, once these know of just each other and of it."""
        wanted = frozenset(self.running if ids is None else ids)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            known = [membership(self.brokers[each].port) for each in sorted(wanted)]
            controller_id = agreed_controller(known, wanted)
            if controller_id is not None:
                return controller_id
            if time.monotonic() > deadline:
                raise BrokerStartError(f"no cluster in {START_TIMEOUT_S} s: {known}\n{self.log}")
            time.sleep(POLL_S)

    # -- the network between brokers, where it is `cuttable`

    def cut(self, broker_id: int, *others: int) -> None:
        """Have this broker and these, else all, hear nothing of each other."""
        for other in others or self.brokers.keys() - {broker_id}:
            self._cuttable.cut(broker_id, other)

    def cut_one_way(self, source: int, target: int) -> None:
        """Have nothing that one broker says reach the other, until `mend_one_way` or `heal`."""
        self._cuttable.cut_one_way(source, target)

    def mend_one_way(self, source: int, target: int) -> None:
        self._cuttable.mend_one_way(source, target)

    def heal(self) -> None:
        """Undo all cuts; what was on its way arrives."""
        self._cuttable.mend_all()

    @property
    def _cuttable(self) -> Wiring:
        assert self._wiring is not None, "made without cuttable=True"
        return self._wiring

    # -- its end

    def stop(self) -> int:
        """Ask all to end (SIGTERM); the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End all at once (SIGKILL): the brokers see that their parent is gone, and stop."""
        for broker in self.brokers.values():
            if broker.running:
                broker.end(signal.SIGKILL)
        self._end(signal.SIGKILL)

    def _end(self, signal_number: signal.Signals) -> int:
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
