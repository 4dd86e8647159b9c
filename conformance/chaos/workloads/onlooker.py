"""A client that constantly reads log ends and committed offsets, and creates topics."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable

from kwire.conformance.chaos.history import Value
from kwire.conformance.chaos.wire import LATEST, Link, Refused
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage, attempt

PAUSE_S = 0.05
LOOKS_A_TOPIC = 5
"""Each fifth look also creates a topic and takes a producer id, which brokers store elsewhere."""


class Onlooker(WorkloadClient):
    def __init__(self, name: str, stage: WorkloadStage, topic: str, group: str) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._group = group
        self._partitions = list(range(stage.plan.partitions))

    def run(self, stop: threading.Event) -> None:
        """Look until `stop` is set, and create a topic after each LOOKS_A_TOPIC looks."""
        with self.stage.linked() as link:
            for number in itertools.count():
                if stop.wait(PAUSE_S):
                    return
                self._look(link)
                if number % LOOKS_A_TOPIC == 0:
                    self._make(link, f"{self.name}-{number}")

    def _look(self, link: Link) -> None:
        """Record the ends of the logs and the committed offsets."""
        self._operation("ends", lambda: {"offsets": self._ends(link)})
        self._operation(
            "committed", lambda: {"offsets": self._read_committed(link)}, group=self._group
        )

    def _ends(self, link: Link) -> list[tuple[str, int]]:
        return self._with_partition_names(link.offsets(self._topic, self._partitions, LATEST))

    def _read_committed(self, link: Link) -> list[tuple[str, int]]:
        return self._with_partition_names(
            link.committed(self._group, self._topic, self._partitions)
        )

    def _with_partition_names(self, offsets: dict[int, int]) -> list[tuple[str, int]]:
        return [(f"{self._topic}-{partition}", offset) for partition, offset in offsets.items()]

    def _make(self, link: Link, topic: str) -> None:
        """Create a topic and ask for a producer id; both are recorded."""

        def create() -> Value:
            link.create_topic(topic, 1, {})
            return {}

        self._operation("create_topic", create, topic=topic)
        self._operation("init_producer_id", lambda: {"producer_id": link.init_producer_id()})

    def _operation(self, f: str, work: Callable[[], Value], **asked: object) -> None:
        with contextlib.suppress(Refused):  # the error is in the history
            attempt(self.recorder, self.name, f, work, **asked)
