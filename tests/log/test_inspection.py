"""`kwire log verify` reports each fault with its place, and `dump` prints every kind of file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.control import ControlType, control_batch
from kwire.log import Origin
from kwire.log.directory import checkpoints
from kwire.log.directory.files import Files
from kwire.log.error import CorruptFile
from kwire.log.inspection.dump import entries
from kwire.log.inspection.inspection import Inspector
from tests.log.configs import log_config

if TYPE_CHECKING:
    from tests.log.conftest import Append, MakeBatch, OpenLog

GOLDEN = Path(__file__).parent / "data" / "apache-4.3.1"
FIRST, SECOND, LAST = (f"{offset:020d}" for offset in (0, 23, 24))
NOW_MS = 1_700_000_000_000


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A log directory with the partition that Apache Kafka wrote."""
    shutil.copytree(GOLDEN, tmp_path / "golden-0")
    offsets = {("golden", 0): 33}
    checkpoints.write_offsets(Files(), tmp_path / checkpoints.RECOVERY_POINTS, offsets)
    return tmp_path


def problems(directory: Path) -> list[str]:
    inspector = Inspector()
    inspector.log_dir(directory)
    return [str(problem).removeprefix(f"{directory}/") for problem in inspector.problems]


def test_verify_finds_nothing_in_apache_kafkas_directory(data_dir: Path) -> None:
    inspector = Inspector()
    inspector.log_dir(data_dir)
    assert inspector.problems == []
    assert inspector.end_offset == 33
    assert (inspector.segments, inspector.records) == (3, 33)


