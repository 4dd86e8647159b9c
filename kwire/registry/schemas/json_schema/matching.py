"""The largest number of pairs of two sets of which each member is in one pair."""

from __future__ import annotations

from collections.abc import Sequence


def matched(edges: Sequence[Sequence[int]]) -> int:
    """The number of pairs.  `edges` has, for each member of the left set, its partners' numbers.

    Each round looks for a path from a member without a partner to one on the other side, by
    exchanging partners on the way (the algorithm of Kuhn, without recursion).
    """
    left_of: dict[int, int] = {}
    right_of: dict[int, int] = {}
    for left in range(len(edges)):
        came_from: dict[int, int] = {}
        waiting = [left]
        free: int | None = None
        while waiting and free is None:
            current = waiting.pop()
            for right in edges[current]:
                if right in came_from:
                    continue
                came_from[right] = current
                if right not in left_of:
                    free = right
                    break
                waiting.append(left_of[right])
        while free is not None:
            current = came_from[free]
            left_of[free] = current
            before = right_of.get(current)
            right_of[current] = free
            free = before
    return len(left_of)
