"""The tested broker of a round, as a process that can be killed, paused and starved."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwire.conformance import apache_kafka
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.conformance.wire.broker import NotReady, RemoteBroker
from kwire.testing.hosting.ending import end
from kwire.testing.hosting.ports import free_port

START_TIMEOUT_S = 300.0
"""Limit for a start; only a broker that hangs exceeds it, since an ended one is noticed at once.

A start takes a second, and a hundred times that if a hundred processes share a core.
"""
STOP_TIMEOUT_S = 120.0
POLL_S = 0.01


class SubjectFailed(RuntimeError):
    """The broker did not start; the message ends with its output."""


@dataclass
class ChaosSubject:
    """One broker, which keeps its port and data over several processes.

    `unhandled` are words that its log must not contain. `stop_statuses` are its exit statuses after
    SIGTERM. `ends_when_starved` says that it halts by design when its last log directory fails.
    """

    command: list[str]
    address: tuple[str, int]
    data_dir: Path
    log_file: Path
    unhandled: tuple[str, ...] = ()
    stop_statuses: tuple[int, ...] = (0,)
    ends_when_starved: bool = False
    process: subprocess.Popen[Any] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    # Start and end

    def spawn(self) -> None:
        """Start the process and return at once."""
        assert self.process is None, "started already"
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C goes to the round, which then ends its broker
            )

    def start(self) -> None:
        """Start the process and wait until the broker answers. Raises SubjectFailed."""
        self.spawn()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            status = self.ended()
            if status is not None or time.monotonic() > deadline:
                self.kill()
                output = self.log_file.read_text(errors="replace")[-3000:]
                raise SubjectFailed(f"the broker did not start (status {status}):\n{output}")
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        """Return whether the broker answers ApiVersions and Metadata."""
        with contextlib.suppress(OSError, NotReady):
            RemoteBroker(self.address).read_versions_and_ids()
            return True
        return False

    def ended(self) -> int | None:
        """Return the exit status of a process that has ended by itself; None while it runs."""
        return None if self.process is None else self.process.poll()

    def kill(self) -> None:
        """Kill the process (SIGKILL) and wait for its end."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> int:
        """Stop the process (SIGTERM); its exit status, or -9 if it had to be killed."""
        process, self.process = self.process, None
        return 0 if process is None else end(process, patience_s=STOP_TIMEOUT_S)

    # Faults

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def limit_descriptors(self, spare: int) -> Callable[[], None]:
        """Let the process open only `spare` more files or sockets; returns the function that undoes
        it.

        Open files stay open. The undo function ignores a process that has ended meanwhile.
        """
        pid = self.pid
        taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        free = (number for number in itertools.count() if number not in taken)
        limit = next(itertools.islice(free, spare, None))
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))

        def undo() -> None:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

        return undo


def kwire(directory: Path, settings: Mapping[str, str]) -> ChaosSubject:
    """Return a broker of this kwire installation, with its data and log in `directory`."""
    data_dir, port = _data_dir(directory), free_port()
    own = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": str(data_dir)}
    sets = [f"--set={name}={value}" for name, value in (dict(settings) | own).items()]
    return ChaosSubject(
        [sys.executable, "-m", "kwire.cli", "serve", *sets],
        ("127.0.0.1", port),
        data_dir,
        directory / "broker.log",
        unhandled=("Traceback (most recent call last)", "ERROR unhandled"),
    )


def apache(directory: Path, settings: Mapping[str, str]) -> ChaosSubject:
    """Return a node of Apache Kafka."""
    data_dir = _data_dir(directory)
    node = ApacheKafka(directory, settings=settings)
    node.format()
    return ChaosSubject(
        apache_kafka.command("kafka.Kafka", [directory / "server.properties"], jvm=node.jvm),
        ("localhost", node.port),
        data_dir,
        directory / "broker.log",
        stop_statuses=(0, 128 + signal.SIGTERM),
        ends_when_starved=True,
    )


def _data_dir(directory: Path) -> Path:
    data_dir = directory / "data"
    data_dir.mkdir(parents=True, exist_ok=True)
    return data_dir


SUBJECTS: Mapping[str, Callable[[Path, Mapping[str, str]], ChaosSubject]] = {
    "kwire": kwire,
    "apache": apache,
}
