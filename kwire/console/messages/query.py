"""What the URL of a page of messages says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from kwire.console.decoding.decoder import AUTO, FORMS
from kwire.console.filtering.parsing import Expression, parsed, time_of
from kwire.console.filtering.tokens import BadExpression, quoted

NEWEST, OLDEST, OFFSET, TIME, LIVE = "newest", "oldest", "offset", "time", "live"
STARTS: Final = (NEWEST, OLDEST, OFFSET, TIME, LIVE)
LIMITS: Final = (25, 50, 100, 250)
LIMIT: Final = 50
TEXT_LENGTH_MAX: Final = 1000
PARTITIONS_MAX: Final = 100_000
OFFSET_MAX: Final = 2**63 - 1
NAMES: Final = (
    "from", "offset", "time", "partitions", "key", "value", "header", "where", "keys", "values",
    "limit", "committed",
)  # fmt: skip
"""The parameters of a query, in the order of a link; `at` is the position in it."""
UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

Positions = dict[int, int]
"""An offset by partition."""


class BadQuery(ValueError):
    """A query that cannot be answered; `parameter` is the one that is wrong."""

    def __init__(self, parameter: str, message: str) -> None:
        """`message` says why, as a sentence for the visitor."""
        super().__init__(message)
        self.parameter = parameter


@dataclass(frozen=True)
class MessageQuery:
    """Which records of a topic, and how they are shown."""

    start: str = NEWEST
    offset: int = 0
    time_ms: int = 0
    partitions: frozenset[int] | None = None
    """None stands for all."""
    expression: Expression | None = None
    """All filters together, or None without any."""
    key_form: str = AUTO
    value_form: str = AUTO
    limit: int = LIMIT
    is_committed: bool = False
    """Whether records of open and aborted transactions are left out."""
    at: Positions | None = None
    """Where an earlier page has ended, by partition; None for the first page."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The parameters as they were given, for the form and for links."""

    @property
    def is_backward(self) -> bool:
        """Whether the newest records come first."""
        return self.start == NEWEST

    def link(self, **changes: str) -> str:
        """The query of a URL with these changes, without the position."""
        named = {**self.given, **changes}
        kept = [(name, named[name]) for name in (*NAMES, "at") if named.get(name)]
        return "?" + urlencode(kept, errors="replace")


def message_query(parameters: Mapping[str, str], now_ms: int) -> MessageQuery:
    """The query in the parameters of a URL.  Raises BadQuery.

    `now_ms` is what a time such as `-2h` counts from.
    """
    given = {name: parameters[name].strip() for name in NAMES if parameters.get(name)}
    start = given.get("from", NEWEST)
    if start not in STARTS:
        raise BadQuery("from", f"Messages start at {', '.join(STARTS)}.")
    for name in ("key", "value", "header"):
        if len(given.get(name, "")) > TEXT_LENGTH_MAX:
            raise BadQuery(name, f"The text has more than {TEXT_LENGTH_MAX} characters.")
    return MessageQuery(
        start,
        _offset(given.get("offset", "0")) if start == OFFSET else 0,
        _time_ms(given.get("time", ""), now_ms) if start == TIME else 0,
        _partitions(given.get("partitions", "")),
        _expression(given),
        _form(given, "keys"),
        _form(given, "values"),
        _limit(given.get("limit", "")),
        given.get("committed") == "yes",
        positions_of(parameters["at"]) if parameters.get("at") else None,
        given,
    )


def _limit(text: str) -> int:
    return next((limit for limit in LIMITS if str(limit) == text), LIMIT)


def _offset(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > OFFSET_MAX:
        raise BadQuery("offset", "An offset is a whole number.")
    return int(text)


def _time_ms(text: str, now_ms: int) -> int:
    """A time in ms: ISO in UTC, ms since 1970, or a time ago as `-2h`."""
    if found := re.fullmatch(r"-([0-9]{1,9})([smhdw])", text):
        return max(0, now_ms - int(found[1]) * UNITS_MS[found[2]])
    if re.fullmatch(r"[0-9]{10,18}", text):
        return int(text)
    time_ms = time_of(text)
    if time_ms is None or time_ms < 0:
        raise BadQuery("time", "A time is like 2026-11-26T12:00 (UTC), -2h, or ms since 1970.")
    return time_ms


def _form(given: Mapping[str, str], name: str) -> str:
    form = given.get(name, AUTO)
    if form not in FORMS:
        raise BadQuery(name, f"Records are shown as {', '.join(FORMS)}.")
    return form


def _partitions(text: str) -> frozenset[int] | None:
    """The partitions of `0,4-7`; None for all."""
    if not text:
        return None
    found: set[int] = set()
    for part in text.split(","):
        numbers = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", part)
        first, last = (int(numbers[1]), int(numbers[2] or numbers[1])) if numbers else (1, 0)
        if last < first or len(found) + last - first >= PARTITIONS_MAX:
            raise BadQuery("partitions", "Partitions are like 0,4-7.")
        found.update(range(first, last + 1))
    return frozenset(found)


def _expression(given: Mapping[str, str]) -> Expression | None:
    """All filters as one expression."""
    conditions = [
        f"{part} contains {quoted(given[part])}" for part in ("key", "value") if given.get(part)
    ]
    if header := given.get("header"):
        name, equals, text = header.partition("=")
        path = f"header[{quoted(name.strip())}]"
        condition = f"{path} contains {quoted(text.strip())}" if equals else f"{path} is not absent"
        conditions.append(condition)
    try:
        if where := given.get("where"):
            parsed(where)  # alone, so that a message gives the position in what was typed
            conditions.append(f"({where})")
        return parsed(" and ".join(conditions)) if conditions else None
    except BadExpression as problem:
        raise BadQuery("where", f"{str(problem)[:1].upper()}{str(problem)[1:]}.") from None


def positions_of(text: str) -> Positions:
    """The positions in `0:12,1:7`.  Raises BadQuery."""
    found: Positions = {}
    for part in text.split(","):
        if not re.fullmatch(r"[0-9]{1,9}:[0-9]{1,19}", part):
            raise BadQuery("at", "The position in the URL is invalid: start the search again.")
        partition, _, offset = part.partition(":")
        found[int(partition)] = min(int(offset), OFFSET_MAX)
    return found


def positions_text(positions: Mapping[int, int]) -> str:
    """Positions as they are in a URL."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))
