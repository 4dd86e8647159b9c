"""ChangeLog: the file of a single node's metadata, a snapshot followed by a log of changes.

The file has UTF-8 lines.  Each line is a CRC-32C in 8 hexadecimal digits, a space, and JSON
(kwire.cluster.metadata.change_records):

    {"format": 2, "cluster_id": "...", "version": n, "next_producer_id": n, "snapshot_records": k}
    {"changes": [{...}, ...]}                   k lines: the changes that build the snapshot's image
    {"version": n, "changes": [{...}, ...]}     changes committed since, one line for each fsync

The first line, and those that begin with a version, may also have "offset" and "controller_epoch".
The offset counts all commits, also those whose changes end with the process; it is left out if it
is the version, which counts them only until the last change that is in the file.  So neither the
offset nor the controller epoch goes back at a restart.  A line without changes has only these two;
it is written without fsync, so a power cut may lose it.

A rename puts a new snapshot in place, so it is always complete.  A kill or a power cut can leave a
torn last line in the log.  Its changes were never acknowledged: opening the file cuts the line off.
A damaged line anywhere else is an error, because the lines after it were acknowledged.

When the log is larger than the snapshot, the next commit writes a new snapshot instead of a line.
So does the commit after a failed write, because the end of the file is unknown then.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kwire.cluster.metadata.change_records import UnknownChange, decode, encode
from kwire.cluster.metadata.changes import (
    Change,
    ChangeAcls,
    Conflict,
    CreateTopic,
    KeepRegistration,
    MarkForDeletion,
    SetConfigs,
    SetFeatures,
    SetToken,
    apply_all,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    NO_CONTROLLER,
    NOTHING_SET,
    TOPIC_RESOURCE,
    ClusterImage,
)
from kwire.codecs.crc32c import crc32c
from kwire.log.directory.files import Files

log = logging.getLogger("kwire.metadata")

FORMAT = 2
LOG_BYTES_MIN = 1 << 20
"""A shorter log causes no new snapshot: reading it takes about 10 ms."""
_LOG_LINE = re.compile(rb'[0-9a-f]{8} \{"version":')
"""The beginning of a log line.  It cannot occur inside a line, where quotes are escaped."""
_TOPICS_A_LINE = 100
"""Changes per line of a snapshot: the writing thread releases Python's lock between lines."""


class DamagedLog(Exception):
    """The file cannot be read; the message says where and why."""


def write_copy(path: Path, image: ClusterImage) -> None:
    """Write a new file with a snapshot of `image`, without fsync.  Raises OSError."""
    with path.open("wb") as file:
        file.writelines(_snapshot(image, image.version, image.version))


