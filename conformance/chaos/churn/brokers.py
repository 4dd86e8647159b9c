"""The broker that is judged, or the several of a cluster on one machine."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from kwire.conformance.chaos.history import NEMESIS, Type, Value
from kwire.conformance.chaos.rounds import end_subject
from kwire.conformance.chaos.subject import START_TIMEOUT_S, kwire
from kwire.conformance.chaos.workloads.workload import Stage
from kwire.conformance.wire.peer import Address
from kwire.testing import SharedClusterProcess

REPLICATED = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "3000"}
"""What is promised, is promised of two."""
UNHANDLED = ("Traceback (most recent call last)", "ERROR unhandled")


class Brokers(ABC):
    """One or several; they keep their ports and their data."""

    addresses: tuple[Address, ...]

    @abstractmethod
    def start(self) -> None:
        """Return once all answer.  Raises SubjectFailed, BrokerStartError."""

    @abstractmethod
    def kill_one(self, which: float, down_s: float) -> Value:
        """kill -9, and start it again that much later; what is to be said of it.

        `which`: of all there are, as a share of them.
        """

    @abstractmethod
    def end(self, stage: Stage) -> None:
        """Have them end well, and note how they did, and what they said that they should not."""

    @abstractmethod
    def kill(self) -> None:
        """All that run."""


def made(directory: Path, settings: Mapping[str, str], count: int) -> Brokers:
    return Lone(directory, settings) if count == 1 else Several(directory, settings, count)


class Lone(Brokers):
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._subject = kwire(directory, settings)
        self.addresses = (self._subject.address,)

    def start(self) -> None:
        self._subject.start()

    def kill_one(self, which: float, down_s: float) -> Value:
        status = self._subject.ended()
        self._subject.kill()
        time.sleep(down_s)
        self._subject.start()
        return {} if status is None else {"ended": status}

    def end(self, stage: Stage) -> None:
        end_subject(stage, self._subject)

    def kill(self) -> None:
        self._subject.kill()


class Several(Brokers):
    """Of `kwire serve --brokers`."""

    def __init__(self, directory: Path, settings: Mapping[str, str], count: int) -> None:
        self._cluster = SharedClusterProcess(directory, count, dict(settings) | REPLICATED)
        self._brokers = list(self._cluster.brokers.values())
        self.addresses = tuple((each.host.address, each.port) for each in self._brokers)

    def start(self) -> None:
        self._cluster.start()

    def kill_one(self, which: float, down_s: float) -> Value:
        broker = self._brokers[int(which * len(self._brokers))]
        status = broker.ended
        broker.kill()
        time.sleep(down_s)
        broker.start(START_TIMEOUT_S)
        told: Value = {"broker": broker.broker_id}
        return told if status is None else {**told, "ended": status}

    def end(self, stage: Stage) -> None:
        for broker in self._brokers:
            begun = stage.recorder.invoke(NEMESIS, "stop", broker=broker.broker_id)
            status = broker.stop()
            stage.recorder.end(begun, Type.OK, status=status, clean=status == 0)
        said = self._cluster.log.splitlines()
        unhandled = [line for line in said if any(sign in line for sign in UNHANDLED)]
        stage.recorder.note(NEMESIS, "broker_log", unhandled=unhandled)

    def kill(self) -> None:
        self._cluster.kill()
