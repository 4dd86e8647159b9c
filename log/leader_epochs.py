"""The leader epochs of a log, each with its start offset, for OffsetForLeaderEpoch (KIP-101)."""

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
    """The pairs (epoch, start offset), both ascending, in the file `leader-epoch-checkpoint`.

    The file is written when an epoch is added.  Removals are written with the next addition, or
    when the log is closed: loading a log removes an entry too many again.

    `durable` is False before the log's first flush.  Until then the file needs no fsync, as
    recovery rebuilds the epochs from the batches.
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
        """Begin without epochs; `load` reads the checkpoint in `directory`."""
        self._files = files
        self.path = directory / checkpoints.LEADER_EPOCHS
        self.epochs: list[int] = []
        self._offsets: list[int] = []
        self._written: list[tuple[int, int]] | None = None  # the file's entries; None: no file
        self.durable = True
        self.checked = True
        """Whether the epochs were compared with the log's batches (see `epoch_check`)."""
        self.latest_epoch = UNDEFINED_EPOCH
        self.latest_loaded = UNDEFINED_EPOCH
        """The newest epoch in the loaded file: clients may know it, even if it has no records."""

    def load(self) -> None:
        """Read the file.  Without a valid file the cache is empty, and recovery fills it."""
        try:
            entries = checkpoints.decode_epochs(self._files.read(self.path))
        except FileNotFoundError:
            return
        except CorruptFile as error:
            _logger.warning("Cannot read %s: %s. Continuing without it.", self.path, error)
            self.checked = False
            return
        self.checked = False
        for epoch, offset in entries:
            self.add(epoch, offset)
        self.latest_loaded = self.latest_epoch
        self._written = entries

    def move(self, directory: Path) -> None:
        """Use the new path of a renamed folder."""
        self.path = directory / checkpoints.LEADER_EPOCHS

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self.epochs, self._offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`; removes entries that contradict it.

        Raises OSError; nothing has changed then, so the caller may try again.
        """
        before = self.epochs[:], self._offsets[:], self.latest_epoch
        self.add(epoch, start_offset)
        try:
            self.flush()  # this also writes earlier removals
        except OSError:
            self.epochs, self._offsets, self.latest_epoch = before
            raise

    def add(self, epoch: int, start_offset: int) -> None:
        """Like `assign`, without writing the file."""
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
        """Return the largest epoch <= `epoch` and its end offset; (-1, -1) if they are unknown."""
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
        """The epoch in which `offset` was written, None if it is before all known epochs."""
        at = bisect_right(self._offsets, offset)
        return self.epochs[at - 1] if at else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that began at or after `end_offset`."""
        while self._offsets and self._offsets[-1] >= end_offset:
            self.epochs.pop()
            self._offsets.pop()
        self.latest_epoch = self.epochs[-1] if self.epochs else UNDEFINED_EPOCH

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that ended before `start_offset`; the next one then begins there."""
        covered = bisect_right(self._offsets, start_offset)
        if covered:
            del self.epochs[: covered - 1]
            del self._offsets[: covered - 1]
            self._offsets[0] = start_offset

    def clear(self) -> None:
        self.truncate_from_end(0)

    def flush(self) -> None:
        """Write the file if its entries are out of date."""
        entries = self.entries
        if entries != (self._written or []):
            self._files.replace(self.path, checkpoints.encode_epochs(entries), sync=self.durable)
            self._written = entries
