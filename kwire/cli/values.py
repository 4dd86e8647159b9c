"""The types of options: settings, partitions, offsets, times, durations, sizes.

Each function parses the text of an option, and raises click.BadParameter if it is invalid.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from kwire.cli.grammar.bounds import DURATION_S_MAX, INT32_MAX, INT64_MAX, PARTITIONS_LISTED_MAX
from kwire.cli.grammar.commands import renamed_option
from kwire.client.ranges import ranges

F = TypeVar("F", bound=Callable[..., Any])

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
TIMESTAMP_MS_MAX = INT64_MAX
"""The largest timestamp of ListOffsets, an int64.  Negative ones have special meanings there."""
SHOWN_MAX = 60
PORT_MAX = 65_535
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def setting(text: str) -> tuple[str, str]:
    """(name, value) of `name=value`.  The value may contain `=` and may be empty."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.BadParameter(f"{text!r} is not name=value")
    return name.strip(), value.strip()


def settings_option(
    *names: str,
    help: str,  # noqa: A002 - click's own word
    old: Sequence[str] = (),
) -> Callable[[F], F]:
    """An option of settings, which may be given several times; `old` are its former names."""
    return renamed_option(
        *names, old=old, type=setting, metavar="NAME=VALUE", multiple=True, help=help
    )


def metrics_address(text: str) -> dict[str, str]:
    """The settings of the metrics endpoint for `[HOST:]PORT`; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX or (colon and not host):
        raise click.BadParameter(f"{text!r} is not [HOST:]PORT")
    settings = {"metrics.port": port}
    if host:
        settings["metrics.host"] = host.removeprefix("[").removesuffix("]")
    return settings


def named_principal(text: str) -> str:
    """A principal like `User:alice`."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise click.BadParameter(f"{text!r} is not like User:alice")
    return text


def partitions(text: str) -> list[int]:
    """The partition numbers in `0`, `0,2` or `4-7`, sorted."""
    chosen: set[int] = set()
    for part in text.split(","):
        numbers = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if numbers is None:
            raise click.BadParameter(f"{shortened(text)} is not like 0 or 0,2 or 4-7")
        first, last = (_partition(number) for number in (numbers[1], numbers[2] or numbers[1]))
        if last < first:
            raise click.BadParameter(f"{shortened(text)} is not like 0 or 0,2 or 4-7")
        # Check the size before the numbers are created: 0-2147483647 would take 100 GB.
        if len(chosen) + last - first >= PARTITIONS_LISTED_MAX:
            raise click.BadParameter(
                f"{shortened(text)} names more than {PARTITIONS_LISTED_MAX:,} partitions, which"
                " no topic has"
            )
        chosen.update(range(first, last + 1))
    return sorted(chosen)


def _partition(digits: str) -> int:
    """The number of a partition, an int32.  Digits are counted first, since int() has a limit."""
    if len(digits.lstrip("0")) > 10 or int(digits) > INT32_MAX:
        raise click.BadParameter(f"partition {shortened(digits)}: numbers end at {INT32_MAX}")
    return int(digits)


def shortened(text: str) -> str:
    """The text in quotes for an error message, cut to SHOWN_MAX characters."""
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}...")


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """(topic, partitions) of `topic:0,2`; None stands for all partitions of `topic`."""
    topic, colon, listed = text.partition(":")
    if not topic:
        raise click.BadParameter(f"{text!r} is not like topic or topic:0,2")
    return topic, partitions(listed) if colon else None


EARLIEST, LATEST = "earliest", "latest"
PLACES = {EARLIEST: EARLIEST, "beginning": EARLIEST, LATEST: LATEST, "end": LATEST}
"""The names of positions: earliest and latest as in Kafka's tools, beginning and end as in kcat."""


def position(text: str) -> int | str:
    """An offset, EARLIEST or LATEST.  A negative offset counts from the end."""
    if (place := PLACES.get(text.strip().lower())) is not None:
        return place
    if re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text) is None:
        raise click.BadParameter(
            f"{shortened(text)} is not earliest, latest or an offset like 120 or -10"
        )
    if abs(int(text)) > INT64_MAX:
        raise click.BadParameter(f"{text!r}: offsets end at {INT64_MAX}")
    return int(text)


def instant(text: str) -> int:
    """A time in ms since 1970, parsed by `instant_ms`."""
    try:
        time_ms = instant_ms(text.strip(), time.time_ns() // 1_000_000)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{text!r} is not a time like 2026-03-01T12:00, 1772366400000 or -2h"
        ) from error
    if time_ms < 0:
        raise click.BadParameter(f"{text!r} is before 1970, when the timestamps of records begin")
    if time_ms > TIMESTAMP_MS_MAX:
        raise click.BadParameter(f"{text!r} is later than a timestamp can be")
    return time_ms


def instant_ms(text: str, now_ms: int) -> int:
    """The time that a text means, in ms since 1970.  Raises ValueError.

    The text is ISO 8601, in UTC without a zone as in Kafka's tools; or ms since 1970; or a time
    ago, as in `-15m`, `-2h`, `-1d`.
    """
    if ago := re.fullmatch(r"-(\d+(?:\.\d+)?)([smhdw])", text):
        return now_ms - int(float(ago[1]) * UNITS_S[ago[2]] * 1000)  # OverflowError of infinity
    if re.fullmatch(r"\d{9,}", text):
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // timedelta(milliseconds=1)


def duration_s(text: str) -> float:
    """The seconds of `10s`, `500ms`, `1.5m`, `2h` or `1d`; a number alone means seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|[smhdw]?)\s*", text)
    if match is None:
        raise click.BadParameter(f"{shortened(text)} is not a duration like 10s, 500ms or 1.5m")
    seconds: float = float(match[1]) * ({"ms": 0.001, "": 1} | UNITS_S)[match[2]]
    if seconds > DURATION_S_MAX:
        raise click.BadParameter(f"{shortened(text)} is longer than 1000 years (365000d)")
    return seconds


def size_bytes(text: str) -> int:
    """The bytes of `128MB`, `64k` or `1GiB`.  All units are powers of 1024."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    size = 0.0
    if match is not None:
        size = float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ")
    if size < 1:
        raise click.BadParameter(f"{shortened(text)} is not a size like 128MB or 64k")
    if size > INT64_MAX:  # It may be infinite, which int() refuses.
        raise click.BadParameter(f"{shortened(text)}: sizes end at {INT64_MAX} bytes")
    return int(size)


def iso_time(timestamp_ms: int) -> str:
    """A timestamp as `2026-03-01T12:00:00.000Z`; a dash if there is none."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:  # The timestamp, which clients choose, is after the year 9999.
        return f"{timestamp_ms}ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def partitions_text(topic: str, partitions: Iterable[int]) -> str:
    """`orders:0,4-7`, as `topic_partitions` takes it."""
    return f"{topic}:{ranges(partitions)}"


def separator(text: str) -> str:
    r"""A separator; the escapes `\t`, `\n`, `\0` and `\x1f` are decoded."""
    if not text:
        raise click.BadParameter("the separator is empty: it has to separate keys from values")

    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] == "x" else ESCAPES[code]

    return re.sub(r"\\(t|n|r|0|\\|x[0-9a-fA-F]{2})", character, text)
