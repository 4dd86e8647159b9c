"""Captures the logs for a snapshot: folders that look as after a clean stop at this moment.

The folder of each partition gets:

    .log of a segment without appends     a hard link to the same file
    .log of the active segment            a copy.  If it is larger than COPIED_BYTES_MAX, the log
                                          rolls first, and the segment is one of those above
    indexes, producer snapshots, epochs   copies, as some of them are changed in place

The capture runs on the loop without a pause, so no append comes in between.  A transaction is in it
whole or not at all, and so are committed offsets and their records.  Nothing is flushed.  Work
under way (moves to other directories, removals, compaction) is left out.

A file with two names must not be truncated or appended to: see `Segment.own`.
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
"""The largest active segment that is copied.  The copy takes 30 us; to roll takes several times
that, which pays for larger segments only."""


def capture(
    logs: LogManager,
    targets: Mapping[Path, Path],
    high_watermark_of: Callable[[Log], int],
    now_ms: int,
) -> None:
    """Capture each log directory in an empty folder: `targets`, by the path of the directory.

    Raises OSError; LogError if a disk refuses a new segment.
    """
    for directory in logs.online_dirs:
        target = targets[directory.path]
        captured = logs.dirs.logs_in(directory)
        for log in captured:
            log.check_online()
            folder = target / log_dir.partition_folder(log.topic, log.partition)
            logs.files.make_folder(folder)
            _capture_log(log, folder, now_ms)
        _describe(directory, target, captured, high_watermark_of)


def _capture_log(log: Log, folder: Path, now_ms: int) -> None:
    """Write a copy of the log into `folder`, as after a clean stop at this moment.

    Closed segments are shared by hard links, because they do not change any more; the active one is
    copied. If that is more than `COPIED_BYTES_MAX`, the log is rolled first.
    """
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
    """Copy the active segment, without the zeros behind it in a preallocated file."""
    segment.complete_indexes()
    data = files.pread(segment.open().fd, segment.size_bytes, 0)
    if len(data) != segment.size_bytes:
        raise OSError(f"{segment.path} holds {len(data)} bytes, not {segment.size_bytes}")
    files.write(target, data)


def _describe(
    directory: LogDir, target: Path, logs: list[Log], high_watermark_of: Callable[[Log], int]
) -> None:
    """Write the files that a clean stop leaves in a log directory beside the folders."""
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
