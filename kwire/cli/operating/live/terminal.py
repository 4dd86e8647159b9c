"""Keys of a terminal, without waiting for Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

READ_BYTES: Final = 256


def has_keys() -> bool:
    """Whether a user can press keys and see the screen."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def keys_at_once() -> Iterator[int]:
    """The descriptor of standard input, which gives each key as it is pressed.  Ctrl-C still
    interrupts.  The terminal is restored at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys_of(data: bytes) -> list[str]:
    """The keys in what was read at once.

    A sequence that begins with Escape, as of an arrow key, is dropped; Escape alone is a key.
    """
    text = data.decode(errors="ignore")
    if text.startswith("\x1b") and len(text) > 1:
        return []
    return list(text)


def pressed(descriptor: int, others: Sequence[int], timeout_s: float | None) -> list[str] | None:
    """The keys that are pressed; an empty list if one of `others` is readable, or after the
    timeout; None if the terminal is gone."""
    readable, _, _ = select.select([descriptor, *others], [], [], timeout_s)
    if descriptor not in readable:
        return []
    data = os.read(descriptor, READ_BYTES)
    return keys_of(data) if data else None