class ChangeLog:
    """The file `path`, open for appending; made by `create` or `open_at`.

    All methods may block, may raise OSError, and must be called by one thread at a time.
    """

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self._path = path
        self._files = files or Files()
        self._file = -1
        self._size_bytes = self._snapshot_bytes = 0
        self._version = 0
        """The version of the last change that is in the file."""
        self._controller_epoch = 0
        self.offset_base = 0
        """What to add to the version of an image for its offset, as long as the file is open."""

    @classmethod
    def create(cls, path: Path, image: ClusterImage, files: Files | None = None) -> ChangeLog:
        """Create the file with a snapshot of `image`; replaces an existing file."""
        change_log = cls(path, files)
        change_log._version = image.version
        change_log._write_snapshot(image)
        return change_log

    @classmethod
    def open_at(cls, path: Path, files: Files | None = None) -> tuple[ChangeLog, ClusterImage]:
        """Opens an existing file, cuts off a torn last line, and returns the file with its image.

        Raises DamagedLog.
        """
        change_log = cls(path, files)
        content = path.read_bytes()
        image, offset, change_log._snapshot_bytes, change_log._size_bytes = _read(content)
        change_log._version, change_log._controller_epoch = image.version, image.controller_epoch
        change_log.offset_base = offset - image.version
        change_log._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        torn_bytes = len(content) - change_log._size_bytes
        if torn_bytes:
            log.warning("%s: the last write is incomplete. Cut off %d bytes.", path, torn_bytes)
            os.ftruncate(change_log._file, change_log._size_bytes)
            change_log._files.fsync(change_log._file)
        return change_log, image

    def write(self, changes: Sequence[Change], image: ClusterImage) -> None:
        """Write `changes`, which lead to `image`, and fsync.

        Without changes, this writes the offset and the controller epoch, and does not wait for the
        disk.  After an OSError the changes are not committed, whatever is in the file.
        """
        if changes:
            self._version = image.version
        outgrown = self._size_bytes - self._snapshot_bytes > max(
            LOG_BYTES_MIN, self._snapshot_bytes
        )
        if self._file < 0 or outgrown:
            self._write_snapshot(image)
        else:
            head: dict[str, Any] = {"version": self._version}
            if (offset := image.version + self.offset_base) != self._version:
                head["offset"] = offset
            if image.controller_epoch != self._controller_epoch:
                head["controller_epoch"] = image.controller_epoch
            line = _line({**head, "changes": [*map(encode, changes)]})
            if changes:
                self._append(line)
            else:  # Only DescribeQuorum shows these numbers, so that no start waits for the disk.
                self._add(line, is_synced=False)
            self._controller_epoch = image.controller_epoch

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, line: bytes) -> None:
        """Append a line and sync the file to disk.  Raises OSError as `_add` does."""
        self._add(line, is_synced=True)

    def _add(self, line: bytes, *, is_synced: bool) -> None:
        """Append a line.  Unless `is_synced`, a power cut may lose it.

        Raises OSError; the file is then closed, and ends before the line if the disk permits.
        """
        try:
            _write_all(self._file, line)
            if is_synced:
                self._files.fsync(self._file)
        except OSError:
            # Without the cut, a restart could take the unacknowledged line for committed.  Its
            # failure is no error: the next write replaces the file.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size_bytes)
            self.close()
            raise
        self._size_bytes += len(line)

    def _write_snapshot(self, image: ClusterImage) -> None:
        """Replace the file by a snapshot; a crash leaves either the old file or the new one."""
        temporary = self._path.with_name(self._path.name + ".tmp")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        try:
            offset = image.version + self.offset_base
            lines = _snapshot(image, self._version, offset)
            size_bytes = sum(_write_all(file, line) for line in lines)
            self._files.fsync(file)
            temporary.replace(self._path)
            self._files.fsync_dir(self._path.parent)
        except BaseException:
            os.close(file)
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        self.close()
        self._file = file
        self._size_bytes = self._snapshot_bytes = size_bytes
        self._controller_epoch = image.controller_epoch


def _write_all(file: int, content: bytes) -> int:
    """Writes all of `content`; returns its size in bytes.  Raises OSError."""
    left = memoryview(content)
    # os.write may write only a part.
    while left:
        left = left[os.write(file, left) :]
    return len(content)


def _line(fields: dict[str, Any]) -> bytes:
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c(body), body)


def _snapshot(image: ClusterImage, version: int, offset: int) -> Iterator[bytes]:
    """Yield the lines of a snapshot: a head, then the changes that create the image.

    `version` is that of the last change in the file.  The head says how many lines follow, so that
    a reader notices a snapshot that is cut off.
    """
    changes = _changes_to(image)
    groups = range(0, len(changes), _TOPICS_A_LINE)
    head: dict[str, Any] = {
        "format": FORMAT,
        "cluster_id": image.cluster_id,
        "version": version,
        "next_producer_id": image.next_producer_id,
        "snapshot_records": len(groups),
    }
    if offset != version:
        head["offset"] = offset
    if image.controller_epoch:
        head["controller_epoch"] = image.controller_epoch
    yield _line(head)
    for number in groups:
        yield _line({"changes": [*map(encode, changes[number : number + _TOPICS_A_LINE])]})


