"""Injects the faults of a plan into a cluster, several at a time, and ends them all."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from kwire.conformance.chaos.cluster.members import Ground, Members
from kwire.conformance.chaos.cluster.plan import ClusterFault, ClusterFaultKind
from kwire.conformance.chaos.history import NEMESIS, Recorder
from kwire.conformance.chaos.schedule import FaultSchedule, Undo
from kwire.testing import BrokerProcess, SharedClusterProcess, ZooKeeperProcess
from kwire.testing.cluster import cluster_view
from kwire.testing.sharing import SharedBroker

Broker: TypeAlias = BrokerProcess | SharedBroker
ZOOKEEPER = "zookeeper"
THE_ZOOKEEPER = 0
"""The number of ZooKeeper, beside those of the brokers."""
HOLDER = "holder"
ZOOKEEPER_TIMEOUT_S = 3.0
PAUSED_PART, RUNNING_PART = (0.2, 1.3), (0.02, 0.8)
"""How long a stuttering ZooKeeper is paused and runs, as parts of a session's timeout."""


class ClusterNemesis(FaultSchedule[ClusterFault]):
    """Injects faults; after `heal` all brokers run and have all resources they need."""

    def __init__(
        self, ground: Ground, members: Members, chroot: str, session_s: float, recorder: Recorder
    ) -> None:
        """Prepare the faults of one cluster; `session_s` is its ZooKeeper session timeout."""
        super().__init__(recorder)
        self._ground = ground
        self._members = members
        self._brokers: Mapping[int, Broker] = members.cluster.brokers
        self._chroot = chroot
        self._session_s = session_s
        self._full: set[int] = set()
        """Brokers whose disks are full."""
        self._starved: set[int] = set()
        """Brokers that started on a full disk, which ends them."""

    # Time

    def heal(self) -> None:
        """End all faults at once, and restart brokers that ended by themselves, which is recorded.

        Raises BrokerStartError.
        """
        self.end_all()
        for number in self._brokers:
            self._revive(number)
        for broker in self._brokers.values():
            broker.wait_until_up()
        self._ground.zookeeper.wait_until_up()

    def _inject(self, fault: ClusterFault) -> Undo | None:
        return self._faults[fault.kind](self, fault, self._victim(fault))

    def _extra_s(self, fault: ClusterFault) -> float:
        """An expired session takes the session timeout longer to show its effect."""
        return self._session_s if fault.kind is ClusterFaultKind.EXPIRE else 0.0

    def _victim(self, fault: ClusterFault) -> int:
        """Return the broker that the plan names, or the controller as the first broker that answers
        knows it."""
        if not fault.is_controller:
            return fault.victim
        for number, broker in self._brokers.items():
            if number in self._members.cluster.running and str(number) not in self._busy:
                view = cluster_view(broker.port, broker.host.address)
                if view is not None and view.controller_id in self._brokers:
                    return view.controller_id
        return fault.victim

    def _note_end(self, number: int) -> None:
        """Record a broker that has ended by itself."""
        broker = self._brokers[number]
        status = broker.ended
        if status is not None:
            f = "starved" if number in self._starved else "died"
            self._recorder.note(NEMESIS, f, broker=broker.bootstrap, status=status)
            broker.kill()

    def _spawn(self, number: int) -> None:
        """Start a broker that does not run, and note whether it starts on a full disk."""
        if self._brokers[number].running:
            return
        for other, broker in self._brokers.items():
            # In a cluster with shared metadata, all brokers that do not run start together.
            if other == number or (self._is_shared and not broker.running):
                (self._starved.add if other in self._full else self._starved.discard)(other)
        self._brokers[number].spawn()

    def _revive(self, number: int) -> None:
        """Start a broker that has ended by itself."""
        self._note_end(number)
        self._spawn(number)

    # Processes

    def _kill(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._down([victim])

    def _kill_all(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._down([n for n in self._brokers if str(n) not in self._busy])

    def _down(self, victims: Sequence[int]) -> Undo | None:
        """Kill these brokers; return how to start them again, or None if one is down or paused."""
        names = [str(number) for number in victims]
        if not victims or not self._reserve(*names):
            return None
        for number in victims:
            self._note_end(number)
            self._brokers[number].kill()

        def undo() -> None:
            self._release(*names)
            for number in victims:
                self._spawn(number)

        return undo

    def _restart(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Stop a broker; the end of this fault waits for the stop and starts the broker again.

        SIGTERM ends a broker at once if it has not begun to serve.
        """
        if not self._reserve(str(victim)):
            return None
        broker, statuses = self._brokers[victim], list[int]()
        self._note_end(victim)
        clean = [[0]]
        if cluster_view(broker.port, broker.host.address) is None:
            clean.append([-signal.SIGTERM])
        stopping = threading.Thread(target=lambda: statuses.append(broker.stop()))
        stopping.start()

        def undo() -> None:
            """Wait for the stop, record an unclean one, and start the broker."""
            stopping.join()
            if statuses not in clean and victim not in self._starved:
                self._recorder.note(NEMESIS, "died", broker=broker.bootstrap, status=statuses)
            self._release(str(victim))
            self._spawn(victim)

        return undo

    def _pause(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._pause_process(str(victim), self._brokers[victim])

    def _pause_zookeeper(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._pause_process(ZOOKEEPER, self._ground.zookeeper)

    def _pause_process(self, name: str, process: Broker | ZooKeeperProcess) -> Undo | None:
        """Pause a process; return how to resume it, or None if it has ended, is down or is
        paused."""
        if process.ended is not None or not self._reserve(name):
            return None
        process.pause()

        def undo() -> None:
            self._release(name)
            process.resume()

        return undo

    def _have_zookeeper_stutter(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Pause and resume ZooKeeper repeatedly; return how to end that, or None if it is not
        running. Pauses and runs are random parts of the session timeout, so that some sessions
        expire."""
        zookeeper, over = self._ground.zookeeper, threading.Event()
        if zookeeper.ended is not None or not self._reserve(ZOOKEEPER):
            return None
        rng = random.Random(fault.duration_s)

        def stutter() -> None:
            """Pause and resume ZooKeeper in turns until the fault is over."""
            while not over.is_set():
                zookeeper.pause()
                over.wait(self._session_s * rng.uniform(*PAUSED_PART))
                zookeeper.resume()
                over.wait(self._session_s * rng.uniform(*RUNNING_PART))

        stuttering = threading.Thread(target=stutter)
        stuttering.start()

        def undo() -> None:
            over.set()
            stuttering.join()
            self._release(ZOOKEEPER)

        return undo

    def _restart_zookeeper(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Kill ZooKeeper; return how to start it, or None if another fault has it."""
        if not self._reserve(ZOOKEEPER):
            return None
        self._ground.zookeeper.kill()

        def undo() -> None:
            self._release(ZOOKEEPER)
            self._ground.zookeeper.spawn()

        return undo

    # The process that holds the metadata, in a cluster on one machine

    def _pause_holder(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Pause the process that holds the shared metadata; None if another fault has it."""
        cluster = self._sharing
        if not self._reserve(HOLDER):
            return None
        cluster.pause_holder()

        def undo() -> None:
            self._release(HOLDER)
            cluster.resume_holder()

        return undo

    def _kill_holder(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Kill the process that holds the shared metadata, and with it all brokers.

        Return how to start them all, or None if that is not possible now.
        """
        cluster, names = self._sharing, [HOLDER, *map(str, self._brokers)]
        if self._full or not self._reserve(*names):
            return None  # such a cluster does not start if a broker's disk is full
        for number in self._brokers:
            self._note_end(number)
        cluster.lose_holder()

        def undo() -> None:
            self._release(*names)
            cluster.start()

        return undo

    @property
    def _sharing(self) -> SharedClusterProcess:
        assert isinstance(self._members.cluster, SharedClusterProcess)
        return self._members.cluster

    # The network

    def _cut(self, fault: ClusterFault, victim: int) -> Undo | None:
        other = self._other(fault, victim)
        return self._cuts([(victim, other), (other, victim)])

    def _one_way(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._cuts([(victim, self._other(fault, victim))])

    def _isolate(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Cut the victim off from all other hosts, in both directions."""
        others = self._all_but(victim)
        return self._cuts(
            [(victim, other) for other in others] + [(other, victim) for other in others]
        )

    def _deafen(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._cuts([(other, victim) for other in self._all_but(victim)])

    def _no_zookeeper(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._cuts([(victim, THE_ZOOKEEPER), (THE_ZOOKEEPER, victim)])

    def _zookeeper_one_way(self, fault: ClusterFault, victim: int) -> Undo | None:
        return self._cuts([(victim, THE_ZOOKEEPER)])

    def _cuts(self, pairs: Sequence[tuple[int, int]]) -> Undo:
        """Cut the network from source to target for each pair; return how to mend it."""
        cluster, network = self._members.cluster, self._ground.network
        for source, target in pairs:
            if isinstance(cluster, SharedClusterProcess):
                cluster.cut_one_way(source, target)
            else:
                network.cut(self._address(source), self._address(target))

        def undo() -> None:
            """Mend the network between all pairs."""
            for source, target in pairs:
                if isinstance(cluster, SharedClusterProcess):
                    cluster.mend_one_way(source, target)
                else:
                    network.mend(self._address(source), self._address(target))

        return undo

    def _address(self, number: int) -> str:
        if number == THE_ZOOKEEPER:
            return self._ground.zookeeper.host.address
        return self._brokers[number].host.address

    def _other(self, fault: ClusterFault, victim: int) -> int:
        """Return the second broker of a fault; if that is the victim, the broker that the plan
        names first."""
        return fault.other if fault.other != victim else fault.victim

    def _all_but(self, victim: int) -> list[int]:
        """Return the other hosts on the network of a broker."""
        others = [number for number in self._brokers if number != victim]
        return others if self._is_shared else [*others, THE_ZOOKEEPER]

    @property
    def _is_shared(self) -> bool:
        return isinstance(self._members.cluster, SharedClusterProcess)

    # Other faults

    def _resign(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Delete ZooKeeper's node of the controller, so that another broker becomes the controller.

        Nothing has to be undone; None if ZooKeeper cannot answer now.
        """
        if ZOOKEEPER in self._busy:
            return None  # the client would wait, and no fault would end meanwhile
        client = KazooClient(self._ground.zookeeper.connect(self._chroot))
        try:
            client.start(timeout=ZOOKEEPER_TIMEOUT_S)
            client.delete("/controller")
        except (KazooException, KazooTimeoutError):
            return None  # ZooKeeper does not answer, or there is no controller
        finally:
            client.stop()
            client.close()
        return lambda: None

    def _fill_disk(self, fault: ClusterFault, victim: int) -> Undo | None:
        """Fill the victim's data disk; return how to make room, or None if the broker does not run.

        A broker without a view of the cluster has not started yet; it counts as starved.
        """
        broker = self._brokers[victim]
        if str(victim) in self._busy or broker.ended is not None:
            return (
                None  # without a tmpfs, the disk's size is a limit of the process, which must run
            )
        if cluster_view(broker.port, broker.host.address) is None:
            self._starved.add(victim)
        self._full.add(victim)
        make_room = self._members.disks[victim].fill(broker.pid, fault.room_bytes)

        def undo() -> None:
            """Make room on the disk, and start the broker again if the full disk ended it."""
            make_room()
            self._full.discard(victim)
            if str(victim) not in self._busy:
                self._revive(victim)

        return undo

    def _step_clock(self, fault: ClusterFault, victim: int) -> Undo | None:
        clock = self._members.clocks[victim]
        clock.set(fault.step_s)
        return lambda: clock.set(0.0)

    _faults: dict[ClusterFaultKind, Callable[[ClusterNemesis, ClusterFault, int], Undo | None]] = {  # noqa: RUF012 - never changed
        ClusterFaultKind.KILL: _kill,
        ClusterFaultKind.KILL_ALL: _kill_all,
        ClusterFaultKind.PAUSE: _pause,
        ClusterFaultKind.RESTART: _restart,
        ClusterFaultKind.CUT: _cut,
        ClusterFaultKind.ONE_WAY: _one_way,
        ClusterFaultKind.ISOLATE: _isolate,
        ClusterFaultKind.DEAF: _deafen,
        ClusterFaultKind.NO_ZOOKEEPER: _no_zookeeper,
        ClusterFaultKind.ZOOKEEPER_ONE_WAY: _zookeeper_one_way,
        ClusterFaultKind.ZOOKEEPER_RESTART: _restart_zookeeper,
        ClusterFaultKind.ZOOKEEPER_PAUSE: _pause_zookeeper,
        ClusterFaultKind.ZOOKEEPER_STUTTER: _have_zookeeper_stutter,
        ClusterFaultKind.EXPIRE: _no_zookeeper,
        ClusterFaultKind.RESIGN: _resign,
        ClusterFaultKind.DISK: _fill_disk,
        ClusterFaultKind.CLOCK: _step_clock,
        ClusterFaultKind.HOLDER_PAUSE: _pause_holder,
        ClusterFaultKind.HOLDER_KILL: _kill_holder,
    }
