"""The tables of `kwire top`: columns and their texts; sorting and filtering of rows.  No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kwire.cli.operating.live.rows import (
    TopView,
)
from kwire.cli.text.output import bytes_text

UNKNOWN: Final = "-"
DAY_S: Final = 86_400


def rate_text(per_s: float | None) -> str:
    """A rate as `0`, `0.25`, `12`, `3,400`; with two digits below 10."""
    if per_s is None:
        return UNKNOWN
    if per_s == 0:
        return "0"
    return f"{per_s:.2f}" if abs(per_s) < 10 else f"{per_s:,.0f}"


def byte_rate_text(per_s: float | None) -> str:
    """A rate of bytes as `1.5 MB/s`; negative if bytes disappear."""
    if per_s is None:
        return UNKNOWN
    sign = "-" if per_s <= -0.5 else ""
    return f"{sign}{bytes_text(round(abs(per_s)))}/s"


def count_text(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def size_text(size_bytes: int | None) -> str:
    return UNKNOWN if size_bytes is None else bytes_text(size_bytes)


def ms_text(milliseconds: float | None) -> str:
    """A time as `0.12`, `12.3` or `1,234` (ms)."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 10:
        return f"{milliseconds:.2f}"
    return f"{milliseconds:.1f}" if milliseconds < 100 else f"{milliseconds:,.0f}"


def left_text(seconds: float | None) -> str:
    """A time to wait as `12s`, `5m`, `3h`, `2d`."""
    if seconds is None:
        return UNKNOWN
    for unit, unit_s in (("d", DAY_S), ("h", 3600), ("m", 60)):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f}{unit}"
    return f"{seconds:.0f}s"


def share_text(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.1f} %"


def plain(value: object) -> str:
    """A text as it is; a dash if it is None or empty."""
    return UNKNOWN if value is None or value == "" else str(value)


def phases_text(phases: dict[str, float]) -> str:
    """The phases that took at least a tenth of a request, such as `remote 12.0, local 3.10`."""
    total = sum(phases.values())
    large = sorted(phases.items(), key=lambda each: -each[1])
    return ", ".join(
        f"{name.replace('_', ' ')} {ms_text(value)}"
        for name, value in large
        if value >= total / 10 and value > 0
    )


@dataclass(frozen=True, slots=True)
class TopColumn:
    """A column: its title, the field of the row, and how the field is written."""

    title: str
    field: str
    text: Callable[[Any], str] = plain
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class TopTable:
    """A table: the key that shows it, the field of TopView with its rows, and its columns.

    `name` is the field of the rows whose text names the row; a filter looks at it.  Rows are sorted
    by `sorted_by` at first, the largest first.
    """

    key: str
    title: str
    rows: str
    name: str
    columns: tuple[TopColumn, ...]
    sorted_by: str
    needs_metrics: bool = False

    def field_after(self, field: str) -> str:
        """The next column to sort by."""
        fields = [each.field for each in self.columns]
        return fields[(fields.index(field) + 1) % len(fields)]


