"""The `kwire` command that does the same as a page, for a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

UNPRINTABLE = re.compile(r"[^ -~\u00a1-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""What a shell needs an escape for, and what turns the direction of text around."""


def command_line(words: Sequence[str], options: str = "") -> str:
    """`kwire` and the words, quoted for bash where they need it, and `options` as they are."""
    return " ".join(["kwire", *(quoted(word) for word in words)]) + options


def quoted(word: str) -> str:
    """A word for bash; control and direction characters become escapes in `$'...'`."""
    if not UNPRINTABLE.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{UNPRINTABLE.sub(_escape, escaped)}'"


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
