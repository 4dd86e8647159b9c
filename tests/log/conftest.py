"""A partition's log in a temporary folder, and batches to fill it with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypedDict, Unpack, cast

import pytest

from kwire.codecs.batches import Compression, Record, build, iter_batches, records
from kwire.log import AppendResult, Log, LogConfig
from kwire.log.directory.files import Files
from kwire.log.reading.region import OpenFiles
from kwire.log.recovery.loader import SharedLogSettings, load
from tests.log.configs import DEFAULTS

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"0123456789abcdef"


class OpenLog(Protocol):
    """Opens the log of partition t-0 in the test's folder, again if it was open before."""

    def __call__(
        self,
        config: LogConfig | None = None,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        directory: Path | None = None,
        files: Files | None = None,
        now_ms: int = NOW_MS,
        topic_id: bytes = TOPIC_ID,
        open_files: int = 1024,
        verify_transactions: bool = False,
    ) -> Log: ...


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "t-0"
    path.mkdir()
    return path


@pytest.fixture
def open_log(log_dir: Path) -> OpenLog:
    def opener(
        config: LogConfig | None = None,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        directory: Path | None = None,
        files: Files | None = None,
        now_ms: int = NOW_MS,
        topic_id: bytes = TOPIC_ID,
        open_files: int = 1024,
        verify_transactions: bool = False,
    ) -> Log:
        settings = SharedLogSettings(
            files or Files(), OpenFiles(open_files), verify_transactions=verify_transactions
        )
        return load(
            directory or log_dir,
            "t",
            0,
            config or DEFAULTS,
            settings,
            now_ms=now_ms,
            topic_id=topic_id,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )

    return opener


class BuildFields(TypedDict, total=False):
    """The keyword arguments of `build`."""

    compression: Compression
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    base_offset: int
    partition_leader_epoch: int


class BatchFields(BuildFields, total=False):
    """The fields of a batch that a test may set; the others are equal in all tests."""

    timestamp: int
    size: int
    key: bytes | None


class MakeBatch(Protocol):
    def __call__(self, count: int = 1, **fields: Unpack[BatchFields]) -> bytearray: ...


@pytest.fixture
def make_batch() -> MakeBatch:
    """A batch of `count` records with a key and a value of `size` bytes."""

    def make(count: int = 1, **fields: Unpack[BatchFields]) -> bytearray:
        timestamp = fields.get("timestamp", NOW_MS)
        size = fields.get("size", 10)
        key = fields.get("key", b"k")
        made = [Record(i, timestamp, key, bytes([i % 251]) * size, []) for i in range(count)]
        wanted = {
            name: value for name, value in fields.items() if name in BuildFields.__annotations__
        }
        return build(made, **cast(BuildFields, wanted))

    return make


class Append(Protocol):
    def __call__(
        self,
        log: Log,
        count: int = 1,
        *,
        now_ms: int = NOW_MS,
        leader_epoch: int = 0,
        **fields: Unpack[BatchFields],
    ) -> AppendResult: ...


@pytest.fixture
def append(make_batch: MakeBatch) -> Append:
    """Append a batch that `make_batch` makes."""

    def do(
        log: Log,
        count: int = 1,
        *,
        now_ms: int = NOW_MS,
        leader_epoch: int = 0,
        **fields: Unpack[BatchFields],
    ) -> AppendResult:
        return log.append(make_batch(count, **fields), leader_epoch=leader_epoch, now_ms=now_ms)

    return do


ReadAll = Callable[..., list[Record]]


@pytest.fixture
def read_all() -> ReadAll:
    """All records from an offset on, as a consumer would fetch them, markers left out."""

    def do(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
        at = log.log_start_offset if offset is None else offset
        found: list[Record] = []
        while region := log.read(at, max_bytes, max_offset=log.log_end_offset, min_one_batch=True):
            data = region.read()
            before = at
            for position, header in iter_batches(data):
                if not header.is_control:
                    found += [r for r in records(data, position) if r.offset >= before]
                at = max(at, header.last_offset + 1)
            assert at > before, "a fetch must make progress"
        return found

    return do