@pytest.mark.parametrize("closed", [True, False])
def test_verify_finds_nothing_in_kwires_directory(
    log_dir: Path, open_log: OpenLog, append: Append, make_batch: MakeBatch, closed: bool
) -> None:
    log = open_log(log_config(segment_bytes=20_000, index_interval_bytes=200))
    for number in range(300):
        append(log, 5, producer_id=1, producer_epoch=0, base_sequence=5 * number)
        if number % 20 == 3:
            append(log, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
            marker = control_batch(
                ControlType.ABORT, 1, producer_id=7, producer_epoch=0, timestamp=NOW_MS
            )
            log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
            append(log, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
            marker = control_batch(
                ControlType.COMMIT, 1, producer_id=7, producer_epoch=2, timestamp=NOW_MS
            )
            log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
            log.producers.entries.pop(7)
    if closed:
        log.close()
    inspector = Inspector()
    inspector.folder(log_dir)
    assert inspector.problems == []
    assert inspector.segments >= 3
    assert inspector.end_offset == log.log_end_offset


def change(path: Path, position: int, new: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[position : position + len(new)] = new
    path.write_bytes(data)


def append_to(path: Path, data: bytes) -> None:
    path.write_bytes(path.read_bytes() + data)


def cut(path: Path, size_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:-size_bytes])


def rewrite(path: Path, text: str) -> None:
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


Damage = Callable[[Path], None]
FAULTS: list[tuple[str, Damage, str]] = [
    (f"{FIRST}.log", lambda p: change(p, 100, b"\xff"), "position 77: "),
    (f"{FIRST}.log", lambda p: change(p, 0, Struct(">q").pack(5)), "comes after"),
    (f"{LAST}.log", lambda p: cut(p, 3), "cut short"),
    (f"{LAST}.log", lambda p: append_to(p, bytes(70)), "bytes cannot be read"),
    (f"{SECOND}.log", lambda p: change(p, 15, b"\x09"), "leader-epoch-checkpoint has"),
    (f"{FIRST}.index", lambda p: change(p, 4, Struct(">i").pack(1)), "where no batch starts"),
    (f"{FIRST}.index", lambda p: change(p, 0, Struct(">i").pack(1 << 20)), "comes after"),
    (f"{FIRST}.index", lambda p: append_to(p, Struct(">ii").pack(900, 10**6)), "after the last"),
    (f"{FIRST}.index", remove, "missing"),
    (f"{FIRST}.timeindex", lambda p: change(p, 0, Struct(">q").pack(1)), "but the largest up to"),
    (f"{FIRST}.timeindex", lambda p: append_to(p, Struct(">qi").pack(2**60, 999)), "after the"),
    (f"{FIRST}.timeindex", remove, "missing"),
    (f"{LAST}.txnindex", remove, "aborted transaction is missing"),
    (f"{LAST}.txnindex", lambda p: change(p, 10, b"\x00" * 8), "missing or differs"),
    (f"{LAST}.txnindex", lambda p: cut(p, 1), "cut short"),
    (f"{LAST}.snapshot", lambda p: change(p, 20, b"\xff"), "CRC"),
    ("leader-epoch-checkpoint", lambda p: rewrite(p, "0\n2\n1 0\n0 3\n"), "comes after epoch"),
    ("leader-epoch-checkpoint", lambda p: rewrite(p, "0\n2\n0 0\n9 99\n"), "above the log end"),
    ("leader-epoch-checkpoint", lambda p: rewrite(p, "0\n3\n0 0\n"), "holds 1"),
    ("partition.metadata", lambda p: rewrite(p, "version: 0\ntopic_id: x"), "no topic id"),
    ("../recovery-point-offset-checkpoint", lambda p: rewrite(p, "0\n1\ngolden 0 34\n"), "end"),
    ("../recovery-point-offset-checkpoint", lambda p: rewrite(p, "zero"), "version"),
    ("../meta.properties", lambda p: rewrite(p, "version=7"), "cannot be understood"),
]


@pytest.mark.parametrize(
    ("name", "damage", "report"), FAULTS, ids=[f"{name}: {report}" for name, _, report in FAULTS]
)
def test_verify_reports_each_fault_with_its_file(
    data_dir: Path, name: str, damage: Damage, report: str
) -> None:
    path = (data_dir / "golden-0" / name).resolve()
    damage(path)
    found = problems(data_dir)
    assert any(path.name in problem and report in problem for problem in found), found


def test_verify_and_dump_raise_for_no_damage(data_dir: Path, rng: random.Random) -> None:
    """Random damage in any file may cause problems, but never an exception."""
    folder = data_dir / "golden-0"
    noticed = 0
    for _ in range(300):
        path = rng.choice(sorted(path for path in folder.iterdir() if path.stat().st_size))
        before = path.read_bytes()
        change(path, rng.randrange(len(before)), rng.randbytes(rng.randint(1, 4)))
        noticed += bool(problems(data_dir))
        path.write_bytes(before)
    assert noticed > 200
    assert problems(data_dir) == []


def test_dump_prints_every_kind_of_file(data_dir: Path) -> None:
    folder = data_dir / "golden-0"
    report = {
        path.name: list(entries(path, lambda record: {"value": record.value}))
        for path in sorted(folder.iterdir())
    }
    assert sum(bool(entries) for entries in report.values()) >= len(report) - 2  # of small segments
    first = report[f"{FIRST}.log"]
    assert first[0]["batch"] == "0-1" or first[0]["batch"].startswith("0-")
    assert first[1] == {"record": 0, "timestamp": NOW_MS, "value": b"plain 0"}
    assert {entry["crc"] for entry in first if "crc" in entry} == {"holds"}
    assert report["leader-epoch-checkpoint"] == [{"epoch": 0, "start_offset": 0}]
    assert report["partition.metadata"] == [{"topic_id": "shFfnxmkSmmhZ4xv91SX-w"}]
    assert [entry["offset"] for entry in report[f"{FIRST}.index"]] == sorted(
        entry["offset"] for entry in report[f"{FIRST}.index"]
    )
    assert {"producer_id", "first_offset"} <= set(report[f"{LAST}.txnindex"][0])
    (recovery_point,) = entries(data_dir / checkpoints.RECOVERY_POINTS)
    assert recovery_point == {"topic": "golden", "partition": 0, "offset": 33}


def test_dump_reports_a_file_that_it_cannot_read(tmp_path: Path) -> None:
    for name, data, why in (
        (f"{FIRST}.log", b"x" * 100, "position 0"),
        ("notes.txt", b"x", "not a file of a log directory"),
        ("x.index", b"12345678", "base offset"),
        (f"{FIRST}.snapshot", b"x", "cut short"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(CorruptFile, match=why):
            list(entries(path))
