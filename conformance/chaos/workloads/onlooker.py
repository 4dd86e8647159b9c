"""Somebody who asks all the time where the logs end and what is committed, and makes topics."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable

from kwire.conformance.chaos.history import Value
from kwire.conformance.chaos.wire import LATEST, Link, Refused
from kwire.conformance.chaos.workloads.workload import Client, Stage, attempt

PAUSE_S = 0.05
LOOKS_A_TOPIC = 5
"""One look in so many creates a topic and takes a producer id: what a broker keeps besides logs."""


class Onlooker(Client):
    def __init__(self, name: str, stage: Stage, topic: str, group: str) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._group = group
        self._partitions = list(range(stage.plan.partitions))

    def run(self, stop: threading.Event) -> None:
        with self.stage.linked() as link:
            for number in itertools.count():
                if stop.wait(PAUSE_S):
                    return
                self._look(link)
                if number % LOOKS_A_TOPIC == 0:
                    self._make(link, f"{self.name}-{number}")

    def _look(self, link: Link) -> None:
        self._operation("ends", lambda: {"offsets": self._ends(link)})
        self._operation("committed", lambda: {"offsets": self._committed(link)}, group=self._group)

    def _ends(self, link: Link) -> list[tuple[str, int]]:
        return self._named(link.offsets(self._topic, self._partitions, LATEST))

    def _committed(self, link: Link) -> list[tuple[str, int]]:
        return self._named(link.committed(self._group, self._topic, self._partitions))

    def _named(self, offsets: dict[int, int]) -> list[tuple[str, int]]:
        return [(f"{self._topic}-{partition}", offset) for partition, offset in offsets.items()]

    def _make(self, link: Link, topic: str) -> None:
        def create() -> Value:
            link.create_topic(topic, 1, {})
            return {}

        self._operation("create_topic", create, topic=topic)
        self._operation("init_producer_id", lambda: {"producer_id": link.init_producer_id()})

    def _operation(self, f: str, work: Callable[[], Value], **asked: object) -> None:
        with contextlib.suppress(Refused):  # it is in the history
            attempt(self.recorder, self.name, f, work, **asked)
