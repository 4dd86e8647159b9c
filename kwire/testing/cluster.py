"""A cluster of broker processes on a ZooKeeper, for tests.

with ZooKeeperProcess(tmp_path / "zookeeper") as zookeeper:
    with ClusterProcess(tmp_path, zookeeper.connect("/test")) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
        cluster.brokers[2].kill()
        cluster.wait_until_members([1, 3])
        cluster.brokers[2].start()
        cluster.wait_until_members()

    with ClusterProcess(tmp_path, zookeeper.connect("/test"), cuttable=True) as cluster:
        cluster.cut(2)
        ...
        cluster.heal()

Each broker is a `BrokerProcess`; all brokers end when the process that started them ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import POLL_S, START_TIMEOUT_S, BrokerProcess, BrokerStartError
from kwire.testing.lines import Wiring

METADATA_V1: Final = bytes.fromhex("0000000e 0003 0001 00000000 ffff 00000000")
"""Size, api key 3, version 1, correlation id 0, null client id, no topics."""
ANSWER_TIMEOUT_S: Final = 1.0

T = TypeVar("T")


class ClusterView(NamedTuple):
    """The members and the controller that one broker reports in its metadata."""

    members: frozenset[int]
    controller_id: int


class BrokerProcesses(Startable):
    """The brokers of one cluster, each in a process of its own."""

    def __init__(self, brokers: Mapping[int, BrokerProcess]) -> None:
        """`brokers` are by their ids; `start` starts them."""
        self.brokers: dict[int, BrokerProcess] = dict(brokers)

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`: all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        """Ids of the brokers that were started and not stopped since."""
        return [broker_id for broker_id, broker in self.brokers.items() if broker.running]

    def start(self) -> None:
        """Start the brokers that do not run; returns once all brokers know each other.

        On failure, all brokers are killed.  Raises BrokerStartError.
        """
        try:
            started = [broker for broker in self.brokers.values() if not broker.running]
            for broker in started:
                broker.spawn()
            for broker in started:
                broker.wait_until_up()
            self.wait_until_members()
        except BaseException:
            self.kill()
            raise

    @abstractmethod
    def wait_until_members(self, ids: Iterable[int] | None = None) -> object:
        """Wait until these brokers, or all that run, know exactly each other.

        Raises BrokerStartError after a timeout.
        """

    def _wait_until_agreed(
        self,
        ids: Iterable[int] | None,
        agreed: Callable[[Iterable[ClusterView | None], frozenset[int]], T | None],
    ) -> T:
        """Wait until `agreed` has a result for what these brokers report; returns the result."""
        members = frozenset(self.running if ids is None else ids)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            views = {
                broker_id: cluster_view(*self._address(broker_id)) for broker_id in sorted(members)
            }
            result = agreed(views.values(), members)
            if result is not None:
                return result
            if time.monotonic() > deadline:
                raise BrokerStartError(self._disagreement(views))
            time.sleep(POLL_S)

    def _address(self, broker_id: int) -> tuple[int, str]:
        broker = self.brokers[broker_id]
        return broker.port, broker.host.address

    def _disagreement(self, views: Mapping[int, ClusterView | None]) -> str:
        """Return the error text for brokers that report different members or controllers, with
        their logs.  A view of None means that the broker does not answer."""
        reports = "; ".join(
            f"broker {broker_id} does not answer"
            if view is None
            else f"broker {broker_id} reports members {sorted(view.members)}"
            f" and controller {view.controller_id}"
            for broker_id, view in views.items()
        )
        logs = "\n".join(f"broker {each}:\n{self.brokers[each].log}" for each in views)
        return f"The brokers did not agree within {START_TIMEOUT_S} s: {reports}\n{logs}"

    def stop(self) -> dict[int, int]:
        """Shut all brokers down cleanly, one after the other; returns exit statuses by id."""
        return {broker_id: self.brokers[broker_id].stop() for broker_id in self.running}

    def kill(self) -> None:
        """Kill all brokers (SIGKILL)."""
        for broker in self.brokers.values():
            broker.kill()


class ClusterProcess(BrokerProcesses):
    """A cluster of `count` brokers with the ids from `first_id` on.

    `zookeeper_connect` is the broker setting of that name; clusters with different chroots are
    independent.  `settings` are settings of all brokers; they override the defaults of `replicated`
    (up to three replicas of everything).  `racks` has one rack per broker, `ports` one port per
    broker instead of free ones, and `hosts` one host per broker if they do not all run here.
    With `cuttable`, brokers can be cut off from each other and from ZooKeeper while clients still
    reach them (kwire.testing.lines); then all brokers run on this host, and `settings` must not
    contain listeners.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        zookeeper_connect: str,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        racks: Sequence[str] = (),
        ports: Sequence[int] = (),
        first_id: int = 1,
        hosts: Sequence[Host] = (),
        cuttable: bool = False,
    ) -> None:
        """Prepares `count` brokers with ids from `first_id` on; `start` starts them.  `settings`
        apply to all brokers.  Broker n has the n-th of `racks`, `ports` and `hosts`, if these are
        given.  `cuttable`: connections go through proxies, so that a test can cut them."""
        super().__init__({})
        self._wiring = Wiring(self._pids) if cuttable else None
        for number in range(count):
            broker_id = first_id + number
            port = ports[number] if ports else free_port()
            own = {"broker.id": str(broker_id), "zookeeper.connect": zookeeper_connect}
            if self._wiring is not None:
                own |= self._wiring.listeners_of(broker_id, port)
                own |= self._wiring.zookeeper_of(broker_id, zookeeper_connect)
            if racks:
                own["broker.rack"] = racks[number]
            self.brokers[broker_id] = BrokerProcess(
                Path(directory, f"broker-{broker_id}"),
                {**replicated(count), **own, **settings_of_one(settings or {}, number)},
                port=port,
                host=hosts[number] if hosts else HERE,
            )

    def start(self) -> None:
        """Start the brokers that do not run; returns once all brokers know each other.

        On failure, all brokers are killed.  Raises BrokerStartError.
        """
        if self._wiring is not None and not self.running:
            self._wiring.open()
        super().start()

    def wait_until_members(self, ids: Iterable[int] | None = None) -> int:
        """Wait until these brokers report exactly each other and one controller.

        Without `ids`, wait for all brokers that run.  Returns the controller's id.
        Raises BrokerStartError after a timeout.
        """
        return self._wait_until_agreed(ids, agreed_controller)

    def stop(self) -> dict[int, int]:
        """Shut all brokers down cleanly, one after the other; returns exit statuses by id."""
        try:
            return super().stop()
        finally:
            self._close_lines()

    def kill(self) -> None:
        """Kill all brokers (SIGKILL)."""
        super().kill()
        self._close_lines()

    def _close_lines(self) -> None:
        if self._wiring is not None:
            self._wiring.close()

    # -- the network, where it is `cuttable`

    def cut(self, broker_id: int, *others: int) -> None:
        """Cut this broker off from the `others`, or from all other brokers."""
        for other in others or self.brokers.keys() - {broker_id}:
            self._cuttable.cut(broker_id, other)

    def cut_from_zookeeper(self, broker_id: int) -> None:
        """Cut this broker off from ZooKeeper, so that its session expires."""
        self._cuttable.cut_from_zookeeper(broker_id)

    def heal(self) -> None:
        """Undo all cuts; data that was held back is delivered."""
        self._cuttable.mend_all()

    def _pids(self) -> dict[int, int]:
        return {broker_id: self.brokers[broker_id].pid for broker_id in self.running}

    @property
    def _cuttable(self) -> Wiring:
        assert self._wiring is not None, "The cluster was made without cuttable=True."
        return self._wiring


