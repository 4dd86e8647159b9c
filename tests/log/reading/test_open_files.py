"""Which files stay open within a limit: those used since the last round are kept for one more."""

from __future__ import annotations

import random
from collections import deque

import pytest

from kwire.log.reading.region import OpenFiles


class Holder:
    def __init__(self) -> None:
        self.recently_used = True
        self.is_open = True

    def release(self) -> None:
        self.is_open = False


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_recently_used_file_gets_a_second_chance(limit: int) -> None:
    """By the clock algorithm: files are checked in the order in which they were added or kept."""
    chance = random.Random(limit)
    files = OpenFiles(limit)
    held: deque[Holder] = deque()
    for _ in range(300):
        step = chance.random()
        if step < 0.4 and held:
            chance.choice(held).recently_used = True
            continue
        if step < 0.5 and held:
            gone = chance.choice(held)
            files.discard(gone)
            held.remove(gone)
            assert gone.is_open, "it has closed its file itself"
            continue
        new = Holder()
        held.append(new)
        used = {id(each): each.recently_used for each in held}
        gone_now = []
        while len(held) > limit:
            oldest = held.popleft()
            if oldest is new or used[id(oldest)]:
                used[id(oldest)] = False
                held.append(oldest)
            else:
                gone_now.append(oldest)
        files.add(new)
        assert all(each.is_open for each in held)
        assert not any(each.is_open for each in gone_now)
        assert [each.recently_used for each in held] == [used[id(each)] for each in held]
        assert len(files) == len(held)
