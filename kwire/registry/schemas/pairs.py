"""The comparison of two schemas as pairs of their parts.

Parts refer to each other, also in cycles.  Each pair is compared once: what is compared already
gives its result again, and a pair that is being compared counts as compatible, because a cycle
alone makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kwire.registry.schemas.kinds import Incompatibility

PAIRS_MAX: Final = 100_000
"""Pairs of a comparison, which take about a second.  Choices of n and m types make n times m."""
DEPTH_MAX: Final = 80
"""Pairs inside each other.  Each takes up to eight calls, of which Python allows a thousand."""
DIFFERENCES_MAX: Final = 100
"""Differences of one pair that are kept.  Parts that are used often would repeat theirs without
end, and nobody reads so many."""


TOO_COMPLEX: Final = Incompatibility(
    "TOO_COMPLEX", "The schemas have too many or too deeply nested parts to be compared"
)
"""Said instead of differences where a comparison would take too long."""


class SchemaDifference(NamedTuple):
    """Something that a reader cannot read, and where it is."""

    error_type: str
    path: tuple[str, ...]
    info: str = ""
    """What a sentence says besides the place."""


class TooComplexError(Exception):
    """Two schemas are not compared to their end, because that would take too long."""


def below(differences: Iterable[SchemaDifference], *path: str) -> list[SchemaDifference]:
    """The differences of a part, with the path to it in front of theirs."""
    return [each._replace(path=(*path, *each.path)) for each in differences]


class Pairs:
    """The pairs of one comparison.  The parts must live as long: they are known by their `id`."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[SchemaDifference]] = {}
        self._open: dict[tuple[int, int], int] = {}
        """The pairs that are being compared, and their depth."""
        self._assumed: list[tuple[int, int]] = []
        """Known pairs that are compatible if an open one is."""
        self._lowest = DEPTH_MAX
        """The lowest depth of an open pair that was met again."""
        self._left = PAIRS_MAX

    def differences(
        self, reader: object, writer: object, compare: Callable[[], list[SchemaDifference]]
    ) -> list[SchemaDifference]:
        """What `compare` returns for a pair.  Raises TooComplexError."""
        key = (id(reader), id(writer))
        known = self._known.get(key)
        if known is not None:
            return known
        met_at = self._open.get(key)
        if met_at is not None:
            self._lowest = min(self._lowest, met_at)
            return []
        depth = len(self._open)
        if depth == DEPTH_MAX or self._left == 0:
            raise TooComplexError
        self._left -= 1
        self._open[key] = depth
        mark = len(self._assumed)
        outer, self._lowest = self._lowest, DEPTH_MAX
        found = compare()[:DIFFERENCES_MAX]
        del self._open[key]
        self._known[key] = found
        self._settle(key, mark, is_compatible=not found, is_alone=self._lowest >= depth)
        self._lowest = min(self._lowest, outer)
        return found

    def _settle(
        self, key: tuple[int, int], mark: int, *, is_compatible: bool, is_alone: bool
    ) -> None:
        """Keep or forget what was assumed while a pair was open.

        `is_alone` says that nothing outside of the pair was assumed.
        """
        if not is_compatible:
            for each in self._assumed[mark:]:
                del self._known[each]
        if not is_compatible or is_alone:
            del self._assumed[mark:]
        else:
            self._assumed.append(key)
