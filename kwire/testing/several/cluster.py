"""A cluster for a test, without ZooKeeper: its leaders and coordinators move when a test says so.

with KafkaCluster(brokers=3) as kafka:
    orders = kafka.create_topic("orders")                  # a replica on each of three brokers
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    kafka.move_leader("orders", 0)                         # to the next one in sync
    kafka.move_coordinator(group="billing")
    kafka.faults.add(api="Produce", topic="orders", disconnect=True, times=1)
    kafka.brokers[2].kill()

It is `kwire serve --brokers N --control PORT` with its data in a folder of its own; all ends with
the process that started it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kwire.testing.clock import Clock
from kwire.testing.control import ControlClient, said
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
"""What became of a move: moved, partitions, from, to, leader_epoch."""


class ClusterBroker:
    """One of the brokers."""

    def __init__(self, process: SharedBroker, control_port: int) -> None:
        self.process = process
        self.broker_id = process.broker_id
        self.control_port = control_port

    @property
    def bootstrap(self) -> str:
        return self.process.bootstrap

    @property
    def control(self) -> ControlClient:
        """What it is asked by, beside Kafka's protocol."""
        return ControlClient(f"http://{HOST}:{self.control_port}")

    @property
    def faults(self) -> Faults:
        """What befalls requests and the disk at this broker alone."""
        return Faults(self.control)

    @property
    def clock(self) -> Clock:
        """Its time, which a test may have pass; the others' does not."""
        return Clock(self.control)

    @property
    def life(self) -> int | None:
        """Which of its lives it has now; None where it does not run."""
        return self.process.pid if self.running else None

    @property
    def running(self) -> bool:
        """Whether it is there; it may have died by itself."""
        return self.process.running and self.process.ended is None

    def kill(self) -> None:
        """End it at once (SIGKILL), until `start`."""
        self.process.kill()

    def shut_down(self) -> int:
        """Have it end cleanly, and the others take over; its exit status."""
        return self.process.stop()

    def start(self) -> None:
        """Have it run again with its data, and return once it answers.  Raises BrokerStartError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while (
            self.running
            and not answers(HOST, self.process.port)  # it may be about to be gone
            and time.monotonic() <= deadline
        ):
            time.sleep(POLL_S)
        if not self.running:
            self.process.running = False
        self.process.start()

    def pause(self) -> None:
        """Have it stand still (SIGSTOP), until `resume`."""
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()


class KafkaCluster(Contents, Startable):
    """See the module.  `settings` are of all brokers, by Kafka's names; brokers count from 1."""

    def __init__(self, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self._count = brokers
        self._settings = {**OF_TESTS, **(settings or {})}
        self._folder: Folder | None = None
        self._process: SharedClusterProcess | None = None
        self.brokers: dict[int, ClusterBroker] = {}
        """By id, once it was started."""

    @property
    def bootstrap(self) -> str:
        """All brokers, as a client takes them as its bootstrap servers."""
        return ",".join(each.bootstrap for each in self.brokers.values())

    @property
    def log(self) -> str:
        """Everything that was logged, by all brokers."""
        return "" if self._process is None else self._process.log

    @property
    def log_size_bytes(self) -> int:
        """How long the log is by now, for `log_since`."""
        return 0 if self._process is None else size_bytes_of(self._process.log_path)

    def log_since(self, position: int) -> str:
        """What was logged after the log was that long."""
        return "" if self._process is None else text_since(self._process.log_path, position)

    @property
    def faults(self) -> SpreadFaults:
        """What befalls requests at all brokers that run now."""
        return SpreadFaults(
            {number: each.faults for number, each in self.brokers.items() if each.running}
        )

    def _traced(self, which: Mapping[str, Any]) -> Trace:
        """At all brokers that run now."""
        lives = {each: broker.life for each, broker in self.brokers.items() if broker.running}
        traces = {each: BrokerTrace(self.brokers[each].control, which) for each in lives}
        return JoinedTrace(traces, lambda each: self.brokers[each].life == lives[each])

    def replay(
        self, file: AnyPath, *, pace: str = "answers", patience_s: float = TIMEOUT_S
    ) -> Outcome:
        """Send the requests again that `Trace.save` has written, and compare the answers.

        Those of each broker go to the one of the same id.  All clocks go as in the trace.  Brokers
        wait for each other, so one that is not ready is asked again for so long.
        See kwire.testing.replaying.
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
        """Return once all brokers know of each other.  Raises BrokerStartError."""
        self._folder = Folder()
        try:
            process = SharedClusterProcess(
                self._folder.path,
                self._count,
                self._settings,
                controlled=True,
                owned=self._folder,
            )
            first = process.first_control_port
            assert first is not None
            self.brokers = {
                number: ClusterBroker(broker, first + number - 1)
                for number, broker in process.brokers.items()
            }
            self._process = process
            process.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it, and remove its data."""
        if self._process is not None:
            self._process.stop()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def make_whole(self) -> None:
        """Have all brokers run, know of each other, and none be befallen any more.

        Raises BrokerStartError.
        """
        self.resume()
        for broker in self.brokers.values():
            if not broker.running:
                broker.start()
        self.wait_until_members()
        self.faults.clear()

    def resume(self) -> None:
        """Have those go on that stand still."""
        for broker in self.brokers.values():
            if broker.running:
                broker.resume()

    def wait_until_members(self, ids: Iterable[int] | None = None) -> int:
        """The controller, once these know of just each other, else all that run.

        Raises BrokerStartError.
        """
        assert self._process is not None, "it was not started"
        return self._process.wait_until_members(ids)

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """A new topic, once all brokers tell of its leaders.  Raises ClientError, TimeoutError."""
        topic = super().create_topic(name, partitions=partitions, configs=configs)
        for index in range(partitions):
            self._wait_until_told(name, index, lambda leader: leader >= 0)
        return topic

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Who leads a partition now.  Raises ClientError."""
        with connected(self.bootstrap) as cluster:
            return cluster.topic(topic).partitions[partition].leader_id

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None) -> Moved:
        """Have another broker lead a partition, the next one in sync if it is not said which.

        Returns when all brokers tell so.  Raises ControlError, which says why it cannot be.
        """
        return self._moved("/leaders", topic=topic, partition=partition, to=to)

    def move_coordinator(
        self,
        *,
        group: str | None = None,
        transactional_id: str | None = None,
        to: int | None = None,
    ) -> Moved:
        """Have another broker coordinate a group, or a transactional id.  Raises ControlError."""
        return self._moved("/coordinators", group=group, transactional_id=transactional_id, to=to)

    def _moved(self, path: str, **asked: str | int | None) -> Moved:
        """Any broker that runs can be asked."""
        running = next(each for each in self.brokers.values() if each.running)
        moved: Moved = running.control.post(path, said(**asked))
        (part,) = moved["partitions"]
        self._wait_until_told(
            part["topic"], part["partition"], lambda leader: leader == moved["to"]
        )
        return moved

    def _wait_until_told(self, topic: str, index: int, led: Callable[[int], bool]) -> None:
        """Until all brokers that run tell of such a leader.  Raises TimeoutError, ClientError."""
        deadline = time.monotonic() + TIMEOUT_S
        for broker in self.brokers.values():
            while broker.running and not led(_leader_told_by(broker, topic, index)):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"broker {broker.broker_id} does not tell who leads {topic}")
                time.sleep(LOOK_AGAIN_S)


def _leader_told_by(broker: ClusterBroker, topic: str, index: int) -> int:
    """Whom this broker tells of; -1 while it knows of none."""
    with connected(broker.bootstrap) as cluster:
        cluster.refresh([topic])
        known = cluster.topics.get(topic)
        led = {each.partition_index: each.leader_id for each in known.partitions} if known else {}
    return led.get(index, -1)
