"""Several kwire brokers that form a cluster on a ZooKeeper, for a test: a process each.

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

The brokers end with the process that started them.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import POLL_S, START_TIMEOUT_S, BrokerProcess, BrokerStartError
from kwire.testing.lines import Wiring

METADATA_V1: Final = bytes.fromhex("0000000e 0003 0001 00000000 ffff 00000000")
"""Size, api key 3, version 1, correlation id 0, null client id, no topics."""
ANSWER_TIMEOUT_S: Final = 1.0


class Membership(NamedTuple):
    """What one broker knows of its cluster."""

    members: frozenset[int]
    controller_id: int


class ClusterProcess(Startable):
    """`count` brokers of a cluster, from `first_id` on, each a BrokerProcess of its own.

    `zookeeper_connect` is the setting of that name; a chroot of its own makes a cluster of its own.
    `settings` are those of all brokers, before those chosen here: replicas of everything on up to
    three brokers.  `racks` are one for each broker; `ports` too, if not free ones, and `hosts`, if
    they do not all run here.  Where it is `cuttable`, brokers can be cut off from each other and
    from ZooKeeper, while clients reach them (kwire.testing.lines says how): it takes brokers that
    run here, and settings that leave listeners alone.
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
        self.brokers: dict[int, BrokerProcess] = {}
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
                {**replicated(count), **own, **(settings or {})},
                port=port,
                host=hosts[number] if hosts else HERE,
            )

    @property
    def bootstrap(self) -> str:
        """All brokers, as a client takes them as its bootstrap servers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        """The brokers that were started and not stopped since."""
        return [broker_id for broker_id, broker in self.brokers.items() if broker.running]

    def start(self) -> None:
        """Start those that do not run, all at once; return when all know of each other.

        Raises BrokerStartError; then none runs.
        """
        if self._wiring is not None and not self.running:
            self._wiring.open()
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

    def wait_until_members(self, ids: Iterable[int] | None = None) -> int:
        """Until these brokers (None: all that run) know of just each other and of a controller.

        Returns the controller.  Raises BrokerStartError if it does not come to that.
        """
        wanted = frozenset(self.running if ids is None else ids)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            known = {each: membership(*self._address(each)) for each in sorted(wanted)}
            controller_id = agreed_controller(known.values(), wanted)
            if controller_id is not None:
                return controller_id
            if time.monotonic() > deadline:
                raise BrokerStartError(self._disagreement(known))
            time.sleep(POLL_S)

    def _address(self, broker_id: int) -> tuple[int, str]:
        broker = self.brokers[broker_id]
        return broker.port, broker.host.address

    def _disagreement(self, known: Mapping[int, Membership | None]) -> str:
        said = "; ".join(
            f"broker {each} does not answer"
            if of is None
            else f"broker {each} knows of {sorted(of.members)} and controller {of.controller_id}"
            for each, of in known.items()
        )
        logs = "\n".join(f"broker {each}:\n{self.brokers[each].log}" for each in known)
        return f"no cluster within {START_TIMEOUT_S} s: {said}\n{logs}"

    def stop(self) -> dict[int, int]:
        """Have all shut down cleanly, one after the other; returns their exit statuses."""
        try:
            return {broker_id: self.brokers[broker_id].stop() for broker_id in self.running}
        finally:
            self._close_lines()

    def kill(self) -> None:
        """End all at once (SIGKILL)."""
        for broker in self.brokers.values():
            broker.kill()
        self._close_lines()

    def _close_lines(self) -> None:
        if self._wiring is not None:
            self._wiring.close()

    # -- the network, where it is `cuttable`

    def cut(self, broker_id: int, *others: int) -> None:
        """Have this broker and these, else all, hear nothing of each other."""
        for other in others or self.brokers.keys() - {broker_id}:
            self._cuttable.cut(broker_id, other)

    def cut_from_zookeeper(self, broker_id: int) -> None:
        """Have this broker hear nothing of ZooKeeper, nor that of it: its session expires."""
        self._cuttable.cut_from_zookeeper(broker_id)

    def heal(self) -> None:
        """Undo all cuts; what was on its way arrives."""
        self._cuttable.mend_all()

    def _pids(self) -> dict[int, int]:
        return {each: self.brokers[each].pid for each in self.running}

    @property
    def _cuttable(self) -> Wiring:
        assert self._wiring is not None, "made without cuttable=True"
        return self._wiring


def replicated(count: int) -> dict[str, str]:
    """Settings with which a cluster of `count` brokers keeps all it is given without the last."""
    copies, in_sync = str(min(3, count)), str(min(2, count))
    return {
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def agreed_controller(known: Iterable[Membership | None], wanted: frozenset[int]) -> int | None:
    """The controller, if all who were asked know of just these brokers and of it, one of them."""
    controllers = set()
    for each in known:
        if each is None or each.members != wanted:
            return None
        controllers.add(each.controller_id)
    return controllers.pop() if len(controllers) == 1 and controllers <= wanted else None


def membership(port: int, host: str = HERE.address) -> Membership | None:
    """What the broker on that port says; None if it does not answer."""
    with (
        contextlib.suppress(OSError, struct.error),
        socket.create_connection((host, port), ANSWER_TIMEOUT_S) as link,
    ):
        link.sendall(METADATA_V1)
        return _read_membership(_received(link))
    return None


def _received(link: socket.socket) -> bytes:
    """A whole reply without its size; less where the broker goes away."""
    reply = b""
    while len(reply) < 4 or len(reply) < 4 + struct.unpack_from(">i", reply)[0]:
        got = link.recv(65536)
        if not got:
            break
        reply += got
    return reply[4:]


def _read_membership(reply: bytes) -> Membership:
    """Correlation id; brokers, each with id, host, port and rack; controller; topics."""
    (count,) = struct.unpack_from(">i", reply, 4)
    position, members = 8, set()
    for _ in range(count):
        broker_id, host_bytes = struct.unpack_from(">ih", reply, position)
        (rack_bytes,) = struct.unpack_from(">h", reply, position + 6 + host_bytes + 4)
        position += 6 + host_bytes + 4 + 2 + max(0, rack_bytes)
        members.add(broker_id)
    (controller_id,) = struct.unpack_from(">i", reply, position)
    return Membership(frozenset(members), controller_id)