def settings_of_one(settings: Mapping[str, str], number: int) -> dict[str, str]:
    """The settings of all brokers for the broker after `number` others.

    `metrics.port` is that of the first broker, and the others have the ports after it.
    """
    first = settings.get("metrics.port", "")
    if not first.isdecimal() or not int(first):
        return dict(settings)
    return {**settings, "metrics.port": str(int(first) + number)}


def replicated(count: int) -> dict[str, str]:
    """Settings with which a cluster of `count` brokers loses no data when one broker is lost."""
    copies, in_sync = str(min(3, count)), str(min(2, count))
    return {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def known_members(views: Iterable[ClusterView | None], members: frozenset[int]) -> bool | None:
    """True if all views have exactly these members, whichever controller they name; else None."""
    return all(view is not None and view.members == members for view in views) or None


def agreed_controller(views: Iterable[ClusterView | None], members: frozenset[int]) -> int | None:
    """The controller's id if all views have exactly these members and the same controller.

    None if a view is missing or differs, or if the controller is not one of the members.
    """
    controllers = set()
    for view in views:
        if view is None or view.members != members:
            return None
        controllers.add(view.controller_id)
    return controllers.pop() if len(controllers) == 1 and controllers <= members else None


def cluster_view(port: int, host: str = HERE.address) -> ClusterView | None:
    """What the broker at that address reports in Metadata v1; None if it does not answer."""
    with (
        contextlib.suppress(OSError, struct.error),
        socket.create_connection((host, port), ANSWER_TIMEOUT_S) as connection,
    ):
        connection.sendall(METADATA_V1)
        return _parse_metadata(_receive_response(connection))
    return None


def _receive_response(connection: socket.socket) -> bytes:
    """A whole response without its size; less if the broker closes the connection."""
    response = b""
    # A response begins with its size in 4 bytes, which do not count in that size.
    while len(response) < 4 or len(response) < 4 + struct.unpack_from(">i", response)[0]:
        data = connection.recv(65536)
        if not data:
            break
        response += data
    return response[4:]


def _parse_metadata(response: bytes) -> ClusterView:
    """Parse a Metadata v1 response.  Raises struct.error if it is cut off.

    Its fields: correlation id; brokers, each with id, host, port and rack; controller id; topics.
    """
    (count,) = struct.unpack_from(">i", response, 4)
    position, members = 8, set()
    for _ in range(count):
        broker_id, host_bytes = struct.unpack_from(">ih", response, position)
        (rack_bytes,) = struct.unpack_from(">h", response, position + 6 + host_bytes + 4)
        position += 6 + host_bytes + 4 + 2 + max(0, rack_bytes)
        members.add(broker_id)
    (controller_id,) = struct.unpack_from(">i", response, position)
    return ClusterView(frozenset(members), controller_id)
