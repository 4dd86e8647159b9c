"""The interface between a round and its workload."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from kwire.conformance.chaos.checks import Check
from kwire.conformance.chaos.cluster_link import ClusterLink
from kwire.conformance.chaos.history import Recorder, Type, Value
from kwire.conformance.chaos.plan import RoundPlan
from kwire.conformance.chaos.wire import Link, Refused
from kwire.conformance.wire.peer import Address

RECOVERY_S = 120.0
"""Limit from the end of the last fault until every operation has ended.

Clients wait up to a second between attempts, and a group may need two rebalances.
"""


@dataclass(frozen=True, slots=True)
class WorkloadStage:
    """What a workload works with: the plan, the brokers' addresses and the history."""

    plan: RoundPlan
    addresses: tuple[Address, ...]
    """The addresses of all brokers, at least one."""
    recorder: Recorder

    @property
    def address(self) -> Address:
        return self.addresses[0]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @contextmanager
    def linked(self) -> Iterator[Link]:
        """Yield a link to the broker or to the cluster."""
        link = Link(self.address) if len(self.addresses) == 1 else ClusterLink(self.addresses)
        try:
            yield link
        finally:
            link.close()


def attempt(
    recorder: Recorder, process: str, f: str, work: Callable[[], Value], **asked: object
) -> None:
    """Record an operation whose result is that of `work`.

    Raises the Refused of `work`; the operation may have taken effect nevertheless.
    """
    begun = recorder.invoke(process, f, **asked)
    try:
        answered = work()
    except Refused as refused:
        recorder.end(begun, Type.INFO, error=refused.error)
        raise
    recorder.end(begun, Type.OK, **answered)


class WorkloadClient(ABC):
    """A client, which runs in its own thread and is one process of the history."""

    def __init__(self, name: str, stage: WorkloadStage) -> None:
        self.name = name
        self.stage = stage
        self.recorder = stage.recorder

    @abstractmethod
    def run(self, stop: threading.Event) -> None:
        """Work until told to stop, and finish what was begun within RECOVERY_S."""


class Workload(ABC):
    """What clients do in a round; `checks` examine the history that it records.

    Random numbers must come from `plan.stream_of(seed, ...)` with a name of the workload's own.
    """

    name: ClassVar[str]
    checks: ClassVar[Sequence[Check]]
    broker_settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Broker settings that it needs in addition to those of the plan."""

    def __init__(self, stage: WorkloadStage) -> None:
        self.stage = stage

    @abstractmethod
    def prepare(self, link: Link) -> None:
        """Create the topics; no fault is active."""

    @abstractmethod
    def writers(self) -> list[WorkloadClient]:
        """Clients that stop when the load is over."""

    @abstractmethod
    def readers(self) -> list[WorkloadClient]:
        """Clients that go on until they have `caught_up` with what was written."""

    @abstractmethod
    def caught_up(self, link: Link) -> bool:
        """Return whether the readers have read everything; called repeatedly while no fault is
        active."""

    def progress(self, link: Link) -> object:
        """Return a value that changes while the readers make progress, which extends their time."""
        return None

    @abstractmethod
    def conclude(self, link: Link) -> None:
        """Record the end state; all clients have ended."""
