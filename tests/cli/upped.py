"""`kwire cluster up` in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 240.0
PROCESS = re.compile(r"^broker \d+ runs at .*, process (\d+)$", re.MULTILINE)


class Running:
    """The command, in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.said = folder.with_suffix(".err")
        command = [
            sys.executable,
            "-m",
            "kwire.cli",
            "cluster",
            "up",
            "--data",
            str(folder),
            *words,
        ]
        with self.said.open("wb") as err:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True)
        assert self.process.stdout is not None
        self.bootstrap = self.process.stdout.readline().strip()
        assert self.bootstrap, self.told

    @property
    def told(self) -> str:
        return self.said.read_text()

    @property
    def brokers(self) -> list[int]:
        return [int(pid) for pid in PROCESS.findall(self.told)]

    def process_of(self, name: str) -> int:
        """Id of the process that the command started under that name, such as `broker 1`."""
        (pid,) = re.findall(rf"^{name} runs at .*, process (\d+)$", self.told, re.MULTILINE)
        return int(pid)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def await_words(self, words: str) -> None:
        await_that(lambda: words in self.told)


def await_that(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_with(text: str) -> list[str]:
    """Command lines of what runs on a folder."""
    done = subprocess.run(["ps", "-eo", "args", "-ww"], stdout=subprocess.PIPE, text=True)
    return [line for line in done.stdout.splitlines() if text in line and "cluster up" not in line]
