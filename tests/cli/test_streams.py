"""Standard streams that are closed, full, terminals, or read by somebody who has enough."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Kwire = Callable[..., CompletedProcess[str]]

pytestmark = pytest.mark.slow  # each command is a process: 0.15 s

KWIRE = [sys.executable, "-m", "kwire.cli"]
PATIENCE_S = 240.0


def in_a_shell(line: str, status: int = 0) -> str:
    """What a command line says on standard error; `kwire` in it is this tree's."""
    command = re.sub(r"\bkwire\b", " ".join(KWIRE), line)
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == status, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


@pytest.fixture
def topic(kwire: Kwire, bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic with four records, one of them with escape codes."""
    monkeypatch.setenv("KWIRE_BOOTSTRAP_SERVERS", bootstrap)
    kwire("produce", unique, stdin="one\ntwo\nthree\n\x1b[31mred\x07\tand a tab\n")
    return unique


@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
@pytest.mark.parametrize(
    "command",
    ["topics list", "ping --json", "consume {} -o earliest -e", "--help", "topics --help"],
)
def test_command_reports_output_that_cannot_be_written(
    topic: str, command: str, stdout: str
) -> None:
    reason = "no space left on device" if "full" in stdout else "bad file descriptor"
    said = in_a_shell(f"kwire {command.format(topic)} {stdout}", status=1)
    assert said == f"kwire: standard output: {reason}\n"


def test_command_without_output_works_with_closed_output(topic: str) -> None:
    assert in_a_shell(f"echo more | kwire produce {topic} >&-") == f"1 record written to {topic}\n"


def test_command_works_with_closed_standard_error(topic: str) -> None:
    in_a_shell(f"kwire consume {topic} -o earliest -e 2>/dev/full >/dev/null")
    in_a_shell(f"kwire consume {topic} -o earliest -e 2>&- >/dev/null")
    assert in_a_shell("kwire topics nosuch 2>/dev/full", status=2) == ""


def test_produce_reports_input_that_cannot_be_read(topic: str) -> None:
    said = in_a_shell(f"kwire produce {topic} <&-", status=1)
    assert said.endswith("kwire: standard input: bad file descriptor\n")
    said = in_a_shell(f"kwire produce {topic} </dev/zero", status=1)
    assert said.endswith("kwire: a line is longer than 104,857,600 bytes\n")


@pytest.mark.parametrize("how", ["", "-g {}"])
def test_consume_ends_when_its_reader_is_gone(topic: str, how: str) -> None:
    """No record comes any more, so only the pipe itself can tell that `head` has gone."""
    line = (
        f"kwire consume {topic} -o earliest {how.format(topic)} | head -2; exit ${{PIPESTATUS[0]}}"
    )
    assert "Traceback" not in in_a_shell(line)


class Terminal:
    """A command whose three streams are a terminal."""

    def __init__(self, *arguments: str) -> None:
        self.pid, self._master = pty.fork()
        if not self.pid:
            os.execv(sys.executable, [*KWIRE, *arguments])
        self.shown = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self._read(1.0)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def status(self) -> int:
        """Of its end, with all that it has shown read."""
        while self._read(PATIENCE_S):
            pass
        os.close(self._master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, timeout_s: float) -> bool:
        poll = select.poll()  # `select` knows no descriptors above 1023
        poll.register(self._master, select.POLLIN)
        if not poll.poll(1000 * timeout_s):
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # how Linux says that nobody has the terminal any more
            return False
        self.shown += data.decode().replace("\r\n", "\n")
        return bool(data)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        started.append(Terminal(*arguments))
        return started[-1]

    yield start
    for each in started:
        try:
            os.kill(each.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it has ended, as it should


def test_consume_on_a_terminal_escapes_control_characters_and_says_that_it_waits(
    topic: str, terminal: Callable[..., Terminal]
) -> None:
    """It tells that it waits, and shows no record's escape codes."""
    running = terminal("consume", topic, "-o", "earliest")
    running.wait_for("4 records so far; waiting for more (Ctrl-C ends)\n")
    running.type("\x03")
    assert running.status() == 0
    assert "one\ntwo\nthree\n\\x1b[31mred\\x07\tand a tab\n" in running.shown
    assert running.shown.endswith("4 records\n")


def test_consume_of_new_records_on_a_terminal_mentions_earliest(
    topic: str, terminal: Callable[..., Terminal]
) -> None:
    running = terminal("consume", topic, "-g", f"{topic}-group")
    running.wait_for(f"joining group {topic}-group ...\n")
    running.wait_for("waiting for new records (Ctrl-C ends)\n")
    running.type("\x03")
    assert running.status() == 0
    running = terminal("consume", topic)
    running.wait_for(
        "waiting for new records (Ctrl-C ends); -o earliest prints the existing ones\n"
    )
    running.type("\x03")
    assert running.status() == 0


def test_produce_from_a_terminal_sends_each_line_at_once(
    topic: str, terminal: Callable[..., Terminal]
) -> None:
    running = terminal("produce", topic)
    running.wait_for("type one record a line; Ctrl-D ends\n")
    running.type("typed\n\x04")
    assert running.status() == 0
    assert running.shown.endswith(f"1 record written to {topic}\n")


def test_consume_escapes_full_format_but_not_piped_text(topic: str, kwire: Kwire) -> None:
    """In a pipe text is the records' own bytes; the other forms are lines that are safe to see."""
    full = kwire("consume", topic, "-o", "-1", "-e", "-f", "full").stdout
    assert full.endswith("  null  \\x1b[31mred\\x07\\tand a tab\n")
    assert kwire("consume", topic, "-o", "-1", "-e").stdout == "\x1b[31mred\x07\tand a tab\n"


def test_consume_reports_a_broker_that_goes_away(
    broker_factory: Callable[[], object], tmp_path: Path
) -> None:
    from kwire.testing import BrokerProcess

    broker = broker_factory()
    assert isinstance(broker, BrokerProcess)
    at = ["-b", broker.bootstrap]
    subprocess.run([*KWIRE, "produce", "t", *at], input=b"x\n", check=True, capture_output=True)
    running = subprocess.Popen(
        [*KWIRE, "consume", "t", "-o", "earliest", *at],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stderr is not None
    try:
        assert running.stdout.readline() == "x\n"
        broker.stop()
        assert running.stderr.readline().endswith("; retrying\n")
    finally:
        running.terminate()
        running.communicate(timeout=PATIENCE_S)
