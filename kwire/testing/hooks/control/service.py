"""The state of a controlled broker: its faults, traces, clock, snapshots and forks."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.log.directory.files import Files
from kwire.testing.hooks.control.clock import ControlledClock
from kwire.testing.hooks.control.disk import ControlledFiles
from kwire.testing.hooks.control.snapshots import Snapshotting
from kwire.testing.hooks.control.versions import MaxVersions
from kwire.testing.hooks.faults.machine import FaultMachine
from kwire.testing.hooks.faults.rules import Draw
from kwire.testing.hooks.snapshots.laying import exchange
from kwire.testing.hooks.tracing.traces import Traces

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.testing.hooks.control.forks import Forks


class Control:
    """The control of one broker; `port` is its HTTP port on the loopback address."""

    def __init__(
        self,
        port: int,
        max_versions: Mapping[int, int] | None = None,
        said_versions: Sequence[str] = (),
        *,
        ahead_ms: int = 0,
    ) -> None:
        """`max_versions` limits the versions that ApiVersions reports, by API key.
        `said_versions` are the --max-version options that it was parsed from.  `ahead_ms` is how
        far the broker's clock is ahead of the real time at the start.
        """
        self.port = port
        self.broker: Broker | None = None
        """The broker; None before it has started."""
        self._max_versions = max_versions
        self._said_versions = said_versions
        self.versions = MaxVersions(max_versions or {})
        self.clock = ControlledClock(ahead_ms)
        self.snapshots = Snapshotting(self.clock)
        self._forks: Forks | None = None
        self.faults = FaultMachine(_chance, self.clock.now_ms)
        self.traces = Traces(self.clock.now_ms, time.monotonic)

    @property
    def forks(self) -> Forks:
        """The broker's forks."""
        if self._forks is None:
            from kwire.testing.hooks.control.forks import Forks  # most brokers never need it

            self._forks = Forks(self._said_versions)
        return self._forks

    def close(self) -> None:
        """End all forks, because the broker has ended."""
        if self._forks is not None:
            self._forks.close()

    def disk(self, files: Files | None) -> Files:
        """File operations that inject the disk faults into `files`, or into the system's."""
        return ControlledFiles(self.faults, files or Files())

    def restored(self, log_dirs: Sequence[str]) -> Control:
        """Put the restored data in place; returns the control of the broker that starts with it.

        The new control has no faults and no traces.  Raises OSError.
        """
        restoring = self.snapshots.restoring
        assert restoring is not None
        exchange([Path(path) for path in log_dirs])
        versions = self._max_versions, self._said_versions
        successor = Control(self.port, *versions, ahead_ms=restoring.ahead_ms)
        successor.snapshots.restored = self.snapshots.restored + 1
        successor._forks = self._forks
        return successor


def _chance(seed: int) -> Draw:
    return random.Random(seed).random
