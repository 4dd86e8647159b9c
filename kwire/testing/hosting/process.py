"""`kwire serve` as a child process: start it, wait until it answers, stop it, kill it.

The broker ends when the process that started it ends, even if that process is killed.  That process
holds the other end of the broker's standard input; the kernel closes it, and the broker shuts down
when its standard input ends (`--exit-on-eof`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Final

from kwire.testing.hosting.folders import Folder
from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.lifetime import ServerProcess
from kwire.testing.hosting.ports import free_port

START_TIMEOUT_S: Final = 120.0
"""A start takes a fraction of a second, but far longer on a busy machine."""
POLL_S: Final = 0.01

API_VERSIONS_V0: Final = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
"""ApiVersions v0, the smallest request: size, api key 18, version 0, correlation id 0, null client
id."""

_lifelines: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()
"""This process's ends of the brokers' standard inputs."""


def hold_lifeline(lifeline: IO[bytes]) -> None:
    """Close this end of a child's standard input in forked processes, so that the child ends when
    this process ends."""
    _lifelines.add(lifeline)


def _drop_lifelines() -> None:
    """In a forked process: close its copies, which would keep the brokers running."""
    for lifeline in list(_lifelines):
        lifeline.close()


os.register_at_fork(after_in_child=_drop_lifelines)


class BrokerStartError(RuntimeError):
    """The broker ended, or did not answer in time; the message contains its log."""


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether a broker at that address replies to ApiVersions."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, port), timeout_s) as connection,
    ):
        connection.sendall(API_VERSIONS_V0)
        return len(connection.recv(4)) > 0
    return False


def size_bytes_of(log_path: Path) -> int:
    """The length of a log file; 0 if it does not exist."""
    return log_path.stat().st_size if log_path.exists() else 0


def text_since(log_path: Path, position: int) -> str:
    """The text of a log file from that byte position on; empty if it does not exist."""
    if not log_path.exists():
        return ""
    with log_path.open("rb") as log:
        log.seek(position)
        return log.read().decode(errors="replace")


class BrokerProcess(ServerProcess):
    """A broker process in a given folder, which can be stopped and started again.

    It keeps its port and its data over restarts, so that clients find it again.  `settings` are
    broker settings by Kafka's names; they override the defaults chosen here.  `host` is where the
    broker runs.  The broker shuts down when the process that started it ends, even by kill -9.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        host: Host = HERE,
        lifelines: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        """Prepares a broker with its data and log under `directory`; `start` starts it.  Without
        `port` it gets a free one.  `settings` override the defaults for tests.  The broker keeps
        the file descriptors `lifelines()` open until it ends (see `Guard`)."""
        super().__init__(Path(directory, "broker.log"))
        self.host = host
        self.directory = Path(directory)
        self.data_dir = self.directory / "data"
        self.port = port or free_port()
        self._lifelines = lifelines
        self.settings = {
            "listeners": f"PLAINTEXT://{host.address}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{host.address}:{self.port}",
            "log.dirs": str(self.data_dir),
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`."""
        return f"{self.host.address}:{self.port}"

    def command(self) -> list[str]:
        """The command line that starts this broker."""
        sets = [f"--set={name}={value}" for name, value in self.settings.items()]
        serve = [sys.executable, "-m", "kwire.cli", "serve", "--exit-on-eof"]
        return [*self.host.launcher, *serve, *sets]

    def spawn(self) -> None:
        """Start the process without waiting; `wait_until_up` waits."""
        assert self._process is None, "The broker is running."
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = Popen(
                self.command(),
                bufsize=0,
                stdin=PIPE,
                stdout=log,
                stderr=log,
                pass_fds=self._lifelines(),
                start_new_session=True,  # Ctrl-C must not reach it before its users have stopped
            )
        assert self._process.stdin is not None
        hold_lifeline(self._process.stdin)

    def wait_until_up(self) -> None:
        """Return once the broker answers a request.  Raises BrokerStartError."""
        assert self._process is not None, "The broker is not running."
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.host.address, self.port):
            if self._process.poll() is not None:
                status = self._process.returncode
                self._end(signal.SIGKILL)
                raise BrokerStartError(f"The broker ended with status {status}:\n{self.log}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerStartError(
                    f"The broker did not answer within {START_TIMEOUT_S} s:\n{self.log}"
                )
            time.sleep(POLL_S)


class Forker:
    """Starts `kwire serve --renewable`, a process that forks brokers, and sends it commands.

    A broker is known by its port; the data of all brokers is in one folder.  The process and its
    brokers end when the process that started them ends.  Methods may be called from several
    threads: each command is answered before the next is sent.  kwire.cli.hosting.renewing documents
    the commands.
    """

    def __init__(self, options: Sequence[str], below: Path | None = None) -> None:
        """Start the process.

        `options` of `kwire serve` apply to all brokers.  The brokers' folder is created in `below`,
        or in the system's temporary folder.
        """
        self._folder = Folder(below)
        self._commands = threading.Lock()
        self.is_closed = False
        """Whether the process and its brokers were ended."""
        self.status = 0
        """Exit status of the broker for which `pid` last returned None."""
        command = [sys.executable, "-m", "kwire.cli", "serve", "--renewable"]
        with self.log_path.open("ab") as log:
            self._process = Popen(
                [*command, f"--owns={self._folder.path}", *options],
                bufsize=0,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                pass_fds=(self._folder.lock,),
                start_new_session=True,  # Ctrl-C must not reach it before its users have stopped
            )
        assert self._process.stdin is not None
        hold_lifeline(self._process.stdin)

    @property
    def path(self) -> Path:
        """The folder of the brokers' data and log."""
        return self._folder.path

    @property
    def log_path(self) -> Path:
        return self._folder.path / "broker.log"

    @property
    def log_size_bytes(self) -> int:
        """The length of the log in bytes."""
        return size_bytes_of(self.log_path)

    def log_since(self, position: int) -> str:
        """The log from that byte position on."""
        return text_since(self.log_path, position)

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Add settings for all brokers that start from now on, beside kwire's developer defaults.

        Unlike settings on a command line, other users of the machine cannot read them.
        """
        with self._commands:
            self._send(f"settings {json.dumps(dict(settings))}")

    def start(self, port: int, control_port: int, ahead_ms: int, folder: Path | str) -> None:
        """Start a broker at that port; one that runs there is killed.

        `ahead_ms` is how far the broker's clock is ahead of the real time.  `folder` is the data
        folder, or several separated by commas.  Raises BrokerStartError.
        """
        word, number = self._command(f"start {port} {control_port} {ahead_ms} {folder}")
        if word != "ready":
            raise BrokerStartError(f"The broker ended with status {number}:\n{self.log_since(0)}")

    def ended(self, command: str, port: int) -> int:
        """Send `stop` or `kill` to the broker, or `forget` it; returns its exit status."""
        word, status = self._command(f"{command} {port}")
        assert word == "ended"
        return status

    def pid(self, port: int) -> int | None:
        """Id of the broker's process; None if it has ended, then `status` is its exit status."""
        if self.is_closed:
            return None
        word, number = self._command(f"state {port}")
        if word == "ready":
            return number
        self.status = number
        return None

    def prepare(self, port: int, control_port: int, folder: Path) -> None:
        """Fork a broker in advance, so that the next `start` with these arguments is quick."""
        with self._commands:
            self._send(f"prepare {port} {control_port} {folder}")

    def remove(self, folder: Path) -> None:
        """Remove a folder in the background."""
        with self._commands:
            self._send(f"remove {folder}")

    def close(self) -> None:
        """End the process and all brokers, and remove their data."""
        if self.is_closed:
            return
        self.is_closed = True
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.remove()

    def _command(self, command: str) -> tuple[str, int]:
        """Send a command and wait for its answer: a word and a number."""
        if self.is_closed:
            raise BrokerStartError("The process that forks the brokers was stopped.")
        assert self._process.stdout is not None
        with self._commands:
            self._send(command)
            answer = self._process.stdout.readline().decode().split()
        if len(answer) != 2:
            log = self.log_since(0)
            self.close()
            raise BrokerStartError(f"The process that forks the brokers has ended:\n{log}")
        return answer[0], int(answer[1])

    def _send(self, command: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `_command` then reads no answer
            self._process.stdin.write(f"{command}\n".encode())
