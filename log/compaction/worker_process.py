"""The broker's side of the cleaning process, and a thread for systems that cannot start one."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from kwire.log.compaction.rewrite import clean
from kwire.log.compaction.task import Answer, CleaningTask, decode_answer
from kwire.log.directory.files import Files

_logger = logging.getLogger(__name__)


class Worker(Protocol):
    """Carries out one task at a time.  `answer` blocks: call it in a thread."""

    def begin(self, task: CleaningTask) -> None:
        """Start a task.  Raises OSError."""

    def answer(self) -> Answer:
        """The next answer of the task.  Raises ChildProcessError if the worker died."""

    def stop(self) -> None:
        """Stop the worker at once; a waiting `answer` raises then."""


class WorkerProcess:
    """A worker in its own process, so that the loop keeps its interpreter and its core."""

    def __init__(self) -> None:
        """Start the process; raises OSError if the system cannot.

        `-P` keeps the working directory out of the module search path.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kwire.log.compaction.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the broker, which ends its worker
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, task: CleaningTask) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(task.encode())
        pipe.flush()

    def answer(self) -> Answer:
        """Wait for the next answer and return it; may block for long.

        Raises ChildProcessError if the process ended without one.
        """
        pipe = self._process.stdout
        assert pipe is not None
        line = pipe.readline()
        if not line.endswith(b"\n"):
            raise ChildProcessError(f"the cleaning process ended with {self._process.wait()}")
        return decode_answer(line)

    def stop(self) -> None:
        """Kill the process, wait for its end, and close both pipes."""
        process = self._process
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # the unsent answer is not needed any more
            process.stdin.close()
        process.stdout.close()


class InThread:
    """A worker in a thread, if no process can be started; it slows down the loop."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._answers: Iterator[Answer] = iter(())

    def begin(self, task: CleaningTask) -> None:
        self._answers = clean(task, self._files)

    def answer(self) -> Answer:
        return next(self._answers)

    def stop(self) -> None:
        self._answers = iter(())


def start(files: Files) -> Worker:
    """Return a worker process, or a thread if none can be started.

    It blocks for some milliseconds.
    """
    try:
        return WorkerProcess()
    except OSError as error:
        _logger.warning("Cannot start a process for the log cleaner: %s. Using a thread.", error)
        return InThread(files)
