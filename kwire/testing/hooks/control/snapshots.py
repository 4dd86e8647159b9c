"""Takes snapshots of the running broker, and restores the broker from one.

A snapshot is taken in one step of the event loop: it contains everything that was acknowledged
before, and nothing that came later.  The broker answers no request during that step, which takes
the time to create a few files per partition.
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
    SnapshotFolder,
    beside,
    describe,
    description_of,
    public_description,
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
"""Settings that a fork does not take over, because it needs its own."""


class Restoring(NamedTuple):
    """The data with which the broker starts again after it has stopped."""

    laid: Sequence[Path]
    """Folders that will replace the broker's log directories."""
    ahead_ms: int


class Snapshotting:
    """Snapshots of one broker, kept beside its first log directory or in a given folder."""

    def __init__(self, clock: ControlledClock) -> None:
        """`clock` is the broker's clock: a snapshot records how far ahead it is.  The broker itself
        is set later."""
        self._clock = clock
        self._broker: Broker | None = None
        self._stop: trio.Event | None = None
        self._is_restoring = False
        self.restoring: Restoring | None = None
        """Set by `restore`: the data with which the broker starts again."""
        self.restored = 0
        """How often this broker was restored."""

    def begin(self, broker: Broker, stop: trio.Event) -> None:
        """Set the broker; it shuts down when `stop` is set."""
        self._broker, self._stop = broker, stop

    @property
    def broker(self) -> Broker:
        """The broker.  Raises SnapshotError before it has started."""
        if self._broker is None:
            raise SnapshotError("the broker has not started yet")
        return self._broker

    @property
    def _log_dirs(self) -> list[Path]:
        return [Path(path) for path in self.broker.config.log_dirs]

    def kept(self, folder: str | None) -> SnapshotFolder:
        """The snapshots in an absolute folder, or those beside the data.  Raises SnapshotError."""
        if folder is None:
            return SnapshotFolder(beside(self._log_dirs[0]))
        if not Path(folder).is_absolute():
            raise SnapshotError(f"the folder must be an absolute path, not {folder!r}")
        return SnapshotFolder(Path(folder))

    def check_whole(self) -> None:
        """Raise SnapshotError if a snapshot could not hold all of the broker's state."""
        self._store_to_copy(self.broker)

    def take(self, name: str, folder: str | None = None) -> dict[str, Any]:
        """Take a snapshot; returns its public description.  Raises SnapshotError."""
        broker = self.broker
        store = self._store_to_copy(broker)
        snapshots = self.kept(folder)
        try:
            unfinished = snapshots.begin(name)
            try:
                self._write(broker, store, unfinished)
                path = snapshots.finish(name)
            except BaseException:
                snapshots.give_up(name)
                raise
        except (OSError, LogError) as problem:
            raise SnapshotError(f"the snapshot cannot be written: {problem}") from problem
        return public_description(path)

    def _store_to_copy(self, broker: Broker) -> LocalStore:
        """The store of the broker's metadata.  Raises SnapshotError if no snapshot is possible."""
        store = broker.node.store
        if not isinstance(store, LocalStore):
            raise SnapshotError("a snapshot of one broker of a cluster is not possible")
        if store.ahead is not None:
            raise SnapshotError(
                "the broker runs on Apache Kafka's data, whose metadata a snapshot cannot hold"
            )
        if broker.logs.offline_dirs:
            failed = ", ".join(map(str, broker.logs.offline_dirs))
            raise SnapshotError(f"a log directory has failed: {failed}")
        return store

    def _write(self, broker: Broker, store: LocalStore, path: Path) -> None:
        """Writes a snapshot of the broker to `path`: a folder 0, 1, ... for each log directory, and
        the description.  It is one step of the event loop, so that all logs are of the same
        moment."""
        broker.coordinators.write_deferred()
        targets = {log_dir: path / str(number) for number, log_dir in enumerate(self._log_dirs)}
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
        """All snapshots, and how often the broker was restored, as GET /snapshots returns them."""
        return {"snapshots": self.kept(folder).public(), "restored": self.restored}

    async def restore(self, name: str, folder: str | None = None) -> None:
        """Lay the snapshot out beside the data, then shut the broker down to start with it.

        Raises SnapshotError.
        """
        self._store_to_copy(self.broker)
        path = self.kept(folder).find(name)
        ahead_ms = description_of(path).ahead_ms
        if self._is_restoring:
            raise SnapshotError("the broker is being restored already")
        self._is_restoring = True
        try:
            laid = await trio.to_thread.run_sync(laying.laid_beside, path, self._log_dirs)
        except OSError as problem:
            self._is_restoring = False
            raise SnapshotError(f"the snapshot cannot be laid out: {problem}") from problem
        except BaseException:
            self._is_restoring = False
            raise
        log.info("Shutting down to start again with snapshot %s", path)
        self.restoring = Restoring(laid, ahead_ms)
        assert self._stop is not None
        self._stop.set()


def held_settings(explicit: Mapping[str, str]) -> dict[str, str]:
    """The settings that a fork takes over."""
    return {name: value for name, value in explicit.items() if name not in NOT_HELD}
