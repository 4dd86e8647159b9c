"""Standard input, output and error that may be closed, full, or without a reader.

`prepare` runs before everything else.  Afterwards each failure of standard output raises one of the
two exceptions here.  They are not OSErrors, so that no code takes them for errors of a file.
Failures of standard error cannot be reported, so its output is dropped then.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


class OutputFailed(Exception):
    """Standard output cannot be written: it is closed, or its disk is full."""


class NotPrinted(OutputFailed):
    """A record cannot be shown in the format that was asked for."""


class ReaderGone(Exception):
    """The reader of standard output has closed it, as `head` does."""


class _Output(io.FileIO):
    """Standard output, which raises ReaderGone or OutputFailed."""

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # what a BufferedWriter hands on
        """Writes to standard output.  Raises ReaderGone if the reader has closed the pipe, and
        OutputFailed for another error."""
        try:
            return super().write(data)
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputFailed(f"standard output: {reason}") from error


class _Error(io.FileIO):
    """Standard error, which drops output that it cannot write."""

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # what a BufferedWriter hands on
        """Writes to standard error.  An error is ignored, since there is no place to report it."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def prepare() -> None:
    """Replace Python's standard streams by those of this module."""
    _open_closed()
    sys.stdout = _text(sys.stdout, _Output(1, "wb", closefd=False))
    sys.stderr = _text(sys.stderr, _Error(2, "wb", closefd=False))
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))


def _open_closed() -> None:
    """Open descriptors 0, 1 and 2 if they are closed, so that reads and writes of them still fail.

    The system would give the number of a closed stream to the next file or socket, and code that
    writes to the stream would write there.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if descriptor == 0 else os.O_RDONLY)
            os.set_inheritable(descriptor, True)


def _text(before: TextIO | None, raw: io.FileIO) -> io.TextIOWrapper:
    """A text stream that escapes characters which the encoding lacks."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=None if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )


def reader_is_gone() -> bool:
    """Whether the reader of standard output has closed it; found out without writing."""
    import select

    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # The stream has no descriptor, as in a test.
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def drop_output() -> None:
    """Send standard output to /dev/null, so that the flush at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
