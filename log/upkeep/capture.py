"""What a snapshot holds of the logs: folders that look as after a clean stop at this moment.

Of each partition in its folder:

    .log of a segment that is not appended to   the same file, under another name (a hard link)
    .log of the active one                      a copy; where it is larger than COPIED_BYTES_MAX a
                                                segment begins first, and it is one of those above
    indexes, producer snapshots, epochs         copies: some of them are written to in place

All is done at once, on the loop, so that no record comes in between: a transaction, or the offsets
of a group and the records they stand for, are in it whole or not at all.  Nothing is fsynced, and
what is under way (moves to other directories, removals, compaction) is left out.

A file with two names must not be cut or appended to by either side: `Segment.own` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.log.directory import checkpoints, log_dir, meta_properties, partition_metadata
from kwire.log.directory import files as names
from kwire.log.producers import snapshot as producer_snapshot
from kwire.log.recovery.loader import ZERO_UUID

if TYPE_CHECKING:
    from kwire.log.directory.checkpoints import TopicPartition
    from kwire.log.directory.files import Files
    from kwire.log.directory.log_dir import LogDir
    from kwire.log.directory.manager import LogManager
    from kwire.log.log import Log
    from kwire.log.segment import Segment

COPIED_BYTES_MAX: Final = 65_536
"""Of an active segment.  To copy so much takes 30 us, to begin another segment several times that:
beyond, what is shared is worth it."""


def capture(
    logs: LogManager,
    targets: Mapping[Path, Path],
    high_watermark_of: Callable[[Log], int],
    now_ms: int,
) -> None:
    """Write what each log directory holds into an empty folder, `targets` by the directory's path.

    Raises OSError; LogError where a disk refuses a new segment.
    """
    for directory in logs.online_dirs:
        target = targets[directory.path]
        found = logs.dirs.logs_in(directory)
        for log in found:
            log.check_online()
            folder = target / log_dir.partition_folder(log.topic, log.partition)
            logs.files.make_folder(folder)
            _capture_log(log, folder, now_ms)
        _describe(directory, target, found, high_watermark_of)


def _capture_log(log: Log, folder: Path, now_ms: int) -> None:
    files, segments = log.storage.files, log.segments
    if segments.active.size_bytes > COPIED_BYTES_MAX:
        log.roll(now_ms)
    for segment in segments:
        target = folder / segment.path.name
        if segment is segments.active:
            _copy_active(segment, files, target)
        else:
            files.share(segment.path, target)
        for path in segment.index_paths():
            files.write(folder / path.name, files.read(path))
    for offset in log.snapshots.offsets:
        path = log.snapshots.path(offset)
        files.write(folder / path.name, files.read(path))
    name = names.segment_file_name(log.log_end_offset, names.PRODUCER_SNAPSHOT)
    files.write(folder / name, producer_snapshot.encode(log.producers.entries.values()))
    files.write(folder / checkpoints.LEADER_EPOCHS, checkpoints.encode_epochs(log.epochs.entries))
    if log.topic_id != ZERO_UUID:
        files.write(folder / partition_metadata.FILE_NAME, partition_metadata.content(log.topic_id))


def _copy_active(segment: Segment, files: Files, target: Path) -> None:
    """Without the zeros that follow where it was preallocated."""
    segment.complete_indexes()
    data = files.pread(segment.open().fd, segment.size_bytes, 0)
    if len(data) != segment.size_bytes:
        raise OSError(f"{segment.path} holds {len(data)} bytes, not {segment.size_bytes}")
    files.write(target, data)


def _describe(
    directory: LogDir, target: Path, logs: list[Log], high_watermark_of: Callable[[Log], int]
) -> None:
    """What a clean stop leaves of a log directory beside the folders."""
    files = directory.files
    files.copy(directory.path / meta_properties.FILE_NAME, target / meta_properties.FILE_NAME)
    lines: dict[str, dict[TopicPartition, int]] = {name: {} for name in checkpoints.OF_PARTITIONS}
    for log in logs:
        key = log.topic, log.partition
        lines[checkpoints.RECOVERY_POINTS][key] = log.log_end_offset
        lines[checkpoints.HIGH_WATERMARKS][key] = high_watermark_of(log)
        if log.log_start_offset > log.segments.first.base_offset:
            lines[checkpoints.LOG_START_OFFSETS][key] = log.log_start_offset
        if log.first_dirty_offset is not None:
            lines[checkpoints.CLEANER_OFFSETS][key] = log.first_dirty_offset
    for name, offsets in lines.items():
        files.write(target / name, checkpoints.encode_offsets(offsets))
    files.write(target / log_dir.CLEAN_SHUTDOWN, log_dir.clean_shutdown())
