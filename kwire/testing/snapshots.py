"""Snapshots of a broker's contents, for tests.

    seeded = kafka.snapshot()
    with kafka.fork(seeded) as other:      # a second broker, at a port of its own
        ...
    kafka.restore(seeded)                  # the first broker as it was, at its port

A snapshot does not need the broker that it was taken of: `Kafka(snapshot=seeded)` starts another
broker with its contents.
"""

from __future__ import annotations

import uuid
import weakref
from pathlib import Path

from kwire.testing.control import ControlClient
from kwire.testing.hooks.snapshots.kept import SnapshotFolder, description_of
from kwire.testing.hooks.snapshots.laying import lay_out
from kwire.testing.hosting.folders import Folder
from kwire.testing.hosting.lifetime import Removable
from kwire.testing.values import Path as AnyPath


class Snapshot(Removable):
    """A snapshot in the folder `path`; its `with` block ends with the removal of the snapshot."""

    def __init__(self, path: Path) -> None:
        """Open an existing snapshot.  Raises SnapshotError."""
        self.path = path.absolute()
        self._description = description_of(self.path)

    @classmethod
    def take(cls, control: ControlClient, path: Path | None) -> Snapshot:
        """Take a snapshot of the broker with that control, into the new folder `path`.

        Without `path`, the snapshot is in a temporary folder, which is removed when the returned
        object is garbage-collected.  Raises ControlError.
        """
        if path is not None:
            path = path.absolute()
            control.post("/snapshots", {"name": path.name, "folder": str(path.parent)})
            return cls(path)
        folder = Folder()
        try:
            name = uuid.uuid4().hex
            control.post("/snapshots", {"name": name, "folder": str(folder.path)})
            snapshot = cls(folder.path / name)
        except BaseException:
            folder.remove()
            raise
        weakref.finalize(snapshot, folder.remove)
        return snapshot

    @property
    def taken_ms(self) -> int:
        """When the snapshot was taken, by the broker's clock, in ms since the epoch."""
        return self._description.taken_ms

    @property
    def size_bytes(self) -> int:
        """Size of all segments; shared segments make the use of disk space smaller."""
        return self._description.size_bytes

    def lay_out(self, data_dir: Path) -> int:
        """Fill a new data folder; returns how many ms the broker's clock begins ahead.

        Raises SnapshotError, OSError.
        """
        lay_out(self.path, [data_dir])
        return self._description.ahead_ms

    def remove(self) -> None:
        """Deletes the snapshot; brokers that began with it keep their data.

        Raises SnapshotError.
        """
        SnapshotFolder(self.path.parent).remove(self.path.name)


def as_snapshot(given: Snapshot | AnyPath) -> Snapshot:
    """The given snapshot, or the one in the given folder.  Raises SnapshotError."""
    return given if isinstance(given, Snapshot) else Snapshot(Path(given))
