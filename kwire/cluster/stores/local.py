"""The metadata of a single node, in a file beside its logs (its form: `change_log`).

What is committed while an fsync runs shares the next one.  Brokers and the controller are not in
the file: who is registered is known only while it runs.
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
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.image import FIRST_PRODUCER_ID, BrokerImage, ClusterImage
from kwire.cluster.stores import change_log, first_format
from kwire.cluster.stores.change_log import ChangeLog, DamagedLog
from kwire.cluster.stores.contract import StoreError, Watcher
from kwire.codecs.uuids import random_uuid, uuid_text
from kwire.log.directory.files import Files

FILE_NAME = "kwire-metadata.log"
_LIVE = (RegisterBroker, UnregisterBroker, SetController)
"""Changes that end with this process."""


class WriteAhead(Protocol):
    """Another log of the same metadata, which has each change before this one."""

    def note(self, changes: Sequence[Change], image: ClusterImage) -> None:
        """Write `changes`, which lead to `image`.  Runs in a thread; OSError if it cannot."""

    def noted(self) -> None:
        """What was noted last is written here, too."""


class _Commit:
    """Changes on their way to the disk; `image` is what they make of those before them."""

    __slots__ = ("changes", "failure", "image", "is_done")

    def __init__(self, changes: Sequence[Change], image: ClusterImage) -> None:
        self.changes = changes
        self.image = image
        self.is_done = False
        self.failure: OSError | None = None


def known_cluster_id(path: Path) -> str | None:
    """The cluster id in the metadata in `path`; None if there is none that can be read."""
    with contextlib.suppress(OSError, DamagedLog):
        if path.exists():
            return change_log.cluster_id_in(path)
        image = _converted(path.with_name(first_format.FILE_NAME))
        return None if image is None else image.cluster_id
    return None


class LocalStore:
    """A MetadataStore in the file `path`; created with a new cluster id if there is none.

    `cluster_id` is the id to create it with: that of the logs found beside it, if any; `first` are
    the changes that a new cluster begins with.
    The changes of one `commit` are made all or none, also by a crash.
    The process that opens it must own the directory (its log directories are locked).
    Raises StoreError if the file cannot be read.
    """

    def __init__(
        self,
        path: Path,
        cluster_id: str | None = None,
        files: Files | None = None,
        first: Sequence[Change] = (),
    ) -> None:
        self._path = path
        self._writing = trio.Lock()
        self._watchers: list[Watcher] = []
        self._queue: list[_Commit] = []
        self.on_failure: Callable[[OSError], None] | None = None
        """Hears of each write that failed; called on the loop."""
        self._closed = False
        self.ahead: WriteAhead | None = None
        try:
            self._log, self._image = _open(path, cluster_id, files or Files(), first)
        except OSError as problem:
            raise StoreError(f"cannot read the metadata in {path}: {problem}") from problem
        except DamagedLog as problem:
            raise StoreError(f"the metadata in {path} cannot be read: {problem}") from problem
        self._tip = self._image
        """The image that everything committed so far makes, durable or not yet."""

    async def load(self) -> ClusterImage:
        return self._image

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        if self._closed:
            raise StoreError(f"the metadata in {self._path} is closed: the broker stops")
        try:
            image = apply_all(self._tip, changes)
        except Conflict as conflict:
            # What is in the way may not be published yet.  Whoever takes the queue has to write it.
            with trio.CancelScope(shield=True):
                async with self._writing:
                    await self._write_queue()
                self._close_when_idle()
            raise Conflict(str(conflict)) from None
        commit = _Commit(changes, image.with_version(self._tip.version + 1))
        self._queue.append(commit)
        self._tip = commit.image
        # Not given up half way: what is committed after it stands on it.
        with trio.CancelScope(shield=True):
            async with self._writing:
                if not commit.is_done:
                    await self._write_queue()
            self._close_when_idle()
        if commit.failure is not None:
            raise self._store_error(commit.failure)
        return commit.image

    def copy_to(self, directory: Path) -> None:
        """Write what is published by now for another store, in that folder.  OSError."""
        change_log.write_copy(directory / FILE_NAME, self._image)

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def register(self, broker: BrokerImage) -> ClusterImage:
        """A single node is its own controller."""
        controller = SetController(self._tip.controller_id, broker.id, self._tip.controller_epoch)
        return await self.commit([RegisterBroker(broker), controller])

    async def allocate_producer_ids(self, count: int) -> range:
        known = self._tip.next_producer_id
        first = max(known, FIRST_PRODUCER_ID)
        await self.commit([TakeProducerIds(known, first + count)])
        return range(first, first + count)

    def close(self) -> None:
        """What was committed before is written yet; a thread may be at it now."""
        self._closed = True
        self._watchers.clear()
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._closed and not self._queue and not self._writing.locked():
            self._log.close()

    async def _write_queue(self) -> None:
        """Make durable what waits, with one write; then tell it, commit by commit."""
        group, self._queue = self._queue, []
        if not group:
            return
        lasting = [
            change for commit in group for change in commit.changes if not isinstance(change, _LIVE)
        ]
        try:
            if lasting:
                await trio.to_thread.run_sync(self._write, lasting, group[-1].image)
        except OSError as problem:
            self._fail(group, problem)
            return
        for commit in group:
            self._publish(commit)

    def _write(self, changes: Sequence[Change], image: ClusterImage) -> None:
        if self.ahead is not None:
            self.ahead.note(changes, image)
        self._log.write(changes, image)
        if self.ahead is not None:
            self.ahead.noted()

    def _publish(self, commit: _Commit) -> None:
        before, self._image = self._image, commit.image
        commit.is_done = True
        delta = delta_of(before, commit.image, commit.changes)
        for watcher in tuple(self._watchers):
            watcher(commit.image, delta)

    def _fail(self, group: list[_Commit], problem: OSError) -> None:
        """Nothing of `group` has happened, nor of what was committed on top of it meanwhile.

        But brokers and the controller come and go all the same: no file has them.
        """
        group, self._queue = [*group, *self._queue], []
        self._tip = self._image
        for commit in group:
            if all(isinstance(change, _LIVE) for change in commit.changes):
                image = apply_all(self._tip, commit.changes)
                commit.image = self._tip = image.with_version(self._tip.version + 1)
                self._publish(commit)
            else:
                commit.is_done, commit.failure = True, problem
        if self.on_failure is not None:
            self.on_failure(problem)

    def _store_error(self, problem: OSError) -> StoreError:
        error = StoreError(f"cannot write the metadata to {self._path}: {problem}")
        error.__cause__ = problem
        return error


def _open(
    path: Path, cluster_id: str | None, files: Files, first: Sequence[Change]
) -> tuple[ChangeLog, ClusterImage]:
    """The file of `path`, made where there is none.  Raises OSError, DamagedLog."""
    older = path.with_name(first_format.FILE_NAME)
    if path.exists():
        opened, image = ChangeLog.open_at(path, files)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        image = _converted(older) or apply_all(
            ClusterImage(cluster_id or uuid_text(random_uuid(os.urandom))), first
        )
        opened = ChangeLog.create(path, image, files)
    if older.exists():
        older.replace(older.with_name(older.name + first_format.CONVERTED))
        files.fsync_dir(path.parent)
    return opened, image


def _converted(older: Path) -> ClusterImage | None:
    """What the file of an earlier version says, None if there is none.  Raises DamagedLog."""
    try:
        content = older.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return first_format.image_of(content)
    except (ValueError, TypeError, LookupError, AttributeError) as problem:
        raise DamagedLog(f"{older} is damaged: {problem!r}") from problem