TOPICS: Final = TopTable(
    "t", "topics", "topics", "topic",
    (
        TopColumn("topic", "topic", is_number=False),
        TopColumn("records/s", "records_in_per_s", rate_text),
        TopColumn("in", "bytes_in_per_s", byte_rate_text),
        TopColumn("out", "bytes_out_per_s", byte_rate_text),
        TopColumn("size", "size_bytes", size_text),
        TopColumn("growth", "growth_bytes_per_s", byte_rate_text),
        TopColumn("lag", "lag", count_text),
        TopColumn("groups", "groups", count_text),
        TopColumn("partitions", "partitions", count_text),
    ),
    sorted_by="records_in_per_s",
)  # fmt: skip
GROUPS: Final = TopTable(
    "g", "groups", "groups", "group",
    (
        TopColumn("group", "group", is_number=False),
        TopColumn("type", "type", is_number=False),
        TopColumn("state", "state", is_number=False),
        TopColumn("members", "members", count_text),
        TopColumn("lag", "lag", count_text),
        TopColumn("lag/s", "lag_per_s", rate_text),
        TopColumn("read/s", "read_per_s", rate_text),
        TopColumn("left", "seconds_left", left_text),
        TopColumn("most behind", "worst", is_number=False),
        TopColumn("by", "worst_lag", count_text),
        TopColumn("coordinator", "coordinator", count_text),
        TopColumn("rebalanced", "rebalanced_s_ago", left_text),
        TopColumn("because", "rebalance_reason", is_number=False),
    ),
    sorted_by="lag",
)  # fmt: skip
BROKERS: Final = TopTable(
    "b", "brokers", "brokers", "address",
    (
        TopColumn("broker", "broker"),
        TopColumn("address", "address", is_number=False),
        TopColumn("trouble", "trouble", is_number=False),
        TopColumn("leaders", "leaders", count_text),
        TopColumn("records/s", "records_in_per_s", rate_text),
        TopColumn("in", "bytes_in_per_s", byte_rate_text),
        TopColumn("out", "bytes_out_per_s", byte_rate_text),
        TopColumn("requests/s", "requests_per_s", rate_text),
        TopColumn("errors/s", "errors_per_s", rate_text),
        TopColumn("connections", "connections", count_text),
        TopColumn("cpu", "cpu_share", share_text),
        TopColumn("memory", "memory_bytes", size_text),
        TopColumn("files", "open_files", count_text),
        TopColumn("size", "size_bytes", size_text),
        TopColumn("disk free", "usable_bytes", size_text),
    ),
    sorted_by="broker",
)  # fmt: skip
REQUESTS: Final = TopTable(
    "r", "requests", "requests", "api",
    (
        TopColumn("request", "api", is_number=False),
        TopColumn("per s", "per_s", rate_text),
        TopColumn("errors/s", "errors_per_s", rate_text),
        TopColumn("p50 ms", "p50_ms", ms_text),
        TopColumn("p99 ms", "p99_ms", ms_text),
        TopColumn("p99.9 ms", "p999_ms", ms_text),
    ),
    sorted_by="per_s",
    needs_metrics=True,
)  # fmt: skip
SLOW: Final = TopTable(
    "s", "slowest requests of the last two minutes", "slow", "client",
    (
        TopColumn("ms", "blamed_ms", ms_text),
        TopColumn("total ms", "total_ms", ms_text),
        TopColumn("request", "api", is_number=False),
        TopColumn("version", "version", count_text),
        TopColumn("client", "client", is_number=False),
        TopColumn("principal", "principal", is_number=False),
        TopColumn("address", "address", is_number=False),
        TopColumn("broker", "broker", count_text),
        TopColumn("ago", "seconds_ago", left_text),
        TopColumn("where", "phases_ms", phases_text, is_number=False),
    ),
    sorted_by="blamed_ms",
    needs_metrics=True,
)  # fmt: skip
CLIENTS: Final = TopTable(
    "c", "busiest clients", "clients", "client",
    (
        TopColumn("client", "client", is_number=False),
        TopColumn("principal", "principal", is_number=False),
        TopColumn("address", "address", is_number=False),
        TopColumn("broker", "broker", count_text),
        TopColumn("requests/s", "requests_per_s", rate_text),
        TopColumn("in", "bytes_in_per_s", byte_rate_text),
        TopColumn("out", "bytes_out_per_s", byte_rate_text),
        TopColumn("busy", "busy_share", share_text),
        TopColumn("throttled ms/s", "throttled_ms_per_s", rate_text),
    ),
    sorted_by="busy_share",
    needs_metrics=True,
)  # fmt: skip

TABLES: Final = (TOPICS, GROUPS, BROKERS, REQUESTS, SLOW, CLIENTS)


def chosen(
    view: TopView, table: TopTable, sorted_by: str, *, is_reversed: bool = False, wanted: str = ""
) -> list[Any]:
    """The rows of a table whose name contains `wanted`, sorted.

    Numbers are sorted with the largest first, and names in alphabetical order; `is_reversed` turns
    both round.  Unknown values are last.
    """
    rows = [
        row
        for row in getattr(view, table.rows)
        if wanted.lower() in str(getattr(row, table.name)).lower()
    ]
    is_number = next(each.is_number for each in table.columns if each.field == sorted_by)
    known = [row for row in rows if _value(row, sorted_by) is not None]
    unknown = [row for row in rows if _value(row, sorted_by) is None]
    # The ids of brokers are numbers, and go up.
    goes_down = is_number and sorted_by != "broker"
    known.sort(key=lambda row: _value(row, sorted_by), reverse=goes_down is not is_reversed)
    return known + unknown


def _value(row: object, field: str) -> Any:  # noqa: ANN401 - a number or a text
    value = getattr(row, field)
    return phases_text(value) if isinstance(value, dict) else value


def used_columns(rows: Sequence[object], table: TopTable) -> list[TopColumn]:
    """The columns with at least one known value: without metrics some have none."""
    return [
        each
        for each in table.columns
        if not rows or any(each.text(getattr(row, each.field)) != UNKNOWN for row in rows)
    ]
