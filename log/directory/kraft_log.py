"""Appends records to `__cluster_metadata-0`, the KRaft metadata log of a stopped node.

If this node is the only voter, appended records count as committed: at its next start Apache Kafka
elects this node in a new epoch, and there is no other log.  With other voters, appends are not
allowed: the other logs have the same offsets, so the appended records would be truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kwire.codecs.batches import Record, build
from kwire.log.origin import Origin
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery import loader
from kwire.log.recovery.loader import SharedLogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.config import LogConfig
    from kwire.log.directory.files import Files

BATCH_BYTES_MAX = 8 * 1024 * 1024
"""The maximum size of a batch: KafkaRaftClient.MAX_BATCH_SIZE_BYTES.  A batch is atomic."""
_RECORD_OVERHEAD_BYTES = 32
_TOPIC = "__cluster_metadata"
_OPEN_FILES_MAX = 8


class KraftLog:
    """The log in `folder`, open for appends.  A torn end is cut first.

    Raises OSError and LogError.
    """

    def __init__(self, folder: Path, files: Files, config: LogConfig, now_ms: int) -> None:
        settings = SharedLogSettings(files, OpenFiles(_OPEN_FILES_MAX))
        config = replace(config, max_message_bytes=BATCH_BYTES_MAX)
        self._log = loader.load(folder, _TOPIC, 0, config, settings, now_ms=now_ms)

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._log.log_end_offset

    @property
    def leader_epoch(self) -> int:
        """The epoch of the last leader, 0 in an empty log."""
        return max(self._log.epochs.latest_epoch, 0)

    def append(self, values: Sequence[bytes], now_ms: int) -> None:
        """Append and flush records in the last leader's epoch.  Raises OSError, LogError."""
        batch: list[Record] = []
        size_bytes = 0
        for value in values:
            size_bytes += len(value) + _RECORD_OVERHEAD_BYTES
            if batch and size_bytes > BATCH_BYTES_MAX // 2:
                self._append(batch, now_ms)
                batch, size_bytes = [], len(value)
            batch.append(Record(0, now_ms, None, value, []))
        if batch:
            self._append(batch, now_ms)
            self._log.flush()

    def _append(self, batch: list[Record], now_ms: int) -> None:
        """Append the records as one batch in the newest leader epoch, 0 in an empty log."""
        self._log.append(
            build(batch),
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=Origin.COORDINATOR,
        )

    def close(self) -> None:
        """Close the log as in a clean stop."""
        self._log.close()
