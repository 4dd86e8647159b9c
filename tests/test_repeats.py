"""Log messages that repeat are collapsed, with their count; time is that of the records."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from kwire.cli.repeats import (
    LOGGED_MAX,
    MESSAGES_MAX,
    WINDOW_S,
    CollapsingHandler,
    JsonFormatter,
)


class Kept(logging.Handler):
    """What was logged, with the second of its record."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[float, str]] = []
        self.is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.created, record.getMessage()))

    def close(self) -> None:
        self.is_closed = True
        super().close()

    def take(self) -> list[tuple[float, str]]:
        taken, self.lines = self.lines, []
        return taken


class Log:
    """A collapsing handler, and the time."""

    def __init__(self, logged_max: int) -> None:
        self.kept = Kept()
        self.handler = CollapsingHandler(self.kept, logged_max)
        self.now_s = 1000.0

    def say(
        self, text: str, *args: object, level: int = logging.WARNING, name: str = "log"
    ) -> list[tuple[float, str]]:
        """Log one more record; what reaches the target."""
        record = logging.LogRecord(name, level, "f.py", 1, text, args, None)
        record.created = self.now_s
        self.handler.handle(record)
        return self.kept.take()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log(1)
    yield made
    made.handler.close()


def test_few_identical_messages_are_all_logged_and_a_storm_is_counted() -> None:
    """A broker that is started again twice in a window has ended twice."""
    log = Log(LOGGED_MAX)
    for _ in range(LOGGED_MAX):
        assert log.say("ended") == [(1000, "ended")]
    for _ in range(5):
        assert log.say("ended") == []
    log.now_s += WINDOW_S
    assert log.say("ended") == [(1030, "ended (5 more in 30 s)")]
    assert log.say("ended") == [(1030, "ended")], "each window begins anew"
    log.handler.close()


def test_identical_messages_within_a_window_are_one_line_and_the_next_has_their_count(
    log: Log,
) -> None:
    assert log.say("no room in %s", "/data") == [(1000, "no room in /data")]
    for _ in range(556):
        log.now_s += 0.05
        assert log.say("no room in %s", "/data") == []
    log.now_s = 1000 + WINDOW_S
    assert log.say("no room in %s", "/data") == [(1030, "no room in /data (556 more in 30 s)")]
    log.now_s += 1
    assert log.say("no room in %s", "/data") == []
    log.now_s += WINDOW_S
    assert log.say("no room in %s", "/data") == [(1061, "no room in /data (1 more in 31 s)")]
    log.now_s += WINDOW_S
    assert log.say("no room in %s", "/data") == [(1091, "no room in /data")]


def test_messages_of_another_text_level_or_logger_are_not_identical(log: Log) -> None:
    assert log.say("%s", "a") == [(1000, "a")]
    assert log.say("%s", "b") == [(1000, "b")]
    assert log.say("a", level=logging.ERROR) == [(1000, "a")]
    assert log.say("a", name="other") == [(1000, "a")]
    assert log.say("a") == []


def test_count_of_a_message_that_comes_no_more_precedes_the_next_record(log: Log) -> None:
    log.say("full")
    log.now_s += 2
    log.say("full")
    log.now_s += WINDOW_S
    assert log.say("other") == [(1002, "full (1 more in 2 s)"), (1032, "other")]
    log.now_s += WINDOW_S
    assert log.say("third") == [(1062, "third")], "what was logged once is forgotten"


def test_count_is_logged_when_the_handler_is_closed(log: Log) -> None:
    log.say("full")
    log.say("full")
    log.handler.close()
    assert log.kept.take() == [(1000, "full (1 more in 0 s)")]
    assert log.kept.is_closed


def test_records_with_a_traceback_are_never_held_back(log: Log) -> None:
    for _ in range(2):
        try:
            raise ValueError("made up")
        except ValueError:
            record = logging.LogRecord("log", 40, "f.py", 1, "oops", (), sys.exc_info())
        log.handler.handle(record)
    assert len(log.kept.take()) == 2


def test_clock_that_goes_back_begins_a_new_window(log: Log) -> None:
    log.say("full")
    log.say("full")
    log.now_s -= 3600
    assert [text for _, text in log.say("full")] == ["full (1 more in 0 s)"]
    assert log.say("full") == []


def test_number_of_remembered_messages_is_limited(log: Log) -> None:
    for number in range(MESSAGES_MAX + 1):
        assert log.say("%d", number) == [(1000, str(number))]
    assert log.say(str(MESSAGES_MAX)) == []
    assert log.say("0") == [(1000, "0")], "the oldest was forgotten"


# -- lines as JSON


def record_of(text: str, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    record = logging.LogRecord("kwire.log", level, "f.py", 1, text, args, None)
    record.created, record.msecs = 1_772_366_400.25, 250.0
    return record


def test_json_line_has_time_in_utc_level_logger_and_message() -> None:
    found = json.loads(JsonFormatter().format(record_of("t-%d is full", 0, level=logging.WARNING)))
    assert found == {
        "time": "2026-03-01T12:00:00.250Z",
        "level": "warning",
        "logger": "log",
        "message": "t-0 is full",
    }


def test_json_line_names_the_broker_if_it_is_set() -> None:
    formatter = JsonFormatter()
    formatter.broker = 0
    assert json.loads(formatter.format(record_of("x")))["broker"] == 0


@pytest.mark.parametrize("text", ["two\nlines", "esc \x1b[31m", "\u2028\u202e", "lone \ud800"])
def test_json_line_is_one_line_of_ascii_whatever_the_message_holds(text: str) -> None:
    line = JsonFormatter().format(record_of("%s", text))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == text


def test_json_line_has_the_traceback_as_a_field() -> None:
    record = record_of("it failed", level=logging.ERROR)
    try:
        raise ValueError("of a test")
    except ValueError:
        record.exc_info = sys.exc_info()
    found = json.loads(JsonFormatter().format(record))
    assert found["message"] == "it failed"
    assert found["exception"].splitlines()[-1] == "ValueError: of a test"


def test_json_line_has_the_count_of_repeated_messages_as_numbers() -> None:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonFormatter().format(record))

    handler = CollapsingHandler(Lines(), 1)
    for since_s in (0.0, 1.0, 2.0, WINDOW_S):
        record = record_of("full")
        record.created += since_s
        handler.handle(record)
    handler.close()
    first, counted = map(json.loads, lines)
    assert (first["message"], "repeated" in first) == ("full", False)
    assert (counted["message"], counted["repeated"]) == ("full", 2)
    assert counted["repeated_s"] == WINDOW_S
