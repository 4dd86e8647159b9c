"""A controller of Apache Kafka and three brokers, which do one step after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kwire.codecs.primitives import Message
from kwire.codecs.uuids import uuid_bytes
from kwire.conformance import kraft_cluster
from kwire.conformance.kraft import asking
from kwire.conformance.kraft.metadata_log import WrittenMetadata
from kwire.conformance.kraft.naming import Naming, RecordLine
from kwire.conformance.kraft.outcome import RunOutcome, StepOutcome
from kwire.conformance.kraft.state import ClusterState
from kwire.conformance.kraft_cluster import HOST, METADATA, KRaftCluster, directory_id
from kwire.testing.hosting.ports import free_port

APACHE: Final = "a"
KWIRE: Final = "k"
IDS: Final = (1, 2, 3)
LIMIT_S: Final = 180.0
"""For what must happen; it usually takes some seconds."""
POLL_S: Final = 0.1
QUIET_S: Final = 1.0
"""A step is over when nothing was written for this time."""

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "secret",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": asking.jaas_config(),
    "broker.session.timeout.ms": "10000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "0",  # without NoOpRecords
    "metadata.log.max.record.bytes.between.snapshots": str(1 << 30),
    "replica.lag.time.max.ms": "5000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}
"""The settings of all nodes."""
KINDS: Final = {APACHE: kraft_cluster.APACHE, KWIRE: kraft_cluster.KWIRE}

USED = "used-at-"
"""The names of topics that brokers create on first use begin so."""


def is_placed_at_random(topic: str) -> bool:
    """Whether the controller places the replicas of a topic of this name."""
    return topic.startswith((USED, "__"))


class StepFailed(RuntimeError):
    """A step did not come to its end."""


@dataclass(frozen=True)
class ClusterStep:
    """Something that is done with the cluster; its records are compared."""

    name: str
    run: Callable[[RecordsStage], None]


@dataclass
class RecordsStage:
    """A controller and three brokers of the given kinds; none of them runs yet.

    Broker 1 has two log directories, the others one.
    """

    folder: Path
    kinds: str
    running: set[int] = field(default_factory=set)
    """The brokers that are expected to be unfenced at the end of the step."""
    state: ClusterState = field(default_factory=ClusterState)

    def __post_init__(self) -> None:
        self._sasl = {broker_id: free_port() for broker_id in IDS}
        self.cluster = KRaftCluster(
            self.folder,
            [KINDS[letter] for letter in self.kinds],
            settings=SETTINGS,
            own=self._own,
        )
        self.brokers = self.cluster.brokers
        [self._controller] = self.cluster.controllers.values()
        names = {
            uuid_bytes(directory_id(broker_id, path.name)): f"{broker_id}/{path.name}"
            for broker_id in IDS
            for path in self.log_dirs(broker_id)
        }
        self._naming = Naming(names, is_placed_at_random)
        self._log = WrittenMetadata(self._controller.data_dir / f"{METADATA}-0")
        self._outcome = StepOutcome("before")
        self._written_at = time.monotonic()

    def _own(self, broker_id: int, port: int) -> dict[str, str]:
        """Return the settings of one broker."""
        listeners = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{self._sasl[broker_id]}"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "broker.rack": f"rack-{broker_id}",
            "log.dirs": ",".join(map(str, self.log_dirs(broker_id))),
        }

    def log_dirs(self, broker_id: int) -> list[Path]:
        """Return the log directories of a broker."""
        names = ("data", "more") if broker_id == 1 else ("data",)
        return [self.folder / str(broker_id) / name for name in names]

    # The brokers

    def start(self, broker_id: int) -> None:
        """Start a broker, and wait until it is unfenced."""
        self.cluster.format_broker(broker_id)
        self.cluster.start_brokers([broker_id])
        self.running.add(broker_id)
        self.wait_for(lambda: broker_id in self.state.unfenced, f"broker {broker_id} is unfenced")

    def stop(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown."""
        self.running.discard(broker_id)
        self.brokers[broker_id].stop()
        self._wait_until_fenced(broker_id)

    def kill(self, broker_id: int) -> None:
        """Kill a broker, and wait until it is fenced."""
        self.running.discard(broker_id)
        self.brokers[broker_id].kill()
        self._wait_until_fenced(broker_id)

    def _wait_until_fenced(self, broker_id: int) -> None:
        self.wait_for(lambda: broker_id not in self.state.unfenced, f"broker {broker_id} is fenced")

    @contextmanager
    def paused(self, broker_id: int) -> Iterator[None]:
        """Pause a broker (SIGSTOP) during the block."""
        self.brokers[broker_id].pause()
        try:
            yield
        finally:
            self.brokers[broker_id].resume()

    def ask(self, broker_id: int, request: Message, user: str | None = None) -> Any:  # noqa: ANN401 - any response
        """Return a broker's response; `user` logs in first.  Raises AskFailed."""
        port = self.brokers[broker_id].port if user is None else self._sasl[broker_id]
        return asking.ask(port, request, user)

    def ask_until(self, broker_id: int, request: Message, done: Callable[[Any], bool]) -> Any:  # noqa: ANN401 - any response
        """Repeat a request until `done` is true of the response, which is returned."""
        answers: list[Any] = []

        def holds() -> bool:
            answers[:] = [self.ask(broker_id, request)]
            return done(answers[0])

        self.wait_for(holds, f"{type(request).__name__} is answered")
        return answers[0]

    # The records

    def read(self) -> None:
        """Read on in the log of the controller."""
        found = self._log.read()
        if not found:
            return
        self._written_at = time.monotonic()
        for record in found:
            self._outcome.add(map(self._in_any_folder, self._naming.lines(record.message)))
            self.state.apply(record.message)

    def _in_any_folder(self, line: RecordLine) -> RecordLine:
        """Return a line without the folder of this run, which paths of directories begin with."""
        return line._replace(text=line.text.replace(str(self.folder), ""))

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        """Read on until it holds.  Raises StepFailed."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            self.read()
            if holds():
                return
            if time.monotonic() > deadline:
                raise StepFailed(f"{self._outcome.step}: not within {LIMIT_S:.0f} s: {what}")
            time.sleep(POLL_S)

    def settle(self) -> None:
        """Wait until nothing is left to be done, and nothing is written any more."""
        self._written_at = time.monotonic()

        def settled() -> bool:
            is_quiet = time.monotonic() - self._written_at > QUIET_S
            return is_quiet and self.state.is_whole(self.running)

        self.wait_for(settled, f"whole with brokers {sorted(self.running)}")

    def run(self, steps: Sequence[ClusterStep], say: Callable[[str], None]) -> RunOutcome:
        """Do the steps one after the other, and return what each one wrote."""
        start = time.monotonic()
        outcomes = []
        self.cluster.start_controllers()
        self.read()
        for step in steps:
            self._outcome = StepOutcome(step.name)
            step.run(self)
            self.settle()
            outcomes.append(self._outcome)
            say(f"{time.monotonic() - start:5.0f} s  {self.kinds}: {step.name}")
        return RunOutcome(self.kinds, outcomes)

    def end(self) -> None:
        """Kill all processes; how they would end is no part of the run."""
        self.cluster.kill()

    def logs(self) -> Mapping[str, str]:
        """Return the log of each process, by the name of the node."""
        texts = {f"broker {broker_id}": broker.log for broker_id, broker in self.brokers.items()}
        return {**texts, "controller": self._controller.log}
