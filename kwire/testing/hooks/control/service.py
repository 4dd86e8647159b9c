"""What is controlled of a broker."""

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
from kwire.testing.hooks.faults.machine import Faults
from kwire.testing.hooks.faults.rules import Draw
from kwire.testing.hooks.snapshots.laying import exchange
from kwire.testing.hooks.tracing.traces import Traces

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.testing.hooks.control.forks import Forks


class Control:
    """Of one broker; `port` is where it is asked, on this machine's own address."""

    def __init__(
        self,
        port: int,
        max_versions: Mapping[int, int] | None = None,
        said_versions: Sequence[str] = (),
        *,
        ahead_ms: int = 0,
    ) -> None:
        """`max_versions` are those that clients are told of, by API key, where not all, and
        `said_versions` what was asked for.

        `ahead_ms` is how far the broker's time is ahead of the world's from the start.
        """
        self.port = port
        self.broker: Broker | None = None
        """Once it is there."""
        self._max_versions = max_versions
        self._said_versions = said_versions
        self.versions = MaxVersions(max_versions or {})
        self.clock = ControlledClock(ahead_ms)
        self.snapshots = Snapshotting(self.clock)
        self._forks: Forks | None = None
        self.faults = Faults(_chance, self.clock.now_ms)
        self.traces = Traces(self.clock.now_ms, time.monotonic)

    @property
    def forks(self) -> Forks:
        """Brokers that began with what this one holds, and end with it."""
        if self._forks is None:
            from kwire.testing.hooks.control.forks import Forks  # most who are controlled have none

            self._forks = Forks(self._said_versions)
        return self._forks

    def close(self) -> None:
        """The broker has ended, and with it all that was started of it."""
        if self._forks is not None:
            self._forks.close()

    def disk(self, files: Files | None) -> Files:
        """These calls, or the system's, as far as no fault befalls them."""
        return ControlledFiles(self.faults, files or Files())

    def restored(self, log_dirs: Sequence[str]) -> Control:
        """That of the broker which goes on, after this one, with what a snapshot holds.

        It has no faults and no traces.  OSError where that cannot be put in its place.
        """
        restoring = self.snapshots.restoring
        assert restoring is not None
        exchange([Path(path) for path in log_dirs])
        versions = self._max_versions, self._said_versions
        following = Control(self.port, *versions, ahead_ms=restoring.ahead_ms)
        following.snapshots.restored = self.snapshots.restored + 1
        following._forks = self._forks
        return following


def _chance(seed: int) -> Draw:
    return random.Random(seed).random
