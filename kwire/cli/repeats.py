"""The log of `kwire serve`: the format of lines, and a handler that collapses repeated messages.

Of repeated messages the first few are logged, the others are counted.

    12:00:00 WARNING log: t-0 in /data: no space left on device
    12:00:30 WARNING log: t-0 in /data: no space left on device (556 more in 30 s)

A message repeats if it has the same logger, level and text.  Within WINDOW_S of the first message,
LOGGED_MAX of them are logged, since each may matter (a broker that is started again).  The others
are only counted.  The next message after the window has the count appended.  If no such message
comes, the count is logged before the next record of any kind, or when the handler is closed.
Records with a traceback are always logged, since each may have another cause.
"""

from __future__ import annotations

import logging
from typing import Final

WINDOW_S: Final = 30.0
"""The length of a window: two lines a minute show that the message still repeats."""
LOGGED_MAX: Final = 10
"""How often one message is logged in a window."""
MESSAGES_MAX: Final = 1000
"""How many different messages are tracked in one window.  The oldest is dropped first."""

_Key = tuple[str, int, str]


class _Repeated:
    """A message that was logged, and the number of repetitions since that were only counted."""

    __slots__ = ("count", "last", "logged", "since_s")

    def __init__(self, since_s: float) -> None:
        """The first message of a window is logged at `since_s`, in seconds since 1970."""
        self.since_s = since_s
        self.logged = 1
        self.count = 0
        self.last: logging.LogRecord | None = None


class CollapsingHandler(logging.Handler):
    """Passes records on to `target`, and takes the time from the records."""

    def __init__(self, target: logging.Handler, logged_max: int = LOGGED_MAX) -> None:
        """Of equal messages within a window, `logged_max` are passed to `target`."""
        super().__init__()
        self._target = target
        self._logged_max = logged_max
        self._repeated: dict[_Key, _Repeated] = {}
        """The messages of open windows, the oldest window first."""

    def emit(self, record: logging.LogRecord) -> None:
        """Passes a record on, or only counts it if the same text was logged often within WINDOW_S
        seconds.  The first record after that time reports the count.  Records with tracebacks
        always pass."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            self._target.handle(record)  # It reports the wrong arguments of the log call.
            return
        key = (record.name, record.levelno, text)
        window = self._repeated.get(key)
        if record.exc_info:
            self._target.handle(record)
        elif window is None or not 0 <= record.created - window.since_s < WINDOW_S:
            if window is not None:
                del self._repeated[key]
                if window.count:
                    passed_s = record.created - window.since_s
                    record = _with_count(record, text, window.count, passed_s)
            self._log_ended(record.created)
            self._repeated[key] = _Repeated(record.created)
            self._target.handle(record)
        elif window.logged < self._logged_max:
            window.logged += 1
            self._target.handle(record)
        else:
            window.count += 1
            window.last = record

    def _log_ended(self, now_s: float) -> None:
        """Log the counts of windows that have ended, and drop those messages."""
        while self._repeated:
            key, oldest = next(iter(self._repeated.items()))
            is_over = not 0 <= now_s - oldest.since_s < WINDOW_S
            if not is_over and len(self._repeated) < MESSAGES_MAX:
                return
            del self._repeated[key]
            self._log_count(oldest)

    def _log_count(self, repeated: _Repeated) -> None:
        """Log the last repetition with the count, if there were any."""
        last = repeated.last
        if last is not None:
            passed_s = last.created - repeated.since_s
            self._target.handle(_with_count(last, last.getMessage(), repeated.count, passed_s))

    def flush(self) -> None:
        self._target.flush()

    def close(self) -> None:
        """Logs the counts of all open windows, then closes the handler."""
        for repeated in self._repeated.values():
            self._log_count(repeated)
        self._repeated.clear()
        self._target.close()
        super().close()


def _with_count(
    record: logging.LogRecord, text: str, count: int, passed_s: float
) -> logging.LogRecord:
    """A copy of the record that says that `count` more of them were not logged."""
    copy = logging.makeLogRecord(record.__dict__)
    copy.msg, copy.args = f"{text} ({count} more in {max(0.0, passed_s):.0f} s)", None
    return copy


class PlainFormatter(logging.Formatter):
    """Formats a record as `2026-03-01 12:00:00.123 WARNING connection: ...`, in local time."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as `TIME [LEVEL ]NAME: TEXT`; the level INFO is left out."""
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        name = record.name.removeprefix("kwire.")
        text = f"{self.formatTime(record)} {level}{name}: {record.getMessage()}"
        if record.exc_info:
            text += f"\n{self.formatException(record.exc_info)}"
        return text
