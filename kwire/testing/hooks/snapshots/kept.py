"""The layout of snapshots on disk, and a folder of them.  A snapshot is a folder:

    NAME/snapshot.json      when it was taken, and of which broker (`Description`)
    NAME/0, NAME/1, ...     copies of the broker's log directories, in their order

An unfinished snapshot is called .NAME.  If its process dies, it stays until the next snapshot of
that name is taken.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 1
DESCRIPTION: Final = "snapshot.json"
SNAPSHOTS_MAX: Final = 100
"""Snapshots in one folder; each of them keeps on disk the segments that were deleted since."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class SnapshotError(Exception):
    """An operation on a snapshot failed; the message says why."""


@dataclass(frozen=True, slots=True)
class Description:
    """The content of snapshot.json."""

    taken_ms: int
    """When the snapshot was taken, by the broker's clock, in ms since the epoch."""
    ahead_ms: int
    """How far that clock was ahead of the real time (kwire.testing.hooks.control.clock)."""
    cluster_id: str
    log_dirs: int
    partitions: int
    size_bytes: int
    """Size of all segments, whether they are shared or not."""
    settings: Mapping[str, str]
    """Settings that the broker was started with, including passwords: only the broker's user may
    read the file."""

    def public(self) -> dict[str, int]:
        """The fields that every client of the control may see."""
        return {
            "taken_ms": self.taken_ms,
            "partitions": self.partitions,
            "size_bytes": self.size_bytes,
        }


def describe(path: Path, description: Description) -> None:
    """Write the description to a snapshot's folder.  Raises OSError."""
    text = json.dumps({"format": FORMAT, **asdict(description)}, indent=1)
    file = os.open(path / DESCRIPTION, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as writer:
        writer.write(f"{text}\n")


def description_of(path: Path) -> Description:
    """Read the description of the snapshot in that folder.

    Raises SnapshotError if there is no snapshot, or none that this version can read.
    """
    try:
        content: dict[str, Any] = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise SnapshotError(f"{path} is a snapshot of another version of kwire")
        return Description(**content)
    except OSError as problem:
        raise SnapshotError(f"{path} is not a snapshot: {problem.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise SnapshotError(f"{path / DESCRIPTION} cannot be read: {problem!r}") from None


def public_description(path: Path) -> dict[str, Any]:
    """The snapshot's name, path and public fields as JSON.  Raises SnapshotError."""
    return {"snapshot": path.name, "path": str(path), **description_of(path).public()}


def beside(log_dir: Path) -> Path:
    """The folder of a broker's snapshots; `log_dir` is its first log directory."""
    path = log_dir.absolute()
    return path.with_name(f"{path.name}-snapshots")


class SnapshotFolder:
    """A folder of snapshots, which need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """The names of the finished snapshots in alphabetical order."""
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(p.name for p in paths if (p / DESCRIPTION).exists() and _is_finished(p))

    def find(self, name: str) -> Path:
        """The folder of a snapshot.  Raises SnapshotError if it does not exist."""
        names = self.names()
        if name in names:
            return self.folder / name
        from difflib import get_close_matches  # 3 ms, and only a mistake needs it

        close = get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else self._existing_in_words(names)
        raise SnapshotError(f"there is no snapshot {name!r}: {hint}")

    def public(self) -> list[dict[str, Any]]:
        """The public descriptions of all snapshots.  Raises SnapshotError if one is unreadable."""
        return [public_description(self.find(name)) for name in self.names()]

    def _existing_in_words(self, names: list[str]) -> str:
        return f"{self.folder} has {', '.join(names) if names else 'none'}"

    def begin(self, name: str) -> Path:
        """Create the folder of an unfinished snapshot, for `finish` or `give_up`.

        Raises SnapshotError, OSError.
        """
        if not _NAME.fullmatch(name):
            raise SnapshotError(
                f"{name!r} is not a valid name: it must have up to 100 characters of A-Z, a-z, 0-9,"
                " '.', '_' and '-', and not begin with '.'"
            )
        names = self.names()
        if name in names:
            raise SnapshotError(f"there is a snapshot {name!r} already: remove it first")
        if len(names) >= SNAPSHOTS_MAX:
            raise SnapshotError(
                f"there are {SNAPSHOTS_MAX} snapshots in {self.folder}: remove one first"
            )
        unfinished = self._unfinished(name)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        return unfinished

    def finish(self, name: str) -> Path:
        """Give a complete snapshot its name; returns its folder."""
        return self._unfinished(name).rename(self.folder / name)

    def give_up(self, name: str) -> None:
        """Remove an unfinished snapshot."""
        shutil.rmtree(self._unfinished(name), ignore_errors=True)

    def _unfinished(self, name: str) -> Path:
        return self.folder / f".{name}"

    def remove(self, name: str) -> None:
        """Deletes a snapshot; brokers keep the segments that they share with it.

        Raises SnapshotError.
        """
        renamed = self.find(name).rename(self._unfinished(name))
        shutil.rmtree(renamed)


def _is_finished(path: Path) -> bool:
    return not path.name.startswith(".")
