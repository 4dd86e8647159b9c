"""How far a follower truncates its log, depending on its leader's answers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kwire.cluster.replication.following import (
    FetchStep,
    FullTruncation,
    Truncation,
    first_step,
    truncation_after_out_of_range,
    truncation_for_epoch_end,
)


@dataclass
class EpochsOf:
    """A follower's log: its epochs with their end offsets, ascending."""

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
        (-1, -1, Truncation(12, True)),  # the leader knows nothing: the high watermark
        (-1, 15, Truncation(15, True)),
        (5, 30, Truncation(30, True)),
        (5, 40, Truncation(30, True)),
        (5, 25, Truncation(25, True)),
        (3, 40, Truncation(20, True)),  # the leader has more of epoch 3 than is here
        (3, 18, Truncation(18, True)),
        (
            4,
            25,
            Truncation(20, False),
        ),  # an epoch that is not known here: the one before it decides
        (2, 12, Truncation(10, False)),
        (0, 8, Truncation(8, True)),  # nothing is known here of so early an epoch
    ],
)
def test_log_is_truncated_to_the_common_prefix(
    epoch: int, end_offset: int, cut: Truncation
) -> None:
    assert truncation_for_epoch_end(LOG, 12, epoch, end_offset) == cut


def test_truncation_never_exceeds_the_log_end_offset() -> None:
    assert truncation_for_epoch_end(EpochsOf({1: 10}), 12, -1, -1) == Truncation(10, True)


@pytest.mark.parametrize(
    ("start", "end", "change"),
    [
        (0, 25, Truncation(25, True)),
        (0, 30, None),
        (0, 40, None),
        (30, 40, None),
        (31, 40, FullTruncation(31)),
    ],
)
def test_out_of_range_offset_truncates_restarts_or_retries(
    start: int, end: int, change: Truncation | FullTruncation | None
) -> None:
    assert truncation_after_out_of_range(LOG, start, end) == change


def test_first_step_depends_on_the_fetch_version_and_known_epochs() -> None:
    assert first_step(LOG, truncates_on_fetch=True) is FetchStep.FETCH
    assert first_step(LOG, truncates_on_fetch=False) is FetchStep.ASK_EPOCH
    assert first_step(EpochsOf({}), truncates_on_fetch=False) is FetchStep.FETCH
