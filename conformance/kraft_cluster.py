"""Clusters on controllers of Apache Kafka 4.4.0, with brokers of kwire, of Apache Kafka, or both.

| node | process | ids |
| --- | --- | --- |
| controller | Apache Kafka, `process.roles=controller` | from 101 on |
| broker | kwire or Apache Kafka, `process.roles=broker` | from 1 on |

Both kinds of brokers have the same settings, and the same files in the same folder, so that a
stopped broker of one kind can become one of the other kind (`KRaftCluster.become`).
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.conformance import apache_kafka
from kwire.conformance.apache_kafka import (
    CLUSTER_ID,
    QUICK_JVM,
    ApacheKafka,
    ApacheKafkaError,
)
from kwire.conformance.wire.peer import ClientConnection, Reply
from kwire.testing import BrokerProcess
from kwire.testing.cluster import cluster_view, replicated
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import answers

KWIRE: Final = "kwire"
APACHE: Final = "apache"
FIRST_CONTROLLER: Final = 101
HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.05
ANSWER_TIMEOUT_S: Final = 5.0
METADATA: Final = "__cluster_metadata"
DATA: Final = "data"
"""The name of the first log directory of each node."""
QUORUM_VERSION: Final = 2
"""The newest version of DescribeQuorum, which the controllers of 4.4.0 serve."""
TOOL: Final = "kafka.tools.StorageTool"

SETTINGS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
}
"""Settings of all nodes."""
CONTROLLER_SETTINGS: Final = {
    "broker.session.timeout.ms": "6000",
    "auto.leader.rebalance.enable": "false",
}
BROKER_SETTINGS: Final = {
    "broker.heartbeat.interval.ms": "500",
    "initial.broker.registration.timeout.ms": "300000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


def directory_id(node_id: int, name: str = DATA) -> str:
    """The directory.id of a node's log directory of that name, which follows from both."""
    which = "directory" if name == DATA else f"directory {name}"
    digest = hashlib.sha256(f"{which} of {node_id}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:16]).decode().rstrip("=")


class KRaftNode(ApacheKafka):
    """A controller or a broker of Apache Kafka, in a process of its own."""

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    @property
    def log_file(self) -> Path:
        """The same file as that of a kwire broker in this folder."""
        return self.directory / "broker.log"

    @property
    def log(self) -> str:
        """Everything that was logged, over all starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since; it may have died by itself."""
        return self._process is not None

    @property
    def ended(self) -> int | None:
        """The exit status of a process that ended by itself; None if it runs."""
        return None if self._process is None else self._process.poll()

    def _own_settings(self, given: Mapping[str, str]) -> dict[str, str]:
        return {}

    def format(self) -> None:
        """Write server.properties; the log directory is formatted by the cluster."""
        self._write_properties()

    def _is_up(self) -> bool:
        return answers(HOST, self.port)

    def pause(self) -> None:
        """Pause the process (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process after `pause`."""
        os.kill(self.pid, signal.SIGCONT)


AnyBroker: TypeAlias = BrokerProcess | KRaftNode


class KRaftCluster(Startable):
    """Controllers of Apache Kafka, and brokers of the given `kinds`, with ids from 1 on.

    `settings` are those of all brokers and controllers, `own` those of a broker by its id and port.
    The folder of a node is named after its id; the log directory in it is `data`, unless `own` has
    other `log.dirs`.  `jvm` are options of all Java machines.
    """

    def __init__(
        self,
        directory: Path,
        kinds: Sequence[str],
        *,
        controllers: int = 1,
        settings: Mapping[str, str] | None = None,
        racks: Mapping[int, str] | None = None,
        own: Callable[[int, int], Mapping[str, str]] = lambda _broker_id, _port: {},
        jvm: Sequence[str] = QUICK_JVM,
    ) -> None:
        self._directory, self._own, self._jvm = directory, own, jvm
        self._racks = dict(racks or {})
        ports = {FIRST_CONTROLLER + number: free_port() for number in range(controllers)}
        quorum = ",".join(f"{HOST}:{port}" for port in ports.values())
        self._settings = {
            **SETTINGS,
            **replicated(len(kinds)),
            **CONTROLLER_SETTINGS,
            **BROKER_SETTINGS,
            "controller.quorum.bootstrap.servers": quorum,
            **(settings or {}),
        }
        self.controllers = {number: self._controller(number, at) for number, at in ports.items()}
        self.kinds = dict(enumerate(kinds, 1))
        self.brokers: dict[int, AnyBroker] = {
            number: self._broker(number, kind, free_port()) for number, kind in self.kinds.items()
        }

    def _controller(self, number: int, port: int) -> KRaftNode:
        own = {
            "process.roles": "controller",
            "node.id": str(number),
            "listeners": f"CONTROLLER://{HOST}:{port}",
            "advertised.listeners": f"CONTROLLER://{HOST}:{port}",
            "log.dirs": str(self._directory / str(number) / "data"),
        }
        settings = {**self._settings, **own}
        return KRaftNode(self._directory / str(number), port=port, settings=settings, jvm=self._jvm)

    def _broker(self, number: int, kind: str, port: int) -> AnyBroker:
        directory = self._directory / str(number)
        own = {
            "process.roles": "broker",
            "node.id": str(number),
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(directory / "data"),
        }
        if number in self._racks:
            own["broker.rack"] = self._racks[number]
        settings = {**self._settings, **own, **self._own(number, port)}
        if kind == APACHE:
            return KRaftNode(directory, port=port, settings=settings, jvm=self._jvm)
        return BrokerProcess(directory, settings, port=port)

    # -- the brokers

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`: all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def running(self) -> list[int]:
        """Ids of the brokers that were started and not stopped since."""
        return [number for number, broker in self.brokers.items() if broker.running]

    def add(self, broker_id: int, kind: str) -> AnyBroker:
        """Add a broker with this id, which is formatted and not started."""
        self.kinds[broker_id] = kind
        self.brokers[broker_id] = self._broker(broker_id, kind, free_port())
        self.format_broker(broker_id)
        return self.brokers[broker_id]

    def become(self, broker_id: int, kind: str) -> None:
        """Replace a stopped broker by one of another kind, with the same data, id and port."""
        before = self.brokers[broker_id]
        assert not before.running
        self.kinds[broker_id] = kind
        self.brokers[broker_id] = self._broker(broker_id, kind, before.port)

    # -- start and end

    def start(self) -> None:
        """Start all nodes; returns once each broker knows all others.

        On failure, all nodes are killed.  Raises ApacheKafkaError, BrokerStartError.
        """
        try:
            self.start_controllers()
            for number in self.brokers:
                self.format_broker(number)
            self.start_brokers(self.brokers)
            self.wait_until_members()
        except BaseException:
            self.kill()
            raise

    def start_controllers(self) -> None:
        """Format the controllers unless they are formatted, and start them."""
        self._format_controllers()
        for number in self.controllers:
            self.spawn(number)
        for controller in self.controllers.values():
            controller.wait_until_up()

    def start_brokers(self, numbers: Iterable[int]) -> None:
        """Start some brokers; returns when they answer, which is before they are unfenced."""
        chosen = [*numbers]
        for number in chosen:
            self.spawn(number)
        for number in chosen:
            self.brokers[number].wait_until_up()

    def spawn(self, number: int) -> None:
        """Start the process of a node that does not run, and return at once."""
        node = self.controllers.get(number) or self.brokers[number]
        if isinstance(node, KRaftNode):
            node.format()
        node.spawn()

    def wait_until_members(self) -> None:
        """Wait until all running brokers report exactly each other.  Raises ApacheKafkaError."""
        members = frozenset(self.running)

        def disagreement() -> str | None:
            views = {each: cluster_view(self.brokers[each].port, HOST) for each in members}
            if all(view is not None and view.members == members for view in views.values()):
                return None
            logs = "\n".join(f"broker {each}:\n{self.brokers[each].log[-3000:]}" for each in views)
            return f"brokers {sorted(members)} do not form a cluster: {views}\n{logs}"

        _wait(disagreement)

    def stop(self) -> None:
        """Stop the brokers by controlled shutdowns, then the controllers."""
        for node in (*self.brokers.values(), *self.controllers.values()):
            node.stop()

    def kill(self) -> None:
        """Kill all nodes (SIGKILL)."""
        for node in (*self.brokers.values(), *self.controllers.values()):
            node.kill()

    # -- log directories

    def _format_controllers(self) -> None:
        """Format the first controller by Kafka's tool, and the others by a copy of its files.

        The checkpoint that the tool writes has all voters, and is the same for each of them.
        """
        voters = [
            f"{number}@{node.bootstrap}:{directory_id(number)}"
            for number, node in self.controllers.items()
        ]
        first = self.controllers[FIRST_CONTROLLER]
        first.format()
        source = first.directory / "data"
        if (source / "meta.properties").exists():
            return
        properties = first.directory / "server.properties"
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
        arguments += ["--initial-controllers", ",".join(voters)]
        done = apache_kafka.run(TOOL, arguments, version=first.version)
        if done.returncode:
            raise ApacheKafkaError(f"format failed:\n{done.stdout}{done.stderr}")
        for number, node in self.controllers.items():
            if node is not first:
                shutil.copytree(source, node.directory / "data")
                _write_meta_properties(node.directory / "data", number)

    def format_broker(self, broker_id: int) -> None:
        """Write the files that `kafka-storage format --no-initial-controllers` writes."""
        for path in map(Path, self.brokers[broker_id].settings["log.dirs"].split(",")):
            if not (path / "meta.properties").exists():
                path.mkdir(parents=True, exist_ok=True)
                _write_meta_properties(path, broker_id)

    # -- the quorum

    def leader(self) -> int | None:
        """The id of the leading controller, as the controllers that run report it.

        None while they report none or different ones.
        """
        leaders = {_leader_by(node.port) for node in self.controllers.values() if node.running} - {
            None
        }
        return leaders.pop() if len(leaders) == 1 else None

    def wait_for_leader(self, other_than: int | None = None) -> int:
        """Wait for a leading controller that is not `other_than`; returns its id."""
        found: list[int] = []

        def missing() -> str | None:
            leader = self.leader()
            if leader is None or leader == other_than:
                return f"no leader other than {other_than}: {leader}"
            found.append(leader)
            return None

        _wait(missing)
        return found[0]


def _write_meta_properties(data: Path, node_id: int) -> None:
    lines = [
        "version=1",
        f"node.id={node_id}",
        f"directory.id={directory_id(node_id, data.name)}",
        f"cluster.id={CLUSTER_ID}",
    ]
    (data / "meta.properties").write_text("".join(f"{line}\n" for line in lines))


def _wait(problem: Callable[[], str | None]) -> None:
    """Wait until there is no problem; raises ApacheKafkaError after START_TIMEOUT_S."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (text := problem()) is not None:
        if time.monotonic() > deadline:
            raise ApacheKafkaError(text)
        time.sleep(POLL_S)


def _leader_by(port: int) -> int | None:
    """The leader that the controller at this port reports; only the leader itself reports one."""
    request = DescribeQuorumRequest([RequestTopicData(METADATA, [RequestPartitionData(0)])])
    try:
        connection = ClientConnection((HOST, port))
    except OSError:
        return None
    try:
        connection.send(ApiKey.DESCRIBE_QUORUM, QUORUM_VERSION, request.encode(QUORUM_VERSION))
        outcome = connection.receive(ANSWER_TIMEOUT_S)
    finally:
        connection.close()
    if not isinstance(outcome, Reply):
        return None
    answer = outcome.message
    assert isinstance(answer, DescribeQuorumResponse)
    if answer.error_code or not answer.topics:
        return None
    [partition] = answer.topics[0].partitions
    return None if partition.error_code or partition.leader_id < 0 else partition.leader_id
