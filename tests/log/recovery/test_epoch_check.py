"""`leader-epoch-checkpoint` beside the batches: what is right stays, what is not is made anew."""

from __future__ import annotations

import pytest

from kwire.log import end_offset_for_epoch
from tests.log.conftest import NOW_MS, Append, OpenLog


@pytest.mark.parametrize("clean", [True, False])
def test_a_leader_that_nobody_has_written_to_is_right(
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


def test_making_the_epochs_anew_keeps_that_leader(
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
def test_what_does_not_fit_is_made_anew(
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


def test_the_batches_are_looked_at_once(
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
