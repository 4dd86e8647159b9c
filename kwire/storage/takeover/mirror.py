"""Writes kwire's changes to the KRaft metadata log of a directory, for Apache Kafka.

Each change is in that log before it is in kwire's own metadata, and before it is acknowledged.  So
after a kill, the KRaft metadata may be ahead of kwire's, but never behind.  The next start applies
the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kwire.log import LogError
from kwire.log.directory import kraft_metadata, kraft_records
from kwire.log.directory.kraft_log import KraftLog
from kwire.log.directory.kraft_metadata import KraftMetadata
from kwire.settings import BrokerConfig, topic_log_config
from kwire.storage.takeover import kraft_changes

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.cluster.metadata.changes import Change
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.stores.local import LocalStore
    from kwire.log.directory.files import Files
    from kwire.storage.takeover.kraft_changes import Replica


class KraftMirror:
    """Writes to the log in `folder`.  Raises OSError if it cannot be opened."""

    def __init__(
        self, folder: Path, files: Files, replica: Replica, now_ms: Callable[[], int]
    ) -> None:
        """Open the KRaft metadata log in `folder` for appends. Raises OSError."""
        self._folder = folder
        self._files = files
        self._replica = replica
        self._now_ms = now_ms
        self._kraft: KraftMetadata | None = None
        """The content of the log while it is known to agree with kwire's metadata, or else None."""
        self._written = KraftMetadata()
        try:
            # Kafka's defaults: this broker's defaults for topics do not apply to the metadata log.
            config = topic_log_config(BrokerConfig(), {})
            self._log = KraftLog(folder, files, config, now_ms())
        except LogError as error:
            raise _os_error(error, str(folder)) from error

    def continue_in(self, store: LocalStore) -> None:
        """Let the store continue the offsets and epochs of the KRaft log, so that DescribeQuorum
        does not go back after a takeover."""
        store.continue_after(self._log.end_offset, self._log.leader_epoch)

    def note(self, changes: Sequence[Change], image: ClusterImage) -> None:
        """Write `changes`, which lead to `image`, to the KRaft log.  It may block.

        After a failed write (of kwire's or of the KRaft log) the state of the log is not known.
        Then it is read again, and all its differences from `image` are written.
        """
        kraft, self._kraft = self._kraft, None
        if kraft is None:
            kraft = kraft_metadata.read(self._folder, self._files)
            changes = list(kraft_changes.lacking(kraft, image, self._replica))
        values = []
        for change in changes:
            for record, version in list(kraft_changes.records_of(change, self._replica, kraft)):
                values.append(kraft_records.encode(record, version))
                kraft.apply(record)
        self._append(values)
        self._written = kraft

    def noted(self) -> None:
        """Note that the changes of the last `note` are committed in kwire's metadata, too."""
        self._kraft = self._written

    def raise_producer_ids(self, used: int) -> None:
        """Make sure that Apache Kafka does not give out producer ids up to `used` again."""
        if used >= self._written.next_producer_id:
            record, version = kraft_changes.producer_ids(self._replica, used + 1)
            self._append([kraft_records.encode(record, version)])

    def _append(self, values: Sequence[bytes]) -> None:
        """Append the records to the KRaft metadata log. Raises OSError."""
        try:
            self._log.append(values, self._now_ms())
        except LogError as error:
            raise _os_error(error, "the KRaft metadata log takes no records") from error

    def close(self) -> None:
        """Close the KRaft log."""
        self._log.close()


def _os_error(error: LogError, what: str) -> OSError:
    """The OSError behind a LogError.  Its errno distinguishes a shortage from a disk failure."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno is not None:
        return OSError(cause.errno, f"{what}: {cause.strerror}")
    return OSError(f"{what}: {error.detail}")
