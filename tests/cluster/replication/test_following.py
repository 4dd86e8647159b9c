"""What a follower does next with its log, by what its leader answers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kwire.cluster.replication.following import (
    Cut,
    Next,
    Restart,
    after_out_of_range,
    cut_after_answer,
    first_step,
)


@dataclass
class EpochsOf:
    """A follower's log: where its epochs ended, ascending."""

    ends: dict[int, int]

    @property
    def log_end_offset(self) -> int:
        return max(self.ends.values(), default=0)

    @property
    def latest_epoch(self) -> int:
        return max(self.ends, default=-1)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        known = [each for each in self.ends if each <= epoch]
        return (max(known), self.ends[max(known)]) if known else (-1, -1)


LOG = EpochsOf({1: 10, 3: 20, 5: 30})


@pytest.mark.parametrize(
    ("epoch", "end_offset", "cut"),
    [
        (-1, -1, Cut(12, True)),  # the leader knows nothing: the high watermark
        (-1, 15, Cut(15, True)),
        (5, 30, Cut(30, True)),
        (5, 40, Cut(30, True)),
        (5, 25, Cut(25, True)),
        (3, 40, Cut(20, True)),  # the leader has more of epoch 3 than is here
        (3, 18, Cut(18, True)),
        (4, 25, Cut(20, False)),  # an epoch that is not known here: the one before it decides
        (2, 12, Cut(10, False)),
        (0, 8, Cut(8, True)),  # nothing is known here of so early an epoch
    ],
)
def test_log_is_cut_to_what_both_may_share(epoch: int, end_offset: int, cut: Cut) -> None:
    assert cut_after_answer(LOG, 12, epoch, end_offset) == cut


def test_log_that_ends_before_the_high_watermark_is_not_prolonged() -> None:
    assert cut_after_answer(EpochsOf({1: 10}), 12, -1, -1) == Cut(10, True)


@pytest.mark.parametrize(
    ("start", "end", "change"),
    [
        (0, 25, Cut(25, True)),
        (0, 30, None),
        (0, 40, None),
        (30, 40, None),
        (31, 40, Restart(31)),
    ],
)
def test_offset_that_the_leader_lacks(start: int, end: int, change: Cut | Restart | None) -> None:
    assert after_out_of_range(LOG, start, end) == change


def test_first_question_depends_on_the_leaders_version_and_known_epochs() -> None:
    assert first_step(LOG, truncates_on_fetch=True) is Next.FETCH
    assert first_step(LOG, truncates_on_fetch=False) is Next.ASK_EPOCH
    assert first_step(EpochsOf({}), truncates_on_fetch=False) is Next.FETCH
