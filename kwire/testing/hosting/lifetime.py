"""Base classes: things to start and stop, things to remove, and server processes."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from kwire.testing.hosting.ending import end


class Startable(ABC):
    """A context manager: started when the block begins, stopped at its end."""

    @abstractmethod
    def start(self) -> None:
        """Start; returns once the server serves."""

    @abstractmethod
    def stop(self) -> object:
        """Stop cleanly and wait for the end."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops it at the end of the `with` block, also after an exception."""
        self.stop()


class Removable(ABC):
    """A context manager of something that exists already and is removed at the end of the block."""

    @abstractmethod
    def remove(self) -> None:
        """Remove it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Removes it at the end of the `with` block, also after an exception."""
        self.remove()


class ServerProcess(Startable):
    """A server process that can be stopped and started again; it keeps its log file."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since; it may have died by itself."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Id of the running process."""
        assert self._process is not None, "The server is not running."
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """The exit status of a process that ended by itself; None if it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def log(self) -> str:
        """Everything that was logged, over all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @abstractmethod
    def spawn(self) -> None:
        """Start the process and return at once; `wait_until_up` waits."""

    @abstractmethod
    def wait_until_up(self) -> None:
        """Return once it serves."""

    def start(self) -> None:
        """Start; returns once the server serves.  Raises what `spawn` and `wait_until_up` raise."""
        self.spawn()
        self.wait_until_up()

    def pause(self) -> None:
        """Pause the process (SIGSTOP): connections stay open, and no request is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Resume the process after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> int:
        """Shut down cleanly (SIGTERM); returns the exit status, -9 if it had to be killed."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process (SIGKILL), as a crash would end it."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop cleanly, then start again with the same port and data."""
        self.stop()
        self.start()

    def _end(self, signal_number: signal.Signals) -> int:
        """Sends a signal to the process and waits until it ends; returns its exit status, or 0 if
        it does not run.  Kills it if it takes too long."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal.SIGCONT)  # a paused process does not handle SIGTERM
        self._before_the_end()
        try:
            return end(process, signal_number)
        finally:
            if process.stdin is not None:
                process.stdin.close()

    def _before_the_end(self) -> None:
        """Hook for subclasses: called while the process still exists, so its id is not reused."""
