"""A snapshot of logs is complete and independent of later changes on either side."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kwire.log import Log, LogManager, truncate_fully, truncate_to
from kwire.log.directory.checkpoints import read_offsets
from kwire.log.directory.files import Files
from kwire.log.upkeep import retention
from kwire.log.upkeep.capture import COPIED_BYTES_MAX, capture
from kwire.testing.hooks.snapshots.kept import Description, describe
from kwire.testing.hooks.snapshots.laying import lay_out
from tests.log.configs import log_config
from tests.log.conftest import Append, ReadAll

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"0123456789abcdef"

Open = Callable[[Path], LogManager]


@pytest.fixture
def opened() -> Iterator[Open]:
    """A manager of one directory; whatever is open at the end is unlocked as a kill does."""
    made: list[LogManager] = []

    def make(path: Path) -> LogManager:
        manager = LogManager(
            [path], defaults=log_config(segment_bytes=300_000), clock=lambda: NOW_MS
        )
        made.append(manager)
        manager.identify(1, "cluster")
        manager.load()
        return manager

    yield make
    for manager in made:
        kill(manager)


def kill(manager: LogManager) -> None:
    for directory in manager.online_dirs:
        directory.unlock()


def snapshot(manager: LogManager, target: Path) -> Path:
    target.mkdir()
    (source,) = (each.path for each in manager.online_dirs)
    capture(manager, {source: target}, lambda log: log.log_end_offset, NOW_MS)
    return target


def content(folder: Path) -> dict[str, str]:
    """The content of each file of a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_captured_logs_open_as_after_a_clean_stop(
    opened: Open, append: Append, read_all: ReadAll, tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    manager = opened(tmp_path / "a")
    small = manager.create("small", TOPIC_ID, 0)
    large = manager.create("large", TOPIC_ID, 0)
    append(small, 3, leader_epoch=4)
    append(small, producer_id=7, producer_epoch=0, base_sequence=0, leader_epoch=5)
    for size in (100_000, 250_000, COPIED_BYTES_MAX):
        append(large, size=size)
    large.increment_log_start_offset(1)
    expected = {log.topic: read_all(log) for log in (small, large)}
    taken = snapshot(manager, tmp_path / "taken")
    append(small)
    append(large)

    caplog.clear()
    fork = opened(taken)
    assert not caplog.messages
    for topic, held in expected.items():
        assert read_all(fork.logs[topic, 0]) == held
    found = fork.logs["small", 0]
    assert found.epochs.entries == [(4, 0), (5, 3)]
    assert found.producers.entries[7].last_sequence == 0
    assert found.recovery_point == found.log_end_offset == 4
    assert fork.logs["large", 0].log_start_offset == 1
    assert fork.high_watermarks == {("small", 0): 4, ("large", 0): 3}
    assert fork.online_dirs[0].identity() == manager.online_dirs[0].identity()


def test_capture_shares_a_large_active_segment_and_rolls_it(
    opened: Open, append: Append, tmp_path: Path
) -> None:
    manager = opened(tmp_path / "a")
    log = manager.create("t", TOPIC_ID, 0)
    append(log, size=COPIED_BYTES_MAX)
    append(log, size=COPIED_BYTES_MAX)
    taken = snapshot(manager, tmp_path / "taken") / "t-0"
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    first, second = (taken / segment.path.name for segment in log.segments)
    assert first.samefile(log.segments.first.path)
    assert not second.samefile(log.segments.active.path)
    snapshot(manager, tmp_path / "again")
    assert len(log.segments) == 2, "nothing was appended since"


def test_capture_copies_the_written_part_of_a_preallocated_segment(
    opened: Open, append: Append, read_all: ReadAll, tmp_path: Path
) -> None:
    manager = opened(tmp_path / "a")
    log = manager.create("t", TOPIC_ID, 0, log_config(preallocate=True, segment_bytes=300_000))
    append(log, 3)
    taken = snapshot(manager, tmp_path / "taken")
    assert (taken / "t-0" / log.segments.active.path.name).stat().st_size < 1000
    assert len(read_all(opened(taken).logs["t", 0])) == 3
    append(log, 2)
    assert len(read_all(log)) == 5


def test_append_to_a_shared_segment_copies_it_first(
    opened: Open, append: Append, read_all: ReadAll, tmp_path: Path
) -> None:
    """A power cut may lose the segment that began at the snapshot."""
    manager = opened(tmp_path / "a")
    log = manager.create("t", TOPIC_ID, 0)
    append(log, size=COPIED_BYTES_MAX)
    taken = snapshot(manager, tmp_path / "taken")
    before = content(taken)
    for path in log.segments.active.paths():
        path.unlink()
    kill(manager)
    again = opened(tmp_path / "a").logs["t", 0]
    append(again, size=10)
    assert len(read_all(again)) == 2
    assert content(taken) == before
    assert not [path for path in again.dir.iterdir() if path.name.endswith(".deleted")]


@pytest.mark.parametrize("offset", [3, 4, 5, 0])
def test_truncation_does_not_change_the_snapshot(
    opened: Open, append: Append, read_all: ReadAll, tmp_path: Path, offset: int
) -> None:
    """Within a shared segment, at its end, after it, and at the log start."""
    manager = opened(tmp_path / "a")
    log = manager.create("t", TOPIC_ID, 0)
    for _ in range(4):
        append(log, size=30_000)
    taken = snapshot(manager, tmp_path / "taken")
    append(log, size=20)
    append(log, size=20)
    before = content(taken)
    truncate_to(log, offset, NOW_MS)
    append(log, size=5)
    assert content(taken) == before
    assert len(read_all(log)) == offset + 1
    assert len(read_all(opened(taken).logs["t", 0])) == 4


def test_recovery_of_a_shared_segment_does_not_change_the_snapshot(
    opened: Open, append: Append, read_all: ReadAll, tmp_path: Path
) -> None:
    """Recovery after a kill cuts a damaged file that the snapshot shares."""
    manager = opened(tmp_path / "a")
    log = manager.create("t", TOPIC_ID, 0)
    append(log, size=COPIED_BYTES_MAX)
    append(log, size=COPIED_BYTES_MAX)
    taken = snapshot(manager, tmp_path / "taken")
    shared = log.segments.first.path
    with shared.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    before = content(taken)
    kill(manager)
    again = opened(tmp_path / "a").logs["t", 0]
    assert again.log_end_offset == 1
    append(again, size=1)
    assert len(read_all(again)) == 2
    assert content(taken) == before


def test_capture_copies_files_if_hard_links_fail(
    opened: Open, append: Append, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    manager = opened(tmp_path / "a")
    log = manager.create("t", TOPIC_ID, 0)
    append(log, size=COPIED_BYTES_MAX)
    monkeypatch.setattr("os.link", refuse)
    taken = snapshot(manager, tmp_path / "taken")
    first = log.segments.first.path
    assert not (taken / "t-0" / first.name).samefile(first)
    assert (taken / "t-0" / first.name).read_bytes() == first.read_bytes()
    with pytest.raises(FileNotFoundError):
        Files().share(tmp_path / "missing", tmp_path / "b")


def test_capture_has_the_cleaners_checkpoint(opened: Open, append: Append, tmp_path: Path) -> None:
    manager = opened(tmp_path / "a")
    log = manager.create("t", TOPIC_ID, 0)
    append(log, 5)
    log.first_dirty_offset = 3
    taken = snapshot(manager, tmp_path / "taken")
    assert read_offsets(Files(), taken / "cleaner-offset-checkpoint") == {("t", 0): 3}
    assert opened(taken).logs["t", 0].first_dirty_offset == 3


class Life:
    """A log with random appends, rolls, truncations, deletions, compaction and kills."""

    def __init__(self, manager: LogManager, append: Append, rng: random.Random) -> None:
        self.manager = manager
        self.append = append
        self.rng = rng

    @property
    def log(self) -> Log:
        return self.manager.logs["t", 0]

    def step(self) -> None:
        log, rng = self.log, self.rng
        span = log.log_end_offset - log.log_start_offset
        choice = rng.randrange(10)
        if choice < 5:
            size = rng.choice([10, 5_000, COPIED_BYTES_MAX // 3])
            self.append(log, size=size, key=rng.choice([b"a", b"b"]))
        elif choice == 5:
            log.roll(NOW_MS)
        elif choice == 6 and span:
            truncate_to(log, log.log_end_offset - rng.randint(1, min(span, 6)), NOW_MS)
        elif choice == 7 and rng.random() < 0.2:
            truncate_fully(log, log.log_end_offset + 5, NOW_MS)
        elif choice == 8 and span:
            log.increment_log_start_offset(log.log_start_offset + rng.randint(0, span))
            retention.delete_expired_segments(log, NOW_MS, log.log_end_offset)
        elif choice == 9:
            log.flush()


@pytest.mark.parametrize("number", range(12))
def test_log_snapshot_and_forks_are_independent_in_random_histories(
    opened: Open, append: Append, read_all: ReadAll, tmp_path: Path, rng: random.Random,
    number: int,
) -> None:  # fmt: skip
    """Forks are laid by links as in kwire.testing.hooks.snapshots; nobody's steps are seen by
    others."""
    manager = opened(tmp_path / "a")
    manager.create("t", TOPIC_ID, 0)
    origin = Life(manager, append, rng)
    for _ in range(25):
        origin.step()
    (tmp_path / "taken").mkdir()
    taken = snapshot(manager, tmp_path / "taken" / "0")
    describe(tmp_path / "taken", Description(0, 0, "c", 1, 1, 0, {}))
    expected, before = read_all(origin.log), content(taken)
    lives = [origin]
    for name in ("b", "c"):
        lay_out(tmp_path / "taken", [tmp_path / name])
        lives.append(Life(opened(tmp_path / name), append, rng))
        assert read_all(lives[-1].log) == expected
    for _ in range(40):
        turn = rng.choice(lives)
        others = [(each, read_all(each.log)) for each in lives if each is not turn]
        turn.step()
        if rng.random() < 0.1:
            kill(turn.manager)
            turn.manager = opened(turn.manager.online_dirs[0].path)
        for each, had in others:
            assert read_all(each.log) == had
    assert content(taken) == before
    lay_out(tmp_path / "taken", [tmp_path / "d"])
    assert read_all(opened(tmp_path / "d").logs["t", 0]) == expected
