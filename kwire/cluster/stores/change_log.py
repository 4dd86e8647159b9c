"""The file of a single node's metadata: a snapshot, and behind it a log of changes.

Lines of UTF-8, each a CRC-32C in 8 hexadecimal digits, a space, and JSON (kwire.cluster.metadata's
change_records):

    {"format": 2, "cluster_id": "...", "version": n, "next_producer_id": n, "snapshot_records": k}
    {"changes": [{...}, ...]}                   k times: what makes the image of that version
    {"version": n, "changes": [{...}, ...]}     what was committed since, a line for each fsync

The snapshot appears whole, by a rename.  A kill or a power cut can leave a torn last line behind
it: nobody was told of its changes, and it is cut.  A damaged line anywhere else is not repaired:
what comes after it was acknowledged.

When the log has outgrown the snapshot, the next commit writes a new snapshot instead; so does the
one after a failed write, for then nobody knows what the end of the file holds.
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
    MarkForDeletion,
    SetConfigs,
    SetFeatures,
    SetToken,
    apply_all,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import NOTHING_SET, TOPIC_RESOURCE, ClusterImage
from kwire.codecs.crc32c import crc32c
from kwire.log.directory.files import Files

log = logging.getLogger("kwire.metadata")

FORMAT = 2
LOG_BYTES_MIN = 1 << 20
"""A log shorter than this is not worth a snapshot: it is read in some 10 ms."""
_LOG_LINE = re.compile(rb'[0-9a-f]{8} \{"version":')
"""How a line of the log begins; within one the quotes would be escaped."""
_TOPICS_A_LINE = 100
"""Lines of a snapshot are short, so that the thread which writes it gives way in between."""


class DamagedLog(Exception):
    """The file cannot be read; the sentence says where and why."""


def write_copy(path: Path, image: ClusterImage) -> None:
    """A new file that holds `image`, and is not fsynced.  OSError."""
    with path.open("wb") as file:
        file.writelines(_snapshot(image))


class ChangeLog:
    """The file `path`, open for appending.  What it does may block; one thread at a time.

    `create` and `open_at` make one; OSErrors are the caller's.
    """

    def __init__(self, path: Path, files: Files | None = None) -> None:
        self._path = path
        self._files = files or Files()
        self._file = -1
        self._size_bytes = self._snapshot_bytes = 0

    @classmethod
    def create(cls, path: Path, image: ClusterImage, files: Files | None = None) -> ChangeLog:
        """A new file whose snapshot is `image`, in the place of an older one."""
        made = cls(path, files)
        made._write_snapshot(image)
        return made

    @classmethod
    def open_at(cls, path: Path, files: Files | None = None) -> tuple[ChangeLog, ClusterImage]:
        """An existing file and the image it holds; a torn end is cut.  Raises DamagedLog."""
        found = cls(path, files)
        content = path.read_bytes()
        image, found._snapshot_bytes, found._size_bytes = _read(content)
        found._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        torn_bytes = len(content) - found._size_bytes
        if torn_bytes:
            log.warning("%s: its last write was torn; cut %d bytes", path, torn_bytes)
            os.ftruncate(found._file, found._size_bytes)
            found._files.fsync(found._file)
        return found, image

    def write(self, changes: Sequence[Change], image: ClusterImage) -> None:
        """Make `changes`, after which the image is `image`, durable.

        Raises OSError: then they do not count, whatever is in the file.
        """
        outgrown = self._size_bytes - self._snapshot_bytes > max(
            LOG_BYTES_MIN, self._snapshot_bytes
        )
        if self._file < 0 or outgrown:
            self._write_snapshot(image)
        else:
            self._append(_line({"version": image.version, "changes": [*map(encode, changes)]}))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _append(self, line: bytes) -> None:
        try:
            _write_all(self._file, line)
            self._files.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):  # the next write replaces the file anyway
                os.ftruncate(self._file, self._size_bytes)
            self.close()
            raise
        self._size_bytes += len(line)

    def _write_snapshot(self, image: ClusterImage) -> None:
        """Write the file anew, so that a crash leaves the old one or the new, whole."""
        temporary = self._path.with_name(self._path.name + ".tmp")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        try:
            size_bytes = sum(_write_all(file, line) for line in _snapshot(image))
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


def _write_all(file: int, content: bytes) -> int:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]
    return len(content)


def _line(said: dict[str, Any]) -> bytes:
    body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32c(body), body)


def _snapshot(image: ClusterImage) -> Iterator[bytes]:
    changes = _changes_to(image)
    groups = range(0, len(changes), _TOPICS_A_LINE)
    yield _line(
        {
            "format": FORMAT,
            "cluster_id": image.cluster_id,
            "version": image.version,
            "next_producer_id": image.next_producer_id,
            "snapshot_records": len(groups),
        }
    )
    for at in groups:
        yield _line({"changes": [*map(encode, changes[at : at + _TOPICS_A_LINE])]})


def _changes_to(image: ClusterImage) -> list[Change]:
    """What makes what lasts of `image` from none; configs of no topic are left out."""
    topics = [
        CreateTopic(image.topics[name], image.configs_of(TOPIC_RESOURCE, name))
        for name in sorted(image.topics)
    ]
    others = [
        SetConfigs(kind, name, NOTHING_SET, configs)
        for (kind, name), configs in sorted(image.configs.items(), key=lambda entry: entry[0])
        if kind != TOPIC_RESOURCE
    ]
    going = [MarkForDeletion(name, image.topics[name].id) for name in sorted(image.deleting)]
    acls = [ChangeAcls(pattern, (*sorted(image.acls[pattern]),)) for pattern in sorted(image.acls)]
    tokens = [SetToken(each, None, image.tokens[each]) for each in sorted(image.tokens)]
    unset = FinalizedFeatures()
    features = [SetFeatures(unset.epoch, image.features)] if image.features != unset else []
    return [*topics, *others, *acls, *tokens, *going, *features]


# -- reading


def cluster_id_in(path: Path) -> str:
    """Whose metadata the file is.  Raises OSError, DamagedLog."""
    with path.open("rb") as file:
        header = _checked(file.readline())
    if header is None or not isinstance(header.get("cluster_id"), str):
        raise DamagedLog("its first line is damaged")
    return str(header["cluster_id"])


def _read(content: bytes) -> tuple[ClusterImage, int, int]:
    """The image, and how many bytes of `content` are snapshot, and are good.  DamagedLog."""
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
        version, snapshot_records = header["version"], header["snapshot_records"]
        if len(lines) <= snapshot_records:
            raise DamagedLog(f"it ends before its snapshot does, after {len(lines)} lines")
        for at, line in enumerate(lines[1:], 1):
            said = _checked(line)
            if said is None:
                if at == len(lines) - 1 and at > snapshot_records and not _holds_a_line(line):
                    break
                raise DamagedLog(f"line {at + 1}, at byte {good_bytes}, fails its checksum")
            image = apply_all(image, map(decode, said["changes"]))
            version = said.get("version", version)
            good_bytes += len(line)
            if at <= snapshot_records:
                snapshot_bytes = good_bytes
    except UnknownChange as problem:
        raise DamagedLog(f"{problem}: another version of kwire wrote it") from problem
    except (ValueError, TypeError, LookupError, Conflict) as problem:
        raise DamagedLog(f"line {_lines_in(content, good_bytes)}: {problem!r}") from problem
    return image.with_version(version), snapshot_bytes, good_bytes


def _holds_a_line(torn: bytes) -> bool:
    """Whether the end of `torn` is whole: then it is no torn line but two, their break damaged."""
    found = _LOG_LINE.finditer(torn)
    return any(_checked(torn[match.start() :]) is not None for match in found)


def _lines_in(content: bytes, size_bytes: int) -> int:
    return content.count(b"\n", 0, size_bytes) + 1


def _checked(line: bytes) -> dict[str, Any] | None:
    """What a line says, None if it is torn or damaged."""
    checksum, space, body = line[:8], line[8:9], line[9:-1]
    if space != b" " or not line.endswith(b"\n") or checksum != b"%08x" % crc32c(body):
        return None
    said = json.loads(body)
    return said if isinstance(said, dict) else None
