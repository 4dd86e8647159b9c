"""Which leader epoch began at which offset: what OffsetForLeaderEpoch asks (KIP-101)."""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import TYPE_CHECKING

from kwire.log.directory import checkpoints
from kwire.log.error import CorruptFile

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.directory.files import Files

_logger = logging.getLogger(__name__)

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochCache:
    """(epoch, start offset) in ascending order of both, kept in `leader-epoch-checkpoint`.

    The file is written when an epoch is added.  Removals are written with the next addition or
    when the log is closed: an entry too many is cut off again when the log is loaded.

    `durable` is False as long as nothing of the log is: recovery makes the epochs anew from the
    batches then, so the file needs no fsync before the log's first flush.
    """

    __slots__ = (
        "_files",
        "_offsets",
        "_written",
        "checked",
        "durable",
        "epochs",
        "latest_epoch",
        "latest_loaded",
        "path",
    )

    def __init__(self, directory: Path, files: Files) -> None:
        self._files = files
        self.path = directory / checkpoints.LEADER_EPOCHS
        self.epochs: list[int] = []
        self._offsets: list[int] = []
        self._written: list[tuple[int, int]] | None = None  # what the file holds, None: nothing
        self.durable = True
        self.checked = True
        """Whether they are known to fit the log (see `epoch_check`)."""
        self.latest_epoch = UNDEFINED_EPOCH
        self.latest_loaded = UNDEFINED_EPOCH
        """The newest epoch in the file as it was found: clients have heard of it, records or no."""

    def load(self) -> None:
        """Read the file; a missing or broken one leaves the cache empty (recovery refills it)."""
        try:
            entries = checkpoints.decode_epochs(self._files.read(self.path))
        except FileNotFoundError:
            return
        except CorruptFile as error:
            _logger.warning("%s is not readable (%s); going on without it", self.path, error)
            self.checked = False
            return
        self.checked = False
        for epoch, offset in entries:
            self.add(epoch, offset)
        self.latest_loaded = self.latest_epoch
        self._written = entries

    def move(self, directory: Path) -> None:
        """The partition's folder has been renamed."""
        self.path = directory / checkpoints.LEADER_EPOCHS

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self.epochs, self._offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """`epoch` begins at `start_offset`, which removes entries that contradict that.

        OSError where the disk refuses: nothing has changed then, so that it is tried again.
        """
        before = self.epochs[:], self._offsets[:], self.latest_epoch
        self.add(epoch, start_offset)
        try:
            self.flush()  # also removals
        except OSError:
            self.epochs, self._offsets, self.latest_epoch = before
            raise

    def add(self, epoch: int, start_offset: int) -> None:
        """As `assign`, but not written yet."""
        epochs, offsets = self.epochs, self._offsets
        if epochs and epoch == epochs[-1] and start_offset >= offsets[-1]:
            return
        while epochs and (epochs[-1] >= epoch or offsets[-1] >= start_offset):
            epochs.pop()
            offsets.pop()
        epochs.append(epoch)
        offsets.append(start_offset)
        self.latest_epoch = epoch

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch <= `epoch`, offset where it ended); (-1, -1) when that is not known."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self.epochs, epoch)
        if higher == len(self.epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if higher == 0:
            return epoch, self._offsets[0]
        return self.epochs[higher - 1], self._offsets[higher]

    def epoch_for(self, offset: int) -> int | None:
        """The epoch in which `offset` was written, None if it is before all that is known."""
        at = bisect_right(self._offsets, offset)
        return self.epochs[at - 1] if at else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that began at or after `end_offset`."""
        while self._offsets and self._offsets[-1] >= end_offset:
            self.epochs.pop()
            self._offsets.pop()
        self.latest_epoch = self.epochs[-1] if self.epochs else UNDEFINED_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that ended before `start_offset`; the one it is in begins there."""
        covered = bisect_right(self._offsets, start_offset)
        if covered:
            del self.epochs[: covered - 1]
            del self._offsets[: covered - 1]
            self._offsets[0] = start_offset

    def clear(self) -> None:
        self.truncate_from_end(0)

    def flush(self) -> None:
        """Write the file if it lacks something."""
        entries = self.entries
        if entries != (self._written or []):
            self._files.replace(self.path, checkpoints.encode_epochs(entries), sync=self.durable)
            self._written = entries
