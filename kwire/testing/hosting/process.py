"""`kwire serve` as a child process: start, wait until it answers, stop, kill, start again.

The broker ends with the process that started it, whatever becomes of that one: it holds the other
end of the broker's standard input, which ends when the kernel closes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from kwire.testing.hosting.folders import Folder
from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.lifetime import ServerProcess
from kwire.testing.hosting.ports import free_port

START_TIMEOUT_S: Final = 120.0
"""A start takes a fraction of a second; a machine at work on other things may need far more."""
POLL_S: Final = 0.01

API_VERSIONS_V0: Final = bytes.fromhex("0000000a 0012 0000 00000000 ffff")
"""Size, api key 18, version 0, correlation id 0, null client id: the smallest whole request."""

_lifelines: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()
"""Our ends of the brokers' standard inputs."""


def hold_lifeline(lifeline: IO[bytes]) -> None:
    """Keep our end of a child's standard input to this process alone: the child ends with it."""
    _lifelines.add(lifeline)


def _drop_lifelines() -> None:
    """In a process forked from this one: it must not keep the brokers alive."""
    for lifeline in list(_lifelines):
        lifeline.close()


os.register_at_fork(after_in_child=_drop_lifelines)


class BrokerStartError(RuntimeError):
    """The broker ended, or did not answer in time; the message holds what it logged."""


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether a broker at that address replies to ApiVersions."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout_s) as link:
        link.sendall(API_VERSIONS_V0)
        return len(link.recv(4)) > 0
    return False


def size_bytes_of(log_path: Path) -> int:
    """How long a log is by now; 0 where its folder is gone, or it is not there yet."""
    return log_path.stat().st_size if log_path.exists() else 0


def text_since(log_path: Path, position: int) -> str:
    """What was logged after the log was that long."""
    if not log_path.exists():
        return ""
    with log_path.open("rb") as log:
        log.seek(position)
        return log.read().decode(errors="replace")


class BrokerProcess(ServerProcess):
    """One broker over its whole life, through as many processes as it is started.

    It keeps its port and its data directory, so that clients find it again after `restart`.
    `settings` are broker settings by Kafka's names; they go before those chosen here.  `host` is
    where it runs.  It shuts down when the process that started it ends, also by kill -9.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        host: Host = HERE,
    ) -> None:
        super().__init__(Path(directory, "broker.log"))
        self.host = host
        self.directory = Path(directory)
        self.data_dir = self.directory / "data"
        self.port = port or free_port()
        self.settings = {
            "listeners": f"PLAINTEXT://{host.address}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{host.address}:{self.port}",
            "log.dirs": str(self.data_dir),
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }

    @property
    def bootstrap(self) -> str:
        """What a client takes as its bootstrap servers."""
        return f"{self.host.address}:{self.port}"

    def command(self) -> list[str]:
        """The command line this broker is started with."""
        sets = [f"--set={name}={value}" for name, value in self.settings.items()]
        serve = [sys.executable, "-m", "kwire.cli", "serve", "--exit-on-eof"]
        return [*self.host.launcher, *serve, *sets]

    def spawn(self) -> None:
        """Start the process and return at once; `wait_until_up` waits."""
        assert self._process is None, "the broker is running"
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for its users, who stop it after themselves
            )
        assert self._process.stdin is not None
        hold_lifeline(self._process.stdin)

    def wait_until_up(self) -> None:
        """Return once it replies to a request.  Raises BrokerStartError."""
        assert self._process is not None, "the broker is not running"
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.host.address, self.port):
            if self._process.poll() is not None:
                status = self._process.returncode
                self._end(signal.SIGKILL)
                raise BrokerStartError(f"the broker ended with status {status}:\n{self.log}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerStartError(f"no reply within {START_TIMEOUT_S} s:\n{self.log}")
            time.sleep(POLL_S)


class Forker:
    """The process of kwire.cli.hosting.renewing, which forks brokers, and the talk with it.

    Brokers by their ports, all in one folder; it ends with the process that started it.  Several
    threads may ask: each order has its answer before the next.
    """

    def __init__(self, options: Sequence[str], below: Path | None = None) -> None:
        """With these options of `kwire serve`, which hold for all of them.

        `below` is where their folder is made, if not where temporary files are.
        """
        self._folder = Folder(below)
        self._asking = threading.Lock()
        self.is_closed = False
        """Whether its brokers have ended for good."""
        self.status = 0
        """How the broker that was asked about last has ended."""
        command = [sys.executable, "-m", "kwire.cli", "serve", "--renewable"]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, f"--owns={self._folder.path}", *options],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(self._folder.lock,),
                start_new_session=True,  # Ctrl-C is for its users, who stop it after themselves
            )
        assert self._process.stdin is not None
        hold_lifeline(self._process.stdin)

    @property
    def path(self) -> Path:
        """Where the brokers' data is."""
        return self._folder.path

    @property
    def log_path(self) -> Path:
        return self._folder.path / "broker.log"

    @property
    def log_size_bytes(self) -> int:
        """How long the log is by now."""
        return size_bytes_of(self.log_path)

    def log_since(self, position: int) -> str:
        """What was logged after the log was that long."""
        return text_since(self.log_path, position)

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Have all brokers go by these settings, beside those to develop against.

        Nobody else can see them, as those on a command line.
        """
        with self._asking:
            self._tell(f"settings {json.dumps(dict(settings))}")

    def start(self, port: int, control_port: int, ahead_ms: int, folder: Path | str) -> None:
        """A broker at that port, in the place of the one that is there, with its data in a folder,
        or in several with commas between.  BrokerStartError."""
        word, number = self._order(f"start {port} {control_port} {ahead_ms} {folder}")
        if word != "ready":
            raise BrokerStartError(f"the broker ended with status {number}:\n{self.log_since(0)}")

    def ended(self, order: str, port: int) -> int:
        """Have the broker `stop` or `kill`, or `forget` it for good; its exit status."""
        word, status = self._order(f"{order} {port}")
        assert word == "ended"
        return status

    def pid(self, port: int) -> int | None:
        """The broker's process, if it is there; else `status` says how it ended."""
        if self.is_closed:
            return None
        word, number = self._order(f"state {port}")
        if word == "ready":
            return number
        self.status = number
        return None

    def prepare(self, port: int, control_port: int, folder: Path) -> None:
        """Get a broker ready for a `start` there, some time soon."""
        with self._asking:
            self._tell(f"prepare {port} {control_port} {folder}")

    def remove(self, folder: Path) -> None:
        """Take a folder away, some time soon."""
        with self._asking:
            self._tell(f"remove {folder}")

    def close(self) -> None:
        """End all brokers, and remove their data."""
        if self.is_closed:
            return
        self.is_closed = True
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.remove()

    def _order(self, order: str) -> tuple[str, int]:
        if self.is_closed:
            raise BrokerStartError("the process that its brokers are forked from was stopped")
        assert self._process.stdout is not None
        with self._asking:
            self._tell(order)
            answer = self._process.stdout.readline().decode().split()
        if len(answer) != 2:
            log = self.log_since(0)
            self.close()
            raise BrokerStartError(f"the broker's process has ended:\n{log}")
        return answer[0], int(answer[1])

    def _tell(self, order: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._process.stdin.write(f"{order}\n".encode())
