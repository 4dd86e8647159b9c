"""Values of a cluster as text for a page.

Names and records come from strangers.  The templates escape HTML; `visible` shows the characters
that a browser would obey or hide, and cuts long text.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup, escape

CUT_AFTER: Final = 240
"""Characters of a value in a table; the page of a record shows all of it."""

_OBEYED: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
"""Control characters, marks of the writing direction, characters without width, and halves of
surrogate pairs, which UTF-8 cannot carry."""
_OBEYED_IN_LINES: Final = re.compile(_OBEYED.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))

UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
SHORT_COUNTS: Final = ("", " k", " M", " G", " T", " P", " E")
DAY_MS: Final = 86_400_000


def _symbol(found: re.Match[str]) -> str:
    """The symbol of one character: a control picture, or its number."""
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def visible(value: object, limit: int = CUT_AFTER) -> str:
    """The text of a value on one line, with symbols for what a browser would obey or hide.

    Text of more than `limit` characters is cut, and its length is said.
    """
    text = str(value)
    if len(text) <= limit:
        return _OBEYED.sub(_symbol, text)
    return f"{_OBEYED.sub(_symbol, text[:limit])}\u2026 ({len(text):,} characters)"


def visible_lines(value: object, limit: int | None = None) -> str:
    """As `visible`, but line ends and tabs stay."""
    text = str(value)
    cut = text if limit is None else text[:limit]
    shown = _OBEYED_IN_LINES.sub(_symbol, cut)
    return shown if len(cut) == len(text) else f"{shown}\u2026 ({len(text):,} characters)"


def _scaled(number: float, units: tuple[str, ...]) -> str:
    """A number with the unit that leaves it below 1,000."""
    step = 0
    while abs(number) >= 999.5 and step + 1 < len(units):
        number /= 1000
        step += 1
    if step == 0:
        return f"{number:,.0f}{units[0]}"
    return f"{number:.{0 if abs(number) >= 99.95 else 1}f}{units[step]}"


def size_text(size_bytes: float) -> str:
    """A size as people read it: `1.2 MB`."""
    return _scaled(size_bytes, tuple(f" {unit}" for unit in UNITS))


def count_text(number: float) -> str:
    """A count as people read it: `12.3 k`.  Up to 9,999 it is exact."""
    return f"{number:,.0f}" if abs(number) < 10_000 else _scaled(number, SHORT_COUNTS)


def rate_text(per_second: float) -> str:
    """A rate per second: `0.25`, `12.3 k`."""
    if per_second and abs(per_second) < 10:
        return f"{per_second:.2f}".rstrip("0").rstrip(".")
    return count_text(per_second)


def _titled(shown: str, exact: str) -> Markup:
    return Markup('<span title="{}">{}</span>').format(exact, shown)


def size(size_bytes: int | None) -> Markup:
    """A size with the exact number of bytes as title; a dash if it is unknown."""
    if size_bytes is None:
        return unknown()
    return _titled(size_text(size_bytes), f"{size_bytes:,} bytes")


def count(number: int | None) -> Markup:
    """A count with the exact number as title; a dash if it is unknown."""
    if number is None:
        return unknown()
    return _titled(count_text(number), f"{number:,}")


def offset(number: int | None) -> Markup:
    """An offset with all of its digits; a dash if it is unknown."""
    return unknown() if number is None else Markup(escape(f"{number:,}"))


def rate(per_second: float | None) -> Markup:
    """A rate per second with more digits as title; a dash if it is unknown."""
    if per_second is None:
        return unknown()
    return _titled(rate_text(per_second), f"{per_second:,.3f} per second")


def unknown() -> Markup:
    """A dash, which screen readers read as `unknown`."""
    return Markup('<span class="unknown" title="unknown" aria-label="unknown">\u2013</span>')


def time_text(time_ms: int) -> str:
    """A time in ms since 1970 as `2026-11-26 13:40:54.123`, in UTC.

    A time that no calendar has is shown as a number.
    """
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"


def when(time_ms: int | None) -> Markup:
    """A time as an element, in UTC; a dash if it is unknown or -1."""
    if time_ms is None or time_ms < 0:
        return unknown()
    return Markup('<time title="{} ms">{}</time>').format(time_ms, time_text(time_ms))


def duration_text(duration_ms: float) -> str:
    """A duration as people read it: `250 ms`, `3.5 s`, `2 h`, `7 days`."""
    if duration_ms < 1000:
        return f"{duration_ms:.0f} ms"
    for unit, size_ms in (("day", DAY_MS), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if duration_ms >= size_ms:
            number = f"{duration_ms / size_ms:.1f}".removesuffix(".0")
            plural = "s" if unit == "day" and number != "1" else ""
            return f"{number} {unit}{plural}"
    raise AssertionError(duration_ms)


def marked(text: str, found: str) -> Markup:
    """The text with each place where it has `found`, in any case, in a `mark` element."""
    shown = visible(text)
    if not found:
        return Markup(escape(shown))
    parts = re.split(f"({re.escape(found)})", shown, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )
