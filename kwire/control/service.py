"""What is controlled of a broker."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.control.clock import ControlledClock
from kwire.control.disk import ControlledFiles
from kwire.control.versions import MaxVersions
from kwire.faults.machine import Faults
from kwire.faults.rules import Draw
from kwire.log.directory.files import Files
from kwire.tracing.traces import Traces

if TYPE_CHECKING:
    from kwire.broker import Broker


class Control:
    """Of one broker; `port` is where it is asked, on this machine's own address."""

    def __init__(self, port: int, max_versions: Mapping[int, int] | None = None) -> None:
        """`max_versions` are those that clients are told of, by API key, where not all."""
        self.port = port
        self.broker: Broker | None = None
        """Once it is there."""
        self.versions = MaxVersions(max_versions or {})
        self.clock = ControlledClock()
        self.faults = Faults(_chance, self.clock.now_ms)
        self.traces = Traces(self.clock.now_ms, time.monotonic)

    def disk(self, files: Files | None) -> Files:
        """These calls, or the system's, as far as no fault befalls them."""
        return ControlledFiles(self.faults, files or Files())


def _chance(seed: int) -> Draw:
    return random.Random(seed).random
