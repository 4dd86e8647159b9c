"""After a power cut a log has everything that was made durable, and nothing that was never written.

`Disk` is a real folder.  It records what the last fsync of each file made durable, and the order of
changes of names in the folder: file systems journal those, so that a later change never survives
without an earlier one.  Everything else survives by chance: contents of files in any order, cut
anywhere or filled with zeros.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.log import Log
from kwire.log.directory.files import Files, OpenFile
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery.loader import SharedLogSettings, load
from tests.log.configs import log_config

NOW_MS = 1_700_000_000_000
CONFIG = log_config(segment_bytes=400, index_interval_bytes=0)


class Disk(Files):
    """Files that record what is certain to survive a power cut."""

    def __init__(self) -> None:
        self.content: dict[int, bytes] = {}  # inode -> what was fsynced
        self.names: list[dict[str, int]] = [{}]  # name -> inode, after each change
        self.certain = 0  # how many of these changes were fsynced

    def _named(self, *, added: Path | str = "", removed: Path | str = "") -> None:
        names = dict(self.names[-1])
        names.pop(Path(removed).name, None)
        if added:
            names[Path(added).name] = os.stat(added).st_ino
        self.names.append(names)

    def open(self, path: Path | str) -> OpenFile:
        new = not os.path.exists(path)
        file = super().open(path)
        if new:
            self.content.pop(os.fstat(file.fd).st_ino, None)  # another file had that inode
            self._named(added=path)
        return file

    def write(self, path: Path | str, data: bytes | bytearray, *, sync: bool = False) -> None:
        self.open(path)
        super().write(path, data, sync=sync)

    def rename(self, source: Path | str, target: Path | str) -> None:
        super().rename(source, target)
        self._named(added=target, removed=source)

    def remove(self, path: Path | str) -> None:
        super().remove(path)
        self._named(removed=path)

    def fsync(self, fd: int) -> None:  # type: ignore[override]  # plain there
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            self.certain = len(self.names) - 1
        else:
            self.content[status.st_ino] = os.pread(fd, status.st_size, 0)

    def cut_power(self, source: Path, target: Path, chance: random.Random) -> None:
        """Write to `target` what survives of the folder `source`."""
        target.mkdir()
        present = {entry.inode(): Path(entry.path) for entry in os.scandir(source)}
        names = chance.choice(self.names[self.certain :])
        for name, inode in names.items():
            now = present[inode].read_bytes() if inode in present else b""
            (target / name).write_bytes(self._survivor(self.content.get(inode, b""), now, chance))

    def _survivor(self, certain: bytes, now: bytes, chance: random.Random) -> bytes:
        if not now.startswith(certain):
            return chance.choice([certain, now])
        reached = chance.randint(len(certain), len(now))
        zeros = chance.choice([0, len(now) - reached])
        return now[:reached] + bytes(zeros)


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


def open_log(directory: Path, files: Files, recovery_point: int = 0) -> Log:
    return load(
        directory,
        "t",
        0,
        CONFIG,
        SharedLogSettings(files, OpenFiles()),
        now_ms=NOW_MS,
        topic_id=b"0123456789abcdef",
        recovery_point=recovery_point,
    )


def append(log: Log, number: int, epoch: int) -> None:
    batch = build(
        [Record(0, NOW_MS + number, b"k", b"%d" % number, [])],
        producer_id=1,
        producer_epoch=0,
        base_sequence=number,
    )
    log.append(batch, leader_epoch=epoch, now_ms=NOW_MS)


def values(log: Log) -> list[bytes]:
    found = []
    offset = log.log_start_offset
    while region := log.read(offset, 1 << 20, max_offset=log.log_end_offset, min_one_batch=True):
        data = region.read()
        for position, header in iter_batches(data):
            found += [record.value or b"" for record in records(data, position)]
            offset = header.last_offset + 1
    return found


steps = st.lists(st.sampled_from(["append"] * 6 + ["flush", "epoch", "late flush"]), max_size=40)


@pytest.mark.slow
@settings(max_examples=60)
@given(steps, st.integers(0, 2**32))
def test_power_cut_loses_only_unflushed_records(plan: list[str], seed: int) -> None:
    with folder() as base:
        disk = Disk()
        (base / "log").mkdir()
        log = open_log(base / "log", disk)
        written, epoch, pending = 0, 0, None
        for step in plan:
            if step == "append":
                append(log, written, epoch)
                written += 1
            elif step == "epoch":
                epoch += 1
            elif step == "flush":
                log.flush()
            elif pending is None:
                pending = log.prepare_flush()
                if pending is not None:
                    pending.run()  # in a thread, while the log goes on
            else:
                log.flushed(pending)
                pending = None
        promised = log.recovery_point
        disk.cut_power(base / "log", base / "left", random.Random(seed))
        again = open_log(base / "left", Files(), promised)
        assert promised <= again.log_end_offset <= written
        assert values(again) == [b"%d" % number for number in range(again.log_end_offset)]
        if again.log_end_offset:
            assert again.producers.entries[1].last_sequence == again.log_end_offset - 1
            assert again.epochs.end_offset_for(again.epochs.latest_epoch, again.log_end_offset)
        starts = [start for _, start in again.epochs.entries]
        before = [start for _, start in log.epochs.entries if start < again.log_end_offset]
        assert starts == before
        append(again, again.log_end_offset, epoch)
