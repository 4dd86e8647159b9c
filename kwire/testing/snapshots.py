"""What a broker holds at a moment, kept for a test.

    seeded = kafka.snapshot()
    with kafka.fork(seeded) as other:      # a second broker, at a port of its own
        ...
    kafka.restore(seeded)                  # the first one as it was, at its port

It needs no broker any more: `Kafka(snapshot=seeded)` is one of its own.
"""

from __future__ import annotations

import uuid
import weakref
from pathlib import Path

from kwire.testing.control import ControlClient
from kwire.testing.hooks.snapshots.kept import Snapshots, description_of
from kwire.testing.hooks.snapshots.laying import lay_out
from kwire.testing.hosting.folders import Folder
from kwire.testing.hosting.lifetime import Removable
from kwire.testing.values import Path as AnyPath


class Snapshot(Removable):
    """One, in the folder `path`; see the module."""

    def __init__(self, path: Path) -> None:
        """The one that is there.  Raises SnapshotError."""
        self.path = path.absolute()
        self._description = description_of(self.path)

    @classmethod
    def take(cls, control: ControlClient, path: Path | None) -> Snapshot:
        """Of the broker with that control, into a folder that is not there yet.

        Without `path` it is in a temporary one, and gone with this object.  Raises ControlError.
        """
        if path is not None:
            path = path.absolute()
            control.post("/snapshots", {"name": path.name, "folder": str(path.parent)})
            return cls(path)
        folder = Folder()
        try:
            name = uuid.uuid4().hex
            control.post("/snapshots", {"name": name, "folder": str(folder.path)})
            taken = cls(folder.path / name)
        except BaseException:
            folder.remove()
            raise
        weakref.finalize(taken, folder.remove)
        return taken

    @property
    def taken_ms(self) -> int:
        """When, by its broker's clock, in ms since the epoch."""
        return self._description.taken_ms

    @property
    def size_bytes(self) -> int:
        """Of all its segments; what it takes on the disk is less."""
        return self._description.size_bytes

    def lay_out(self, data_dir: Path) -> int:
        """Fill a broker's new folder; how far ahead its clock begins.  SnapshotError, OSError."""
        lay_out(self.path, [data_dir])
        return self._description.ahead_ms

    def remove(self) -> None:
        """Keep it no longer; brokers that were made of it are none the worse.  SnapshotError."""
        Snapshots(self.path.parent).remove(self.path.name)


def as_snapshot(given: Snapshot | AnyPath) -> Snapshot:
    """The snapshot itself, or that in a folder.  Raises SnapshotError."""
    return given if isinstance(given, Snapshot) else Snapshot(Path(given))
