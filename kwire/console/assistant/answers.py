"""Answers to an assistant: JSON of bounded length, without characters that nobody sees."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from mcp.types import CallToolResult, TextContent

from kwire.console.text import time_text, visible_lines

T = TypeVar("T")
Row = dict[str, Any]

ROWS_LENGTH_MAX: Final = 40_000
"""Characters of the rows of one answer, about 10,000 tokens: assistants warn of longer answers, and
an answer takes room in their context until the end of the conversation."""
ANSWER_LENGTH_MAX: Final = 100_000
"""Characters of a whole answer.  Rows and what stands beside them stay far below; an answer that is
longer all the same is refused."""
ROWS_MAX: Final = 200
"""The most rows that an assistant can ask for."""
NAME_LENGTH_MAX: Final = 300
"""Characters of a name.  Topics have at most 249; groups and clients may have more."""


class AnswerTooLong(ValueError):
    """An answer has more than ANSWER_LENGTH_MAX characters."""


def answer(data: Mapping[str, Any]) -> CallToolResult:
    """The data as JSON text and as structure.  Raises AnswerTooLong.

    Names and records come from strangers: characters that are invisible, or that change the
    direction of writing, become symbols, so that no text can hide another one.
    """
    safe = _safe(data)
    text = json.dumps(safe, ensure_ascii=False)
    if len(text) > ANSWER_LENGTH_MAX:
        raise AnswerTooLong(
            f"the answer has {len(text):,} characters, more than {ANSWER_LENGTH_MAX:,}: "
            "ask for less, such as fewer rows or shorter values"
        )
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=safe)


def _safe(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, Mapping):
        return {visible_lines(name): _safe(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(each) for each in value]
    return value


def fitted(
    things: Sequence[T], row_of: Callable[[T], Row], *, limit: int = ROWS_MAX
) -> tuple[list[Row], int]:
    """The rows of the first things, as many as an answer has room for; and how many it lacks."""
    rows: list[Row] = []
    length = 0
    for thing in things[:limit]:
        row = row_of(thing)
        length += len(json.dumps(row, ensure_ascii=False))
        if length > ROWS_LENGTH_MAX and rows:
            break
        rows.append(row)
    return rows, len(things) - len(rows)


def shortened(text: str, length_max: int = NAME_LENGTH_MAX) -> str:
    """The beginning of a text; of a longer one the answer says how long it is."""
    if len(text) <= length_max:
        return text
    return f"{text[:length_max]}… ({len(text):,} characters)"


def first_names(names: Iterable[object], limit: int = 50) -> list[str]:
    """The first few names as text; a last one says how many there are beyond."""
    found = [shortened(str(name)) for name in names]
    left_out = len(found) - limit
    return found if left_out <= 0 else [*found[:limit], f"… and {left_out} more"]


def time_of(time_ms: int | None) -> str | None:
    """A time in ms as text in UTC; None if there is none."""
    return None if time_ms is None or time_ms < 0 else f"{time_text(time_ms)} UTC"


def present(row: Mapping[str, Any]) -> Row:
    """The row without what is None, empty or false, which an assistant need not read."""
    return {name: value for name, value in row.items() if value not in (None, "", [], (), False)}
