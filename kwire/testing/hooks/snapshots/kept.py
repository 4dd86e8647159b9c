"""The snapshots in a folder, each a folder of its own:

    NAME/snapshot.json      when it was taken, and of which broker (`Description`)
    NAME/0, NAME/1, ...     what its log directories held, in their order

What is under way has a name with a dot before it; whoever dies then leaves it, and the next
snapshot of that name takes it away.
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
"""In one folder: each keeps what was deleted since on the disk."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class SnapshotError(Exception):
    """It cannot be done; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is told of a snapshot."""

    taken_ms: int
    """By the broker's clock."""
    ahead_ms: int
    """How far that clock was ahead of the world's: kwire.testing.hooks.control.clock."""
    cluster_id: str
    log_dirs: int
    partitions: int
    size_bytes: int
    """Of all segments, shared or not."""
    settings: Mapping[str, str]
    """What the broker was given by name, passwords too: so only its user may read the file."""

    def public(self) -> dict[str, int]:
        """What anybody may know who asks the broker."""
        return {
            "taken_ms": self.taken_ms,
            "partitions": self.partitions,
            "size_bytes": self.size_bytes,
        }


def describe(path: Path, description: Description) -> None:
    """Write it to a snapshot's folder.  OSError."""
    text = json.dumps({"format": FORMAT, **asdict(description)}, indent=1)
    file = os.open(path / DESCRIPTION, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as writer:
        writer.write(f"{text}\n")


def description_of(path: Path) -> Description:
    """What the snapshot in that folder says of itself.  SnapshotError if it is none."""
    try:
        said: dict[str, Any] = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
        if said.pop("format") != FORMAT:
            raise SnapshotError(f"{path} is a snapshot of another version of kwire")
        return Description(**said)
    except OSError as problem:
        raise SnapshotError(f"{path} is no snapshot: {problem.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise SnapshotError(f"{path / DESCRIPTION} cannot be understood: {problem!r}") from None


def told(path: Path) -> dict[str, Any]:
    """What anybody may know of the snapshot in that folder.  SnapshotError if it is none."""
    return {"snapshot": path.name, "path": str(path), **description_of(path).public()}


def beside(log_dir: Path) -> Path:
    """Where the snapshots of a broker are kept whose (first) log directory is that."""
    path = log_dir.absolute()
    return path.with_name(f"{path.name}-snapshots")


class Snapshots:
    """Those in one folder, which need not be there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """In alphabetical order."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(each.name for each in found if (each / DESCRIPTION).exists() and _named(each))

    def find(self, name: str) -> Path:
        """The folder of a snapshot.  SnapshotError if there is no such."""
        names = self.names()
        if name in names:
            return self.folder / name
        from difflib import get_close_matches  # 3 ms, and only a mistake needs it

        close = get_close_matches(name, names, n=1)
        hint = f": did you mean {close[0]}?" if close else f", and {self._what_is_there(names)}"
        raise SnapshotError(f"there is no snapshot {name!r}{hint}")

    def told(self) -> list[dict[str, Any]]:
        """What anybody may know of all of them.  SnapshotError where one cannot be understood."""
        return [told(self.find(name)) for name in self.names()]

    def _what_is_there(self, names: list[str]) -> str:
        return f"those of {self.folder} are {', '.join(names)}" if names else "no other either"

    def begin(self, name: str) -> Path:
        """A new folder for a snapshot of that name, until `finish`.  SnapshotError, OSError."""
        if not _NAME.fullmatch(name):
            raise SnapshotError(
                f"{name!r} is no name: up to 100 of A-Z, a-z, 0-9, '.', '_' and '-', no '.' first"
            )
        names = self.names()
        if name in names:
            raise SnapshotError(f"there is a snapshot {name!r} already: remove it first")
        if len(names) >= SNAPSHOTS_MAX:
            raise SnapshotError(
                f"there are {SNAPSHOTS_MAX} snapshots in {self.folder}: remove one first"
            )
        under_way = self._under_way(name)
        shutil.rmtree(under_way, ignore_errors=True)
        under_way.mkdir(parents=True)
        return under_way

    def finish(self, name: str) -> Path:
        """What was begun is whole: give it its name."""
        return self._under_way(name).rename(self.folder / name)

    def give_up(self, name: str) -> None:
        """What was begun is not wanted."""
        shutil.rmtree(self._under_way(name), ignore_errors=True)

    def _under_way(self, name: str) -> Path:
        return self.folder / f".{name}"

    def remove(self, name: str) -> None:
        """Take a snapshot away: what forks and brokers share with it is theirs.  SnapshotError."""
        gone = self.find(name).rename(self._under_way(name))
        shutil.rmtree(gone)


def _named(path: Path) -> bool:
    return not path.name.startswith(".")
