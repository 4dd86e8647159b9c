"""Start the brokers of kwire.testing as forks of the process that runs commands in tests.

A test's broker is a process of its own, with its own settings, folder, session and signals.  Only
the start of Python and the imports are saved: most of the processor time of a broker that serves a
few requests.  What a fork does not show is how `kwire serve` starts; tests of that start Python
(tests/cli/test_serve.py, tests/testing/hosting/test_process.py).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.commands.forked import NUMBER, of_this_worker

KWIRE = [sys.executable, "-m", "kwire.cli"]
"""How kwire.testing starts a command."""


def start(
    command: Sequence[str],
    *,
    bufsize: int,
    stdin: int,
    stdout: IO[bytes] | int,
    stderr: IO[bytes],
    pass_fds: Sequence[int] = (),
    start_new_session: bool,
) -> subprocess.Popen[bytes] | ForkedServer:
    """Does what `subprocess.Popen` does.  A command of kwire without a launcher is forked."""
    assert (bufsize, stdin, start_new_session) == (0, subprocess.PIPE, True)
    if [*command[: len(KWIRE)]] != KWIRE:
        return subprocess.Popen(
            command,
            bufsize=bufsize,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=start_new_session,
        )
    return ForkedServer(command[len(KWIRE) :], stdout, stderr, pass_fds)


class ForkedServer:
    """A forked server with a pipe to its standard input; it has the methods of a `Popen`.

    Threads may wait for its end at the same time.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        stdout: IO[bytes] | int,
        stderr: IO[bytes],
        kept: Sequence[int],
    ) -> None:
        """Fork it.  `stdout` may be `subprocess.PIPE`."""
        self.returncode: int | None = None
        self.stdout: IO[bytes] | None = None
        self._arguments = arguments
        its_input, given = os.pipe()
        self.stdin = open(given, "wb", buffering=0)  # noqa: SIM115 - its user closes it
        its_pipe = -1
        if isinstance(stdout, int):
            assert stdout == subprocess.PIPE
            read, its_pipe = os.pipe()
            self.stdout = open(read, "rb", buffering=0)  # noqa: SIM115 - its user closes it
        its_output = its_pipe if isinstance(stdout, int) else stdout.fileno()
        try:
            self.pid, answers = of_this_worker().start(
                arguments,
                os.environ,
                Path.cwd(),
                (its_input, its_output, stderr.fileno()),
                kept,
                leads_session=True,
            )
        finally:
            os.close(its_input)
            if its_pipe >= 0:
                os.close(its_pipe)
        self._answers = answers
        weakref.finalize(self, answers.close)

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        return self._status_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit status.  Raises TimeoutExpired."""
        status = self._status_within(timeout)
        if status is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired([*self._arguments], timeout)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _status_within(self, timeout_s: float | None) -> int | None:
        """Its exit status, or None if it still runs after the timeout; None waits for ever.

        The status stays in the socket, so that every thread that waits gets it.
        """
        if self.returncode is None:
            ending = select.poll()  # select() takes no descriptor above 1,023
            ending.register(self._answers, select.POLLIN)
            if ending.poll(None if timeout_s is None else 1000 * timeout_s):
                told = self._answers.recv(NUMBER.size, socket.MSG_PEEK)
                [self.returncode] = NUMBER.unpack(told)
        return self.returncode
