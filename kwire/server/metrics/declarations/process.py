"""Metrics of the broker's process, its loop and its disks."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, gauge

_CLIENT: Final = "the client libraries of Prometheus"

PROCESS: Final[tuple[Metric, ...]] = (
    gauge("process_resident_memory_bytes", "", "bytes", "Resident memory", _CLIENT),
    gauge("process_open_fds", "", "descriptors", "Open file descriptors", _CLIENT),
)
