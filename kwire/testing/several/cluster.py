"""A cluster for tests, without ZooKeeper, whose leaders and coordinators move on request.

with KafkaCluster(brokers=3) as kafka:
    orders = kafka.create_topic("orders")                  # a replica on each of three brokers
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    kafka.move_leader("orders", 0)                         # to the next in-sync replica
    kafka.move_coordinator(group="billing")
    kafka.faults.add(api="Produce", topic="orders", disconnect=True, times=1)
    kafka.brokers[2].kill()

The cluster is a `kwire serve --brokers N --control PORT` with its data in a temporary folder.  The
brokers end and the folder is removed when the process that started the cluster ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kwire.testing.clock import Clock
from kwire.testing.control import ControlClient, given_fields
from kwire.testing.faults import Faults
from kwire.testing.hosting.folders import Folder
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.process import (
    POLL_S,
    START_TIMEOUT_S,
    answers,
    size_bytes_of,
    text_since,
)
from kwire.testing.kafka import HOST, OF_TESTS, Contents
from kwire.testing.several.faults import SpreadFaults
from kwire.testing.several.traces import JoinedTrace
from kwire.testing.sharing import SharedBroker, SharedClusterProcess
from kwire.testing.topics import LOOK_AGAIN_S, TIMEOUT_S, Topic, connected
from kwire.testing.traces import BrokerTrace, Trace
from kwire.testing.values import Path as AnyPath

if TYPE_CHECKING:
    from kwire.testing.replaying import Outcome

Moved = Mapping[str, Any]
"""The result of a move, as JSON: moved, partitions, from, to, leader_epoch."""


class ClusterBroker:
    """One broker of a `KafkaCluster`."""

    def __init__(self, process: SharedBroker, control_port: int) -> None:
        self.process = process
        self.broker_id = process.broker_id
        self.control_port = control_port

    @property
    def bootstrap(self) -> str:
        return self.process.bootstrap

    @property
    def control(self) -> ControlClient:
        """Client of this broker's HTTP control."""
        return ControlClient(f"http://{HOST}:{self.control_port}")

    @property
    def faults(self) -> Faults:
        """The faults that this broker alone injects into requests and into its disk."""
        return Faults(self.control)

    @property
    def clock(self) -> Clock:
        """This broker's clock, which a test can hold and advance; other brokers have theirs."""
        return Clock(self.control)

    @property
    def incarnation(self) -> int | None:
        """A number that differs after each restart (the process id); None if it does not run."""
        return self.process.pid if self.running else None

    @property
    def running(self) -> bool:
        """Whether the broker's process runs."""
        return self.process.running and self.process.ended is None

    def kill(self) -> None:
        """Kill the broker (SIGKILL), until `start`."""
        self.process.kill()

    def shut_down(self) -> int:
        """Shut the broker down cleanly, so that others take over its leaders; its exit status."""
        return self.process.stop()

    def start(self) -> None:
        """Start the broker again with its data; returns once it answers.

        Raises BrokerStartError.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        # A process that exists and does not answer may be about to end: wait for either.
        while (
            self.running and not answers(HOST, self.process.port) and time.monotonic() <= deadline
        ):
            time.sleep(POLL_S)
        if not self.running:
            self.process.running = False
        self.process.start()

    def pause(self) -> None:
        """Pause the broker's process (SIGSTOP), until `resume`."""
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()


