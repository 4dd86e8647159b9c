"""LocalStore: keeps the metadata of a single node in a file (`change_log` has the format).

Commits that arrive during an fsync share the next one.  Registered brokers and the controller are
not in the file: they end with the process.  What remains of them is the number of commits so far
(`offset_of`) and the controller epoch, which do not go back at a restart.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import trio

from kwire.cluster.metadata.changes import (
    Change,
    Conflict,
    RegisterBroker,
    SetController,
    TakeProducerIds,
    UnregisterBroker,
    apply_all,
)
from kwire.cluster.metadata.delta import ClusterDelta, delta_of
from kwire.cluster.metadata.image import (
    FIRST_PRODUCER_ID,
    NO_CONTROLLER,
    BrokerImage,
    ClusterImage,
)
from kwire.cluster.metadata.quorum import MetadataQuorum
from kwire.cluster.stores import change_log, first_format
from kwire.cluster.stores.change_log import ChangeLog, DamagedLog
from kwire.cluster.stores.contract import Preparation, StoreError, Watcher
from kwire.codecs.uuids import random_uuid, uuid_text
from kwire.log.directory.files import Files

FILE_NAME = "kwire-metadata.log"
_LIVE = (RegisterBroker, UnregisterBroker, SetController)
"""Changes that are never written to the file."""


class WriteAhead(Protocol):
    """Another log of the same metadata, which gets each change before the store's file does."""

    def note(self, changes: Sequence[Change], image: ClusterImage) -> None:
        """Write `changes`, which lead to `image`.  Runs in a thread; may raise OSError."""

    def noted(self) -> None:
        """The changes of the last `note` are in the store's file too."""


class _Commit:
    """Changes that wait for the disk; `image` is the image after them and all earlier ones."""

    __slots__ = ("changes", "failure", "image", "is_done")

    def __init__(self, changes: Sequence[Change], image: ClusterImage) -> None:
        self.changes = changes
        self.image = image
        self.is_done = False
        self.failure: OSError | None = None


def known_cluster_id(path: Path) -> str | None:
    """The cluster id in the metadata file `path`; None if no file can be read."""
    with contextlib.suppress(OSError, DamagedLog):
        if path.exists():
            return change_log.cluster_id_in(path)
        image = _converted(path.with_name(first_format.FILE_NAME))
        return None if image is None else image.cluster_id
    return None


