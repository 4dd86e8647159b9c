"""Records of a partition that are on their way, as runs of offsets that are in the same state.

state         what it means
------------  ----------------------------------------------------------------------------------
AVAILABLE     nobody has it: not read yet, or given back
ACQUIRED      a member has it, until its lock ends
ACKNOWLEDGED  it is done with
ARCHIVED      it is never delivered again: rejected, delivered too often, or no record at all
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
    """What is known of each record of a run."""

    state: DeliveryState
    times: int
    """How often it was delivered."""
    member_id: str = NOBODY
    lock_ends_ms: int = NO_LOCK

    @property
    def is_terminal(self) -> bool:
        return self.state in TERMINAL


UNREAD = Delivery(DeliveryState.AVAILABLE, 0)


@dataclass(slots=True)
class Run:
    """Offsets `first` to `last`.

    `is_changing`: what it is to become is being written; until that is settled it stays as it is.
    `is_part`: not all of what was acquired together went the same way.
    `together`: how many records that were, when they were delivered for the first time.
    """

    first: int
    last: int
    delivery: Delivery
    is_changing: bool = False
    is_part: bool = False
    together: int = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    def is_like(self, other: Run) -> bool:
        """But for the offsets."""
        same = self.delivery == other.delivery and self.is_changing == other.is_changing
        return same and (self.is_part, self.together) == (other.is_part, other.together)

    @property
    def is_available(self) -> bool:
        return self.delivery.state is DeliveryState.AVAILABLE and not self.is_changing


class Runs:
    """Runs in the order of their offsets, without a hole between them."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The first offset that is kept; all before it are done with."""
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def end(self) -> int:
        """The offset behind the last that is kept."""
        return self._runs[-1].last + 1 if self._runs else self.start

    def extend(self, last: int, delivery: Delivery) -> None:
        """Keep what follows, up to `last`."""
        first = self.end
        if last >= first:
            self._runs.append(Run(first, last, delivery, together=last - first + 1))

    def within(self, first: int, last: int) -> list[Run]:
        """The runs of exactly these offsets, as far as they are kept."""
        self._cut(first)
        self._cut(last + 1)
        return [run for run in self._from(first) if run.last <= last]

    def _from(self, first: int) -> list[Run]:
        return self._runs[bisect_right(self._runs, first - 1, key=lambda run: run.first) :]

    def _cut(self, offset: int) -> None:
        """Let a run begin at `offset`, if it is kept."""
        index = bisect_right(self._runs, offset, key=lambda run: run.first) - 1
        if index < 0:
            return
        run = self._runs[index]
        if run.first < offset <= run.last:
            run.is_part = run.is_part or run.delivery.times > 0
            rest = replace(run, first=offset)
            self._runs.insert(index + 1, rest)
            run.last = offset - 1

    def begin_at(self, start: int) -> None:
        """Forget all before `start`."""
        self._cut(start)
        self._runs = [run for run in self._runs if run.first >= start]
        self.start = start

    def forget_unread(self, last: int) -> None:
        """What is behind `last` and was never delivered is not on its way."""
        self._cut(last + 1)
        while self._runs and self._runs[-1].first > last and self._runs[-1].delivery is UNREAD:
            del self._runs[-1]

    def forget_done(self) -> None:
        """Move on behind the records that nothing is to be done with any longer."""
        done = 0
        for run in self._runs:
            if run.is_changing or not run.delivery.is_terminal:
                break
            self.start = run.last + 1
            done += 1
        del self._runs[:done]
        self._join()

    def _join(self) -> None:
        """Neighbours in the same state become one."""
        joined: list[Run] = []
        for run in self._runs:
            before = joined[-1] if joined else None
            if before is not None and before.is_like(run):
                before.last = run.last
            else:
                joined.append(run)
        self._runs = joined
