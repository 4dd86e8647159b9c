"""Collapses log messages that repeat: the first few are logged, the others are counted.

    12:00:00 WARNING log: t-0 in /data: no space left on device
    12:00:30 WARNING log: t-0 in /data: no space left on device (556 more in 30 s)

A message is identical to another of the same logger, level and text.  LOGGED_MAX of them are logged
within WINDOW_S of the first, for something may happen twice and each time matter (a broker that is
started again).  The others are held back; the next one after that says how many there were.
Where none comes, the next record of any kind has the count logged before it, and closing the
handler does.  Records with a traceback always go through: each may be of something else.
"""

from __future__ import annotations

import logging
from typing import Final

WINDOW_S: Final = 30.0
"""Often enough to see that it goes on, and two lines a minute."""
LOGGED_MAX: Final = 10
"""Of one message in a window: more is a storm, which the count tells as well."""
MESSAGES_MAX: Final = 1000
"""How many messages are remembered; of more in one window the oldest is forgotten."""

_Key = tuple[str, int, str]


class _Repeated:
    """A message that was logged, and those held back since."""

    __slots__ = ("count", "last", "logged", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.logged = 1
        self.count = 0
        self.last: logging.LogRecord | None = None


class CollapsingHandler(logging.Handler):
    """Passes records on to `target`; time is that of the records, in seconds."""

    def __init__(self, target: logging.Handler, logged_max: int = LOGGED_MAX) -> None:
        super().__init__()
        self._target = target
        self._logged_max = logged_max
        self._repeated: dict[_Key, _Repeated] = {}
        """In the order in which their windows began."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            self._target.handle(record)  # which tells where the mistake is
            return
        key = (record.name, record.levelno, text)
        known = self._repeated.get(key)
        if record.exc_info:
            self._target.handle(record)
        elif known is None or not 0 <= record.created - known.since_s < WINDOW_S:
            if known is not None:
                del self._repeated[key]
                if known.count:
                    record = _with_count(record, text, known.count, record.created - known.since_s)
            self._tell_ended(record.created)
            self._repeated[key] = _Repeated(record.created)
            self._target.handle(record)
        elif known.logged < self._logged_max:
            known.logged += 1
            self._target.handle(record)
        else:
            known.count += 1
            known.last = record

    def _tell_ended(self, now_s: float) -> None:
        """Log the counts of windows that are over, and forget those messages."""
        while self._repeated:
            key, oldest = next(iter(self._repeated.items()))
            is_over = not 0 <= now_s - oldest.since_s < WINDOW_S
            if not is_over and len(self._repeated) < MESSAGES_MAX:
                return
            del self._repeated[key]
            self._tell(oldest)

    def _tell(self, repeated: _Repeated) -> None:
        last = repeated.last
        if last is not None:
            passed_s = last.created - repeated.since_s
            self._target.handle(_with_count(last, last.getMessage(), repeated.count, passed_s))

    def flush(self) -> None:
        self._target.flush()

    def close(self) -> None:
        for repeated in self._repeated.values():
            self._tell(repeated)
        self._repeated.clear()
        self._target.close()
        super().close()


def _with_count(
    record: logging.LogRecord, text: str, count: int, passed_s: float
) -> logging.LogRecord:
    """The record that says that `count` others like it were held back."""
    told = logging.makeLogRecord(record.__dict__)
    told.msg, told.args = f"{text} ({count} more in {max(0.0, passed_s):.0f} s)", None
    return told
