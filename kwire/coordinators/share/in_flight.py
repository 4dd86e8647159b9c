"""The in-flight records of a share partition, as runs of offsets in the same state.

state         meaning of the state of a record
------------  ------------------------------------------------------------------------------------
AVAILABLE     no member has it: it was not delivered yet, or was released
ACQUIRED      a member has it, until its acquisition lock ends
ACKNOWLEDGED  a member has processed it (terminal)
ARCHIVING     it was rejected or delivered too often, and is written to the dead-letter topic
ARCHIVED      it is never delivered again (terminal): it was rejected or delivered too often, or
              the offset holds no record
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kwire.coordinators.share.batches import TERMINAL, DeliveryState

NOBODY = ""
NO_LOCK = 0


class Delivery(NamedTuple):
    """The delivery state of each record of a run."""

    state: DeliveryState
    times: int
    """Delivery count: how often each record was delivered."""
    member_id: str = NOBODY
    lock_ends_ms: int = NO_LOCK

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL


UNREAD = Delivery(DeliveryState.AVAILABLE, 0)


@dataclass(slots=True)
class RecordRun:
    """A run of records: offsets `first` to `last`, inclusive.

    `is_changing`: a change of the run is being written; `delivery` is the old state until then.
    `is_split`: the run was cut off other records that were acquired in the same batch.
    `acquired_together`: number of records in the batch of the first delivery.
    """

    first: int
    last: int
    delivery: Delivery
    is_changing: bool = False
    is_split: bool = False
    acquired_together: int = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_like(self, other: RecordRun) -> bool:
        """Return whether both runs are equal except for their offsets."""
        same = self.delivery == other.delivery and self.is_changing == other.is_changing
        return same and (self.is_split, self.acquired_together) == (
            other.is_split,
            other.acquired_together,
        )

    @property
    def is_available(self) -> bool:
        return self.delivery.state is DeliveryState.AVAILABLE and not self.is_changing


class RecordRuns:
    """All runs of a share partition in offset order, without gaps."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The start offset: all records before it are in a terminal state."""
        self._runs: list[RecordRun] = []

    def __iter__(self) -> Iterator[RecordRun]:
        return iter(self._runs)

    @property
    def end(self) -> int:
        """The offset after the last run."""
        return self._runs[-1].last + 1 if self._runs else self.start

    def extend(self, last: int, delivery: Delivery) -> None:
        """Append a run from the current end to `last`."""
        first = self.end
        if last >= first:
            self._runs.append(RecordRun(first, last, delivery, acquired_together=last - first + 1))

    def within(self, first: int, last: int) -> list[RecordRun]:
        """The runs of exactly these offsets, after cutting runs at both ends of the range."""
        self._cut(first)
        self._cut(last + 1)
        return [run for run in self._from(first) if run.last <= last]

    def _from(self, first: int) -> list[RecordRun]:
        return self._runs[bisect_right(self._runs, first - 1, key=lambda run: run.first) :]

    def _cut(self, offset: int) -> None:
        """Splits the run that contains `offset`, so that a run begins at `offset`."""
        index = bisect_right(self._runs, offset, key=lambda run: run.first) - 1
        if index < 0:
            return
        run = self._runs[index]
        if run.first < offset <= run.last:
            run.is_split = run.is_split or run.delivery.times > 0
            rest = replace(run, first=offset)
            self._runs.insert(index + 1, rest)
            run.last = offset - 1

    def drop_before(self, start: int) -> None:
        """Drop all runs before `start`, which becomes the start offset."""
        self._cut(start)
        self._runs = [run for run in self._runs if run.first >= start]
        self.start = start

    def drop_unread(self, last: int) -> None:
        """Drop the runs at the end, after `last`, that were never delivered."""
        self._cut(last + 1)
        while self._runs and self._runs[-1].first > last and self._runs[-1].delivery is UNREAD:
            del self._runs[-1]

    def drop_terminal(self) -> None:
        """Raise the start offset over terminal runs at the front; joins equal neighbours."""
        dropped = 0
        for run in self._runs:
            if run.is_changing or not run.delivery.is_terminal:
                break
            self.start = run.last + 1
            dropped += 1
        del self._runs[:dropped]
        self._join()

    def _join(self) -> None:
        """Join adjacent runs in the same state."""
        joined: list[RecordRun] = []
        for run in self._runs:
            before = joined[-1] if joined else None
            if before is not None and before.is_like(run):
                before.last = run.last
            else:
                joined.append(run)
        self._runs = joined
