"""Numbers, sizes, times and bytes as text for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
SPANS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHARS_MAX = 60


def many(count: int, noun: str = "record") -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number_name(value: int | None) -> str:
    """`2,000`, or a dash for None."""
    return "-" if value is None else f"{value:,}"


def size_name(size_bytes: float) -> str:
    """`512 B`, `4 kB`, `1.5 MB`: powers of 1024."""
    power = 0
    while size_bytes >= 1024 and power < len(UNITS) - 1:
        size_bytes, power = size_bytes / 1024, power + 1
    return f"{_short(size_bytes)} {UNITS[power]}"


def duration_name(ms: int) -> str:
    """`90 ms`, `2 min`, `1.5 h`, `7 d`."""
    for unit_ms, unit in SPANS_MS:
        if ms >= unit_ms:
            return f"{_short(ms / unit_ms)} {unit}"
    return f"{ms} ms"


def _short(number: float) -> str:
    """One decimal place unless it is 0, and no exponent."""
    return f"{number:.1f}".removesuffix(".0")


def time_name(ms: int | None) -> str:
    """`2026-03-01 12:00:00` in UTC; before 1970 and after 9999 the milliseconds."""
    if ms is None:
        return "-"
    try:
        return f"{EPOCH + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S}" if ms >= 0 else f"{ms} ms"
    except OverflowError:
        return f"{ms} ms"


def share_name(part: int, whole: int) -> str:
    """`12 %`.  A part above 0 is never shown as 0 %."""
    if not whole:
        return "-"
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 1 or not part else "< 1 %"


def shown(data: bytes | None, chars_max: int = CHARS_MAX) -> str | None:
    """A key or value as text if it is UTF-8, otherwise as hexadecimal, cut to `chars_max`."""
    if data is None:
        return None
    try:
        text = bytes(data).decode()
        if not text.isprintable():
            text = repr(text)[1:-1]
    except UnicodeDecodeError:
        text = "0x" + bytes(data[: chars_max // 2]).hex()
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