class LocalStore:
    """A MetadataStore in the file `path`, which is created if it does not exist.

    A new file gets `cluster_id` (the caller passes that of existing logs), or a new id; a new
    cluster begins with the changes `first`.  A crash leaves all changes of a `commit`, or none.
    The process must own the directory (it has locked its log directories).
    Raises StoreError if the file cannot be read.
    """

    def __init__(
        self,
        path: Path,
        cluster_id: str | None = None,
        files: Files | None = None,
        first: Sequence[Change] = (),
    ) -> None:
        """Opens the file `path`, or creates it with `first` as its first changes.

        `cluster_id` is that of a new cluster; None makes one up.  Raises StoreError.
        """
        self._path = path
        self._writing = trio.Lock()
        self._watchers: list[Watcher] = []
        self._queue: list[_Commit] = []
        self.on_failure: Callable[[OSError], None] | None = None
        """Called on the loop with the error of each failed write."""
        self.prepare: Preparation | None = None
        """Runs on the loop for each durable image before it is published; other tasks run between
        its steps."""
        self._closed = False
        self.ahead: WriteAhead | None = None
        try:
            self._log, self._image = _open(path, cluster_id, files or Files(), first)
        except OSError as error:
            raise StoreError(f"cannot read the metadata in {path}: {error}") from error
        except DamagedLog as error:
            raise StoreError(f"the metadata in {path} cannot be read: {error}") from error
        self._newest = self._image
        """The image after all commits so far, durable or not."""

    async def load(self) -> ClusterImage:
        return self._image

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Applies the changes and returns once they are on disk and published.

        Commits that arrive during a write wait in a queue, and share the next write.  Raises
        Conflict, StoreError.
        """
        if self._closed:
            raise StoreError(f"the metadata file {self._path} is closed: the broker is stopping")
        try:
            image = apply_all(self._newest, changes)
        except Conflict as conflict:
            # The conflicting change may still wait in the queue.  Publish it first: the caller
            # decides again by the published image.
            with trio.CancelScope(shield=True):
                async with self._writing:
                    await self._write_queue()
                self._close_when_idle()
            raise Conflict(str(conflict)) from None
        commit = _Commit(changes, image.with_version(self._newest.version + 1))
        self._queue.append(commit)
        self._newest = commit.image
        # A cancelled caller does not cancel its commit: later commits build on it.
        with trio.CancelScope(shield=True):
            async with self._writing:
                # The caller that held the lock before may have written this commit too.
                if not commit.is_done:
                    await self._write_queue()
            self._close_when_idle()
        if commit.failure is not None:
            raise self._store_error(commit.failure)
        return commit.image

    def offset_of(self, image: ClusterImage) -> int:
        """The number of commits up to this image, of this process and those before it."""
        return image.version + self._log.offset_base

    def continue_after(self, offset: int, controller_epoch: int) -> None:
        """Continue the offsets and controller epochs of another log of the same metadata.

        Call it before a broker registers, while no commit is in progress.
        """
        image = self._image
        self._log.offset_base = max(self._log.offset_base, offset - image.version)
        epoch = max(image.controller_epoch, controller_epoch)
        self._image = self._newest = image.with_controller(NO_CONTROLLER, epoch)

    def copy_to(self, directory: Path) -> None:
        """Write the published image as the file of another store, in `directory`.  OSError."""
        change_log.write_copy(directory / FILE_NAME, self._image)

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """Register the broker and make it the controller, at first in a new controller epoch."""
        now = self._newest
        epoch = now.controller_epoch + (now.controller_id != broker.id)
        controller = SetController(now.controller_id, broker.id, epoch)
        return await self.commit([RegisterBroker(broker), controller])

    async def allocate_producer_ids(self, count: int) -> range:
        """Return the next `count` producer ids, once they are reserved on disk."""
        next_id = self._newest.next_producer_id
        first = max(next_id, FIRST_PRODUCER_ID)
        await self.commit([TakeProducerIds(next_id, first + count)])
        return range(first, first + count)

    async def quorum(self, asked_ms: int) -> MetadataQuorum:
        image = self._image
        return MetadataQuorum(
            image.controller_id, image.controller_epoch, self.offset_of(image), asked_ms
        )

    def close(self) -> None:
        """Refuse further commits; those that wait are still written, perhaps by a thread now."""
        self._closed = True
        self._watchers.clear()
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._closed and not self._queue and not self._writing.locked():
            self._log.close()

    async def _write_queue(self) -> None:
        """Make all waiting commits durable with one write; then publish them one by one."""
        group, self._queue = self._queue, []
        if not group:
            return
        lasting = [
            change for commit in group for change in commit.changes if not isinstance(change, _LIVE)
        ]
        try:
            await trio.to_thread.run_sync(self._write, lasting, group[-1].image)
        except OSError as error:
            self._fail(group, error)
            return
        for commit in group:
            delta = delta_of(self._image, commit.image, commit.changes)
            if self.prepare is not None:
                for blocking in self.prepare(commit.image, delta):
                    if blocking is None:
                        await trio.lowlevel.checkpoint()
                    else:
                        await trio.to_thread.run_sync(blocking)
            self._publish(commit, delta)

    def _write(self, changes: Sequence[Change], image: ClusterImage) -> None:
        """Writes changes to the file; `ahead`, if set, notes them before and after."""
        ahead = self.ahead if changes else None
        if ahead is not None:
            ahead.note(changes, image)
        self._log.write(changes, image)
        if ahead is not None:
            ahead.noted()

    def _publish(self, commit: _Commit, delta: ClusterDelta) -> None:
        """Makes the image of a durable commit the present one, and calls the watchers.

        `delta` is what it changes in the image before it.
        """
        self._image = commit.image
        commit.is_done = True
        for watcher in tuple(self._watchers):
            watcher(commit.image, delta)

    def _fail(self, group: list[_Commit], error: OSError) -> None:
        """Fail the commits of `group`, and those that were queued on top of them meanwhile.

        Commits of registrations and of the controller are still made: they need no file.
        """
        group, self._queue = [*group, *self._queue], []
        self._newest = self._image
        for commit in group:
            if all(isinstance(change, _LIVE) for change in commit.changes):
                image = apply_all(self._newest, commit.changes)
                commit.image = self._newest = image.with_version(self._newest.version + 1)
                self._publish(commit, delta_of(self._image, commit.image, commit.changes))
            else:
                commit.is_done, commit.failure = True, error
        if self.on_failure is not None:
            self.on_failure(error)

    def _store_error(self, cause: OSError) -> StoreError:
        error = StoreError(f"cannot write the metadata to {self._path}: {cause}")
        error.__cause__ = cause
        return error


def _open(
    path: Path, cluster_id: str | None, files: Files, first: Sequence[Change]
) -> tuple[ChangeLog, ClusterImage]:
    """Open the file `path`, or create it.  Raises OSError, DamagedLog."""
    first_format_path = path.with_name(first_format.FILE_NAME)
    if path.exists():
        opened, image = ChangeLog.open_at(path, files)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        image = _converted(first_format_path) or apply_all(
            ClusterImage(cluster_id or uuid_text(random_uuid(os.urandom))), first
        )
        opened = ChangeLog.create(path, image, files)
    if first_format_path.exists():
        first_format_path.replace(
            first_format_path.with_name(first_format_path.name + first_format.CONVERTED)
        )
        files.fsync_dir(path.parent)
    return opened, image


def _converted(first_format_path: Path) -> ClusterImage | None:
    """The image in the file of an earlier kwire, None without such a file.  Raises DamagedLog."""
    try:
        content = first_format_path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return first_format.image_of(content)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise DamagedLog(f"{first_format_path} is damaged: {error!r}") from error
