"""Taking snapshots of the running broker, and having it go on as one says.

A snapshot is taken at one moment, on the loop: whatever was acknowledged before is in it, and
nothing of what came later.  Meanwhile nobody is answered, which takes as long as making some files
does for each partition.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from kwire.cluster.stores.local import LocalStore
from kwire.log import LogError
from kwire.log.upkeep.capture import capture
from kwire.testing.hooks.snapshots import laying
from kwire.testing.hooks.snapshots.kept import (
    Description,
    SnapshotError,
    Snapshots,
    beside,
    describe,
    description_of,
    told,
)

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.testing.hooks.control.clock import ControlledClock

log = logging.getLogger("kwire.control")

NOT_HELD: Final = (
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "log.dir",
)
"""Settings that are another's where a fork has its own."""


class Restoring(NamedTuple):
    """What the broker is to go on with."""

    laid: Sequence[Path]
    """Folders that take the place of its log directories."""
    ahead_ms: int


class Snapshotting:
    """Snapshots of one broker, beside its first log directory or in a folder that is named."""

    def __init__(self, clock: ControlledClock) -> None:
        self._clock = clock
        self._broker: Broker | None = None
        self._stop: trio.Event | None = None
        self._is_asked = False
        self.restoring: Restoring | None = None
        """What it goes on with once it has stopped, if that was asked for."""
        self.restored = 0
        """How often that was done."""

    def begin(self, broker: Broker, stop: trio.Event) -> None:
        """Of this broker, which ends when `stop` is set."""
        self._broker, self._stop = broker, stop

    @property
    def broker(self) -> Broker:
        """Whose they are.  SnapshotError before it is there."""
        if self._broker is None:
            raise SnapshotError("the broker is not there yet")
        return self._broker

    @property
    def _log_dirs(self) -> list[Path]:
        return [Path(path) for path in self.broker.config.log_dirs]

    def kept(self, folder: str | None) -> Snapshots:
        """Those in that folder, or those beside the data.  SnapshotError."""
        if folder is None:
            return Snapshots(beside(self._log_dirs[0]))
        if not Path(folder).is_absolute():
            raise SnapshotError(f"the folder is said from the root on, and not as {folder!r}")
        return Snapshots(Path(folder))

    def check_whole(self) -> None:
        """SnapshotError where no snapshot holds all that the broker goes by."""
        self._capturable(self.broker)

    def take(self, name: str, folder: str | None = None) -> dict[str, Any]:
        """Take one; what is told of it.  SnapshotError, which says why not."""
        broker = self.broker
        store = self._capturable(broker)
        kept = self.kept(folder)
        try:
            under_way = kept.begin(name)
            try:
                self._write(broker, store, under_way)
                path = kept.finish(name)
            except BaseException:
                kept.give_up(name)
                raise
        except (OSError, LogError) as problem:
            raise SnapshotError(f"it cannot be written: {problem}") from problem
        return told(path)

    def _capturable(self, broker: Broker) -> LocalStore:
        store = broker.node.store
        if not isinstance(store, LocalStore):
            raise SnapshotError("a broker of a cluster is not the whole of it: no snapshot")
        if store.ahead is not None:
            raise SnapshotError("it runs on Apache Kafka's data, whose metadata no snapshot holds")
        if broker.logs.offline_dirs:
            failed = ", ".join(map(str, broker.logs.offline_dirs))
            raise SnapshotError(f"a log directory has failed: {failed}")
        return store

    def _write(self, broker: Broker, store: LocalStore, path: Path) -> None:
        targets = {log_dir: path / str(n) for n, log_dir in enumerate(self._log_dirs)}
        for target in targets.values():
            target.mkdir()
        capture(broker.logs, targets, broker.hosted.high_watermark_of, broker.now_ms())
        store.copy_to(path / "0")
        logs = broker.logs.logs.values()
        description = Description(
            taken_ms=broker.now_ms(),
            ahead_ms=self._clock.ahead_ms,
            cluster_id=broker.image.cluster_id,
            log_dirs=len(targets),
            partitions=len(logs),
            size_bytes=sum(log.segments.size_bytes for log in logs),
            settings=held_settings(broker.config.explicit),
        )
        describe(path, description)

    def to_json(self, folder: str | None = None) -> dict[str, Any]:
        """All of them, and how often the broker was restored."""
        return {"snapshots": self.kept(folder).told(), "restored": self.restored}

    async def restore(self, name: str, folder: str | None = None) -> None:
        """Have the broker end, and begin again with what a snapshot holds.  SnapshotError."""
        self._capturable(self.broker)
        path = self.kept(folder).find(name)
        ahead_ms = description_of(path).ahead_ms
        if self._is_asked:
            raise SnapshotError("it is being restored already")
        self._is_asked = True
        try:
            laid = await trio.to_thread.run_sync(laying.laid_beside, path, self._log_dirs)
        except OSError as problem:
            self._is_asked = False
            raise SnapshotError(f"it cannot be laid out: {problem}") from problem
        except BaseException:
            self._is_asked = False
            raise
        log.info("it ends, and goes on with what snapshot %s holds", path)
        self.restoring = Restoring(laid, ahead_ms)
        assert self._stop is not None
        self._stop.set()


def held_settings(explicit: Mapping[str, str]) -> dict[str, str]:
    """What a fork takes over."""
    return {name: value for name, value in explicit.items() if name not in NOT_HELD}
