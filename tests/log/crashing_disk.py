"""A disk whose power can be cut at any moment, and the files that survive the cut.

`CrashingDisk` works on a real folder and records what its fsyncs made durable.  Everything else
survives by chance, within what POSIX allows and what a journal of names (ext4, XFS) orders:

    contents    of each write since the file's last fsync all, a part or nothing survives; a lost
                write before a surviving one reads as zeros; a truncation survives together with
                the writes that followed it, or neither does
    names       creations, renames and removals in a folder survive in their order, up to some
                point not before the folder's last fsync; folders are independent of each other
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kwire.codecs.primitives import Buffer
from kwire.log.directory.files import Files, OpenFile


class PowerCut(BaseException):
    """Raised where the process is killed; no error handler may catch it."""


class Write(NamedTuple):
    """A change of a file's content that was not fsynced; `data` is None for a truncation."""

    position: int
    data: bytes | None


@dataclass
class Content:
    """The content of one file: the durable bytes, and the writes since."""

    certain: bytes = b""
    pending: list[Write] = field(default_factory=list)

    def left(self, chance: random.Random | None) -> bytes:
        """What a power cut leaves."""
        content = bytearray(self.certain)
        if chance is None:
            return self.certain
        share = chance.choice([0.0, 0.5, 0.9, 1.0])
        for position, data in self.pending:
            if data is None:
                if chance.random() >= share:
                    break  # nor what followed it
                _resize(content, position)
            elif chance.random() < share:
                _put(content, position, data)
            elif chance.random() < 0.5:
                _put(content, position, data[: chance.randrange(len(data) + 1)])
        return bytes(content)


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _put(content: bytearray, position: int, data: bytes) -> None:
    if data:
        _resize(content, max(len(content), position))
        content[position : position + len(data)] = data


@dataclass
class Folder:
    """The names in one folder after each change, and the number of durable changes."""

    names: list[dict[str, int]] = field(default_factory=lambda: [{}])
    certain: int = 0

    def change(self, *, added: tuple[str, int] | None = None, removed: str = "") -> None:
        names = dict(self.names[-1])
        names.pop(removed, None)
        if added:
            names[added[0]] = added[1]
        self.names.append(names)

    def left(self, chance: random.Random | None) -> dict[str, int]:
        """What a power cut leaves."""
        first, last = self.certain, len(self.names) - 1
        at = chance.choice([first, last, chance.randint(first, last)]) if chance else first
        return self.names[at]


class CrashingDisk(Files):
    """Everything below `root`, which is there, empty and certain.

    After `cut_after(n)` the n-th change from there on is not made any more, nor any after it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.contents: dict[int, Content] = {}
        self.folders: dict[int, Folder] = {root.stat().st_ino: Folder()}
        self.changes = 0
        self._cut_at: int | None = None

    def cut_after(self, changes: int | None) -> None:
        self._cut_at = None if changes is None else self.changes + changes

    def _step(self) -> None:
        if self._cut_at is not None and self.changes >= self._cut_at:
            raise PowerCut
        self.changes += 1

    def _keep(self, path: Path | str) -> None:
        """Link a file that is about to go elsewhere, so that no other file gets its inode."""
        if os.path.isfile(path):
            os.link(path, self._kept() / str(self.changes))

    def _kept(self) -> Path:
        kept = self.root.with_name(f"{self.root.name}-kept")
        kept.mkdir(exist_ok=True)
        return kept

    def _folder(self, path: Path | str) -> Folder:
        return self.folders[os.stat(Path(path).parent).st_ino]

    # What the log calls

    def open(self, path: Path | str) -> OpenFile:
        if os.path.exists(path):
            return super().open(path)
        self._step()
        file = super().open(path)
        inode = os.fstat(file.fd).st_ino
        self.contents[inode] = Content()
        self._folder(path).change(added=(Path(path).name, inode))
        return file

    def write(self, path: Path | str, data: bytes | bytearray, *, sync: bool = False) -> None:
        file = self.open(path)
        if self.size(file):
            self.ftruncate(file.fd, 0)
        self.write_all(file, data, 0)
        if sync:
            self.fsync(file.fd)

    def pwrite(self, fd: int, data: Buffer, pos: int) -> int:  # type: ignore[override]  # plain
        self._step()
        self.contents[os.fstat(fd).st_ino].pending.append(Write(pos, bytes(data)))
        return os.pwrite(fd, data, pos)

    def ftruncate(self, fd: int, size: int) -> None:
        self._step()
        self.contents[os.fstat(fd).st_ino].pending.append(Write(size, None))
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # plain there
        self._step()
        status = os.fstat(fd)
        folder = self.folders.get(status.st_ino)
        if folder is not None:
            folder.certain = len(folder.names) - 1
        else:
            self.contents[status.st_ino] = Content(os.pread(fd, status.st_size, 0))

    def make_folder(self, path: Path) -> None:
        if not path.exists():
            self._step()
            super().make_folder(path)
            inode = path.stat().st_ino
            self.folders[inode] = Folder()
            self._folder(path).change(added=(path.name, inode))

    def rename(self, source: Path | str, target: Path | str) -> None:
        self._step()
        self._keep(target)
        super().rename(source, target)
        added = Path(target).name, os.stat(target).st_ino
        self._folder(target).change(added=added, removed=Path(source).name)

    def remove(self, path: Path | str) -> None:
        self._step()
        self._keep(path)
        super().remove(path)
        self._folder(path).change(removed=Path(path).name)

    def remove_tree(self, path: Path) -> None:
        for each in sorted(path.iterdir()):
            self.remove(each)
        self._step()
        os.rename(path, self._kept() / str(self.changes))
        self._folder(path).change(removed=path.name)

    # The cut

    def left(self, target: Path, chance: random.Random | None = None) -> CrashingDisk:
        """Make in `target` what a power cut leaves now; gives the disk to go on with.

        Without `chance` that is the least it may: nothing that was not fsynced.
        """
        target.mkdir()
        disk = CrashingDisk(target)
        self._restore(self.root.stat().st_ino, target, disk, chance)
        return disk

    def _restore(
        self, inode: int, target: Path, disk: CrashingDisk, chance: random.Random | None
    ) -> None:
        restored = disk.folders[target.stat().st_ino] = Folder()
        for name, child in self.folders[inode].left(chance).items():
            path = target / name
            if child in self.folders:
                path.mkdir()
                self._restore(child, path, disk, chance)
            else:
                path.write_bytes(self.contents[child].left(chance))
                disk.contents[path.stat().st_ino] = Content(path.read_bytes())
            restored.change(added=(name, path.stat().st_ino))
        restored.certain = len(restored.names) - 1