class KafkaCluster(Contents, Startable):
    """A cluster for tests, started and stopped by a `with` block.

    `settings` are settings of all brokers by Kafka's names.  The broker ids are 1, 2 and so on.
    """

    def __init__(self, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        """Prepares a cluster of `brokers` brokers; `start` starts it.  `settings` override the
        defaults for tests."""
        self._count = brokers
        self._settings = {**OF_TESTS, **(settings or {})}
        self._folder: Folder | None = None
        self._process: SharedClusterProcess | None = None
        self.brokers: dict[int, ClusterBroker] = {}
        """The brokers by id; empty before `start`."""

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`: all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def log(self) -> str:
        """Everything that all brokers logged."""
        return "" if self._process is None else self._process.log

    @property
    def log_size_bytes(self) -> int:
        """The length of the log in bytes, for `log_since`."""
        return 0 if self._process is None else size_bytes_of(self._process.log_path)

    def log_since(self, position: int) -> str:
        """The log from that byte position on."""
        return "" if self._process is None else text_since(self._process.log_path, position)

    @property
    def faults(self) -> SpreadFaults:
        """The faults of all brokers that run now; a rule is added to each of them."""
        return SpreadFaults(
            {number: broker.faults for number, broker in self.brokers.items() if broker.running}
        )

    def _start_trace(self, request_filter: Mapping[str, Any]) -> Trace:
        """Start a trace at each broker that runs now."""
        running = [broker for broker in self.brokers.values() if broker.running]
        incarnations = {broker.broker_id: broker.incarnation for broker in running}
        traces = {
            broker.broker_id: BrokerTrace(broker.control, request_filter) for broker in running
        }
        return JoinedTrace(
            traces,
            lambda broker_id: self.brokers[broker_id].incarnation == incarnations[broker_id],
        )

    def replay(
        self, file: AnyPath, *, pace: str = "answers", patience_s: float = TIMEOUT_S
    ) -> Outcome:
        """Send the requests of a trace that `Trace.save` wrote, and compare the responses.

        Requests that broker N answered in the trace go to broker N of this cluster.  All clocks
        follow the times of the trace.  A request that fails because the brokers have not agreed
        yet is sent again for up to `patience_s` seconds.  See kwire.testing.replaying.
        Raises DamagedTrace, NoCounterpart, OSError, ClientError, ControlError.
        """
        from kwire.testing.replaying import replay

        return replay(
            file,
            self.bootstrap,
            pace=pace,
            patience_s=patience_s,
            clocks=lambda broker_id: self.brokers[broker_id or 1].clock,
        )

    def start(self) -> None:
        """Start the brokers; returns once each of them knows all others.

        Raises BrokerStartError.
        """
        self._folder = Folder()
        try:
            process = SharedClusterProcess(
                self._folder.path,
                self._count,
                self._settings,
                controlled=True,
                owned=self._folder,
            )
            first_port = process.first_control_port
            assert first_port is not None
            self.brokers = {
                broker_id: ClusterBroker(broker, first_port + broker_id - 1)
                for broker_id, broker in process.brokers.items()
            }
            self._process = process
            process.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all brokers and remove their data."""
        if self._process is not None:
            self._process.stop()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def make_whole(self) -> None:
        """Resume and start all brokers, wait until they know each other, and remove all faults.

        Raises BrokerStartError.
        """
        self.resume()
        for broker in self.brokers.values():
            if not broker.running:
                broker.start()
        self.wait_until_members()
        self.faults.clear()

    def resume(self) -> None:
        """Resume the brokers that are paused."""
        for broker in self.brokers.values():
            if broker.running:
                broker.resume()

    def wait_until_members(self, ids: Iterable[int] | None = None) -> int:
        """Wait until these brokers know exactly each other; returns the controller's id.

        Without `ids`, wait for all brokers that run.  Raises BrokerStartError.
        """
        assert self._process is not None, "The cluster was not started."
        return self._process.wait_until_members(ids)

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """Create a topic; returns once all brokers report a leader of each partition.

        Raises ClientError, TimeoutError.
        """
        topic = super().create_topic(name, partitions=partitions, configs=configs)
        for index in range(partitions):
            self._wait_for_leader(name, index, lambda leader: leader >= 0)
        return topic

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Id of the broker that leads the partition.  Raises ClientError."""
        with connected(self.bootstrap) as cluster:
            return cluster.topic(topic).partitions[partition].leader_id

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> Moved:
        """Move the leader of a partition to broker `to`, by default to the next in-sync replica.

        Returns once all brokers report the new leader.  Raises ControlError, TimeoutError.
        """
        return self._move("/leaders", topic=topic, partition=partition, to=to)

    def move_coordinator(
        self,
        *,
        group: str | None = None,
        transactional_id: str | None = None,
        to: int | None = None,
    ) -> Moved:
        """Move the coordinator of a group or a transactional id to another broker.

        Raises ControlError, TimeoutError.
        """
        return self._move("/coordinators", group=group, transactional_id=transactional_id, to=to)

    def _move(self, path: str, **fields: str | int | None) -> Moved:
        """Send the request to any broker that runs: each can carry it out."""
        broker = next(broker for broker in self.brokers.values() if broker.running)
        moved: Moved = broker.control.post(path, given_fields(**fields))
        (partition,) = moved["partitions"]
        self._wait_for_leader(
            partition["topic"], partition["partition"], lambda leader: leader == moved["to"]
        )
        return moved

    def _wait_for_leader(self, topic: str, index: int, is_expected: Callable[[int], bool]) -> None:
        """Wait until all brokers that run report an expected leader.

        Raises TimeoutError, ClientError.
        """
        deadline = time.monotonic() + TIMEOUT_S
        for broker in self.brokers.values():
            while broker.running and not is_expected(_reported_leader(broker, topic, index)):
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"Broker {broker.broker_id} does not report the expected leader of"
                        f" {topic}-{index} after {TIMEOUT_S:g} s."
                    )
                time.sleep(LOOK_AGAIN_S)


def _reported_leader(broker: ClusterBroker, topic: str, index: int) -> int:
    """The leader's id in this broker's metadata; -1 if it reports none."""
    with connected(broker.bootstrap) as cluster:
        cluster.refresh([topic])
        metadata = cluster.topics.get(topic)
    partitions = metadata.partitions if metadata else []
    leaders = {partition.partition_index: partition.leader_id for partition in partitions}
    return leaders.get(index, -1)
