"""One damaged or missing byte anywhere: the log opens with the content it had.

Each run tries the first and last bytes and a fifth of the others, drawn from its seed; before a
release (`long`) all bytes are tried.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.codecs.batches import iter_batches
from kwire.codecs.control import ControlType, control_batch
from kwire.log import (
    Log,
    LogManager,
    Origin,
    aborted_transactions,
    append_as_follower,
    end_offset_for_epoch,
    epoch_for,
    max_timestamp_offset,
    offset_for_timestamp,
)
from kwire.log.directory import checkpoints
from tests.log.configs import log_config

if TYPE_CHECKING:
    from tests.log.conftest import MakeBatch, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000
CONFIG = log_config(segment_bytes=700, index_interval_bytes=1)
BYTES = [pytest.param(5, id="a fifth"), pytest.param(1, id="all", marks=pytest.mark.long)]
"""Of how many bytes one is tried."""
AT_ENDS = 8

BUILT = (".index", ".timeindex", ".txnindex")
DAMAGES = (0x01, 0x80)


def fill(log: Log, make_batch: MakeBatch) -> None:
    """Append in two epochs, with an idempotent producer and overlapping transactions, one open."""
    for number in range(8):
        epoch = number // 4
        plain = make_batch(
            2, timestamp=NOW_MS + number, producer_id=1, producer_epoch=0, base_sequence=2 * number
        )
        log.append(plain, leader_epoch=epoch, now_ms=NOW_MS)
        begun = make_batch(
            3,
            timestamp=NOW_MS + number,
            producer_id=10 + number // 2,
            producer_epoch=0,
            base_sequence=3 * (number % 2),
            transactional=True,
        )
        log.append(begun, leader_epoch=epoch, now_ms=NOW_MS)
        if number in (3, 6):
            abort = control_batch(
                ControlType.ABORT,
                0,
                producer_id=10 + number // 3,
                producer_epoch=0,
                timestamp=NOW_MS + number,
            )
            log.append(abort, leader_epoch=epoch, now_ms=NOW_MS, origin=Origin.COORDINATOR)


@pytest.fixture
def killed(open_log: OpenLog, make_batch: MakeBatch, log_dir: Path) -> Path:
    """A log after a kill: the indexes of its last segment were never written."""
    log = open_log(CONFIG)
    fill(log, make_batch)
    assert len(log.segments) > 2
    return log_dir


def drawn(size_bytes: int, of: int, rng: random.Random) -> list[int]:
    """Positions in a file: those at both ends, and one of `of` others."""
    return [
        at
        for at in range(size_bytes)
        if not AT_ENDS <= at < size_bytes - AT_ENDS or rng.randrange(of) == 0
    ]


def built(directory: Path) -> dict[str, bytes]:
    """The files that can be rebuilt; an empty file counts as missing."""
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if (path.suffix in BUILT or path.name == checkpoints.LEADER_EPOCHS) and path.stat().st_size
    }


@pytest.mark.slow
@pytest.mark.parametrize("of", BYTES)
def test_log_cut_at_any_byte_equals_a_shorter_log(
    of: int, killed: Path, open_log: OpenLog, tmp_path: Path, rng: random.Random
) -> None:
    last = max(killed.glob("*.log"))
    whole = last.read_bytes()
    ends = [0, *(at + header.size_bytes for at, header in iter_batches(whole))]
    wanted = [replayed(killed, last, end, open_log, tmp_path / f"fresh-{end}") for end in ends]
    assert len({len(files) for files in wanted}) > 1, "a transaction index on the way"
    for size in drawn(len(whole) + 1, of, rng):
        directory = Path(shutil.copytree(killed, tmp_path / f"cut-{size}"))
        (directory / last.name).write_bytes(whole[:size])
        open_log(CONFIG, directory=directory, recovery_point=int(last.stem)).close()
        kept = max(number for number, end in enumerate(ends) if end <= size)
        assert (directory / last.name).read_bytes() == whole[: ends[kept]]
        assert built(directory) == wanted[kept], size
        shutil.rmtree(directory)


def replayed(
    killed: Path, last: Path, end: int, open_log: OpenLog, directory: Path
) -> dict[str, bytes]:
    """The log that results from appending the same batches, in the last segment up to `end`."""
    directory.mkdir()
    log = open_log(CONFIG, directory=directory)
    for path in sorted(killed.glob("*.log")):
        data = path.read_bytes()[: end if path == last else None]
        if int(path.stem) != log.segments.active.base_offset:
            log.roll(NOW_MS)
        for at, header in iter_batches(data):
            batch = bytearray(data[at : at + header.size_bytes])
            append_as_follower(log, batch, leader_epoch=5, now_ms=NOW_MS)
    log.close()
    return built(directory)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "clean"),
    [
        (".index", True),
        (".index", False),
        (".timeindex", True),
        (".timeindex", False),
        (".txnindex", True),
        (".txnindex", False),
        (".snapshot", True),
        (".snapshot", False),
    ],
)
@pytest.mark.parametrize("of", BYTES)
def test_damaged_byte_outside_segments_is_mended_or_harmless(
    suffix: str,
    clean: bool,
    of: int,
    killed: Path,
    open_log: OpenLog,
    read_all: ReadAll,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    """Each byte is damaged after a clean stop and after a kill."""
    log = open_log(CONFIG)
    wanted = answers(log, read_all)
    log.close()
    files = [path for path in sorted(killed.glob(f"*{suffix}")) if path.stat().st_size]
    for path in (files[0], files[-1]):
        whole = path.read_bytes()
        for at in drawn(len(whole), of, rng):
            damage = DAMAGES[(at + clean) % len(DAMAGES)]
            directory = Path(shutil.copytree(killed, tmp_path / "damaged"))
            data = bytearray(whole)
            data[at] ^= damage
            (directory / path.name).write_bytes(data)
            again = open_log(CONFIG, directory=directory, clean=clean)
            assert answers(again, read_all) == wanted, (path.name, at, damage)
            shutil.rmtree(directory)


STANDING_STILL = [0, 1, 1, 1, 2, 2, 2, 1, 2, 3, 3, 3, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("of", BYTES)
def test_damaged_time_index_entry_among_equal_timestamps_is_harmless(
    of: int,
    open_log: OpenLog,
    make_batch: MakeBatch,
    log_dir: Path,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    config = log_config(index_interval_bytes=1)
    log = open_log(config)
    for moved_ms in STANDING_STILL:
        batch = make_batch(1, timestamp=NOW_MS + moved_ms)
        log.append(batch, leader_epoch=0, now_ms=NOW_MS)
    log.close()
    wanted = [STANDING_STILL.index(moved_ms) for moved_ms in range(5)]
    path = log_dir / "00000000000000000000.timeindex"
    whole = path.read_bytes()
    assert len(whole) == 4 * 12
    for at in drawn(len(whole), of, rng):
        for value in range(16):
            directory = Path(shutil.copytree(log_dir, tmp_path / "damaged"))
            data = bytearray(whole)
            data[at] = value
            (directory / path.name).write_bytes(data)
            again = open_log(config, directory=directory, clean=True)
            largest = max_timestamp_offset(again)
            assert largest is not None
            assert largest.offset == wanted[-1]
            found = [offset_for_timestamp(again, NOW_MS + moved_ms) for moved_ms in range(5)]
            assert [each and each.offset for each in found] == wanted, (at, value)
            shutil.rmtree(directory)


def answers(log: Log, read_all: ReadAll) -> list[object]:
    """What clients learn from indexes and snapshots."""
    end = log.log_end_offset
    return [
        [offset_for_timestamp(log, NOW_MS + number) for number in range(9)],
        [len(read_all(log, offset)) for offset in range(end)],
        [aborted_transactions(log, offset, end) for offset in range(end)],
        sorted(log.producers.entries),
        [
            (e.producer_id, e.next_sequence, e.txn_first_offset)
            for e in log.producers.entries.values()
        ],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("of", BYTES)
def test_damaged_byte_of_the_leader_epochs_is_mended(
    clean: bool, of: int, killed: Path, open_log: OpenLog, tmp_path: Path, rng: random.Random
) -> None:
    path = killed / checkpoints.LEADER_EPOCHS
    whole = path.read_bytes()
    log = open_log(CONFIG)
    last, end = log.segments.active.base_offset, log.log_end_offset
    log.close()
    wanted = checkpoints.decode_epochs(whole)
    assert len(wanted) == 2
    for at in drawn(len(whole), of, rng):
        for damage in (0x01, 0x02, 0x04, 0x08, 0x80):
            directory = Path(shutil.copytree(killed, tmp_path / "damaged"))
            data = bytearray(whole)
            data[at] ^= damage
            (directory / path.name).write_bytes(data)
            point = end if clean else last
            again = open_log(CONFIG, directory=directory, clean=clean, recovery_point=point)
            assert [end_offset_for_epoch(again, epoch) for epoch in range(3)] == [
                (0, wanted[1][1]), (1, end), (-1, -1)
            ], (at, damage)  # fmt: skip
            known = [epoch_for(again, offset) for offset in (0, wanted[1][1], end - 1)]
            assert known == [0, 1, 1], (at, damage)
            again.close()
            written = (directory / path.name).read_bytes()
            assert checkpoints.decode_epochs(written) == wanted, (at, damage)
            shutil.rmtree(directory)


@pytest.mark.parametrize("damaged", [99, 7, 10])
def test_damaged_log_start_offset_never_empties_a_log(
    damaged: int, killed: Path, open_log: OpenLog
) -> None:
    log = open_log(CONFIG)
    end = log.log_end_offset
    log.close()
    again = open_log(CONFIG, clean=True, recovery_point=end, log_start_offset=damaged)
    assert again.log_end_offset == end
    assert again.log_start_offset == (0 if damaged > end else damaged)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.CLEANER_OFFSETS],
)
def test_damaged_byte_of_a_checkpoint_is_mended_or_harmless(
    name: str, killed: Path, open_log: OpenLog, read_all: ReadAll, tmp_path: Path
) -> None:
    log = open_log(CONFIG, directory=Path(shutil.copytree(killed, tmp_path / "reference")))
    wanted = answers(log, read_all)
    log.close()
    indexes = built(tmp_path / "reference")
    last = max(killed.glob("*.log"))
    whole = checkpoints.encode([f"t 0 {int(last.stem)}"])
    for at in range(len(whole)):
        for damage in DAMAGES:
            data = bytearray(whole)
            data[at] ^= damage
            root = tmp_path / "dir"
            shutil.copytree(killed, root / "t-0")
            (root / name).write_bytes(data)
            manager = LogManager([root], defaults=CONFIG, clock=lambda: NOW_MS)
            manager.load()
            found = answers(manager.logs["t", 0], read_all)
            manager.close()
            assert found == wanted, (name, at, damage)
            assert built(root / "t-0") == indexes, (name, at, damage)
            shutil.rmtree(root)
