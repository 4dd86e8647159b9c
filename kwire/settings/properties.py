"""Reads Java's `.properties` files as java.util.Properties.load does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kwire.settings.error import ConfigError

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings in a file.

    If a name is given twice, the last one wins.  Raises ConfigError.
    """
    try:
        text = path.read_text("latin-1")  # Properties.load assumes ISO 8859-1.
    except OSError as problem:
        raise ConfigError(f"cannot read {path}: {problem.strerror}") from problem
    try:
        return parse_properties(text)
    except ValueError as problem:
        raise ConfigError(f"{path}: {problem}") from problem


def parse_properties(text: str) -> dict[str, str]:
    """Return the settings in a text.  Raises ValueError for a malformed `\\uXXXX`."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescape(name)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines without comments and blank lines.

    A backslash at its end continues a line.
    """
    pending: str | None = None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()  # The text ends with a newline.
    for natural in lines:
        line = natural.lstrip(_SPACE)
        if not pending:
            if not line or line[0] in "#!":
                pending = None
                continue
        else:
            line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
        else:
            pending = None
            yield line
    if pending is not None:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Return (name, value) of a line.  The name ends at the first unescaped `=`, `:` or space."""
    position, size = 0, len(line)
    while position < size and line[position] not in "=:" + _SPACE:
        position += 2 if line[position] == "\\" else 1
    name, rest = line[:position], line[position:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return name, rest


def _unescape(text: str) -> str:
    """Return the text with Java's escapes resolved; raises ValueError at a malformed one.

    A backslash at the end is dropped, as in Java.
    """
    if "\\" not in text:
        return text
    out, position, size = [], 0, len(text)
    while position < size:
        char = text[position]
        position += 1
        if char == "\\" and position < size:
            char = text[position]
            position += 1
            if char == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or not all(c in "0123456789abcdefABCDEF" for c in digits):
                    raise ValueError("Malformed \\uxxxx encoding.")
                char = chr(int(digits, 16))
                position += 4
            else:
                char = _ESCAPES.get(char, char)
        elif char == "\\":
            break
        out.append(char)
    return "".join(out)