def _changes_to(image: ClusterImage) -> list[Change]:
    """Return the changes that build the durable part of `image` from an empty image.

    Configs of topics that do not exist are left out.
    """
    topics = [
        CreateTopic(image.topics[name], image.configs_of(TOPIC_RESOURCE, name))
        for name in sorted(image.topics)
    ]
    others = [
        SetConfigs(kind, name, NOTHING_SET, configs)
        for (kind, name), configs in sorted(image.configs.items(), key=lambda entry: entry[0])
        if kind != TOPIC_RESOURCE
    ]
    deleting = [MarkForDeletion(name, image.topics[name].id) for name in sorted(image.deleting)]
    acls = [ChangeAcls(pattern, (*sorted(image.acls[pattern]),)) for pattern in sorted(image.acls)]
    registered = [KeepRegistration(image.registered[each]) for each in sorted(image.registered)]
    tokens = [SetToken(token_id, None, image.tokens[token_id]) for token_id in sorted(image.tokens)]
    unset = FinalizedFeatures()
    features = [SetFeatures(unset.epoch, image.features)] if image.features != unset else []
    return [*topics, *others, *acls, *tokens, *deleting, *registered, *features]


# -- reading


def cluster_id_in(path: Path) -> str:
    """Return the cluster id in the first line of the file.  Raises OSError, DamagedLog."""
    with path.open("rb") as file:
        header = _checked(file.readline())
    if header is None or not isinstance(header.get("cluster_id"), str):
        raise DamagedLog("its first line is damaged")
    return str(header["cluster_id"])


def _read(content: bytes) -> tuple[ClusterImage, int, int, int]:
    """Return the image, its offset, the size in bytes of the snapshot, and that of intact lines.

    Raises DamagedLog.
    """
    lines = content.splitlines(keepends=True)
    header = _checked(lines[0]) if lines else None
    if header is None:
        raise DamagedLog("its first line is damaged")
    if header.get("format") != FORMAT:
        raise DamagedLog(
            f"it has format {header.get('format')}, written by another version of kwire; "
            f"this one reads format {FORMAT}"
        )
    good_bytes = snapshot_bytes = len(lines[0])
    try:
        image = ClusterImage(header["cluster_id"], next_producer_id=header["next_producer_id"])
        counts, snapshot_records = _counts(header, (0, 0, 0)), header["snapshot_records"]
        if len(lines) <= snapshot_records:
            raise DamagedLog(f"it ends before its snapshot does, after {len(lines)} lines")
        for number, line in enumerate(lines[1:], 1):
            fields = _checked(line)
            if fields is None:
                if (
                    number == len(lines) - 1
                    and number > snapshot_records
                    and not _holds_a_line(line)
                ):
                    break
                raise DamagedLog(f"line {number + 1}, at byte {good_bytes}, fails its checksum")
            image = apply_all(image, map(decode, fields["changes"]))
            counts = _counts(fields, counts)
            good_bytes += len(line)
            if number <= snapshot_records:
                snapshot_bytes = good_bytes
    except UnknownChange as error:
        raise DamagedLog(f"{error}: another version of kwire wrote it") from error
    except (ValueError, TypeError, LookupError, Conflict) as error:
        raise DamagedLog(f"line {_lines_in(content, good_bytes)}: {error!r}") from error
    version, offset, epoch = counts
    image = image.with_controller(NO_CONTROLLER, epoch).with_version(version)
    return image, offset, snapshot_bytes, good_bytes


def _counts(fields: dict[str, Any], before: tuple[int, int, int]) -> tuple[int, int, int]:
    """The version, the offset and the controller epoch after a line; `before` it they were these.

    Raises LookupError, TypeError.
    """
    if "version" not in fields:
        return before
    version: int = fields["version"]
    return version, fields.get("offset", version), fields.get("controller_epoch", before[2])


def _holds_a_line(torn: bytes) -> bool:
    """Whether `torn` ends in an intact line: then a damaged line break has joined two lines."""
    beginnings = _LOG_LINE.finditer(torn)
    return any(_checked(torn[match.start() :]) is not None for match in beginnings)


def _lines_in(content: bytes, size_bytes: int) -> int:
    return content.count(b"\n", 0, size_bytes) + 1


def _checked(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None if the line is torn or damaged."""
    checksum, space, body = line[:8], line[8:9], line[9:-1]
    if space != b" " or not line.endswith(b"\n") or checksum != b"%08x" % crc32c(body):
        return None
    fields = json.loads(body)
    return fields if isinstance(fields, dict) else None
