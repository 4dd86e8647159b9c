"""A client that constantly reads the last stable offsets and high watermarks of a topic."""

from __future__ import annotations

import contextlib
import threading

from kwire.conformance.chaos.history import Value
from kwire.conformance.chaos.wire import LATEST, Link, Refused
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage, attempt

PAUSE_S = 0.01


class Auditor(WorkloadClient):
    def __init__(self, name: str, stage: WorkloadStage, topic: str, partitions: int) -> None:
        super().__init__(name, stage)
        self._topic = topic
        self._partitions = list(range(partitions))

    def run(self, stop: threading.Event) -> None:
        """Record the offsets of all partitions again and again until `stop` is set."""
        with self.stage.linked() as link:
            while not stop.wait(PAUSE_S):
                with contextlib.suppress(Refused):  # the error is in the history
                    attempt(self.recorder, self.name, "look", lambda: self._look(link))

    def _look(self, link: Link) -> Value:
        """Return the offsets of all partitions.

        The stable offsets come first: one that equals the later high watermark has been the end of
        the log since the first response.
        """
        stable = link.offsets(self._topic, self._partitions, LATEST, stable=True)
        ends = link.offsets(self._topic, self._partitions, LATEST)
        return {
            "partitions": [(f"{self._topic}-{p}", stable[p], ends[p]) for p in self._partitions]
        }
