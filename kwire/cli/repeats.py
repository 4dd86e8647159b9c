"""The log of `kwire serve`: the formats of lines, and a handler that collapses repeated messages.

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

import json
import logging
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

import click

PLAIN, JSON = LOG_FORMATS = ("plain", "json")
"""The formats of lines: for people, and for programs."""
WINDOW_S: Final = 30.0
"""The length of a window: two lines a minute show that the message still repeats."""
LOGGED_MAX: Final = 10
"""How often one message is logged in a window."""
MESSAGES_MAX: Final = 1000
"""How many different messages are tracked in one window.  The oldest is dropped first."""
REPEATED: Final = "kwire_repeated"
"""The attribute of a record that counts others: the message without the count, and the numbers."""

_Key = tuple[str, int, str]
C = TypeVar("C", bound=Callable[..., Any])


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
        self.target = target
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
            self.target.handle(record)  # It reports the wrong arguments of the log call.
            return
        key = (record.name, record.levelno, text)
        window = self._repeated.get(key)
        if record.exc_info:
            self.target.handle(record)
        elif window is None or not 0 <= record.created - window.since_s < WINDOW_S:
            if window is not None:
                del self._repeated[key]
                if window.count:
                    passed_s = record.created - window.since_s
                    record = _with_count(record, text, window.count, passed_s)
            self._log_ended(record.created)
            self._repeated[key] = _Repeated(record.created)
            self.target.handle(record)
        elif window.logged < self._logged_max:
            window.logged += 1
            self.target.handle(record)
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
            self.target.handle(_with_count(last, last.getMessage(), repeated.count, passed_s))

    def flush(self) -> None:
        self.target.flush()

    def close(self) -> None:
        """Logs the counts of all open windows, then closes the handler."""
        for repeated in self._repeated.values():
            self._log_count(repeated)
        self._repeated.clear()
        self.target.close()
        super().close()


def _with_count(
    record: logging.LogRecord, text: str, count: int, passed_s: float
) -> logging.LogRecord:
    """A copy of the record that says that `count` more of them were not logged.

    Its attribute REPEATED has the same as numbers, for a format with fields.
    """
    copy = logging.makeLogRecord(record.__dict__)
    repeated_s = round(max(0.0, passed_s))
    copy.msg, copy.args = f"{text} ({count} more in {repeated_s} s)", None
    setattr(copy, REPEATED, {"message": text, "repeated": count, "repeated_s": repeated_s})
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


class JsonFormatter(logging.Formatter):
    """Formats a record as one line with a JSON object; docs/operations.md documents its fields.

    The line is ASCII, so that neither control characters nor line ends of a message can break it.
    """

    def __init__(self) -> None:
        """Lines have no field `broker` until `broker` is set."""
        super().__init__()
        self.broker: int | None = None
        """The id of the broker that this process is."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record as `{"time": ..., "level": ..., "logger": ..., "message": ...}`, and
        with further fields where there is more to say.  Times are in UTC."""
        fields: dict[str, Any] = {
            "time": f"{_utc_seconds(record)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("kwire."),
            "message": record.getMessage(),
        }
        if self.broker is not None:
            fields["broker"] = self.broker
        fields |= getattr(record, REPEATED, {})
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _utc_seconds(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))


def name_broker(broker_id: int) -> None:
    """Have the JSON lines of this process name the broker; plain lines are as they were."""
    for handler in logging.getLogger().handlers:
        formatter = handler.target.formatter if isinstance(handler, CollapsingHandler) else None
        if isinstance(formatter, JsonFormatter):
            formatter.broker = broker_id


def log_format_option(command: C) -> C:
    """Add --log-format, which the command gets as `log_format`, one of LOG_FORMATS."""
    return click.option(
        "--log-format", type=click.Choice(LOG_FORMATS), default=PLAIN, show_default=True,
        envvar="KWIRE_LOG_FORMAT",
        help="Log plain lines, or JSON objects, one on a line. Also $KWIRE_LOG_FORMAT.",
    )(command)  # fmt: skip


def start_logging(level: str, log_format: str = PLAIN) -> None:
    """Log to stderr, one line for each event: time, level unless it is INFO, logger, message.

    In the format JSON a line is an object with these fields, and all lines are such objects: also
    those about warnings of Python, and about an error that ends the process.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == JSON else PlainFormatter())
    logging.basicConfig(level=level.upper(), handlers=[CollapsingHandler(handler)])
    if log_format == JSON:
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    logging.getLogger("kwire.serve").critical(
        "the process ends because of an error", exc_info=(kind, error, trace)
    )
