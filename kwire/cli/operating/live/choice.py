"""What the user of `kwire top` has chosen by keys: a table, an order, a filter.  No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from kwire.cli.operating.live.tables import TABLES, TopTable

ESCAPE: Final = "\x1b"
ENTER: Final = ("\r", "\n")
BACKSPACE: Final = ("\x7f", "\b")
TAB: Final = "\t"
QUIT: Final = ("q", "Q")
BY_KEY: Final[dict[str, TopTable | None]] = {"o": None, **{each.key: each for each in TABLES}}
"""What each key shows, in the order of Tab; None stands for the overview."""
FILTER_MAX: Final = 100
"""The longest filter: the name of a topic has at most 249 characters, and this is a part of it."""

HELP: Final = (
    "t topics  g groups  b brokers  r requests  s slowest  c clients  o overview  Tab next"
    "  > sort by next column  < reverse  / filter  Esc no filter  p pause  q quit"
)


@dataclass(frozen=True, slots=True)
class TopChoice:
    """What is shown.  `table` is None for the overview."""

    table: TopTable | None = None
    sorted_by: dict[str, str] = field(default_factory=dict)
    """The column by which a table is sorted, by the table's key; without it, the table's own."""
    is_reversed: bool = False
    wanted: str = ""
    """The filter: names that contain it are shown."""
    is_typing: bool = False
    """Whether keys are characters of the filter."""
    is_paused: bool = False
    shows_help: bool = False
    is_over: bool = False

    def order_of(self, table: TopTable) -> str:
        """The field by which a table is sorted."""
        return self.sorted_by.get(table.key, table.sorted_by)

    def after(self, key: str) -> TopChoice:
        """The choice after a key.  A key without a meaning changes nothing."""
        if self.is_typing:
            return self._typed(key)
        if key in BY_KEY:
            return replace(self, table=BY_KEY[key], is_reversed=False)
        return self._moved(key) or self._switched(key)

    def _moved(self, key: str) -> TopChoice | None:
        """The choice after a key that changes the table or its order; None for other keys."""
        if key == TAB:
            order = list(BY_KEY.values())
            place = order.index(self.table) + 1
            return replace(self, table=order[place % len(order)], is_reversed=False)
        if key == ">" and self.table is not None:
            column = self.table.field_after(self.order_of(self.table))
            return replace(self, sorted_by={**self.sorted_by, self.table.key: column})
        if key == "<":
            return replace(self, is_reversed=not self.is_reversed)
        return None

    def _switched(self, key: str) -> TopChoice:
        """The choice after a key that begins, ends, or switches something on and off."""
        if key in QUIT:
            return replace(self, is_over=True)
        if key == "/":
            return replace(self, is_typing=True, wanted="")
        if key == ESCAPE:
            return replace(self, wanted="", shows_help=False)
        if key == "p":
            return replace(self, is_paused=not self.is_paused)
        if key in ("?", "h"):
            return replace(self, shows_help=not self.shows_help)
        return self

    def _typed(self, key: str) -> TopChoice:
        """The choice after a key while the filter is typed."""
        if key in ENTER:
            return replace(self, is_typing=False)
        if key == ESCAPE:
            return replace(self, is_typing=False, wanted="")
        if key in BACKSPACE:
            return replace(self, wanted=self.wanted[:-1])
        if key.isprintable():
            return replace(self, wanted=(self.wanted + key)[:FILTER_MAX])
        return self
