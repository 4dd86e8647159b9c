"""The holder's disk: writes end when told to, fail, or are torn by a kill or a power cut."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.stores.local import LocalStore
from kwire.log.directory.files import Files


class Write:
    """One that waits for the disk: `changes`, after which the image is `image`."""

    def __init__(
        self, work: Callable[[], None], changes: Sequence[Change], image: ClusterImage
    ) -> None:
        self.work = work
        self.changes = changes
        self.image = image
        self.may_go = trio.Event()


class Disk(Files):
    """Of one holder process at a time."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self._path = path
        self._chance = chance
        self._durable_bytes: dict[int, int] = {}
        """By a file's inode, what an fsync has seen of it."""
        self.is_slow = False
        self.is_dead = False
        """The process has been killed: whatever it still does has no effect."""
        self.waiting: list[Write] = []
        self.failures_to_come = 0
        self.failures = 0

    # -- what the holder does

    async def run_sync(self, work: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - as trio's
        """In the place of trio.to_thread.run_sync."""
        await trio.lowlevel.checkpoint()
        if getattr(work, "__func__", None) is LocalStore._write:
            write = Write(lambda: work(*arguments), *arguments)
            self.waiting.append(write)
            if not self.is_slow or self.is_dead:
                write.may_go.set()
            await write.may_go.wait()
            self.waiting.remove(write)
            if self.is_dead:
                raise OSError(errno.EIO, "the process was killed")
        return work(*arguments)

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # that of Files has no self
        if self.failures_to_come:
            self.failures_to_come -= 1
            self.failures += 1
            raise OSError(errno.ENOSPC, "the disk is full")
        state = os.fstat(fd)
        self._durable_bytes[state.st_ino] = state.st_size

    def fsync_dir(self, path: Path | str) -> None:
        pass

    # -- what happens to it

    def go_on(self) -> bool:
        """Have what waits be written; whether anything did."""
        waiting = [each for each in self.waiting if not each.may_go.is_set()]
        for write in waiting:
            write.may_go.set()
        return bool(waiting)

    def kill(self) -> tuple[bytes, list[ClusterImage]]:
        """The process ends in the middle of what it writes.

        Gives the content of its file, and the images that it may hold beside the published one.
        """
        before = after = self._path.read_bytes()
        self.failures_to_come = 0
        images = [each.image for each in self.waiting]
        for write in self.waiting[:1]:
            write.work()
            after = self._path.read_bytes()
        self.is_dead = True
        for write in self.waiting:
            write.may_go.set()
        if not after.startswith(before):  # a new snapshot, which takes the file's place by a rename
            return self._chance.choice([before, after]), images
        torn = self._chance.randint(len(before), len(after))
        return self._chance.choice([before, after, after[:torn]]), images

    def cut_power(self) -> tuple[bytes, list[ClusterImage]]:
        """The same, without what no fsync has seen."""
        durable = self._durable_bytes.get(self._path.stat().st_ino, 0)
        content = self._path.read_bytes()[:durable]
        self.kill()
        return content, []

    def restart(self, content: bytes | None) -> None:
        """Another process finds this; None: no file."""
        if content is not None:
            self._path.write_bytes(content)
            self._durable_bytes[self._path.stat().st_ino] = len(content)
        self.is_dead = self.is_slow = False
        self.failures_to_come = 0
