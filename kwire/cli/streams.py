"""Standard input, output and error as a command may find them: closed, full, or left by the reader.

`prepare` comes before all else.  What then goes wrong with standard output is one of the two
exceptions here, whoever writes; they are no OSErrors, so that nobody takes them for a file's.
Standard error has nobody to be told of its own failures: what it cannot take is dropped.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


class OutputFailed(Exception):
    """Standard output takes nothing: it is closed, or its disk is full."""


class ReaderGone(Exception):
    """Whoever read standard output has closed it, as `head` does when it has enough."""


class _Output(io.FileIO):
    """Standard output, whose failures say what they are about."""

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # what a BufferedWriter hands on
        try:
            return super().write(data)
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputFailed(f"standard output: {reason}") from error


class _Error(io.FileIO):
    """Standard error, which says nothing where it cannot."""

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # what a BufferedWriter hands on
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare() -> None:
    """Put streams that tell of their failures where Python's own are."""
    _open_closed()
    sys.stdout = _text(sys.stdout, _Output(1, "wb", closefd=False))
    sys.stderr = _text(sys.stderr, _Error(2, "wb", closefd=False))
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))


def _open_closed() -> None:
    """A closed stream's number would go to the next file or socket, and be written to by whoever
    means the stream.  What is opened here instead refuses to be read or written as a closed one
    does."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if descriptor == 0 else os.O_RDONLY)
            os.set_inheritable(descriptor, True)


def _text(before: TextIO | None, raw: io.FileIO) -> io.TextIOWrapper:
    """Text that no record, topic or broker can make unprintable here."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=None if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )


def reader_is_gone() -> bool:
    """Whether nobody reads standard output any more, without writing to it."""
    import select

    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # a test's, say: not of the system
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def drop_output() -> None:
    """Let the flush at the end of the process succeed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
