"""The broker's end of the process that cleans; and the thread that does where there can be none."""

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
    """Does one task at a time; `answer` blocks and is for a thread."""

    def begin(self, task: CleaningTask) -> None:
        """Take up a task.  OSError if that cannot be."""

    def answer(self) -> Answer:
        """The next answer to it.  ChildProcessError if the worker died."""

    def stop(self) -> None:
        """End it, whatever it is doing; a thread that waits for an answer is let go."""


class WorkerProcess:
    """A process of its own: the loop has the interpreter and, with two cores, a core for itself."""

    def __init__(self) -> None:
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
        pipe = self._process.stdout
        assert pipe is not None
        line = pipe.readline()
        if not line.endswith(b"\n"):
            raise ChildProcessError(f"the cleaning process ended with {self._process.wait()}")
        return decode_answer(line)

    def stop(self) -> None:
        process = self._process
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # what was on its way is not wanted any more
            process.stdin.close()
        process.stdout.close()


class InThread:
    """Where no process can be started: slower, as loop and cleaner share an interpreter."""

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
    """A process, or the next best thing.  Blocks for some milliseconds."""
    try:
        return WorkerProcess()
    except OSError as error:
        _logger.warning("no process can be started for cleaning logs (%s): using a thread", error)
        return InThread(files)
