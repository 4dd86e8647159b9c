"""The words of a filter expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

LENGTH_MAX: Final = 2000
"""Characters of an expression, which is part of a URL."""
TOKENS_MAX: Final = 400

WORDS: Final = frozenset(
    {
        "and", "or", "not", "in", "is", "null", "absent", "true", "false",
        "contains", "starts", "ends", "matches",
    }
)  # fmt: skip
"""Words that are no names; a field of such a name is written `value["and"]`."""

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]))
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>[^\W\d][\w-]*)
    | (?P<sign>==|!=|<=|>=|<>|&&|\|\||[=<>!()\[\].,~])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


class BadExpression(ValueError):
    """An expression that cannot be used.  The message says why, `position` where."""

    def __init__(self, message: str, position: int) -> None:
        """`position` counts characters of the expression from 0."""
        super().__init__(f"{message} (at character {position + 1})")
        self.position = position


class FilterToken(NamedTuple):
    """A word, a sign or a literal of an expression."""

    kind: str
    """`number`, `string`, `name`, `word`, `sign` or `end`."""
    text: str
    """As it is written; a string without its quotes and escapes; a word in lower case."""
    position: int


def tokens(expression: str) -> list[FilterToken]:
    """The tokens of an expression, and one of kind `end`.  Raises BadExpression."""
    if len(expression) > LENGTH_MAX:
        raise BadExpression(f"an expression has at most {LENGTH_MAX} characters", LENGTH_MAX)
    found = list(_tokens(expression))
    if len(found) > TOKENS_MAX:
        raise BadExpression(f"an expression has at most {TOKENS_MAX} words", found[-1].position)
    return [*found, FilterToken("end", "", len(expression))]


def _tokens(expression: str) -> Iterator[FilterToken]:
    position, end = 0, len(expression.rstrip())
    while position < end:
        match = _TOKEN.match(expression, position)
        if match is None:
            at = position + len(expression[position:]) - len(expression[position:].lstrip())
            if expression[at] in "\"'":
                raise BadExpression("the quote has no end", at)
            raise BadExpression(f"{expression[at]!r} is not expected", at)
        kind = match.lastgroup or ""
        text, start = match[kind], match.start(kind)
        if kind == "string":
            text = _ESCAPE.sub(_unescaped, text[1:-1])
        elif kind == "name" and text.lower() in WORDS:
            kind, text = "word", text.lower()
        yield FilterToken(kind, text, start)
        position = match.end()


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)


def quoted(text: str) -> str:
    """A text as a string of an expression."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
