"""The tested broker of the churn, or several brokers of a cluster."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from kwire.conformance.chaos.history import NEMESIS, Type, Value
from kwire.conformance.chaos.rounds import end_subject
from kwire.conformance.chaos.subject import START_TIMEOUT_S, kwire
from kwire.conformance.chaos.workloads.workload import WorkloadStage
from kwire.conformance.kraft_cluster import HOST, KRaftCluster
from kwire.conformance.wire.peer import Address
from kwire.testing import SharedClusterProcess

REPLICATED = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "3000"}
"""An acknowledged record has two replicas."""
UNHANDLED = ("Traceback (most recent call last)", "ERROR unhandled")


class Brokers(ABC):
    """One or several brokers, which keep their ports and data."""

    addresses: tuple[Address, ...]

    @abstractmethod
    def start(self) -> None:
        """Start all brokers and wait until they answer. Raises SubjectFailed, BrokerStartError."""

    @abstractmethod
    def kill_one(self, which: float, down_s: float) -> Value:
        """Kill a broker (kill -9), and start it `down_s` later; the result to record.

        `which` is a number from 0 to 1 that selects the broker.
        """

    @abstractmethod
    def end(self, stage: WorkloadStage) -> None:
        """Stop all brokers, and record their exit statuses and unexpected lines of their logs."""

    @abstractmethod
    def kill(self) -> None:
        """Kill all brokers that run."""


def create(
    directory: Path, settings: Mapping[str, str], count: int, kinds: Sequence[str] = ()
) -> Brokers:
    """Return one broker, or a cluster of `count` on one machine.

    With `kinds`, the cluster has brokers of these kinds beside a controller of Apache Kafka.
    """
    if kinds:
        return MixedCluster(directory, settings, kinds)
    return (
        SingleBroker(directory, settings)
        if count == 1
        else LocalCluster(directory, settings, count)
    )


class SingleBroker(Brokers):
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._subject = kwire(directory, settings)
        self.addresses = (self._subject.address,)

    def start(self) -> None:
        self._subject.start()

    def kill_one(self, which: float, down_s: float) -> Value:
        """Kill the broker and start it again after `down_s` seconds.

        The result has the exit status if the broker had ended before.
        """
        status = self._subject.ended()
        self._subject.kill()
        time.sleep(down_s)
        self._subject.start()
        return {} if status is None else {"ended": status}

    def end(self, stage: WorkloadStage) -> None:
        end_subject(stage, self._subject)

    def kill(self) -> None:
        self._subject.kill()


class LocalCluster(Brokers):
    """The brokers of `kwire serve --brokers`."""

    def __init__(self, directory: Path, settings: Mapping[str, str], count: int) -> None:
        self._cluster = SharedClusterProcess(directory, count, dict(settings) | REPLICATED)
        self._brokers = list(self._cluster.brokers.values())
        self.addresses = tuple((broker.host.address, broker.port) for broker in self._brokers)

    def start(self) -> None:
        self._cluster.start()

    def kill_one(self, which: float, down_s: float) -> Value:
        """Kill a broker and start it again after `down_s` seconds; `which`, from 0 to 1, selects
        it. The result has the exit status if the broker had ended before."""
        broker = self._brokers[int(which * len(self._brokers))]
        status = broker.ended
        broker.kill()
        time.sleep(down_s)
        broker.start(START_TIMEOUT_S)
        result: Value = {"broker": broker.broker_id}
        return result if status is None else {**result, "ended": status}

    def end(self, stage: WorkloadStage) -> None:
        """Stop all brokers, and record their exit statuses and the unhandled errors in their
        log."""
        for broker in self._brokers:
            begun = stage.recorder.invoke(NEMESIS, "stop", broker=broker.broker_id)
            status = broker.stop()
            stage.recorder.end(begun, Type.OK, status=status, clean=status == 0)
        lines = self._cluster.log.splitlines()
        unhandled = [line for line in lines if any(sign in line for sign in UNHANDLED)]
        stage.recorder.note(NEMESIS, "broker_log", unhandled=unhandled)

    def kill(self) -> None:
        self._cluster.kill()


class MixedCluster(Brokers):
    """Brokers of kwire or Apache Kafka beside a controller of Apache Kafka."""

    def __init__(self, directory: Path, settings: Mapping[str, str], kinds: Sequence[str]) -> None:
        self._cluster = KRaftCluster(directory, kinds, settings=dict(settings) | REPLICATED)
        self.addresses = tuple((HOST, broker.port) for broker in self._cluster.brokers.values())

    def start(self) -> None:
        self._cluster.start()

    def kill_one(self, which: float, down_s: float) -> Value:
        """Kill a broker and start it again after `down_s` seconds; `which`, from 0 to 1, selects
        it. The result has the exit status if the broker had ended before."""
        number = 1 + int(which * len(self.addresses))
        broker = self._cluster.brokers[number]
        status = broker.ended
        broker.kill()
        time.sleep(down_s)
        self._cluster.start_brokers([number])
        self._cluster.wait_until_members()
        result: Value = {"broker": number}
        return result if status is None else {**result, "ended": status}

    def end(self, stage: WorkloadStage) -> None:
        """Stop all brokers, and record their exit statuses and the unhandled errors in their
        logs."""
        for number, broker in self._cluster.brokers.items():
            begun = stage.recorder.invoke(NEMESIS, "stop", broker=number)
            status = broker.stop()
            stage.recorder.end(begun, Type.OK, status=status, clean=status == 0)
            lines = broker.log.splitlines()
            unhandled = [line for line in lines if any(sign in line for sign in UNHANDLED)]
            stage.recorder.note(NEMESIS, "broker_log", unhandled=unhandled)

    def kill(self) -> None:
        self._cluster.kill()
