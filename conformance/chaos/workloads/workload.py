"""The interface between a round and what its clients do."""

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
"""From the end of the last fault until everything that was begun has come to its end: clients wait
up to a second between attempts, and a group may take two rebalances."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a workload has to work with."""

    plan: RoundPlan
    addresses: tuple[Address, ...]
    """Of all brokers: a lone one has one."""
    recorder: Recorder

    @property
    def address(self) -> Address:
        return self.addresses[0]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @contextmanager
    def linked(self) -> Iterator[Link]:
        """A link to the broker, or to the cluster."""
        link = Link(self.address) if len(self.addresses) == 1 else ClusterLink(self.addresses)
        try:
            yield link
        finally:
            link.close()


def attempt(
    recorder: Recorder, process: str, f: str, work: Callable[[], Value], **asked: object
) -> None:
    """Record an operation whose answer `work` gives.

    Raises the Refused of `work`; the operation may have taken effect all the same.
    """
    begun = recorder.invoke(process, f, **asked)
    try:
        answered = work()
    except Refused as refused:
        recorder.end(begun, Type.INFO, error=refused.error)
        raise
    recorder.end(begun, Type.OK, **answered)


class Client(ABC):
    """One process of the history, in a thread of its own."""

    def __init__(self, name: str, stage: Stage) -> None:
        self.name = name
        self.stage = stage
        self.recorder = stage.recorder

    @abstractmethod
    def run(self, stop: threading.Event) -> None:
        """Work until told to stop, then finish what was begun, for RECOVERY_S at most."""


class Workload(ABC):
    """`checks` judge the history that its clients and `conclude` record.

    What it draws at random it draws from `plan.stream_of(seed, its own words)`.
    """

    name: ClassVar[str]
    checks: ClassVar[Sequence[Check]]
    broker_settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What the broker needs besides what the plan draws."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    @abstractmethod
    def prepare(self, link: Link) -> None:
        """Make the topics; the broker is well."""

    @abstractmethod
    def writers(self) -> list[Client]:
        """Clients that stop when the load is over."""

    @abstractmethod
    def readers(self) -> list[Client]:
        """Clients that go on until they have `caught_up` with what was written."""

    @abstractmethod
    def caught_up(self, link: Link) -> bool:
        """Whether the readers have seen everything; asked again and again, the broker is well."""

    def progress(self, link: Link) -> object:
        """Something that changes while the readers get on; on a slow machine they take longer."""
        return None

    @abstractmethod
    def conclude(self, link: Link) -> None:
        """Record the end state; all clients are gone."""
