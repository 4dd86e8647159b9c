"""Writes the folders with which controllers and brokers of an adopted cluster begin.

    D/__cluster_metadata-0/00000000000000000047-0000000001.checkpoint
    D/meta.properties

Each controller and each broker begins with the same snapshot, and without a log after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kwire.cluster.stores.kraft.metadata_log import CHECKPOINT_NAME, FOLDER, checkpoint_name
from kwire.cluster.stores.kraft.quorum_state import FILE_NAME as QUORUM_STATE
from kwire.cluster.stores.kraft.records import decode_batches
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.log.directory import meta_properties

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.cluster.stores.kraft.observing import SnapshotId
    from kwire.log.directory.files import Files
    from kwire.log.directory.meta_properties import MetaProperties

_SEGMENT: Final = re.compile(r"\d{20}\.log")
_UNOPENED: Final = (".checkpoint", ".tmp")
"""The suffixes of files in a metadata log that nobody has opened yet."""


def has_begun(directory: Path) -> bool:
    """Whether a controller or broker has opened the metadata log of a log directory.

    After an interrupted adoption it has only a snapshot.
    """
    folder = directory / FOLDER
    return folder.is_dir() and any(path.suffix not in _UNOPENED for path in folder.iterdir())


def write_controller(
    files: Files,
    directory: Path,
    identity: MetaProperties,
    snapshot: SnapshotId,
    batches: Iterable[bytes],
) -> None:
    """Make the log directory of a controller, which may be there from an interrupted adoption.

    `meta.properties` comes last: Apache Kafka does not start without it.  Raises OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_snapshot(files, directory, snapshot, batches)
    meta_properties.write(files, directory, identity)


def write_snapshot(
    files: Files, directory: Path, snapshot: SnapshotId, batches: Iterable[bytes]
) -> None:
    """Add a snapshot to the metadata log of a log directory.

    What the log has before the snapshot's end is not read again, as after a download.  The voter
    that the node may have been is forgotten.  Raises OSError.
    """
    folder = directory / FOLDER
    files.make_folder(folder)
    if not has_begun(directory):
        for path in sorted(folder.iterdir()):
            files.remove(path)
    files.remove(folder / QUORUM_STATE)
    files.replace(folder / checkpoint_name(snapshot), b"".join(batches))
    files.fsync_dir(directory)


def replayed(directory: Path, cluster_id: str) -> MetadataReplay:
    """Return the metadata in the log of a stopped controller that is the only voter.

    Nothing is written.  Raises OSError, BadMetadata.
    """
    replay = MetadataReplay(cluster_id)
    checkpoints = sorted(_named(directory, CHECKPOINT_NAME), key=lambda match: match.string)
    if checkpoints:
        end_offset, epoch = map(int, checkpoints[-1].groups())
        content = (directory / FOLDER / checkpoints[-1].string).read_bytes()
        replay.load(end_offset, epoch, decode_batches(content))
    for match in sorted(_named(directory, _SEGMENT), key=lambda match: match.string):
        for batch in decode_batches((directory / FOLDER / match.string).read_bytes()):
            if batch.base_offset >= replay.end_offset:
                replay.add(batch)
    return replay


def _named(directory: Path, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    names = (path.name for path in (directory / FOLDER).iterdir())
    return filter(None, map(pattern.fullmatch, names))
