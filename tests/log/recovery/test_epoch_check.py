"""`leader-epoch-checkpoint` is kept if it agrees with the batches, and rebuilt if not."""

from __future__ import annotations

import random

import pytest

from kwire.log import Log, append_as_follower, end_offset_for_epoch, epoch_for
from kwire.log.directory import checkpoints
from tests.log.configs import log_config
from tests.log.conftest import NOW_MS, Append, MakeBatch, OpenLog


@pytest.mark.parametrize("clean", [True, False])
def test_epoch_of_a_leader_without_records_is_kept(
    open_log: OpenLog, append: Append, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka and kwire write its epoch when it is elected; the next one takes its place."""
    log = open_log()
    for _ in range(20):
        append(log, leader_epoch=0)
    for _ in range(41):
        append(log, leader_epoch=2)
    log.assign_epoch(6, 61)
    log.close()
    again = open_log(clean=clean, recovery_point=61 if clean else 0)
    assert (again.epochs.latest_epoch, again.epochs.latest_loaded) == (2, 6)
    again.assign_epoch(7, 61)
    ends = [end_offset_for_epoch(again, epoch) for epoch in range(9)]
    assert ends == [(0, 20), (0, 20), *[(2, 61)] * 5, (7, 61), (-1, -1)]
    assert again.epochs.entries == [(0, 0), (2, 20), (7, 61)]
    assert "does not fit the log" not in caplog.text


def test_rebuilding_epochs_keeps_a_leader_without_records(
    open_log: OpenLog, append: Append, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log()
    for epoch in (0, 0, 2, 2):
        append(log, leader_epoch=epoch)
    log.close()
    path = log.epochs.path
    path.write_text(path.read_text().replace("2 2\n", "2 3\n"))  # the epoch began before that
    again = open_log(clean=True)
    again.assign_epoch(5, 4)
    assert [end_offset_for_epoch(again, epoch) for epoch in (0, 2, 5)] == [(0, 2), (2, 4), (5, 4)]
    assert "does not fit the log" in caplog.text
    again.close()
    assert path.read_text() == "0\n3\n0 0\n2 2\n5 4\n"


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ("0 0\n", "nothing of the last batch's"),
        ("2 2\n", "nothing of the first batch's"),
        ("0 0\n3 2\n", "another epoch than the batch there has"),
        ("1 0\n2 2\n", "another epoch than the first batch has"),
        ("0 0\n2 1\n", "begins too soon"),
        ("0 0\n2 3\n", "begins too late"),
        ("", "nothing"),
    ],
)
@pytest.mark.parametrize("rolled", [False, True])
def test_wrong_leader_epochs_are_rebuilt(
    open_log: OpenLog, append: Append, entries: str, why: str, rolled: bool
) -> None:
    log = open_log()
    for epoch in (0, 0, 2, 2):
        append(log, leader_epoch=epoch)
    if rolled:
        log.roll(NOW_MS)
    log.close()
    path = log.epochs.path
    path.write_text(f"0\n{entries.count(chr(10))}\n{entries}")
    again = open_log(clean=True)
    assert [end_offset_for_epoch(again, epoch) for epoch in (0, 1, 2, 3)] == [
        (0, 2),
        (0, 2),
        (2, 4),
        (-1, -1),
    ], why
    assert again.epochs.entries == [(0, 0), (2, 2)]


def test_leader_epochs_are_checked_once(
    open_log: OpenLog, append: Append, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    for epoch in (0, 2):
        append(log, leader_epoch=epoch)
    log.close()
    again = open_log(clean=True)
    assert end_offset_for_epoch(again, 0) == (0, 1)

    def fail(_: object, offset: int) -> None:
        raise AssertionError(f"looks at {offset} again")

    monkeypatch.setattr("kwire.log.segments.Segments.batch_at", fail)
    assert end_offset_for_epoch(again, 0) == (0, 1)
    assert end_offset_for_epoch(again, 2) == (2, 2)


def answers(log: Log) -> list[object]:
    """All that clients learn of epochs."""
    ends = [end_offset_for_epoch(log, epoch) for epoch in range(9)]
    return [ends, [epoch_for(log, at) for at in range(log.log_start_offset, log.log_end_offset)]]


@pytest.mark.parametrize("seed", range(20))
def test_epoch_lookups_follow_the_batches_for_any_file_content(
    open_log: OpenLog, append: Append, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    log = open_log()
    epoch = chance.choice([0, 1])
    for _ in range(chance.randint(2, 9)):
        append(log, chance.randint(1, 3), leader_epoch=epoch)
        epoch += chance.choice([0, 0, 1, 2])
        if chance.random() < 0.3:
            log.roll(NOW_MS)
    start = chance.choice([0, 0, *range(log.log_end_offset)])
    log.increment_log_start_offset(start)
    log.close()
    wanted = answers(log)
    right = log.epochs.entries
    end = log.log_end_offset

    def opened(entries: list[tuple[int, int]]) -> list[object]:
        log.epochs.path.write_bytes(checkpoints.encode_epochs(entries))
        again = open_log(clean=True, recovery_point=end, log_start_offset=start)
        return answers(again)

    assert opened(right) == wanted
    assert opened([*right, (right[-1][0] + 1, end)]) == wanted, "of a leader nobody has written to"
    assert "does not fit" not in caplog.text
    for _ in range(15):
        entries = list(right)
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(entries) + 1)
            other = chance.randint(0, 8), chance.randint(0, end)
            if at == len(entries) or chance.random() < 0.3:
                entries.insert(at, other)
            elif len(entries) > 1 and chance.random() < 0.4:
                del entries[at]
            else:
                known, first = entries[at]
                moved = first + chance.choice([-2, -1, 1, 2])
                entries[at] = chance.choice([(known, moved), (other[0], first)])
        assert opened(entries) == wanted, entries


def test_epochs_without_batches_after_compaction_are_kept(
    open_log: OpenLog, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No batch contradicts them, nor an epoch that began in a removed part."""
    config = log_config(cleanup_policy=frozenset({"compact"}))
    log = open_log(config)
    for base, epoch in ((2, 1), (6, 4), (7, 4)):
        batch = make_batch(base_offset=base, partition_leader_epoch=epoch)
        append_as_follower(log, batch, leader_epoch=4, now_ms=NOW_MS)
    log.close()
    for entries in ([(0, 0), (1, 2), (2, 3), (3, 4), (4, 5)], [(1, 0), (4, 3)], [(1, 2), (4, 6)]):
        log.epochs.path.write_bytes(checkpoints.encode_epochs(entries))
        again = open_log(config, clean=True, recovery_point=8)
        ends = [(*entry[:1], following[1]) for entry, following in
                zip(entries, [*entries[1:], (9, 8)], strict=True)]  # fmt: skip
        assert [end_offset_for_epoch(again, epoch) for epoch, _ in entries] == ends
    assert "does not fit" not in caplog.text
    for entries in ([(1, 0), (4, 7)], [(1, 0), (3, 6)], [(0, 0), (4, 3)], [(4, 3)]):
        log.epochs.path.write_bytes(checkpoints.encode_epochs(entries))
        again = open_log(config, clean=True, recovery_point=8)
        assert [end_offset_for_epoch(again, epoch) for epoch in (1, 4)] == [(1, 6), (4, 8)]
