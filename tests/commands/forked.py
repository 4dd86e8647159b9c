"""Run `kwire` commands as forks of one process that has imported them already.

A forked command is a process of its own, as a user's is: with its own arguments, environment,
folder, streams and exit status.  Only the start of Python and the imports are saved, which are
nearly all of a short command's processor time: 0.2 s, where a fork takes 0.02 s.  Brokers are
forked too (see `tests.commands.servers`).

Each worker has one forking process, which is started with the first command and ends with the
worker.  That process has one thread, so its forks are safe; a worker itself has many.

What a fork does not show: how a command starts (imports, the handling of Ctrl-C until then), and
variables that Python itself reads at its start.  Tests of those start `python -m kwire.cli`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

PRELOADED = (
    "kwire.cli",
    "kwire.client",
    "kwire.server",
    "kwire.broker",
    "kwire.requests",
    "kwire.coordinators",
    "kwire.storage",
    "kwire.log",
    "kwire.security",
    "kwire.cluster",
    "kwire.testing.hooks",
)
"""Packages whose modules the forking process imports."""
ORDER_SIZE_BYTES = 4
"""Of the length that precedes each order."""
DESCRIPTORS_MAX = 16
"""Of one order."""
NUMBER = struct.Struct("!i")
"""A process id, or an exit status."""


class ForkedCommands:
    """The process that forks commands.  Threads may run commands at the same time."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for pytest, which ends it after the tests
            )

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        streams: tuple[int, int, int],
        kept: Sequence[int] = (),
        *,
        leads_session: bool = False,
    ) -> tuple[int, socket.socket]:
        """Fork a command.  Return its process id, and a socket that gets its status at its end.

        The status (a `NUMBER`) is negative where a signal ended it; the process does not exist any
        more then.  `streams` are the descriptors of its standard input, output and error, and
        `kept` are others that it holds to its end.
        """
        order = json.dumps([[*arguments], dict(environment), str(folder), leads_session]).encode()
        ours, theirs = socket.socketpair()
        try:
            with self._asking, theirs:
                size = len(order).to_bytes(ORDER_SIZE_BYTES, "big")
                socket.send_fds(self._orders, [size], [*streams, theirs.fileno(), *kept])
                self._orders.sendall(order)
            [pid] = NUMBER.unpack(ours.recv(NUMBER.size, socket.MSG_WAITALL))
        except BaseException:
            ours.close()
            raise
        return pid, ours

    def run(
        self,
        arguments: list[str],
        stdin: str,
        environment: Mapping[str, str],
        folder: Path,
        timeout_s: float,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end.  The status is negative where a signal ended it."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin.encode())
            given.seek(0)
            streams = given.fileno(), out.fileno(), err.fileno()
            pid, answers = self.start(arguments, environment, folder, streams)
            with answers:
                status = _await_status(pid, answers, arguments, timeout_s)
            return subprocess.CompletedProcess(arguments, status, _text(out), _text(err))

    def close(self) -> None:
        """End the process; commands that still run go on by themselves."""
        self._orders.close()
        self._process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def _await_status(pid: int, answers: socket.socket, arguments: list[str], timeout_s: float) -> int:
    """Wait for the command's end.  Kills it after the timeout."""
    answers.settimeout(timeout_s)
    try:
        [status] = NUMBER.unpack(answers.recv(NUMBER.size))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(arguments, timeout_s) from None
    return int(status)


@cache
def of_this_worker() -> ForkedCommands:
    """The worker's forking process, which starts with the first call."""
    started = ForkedCommands()
    atexit.register(started.close)
    return started


def run_kwire(
    *arguments: str,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run `kwire` with these arguments, in this process' environment and folder if not given.

    Standard input, output and error are files.
    """
    here = os.environ if environment is None else environment
    return of_this_worker().run([*arguments], stdin, here, folder or Path.cwd(), timeout_s)


class _Forking:
    """The other side: takes orders, forks commands, tells how they ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._answers: dict[int, socket.socket] = {}
        """Where the end of each running command is told, by its process id."""
        self._woken, self._waking = socket.socketpair()
        for end in (self._woken, self._waking):
            end.setblocking(False)

    def serve(self) -> None:
        """Until the worker is gone."""
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()  # select() takes no descriptor above 1,023, and the worker has many
        for end in (self._orders, self._woken):
            poll.register(end, select.POLLIN)
        while True:
            readable = {descriptor for descriptor, _ in poll.poll()}
            if self._woken.fileno() in readable:
                self._woken.recv(4096)
                self._tell_ends()
            if self._orders.fileno() in readable and not self._take_order():
                return

    def _tell_ends(self) -> None:
        while self._answers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            with self._answers.pop(pid) as answers:
                _tell(answers, os.waitstatus_to_exitcode(status))

    def _take_order(self) -> bool:
        """Fork a command; False where there are no more orders."""
        size, received, *_ = socket.recv_fds(self._orders, ORDER_SIZE_BYTES, DESCRIPTORS_MAX)
        if not size:
            return False
        order = b""
        while len(order) < int.from_bytes(size, "big"):
            order += self._orders.recv(int.from_bytes(size, "big") - len(order))
        given = [*received[:3], *received[4:]]
        answers = socket.socket(fileno=received[3])
        pid = os.fork()
        if not pid:
            arguments, environment, folder, leads_session = json.loads(order)
            self._become(arguments, environment, folder, leads_session, given, answers)
        for descriptor in given:
            os.close(descriptor)
        self._answers[pid] = answers
        return True

    def _become(
        self,
        arguments: list[str],
        environment: dict[str, str],
        folder: str,
        leads_session: bool,
        given: list[int],
        answers: socket.socket,
    ) -> None:
        """Run the command in this process, which is new, and end it.

        Its id is told when it is ready for signals to its session.
        """
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if leads_session:
            os.setsid()
        # They were received in this order, so each has a higher number than those before it, and
        # none is overwritten before it is copied.
        for number, descriptor in enumerate(given):
            os.dup2(descriptor, number)
        _tell(answers, os.getpid())
        os.closerange(len(given), os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(folder)
        sys.argv = ["kwire", *arguments]
        _run_to_the_end()


def _run_to_the_end() -> NoReturn:
    """As Python ends a process, but that it doesn't take its modules apart: most of a fork's time.

    What the command has left open is neither flushed nor closed by this, but for the streams.
    """
    from kwire.cli import main

    status = 1
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _tell(answers: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError):  # who asked waits no more
        answers.sendall(NUMBER.pack(number))


def _preload() -> None:
    for name in PRELOADED:
        package = importlib.import_module(name)
        for each in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not each.name.endswith("__main__"):
                importlib.import_module(each.name)


if __name__ == "__main__":
    _preload()
    gc.collect()
    gc.freeze()  # the forks share these pages as long as the collector does not write to them
    _Forking(socket.socket(fileno=int(sys.argv[1]))).serve()
