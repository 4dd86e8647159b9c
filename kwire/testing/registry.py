"""A schema registry beside a broker for tests.

with Kafka() as kafka, Registry(kafka) as registry:
    ...                    # serializers take registry.url as schema.registry.url

It is `kwire registry` in a process of its own, on a free port.  It ends when the process that
started it ends, even if that process is killed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from typing import TYPE_CHECKING, Final

from kwire.testing.hosting.lifetime import Startable

if TYPE_CHECKING:
    from kwire.testing.kafka import Kafka

STOP_S: Final = 30.0
READY: Final = "kwire registry: "


class RegistryStartError(Exception):
    """The registry did not start.  The message has its log."""


class Registry(Startable):
    """A registry for tests, started and stopped by a `with` block."""

    def __init__(self, kafka: Kafka | str, options: Sequence[str] = (), *, port: int = 0) -> None:
        """`kafka` is the broker, or the bootstrap servers of any Kafka.  `options` are further
        ones of `kwire registry`, and `port` 0 takes a free one.  Nothing is started yet."""
        self._kafka = kafka
        self._options = options
        self._port = port
        self._process: Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._logged = ""
        self._url = ""
        self._beside: object = None
        """What tells the broker's present contents from those before a reset."""

    @property
    def url(self) -> str:
        """The address, such as `http://127.0.0.1:8081`."""
        assert self._url, "The registry was not started."
        return self._url

    @property
    def bootstrap(self) -> str:
        """The addresses of the cluster."""
        return self._kafka if isinstance(self._kafka, str) else self._kafka.bootstrap

    @property
    def pid(self) -> int:
        """Id of the registry's process."""
        assert self._process is not None, "The registry was not started."
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the registry's process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What the registry has logged since its first start."""
        if self._folder is None:
            return self._logged
        return self._logged + self._log_path.read_text(errors="replace")

    @property
    def _log_path(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name, "registry.log")

    def start(self) -> None:
        """Start it, and return when it has loaded its schemas.

        After `kill` or `stop` it has the port that it had before.  Raises RegistryStartError.
        """
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kwire-registry-")
        command = [sys.executable, "-m", "kwire.cli", "registry", "-b", self.bootstrap]
        with self._log_path.open("ab") as log:
            self._process = Popen(
                [*command, f"--port={self._port}", "--exit-on-eof", *self._options],
                bufsize=0,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which ends it after the tests
            )
        self._beside = self._contents()
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line.startswith(READY):
            logged = self.log
            self.stop()
            raise RegistryStartError(f"the registry did not start:\n{logged}")
        self._url = line.removeprefix(READY).strip()
        self._port = int(self._url.rpartition(":")[2])

    def stop(self) -> None:
        """End it: it leaves its group, and answers what it was asked."""
        process, self._process = self._process, None
        if process is not None:
            _close(process, STOP_S)
        if self._folder is not None:
            self._logged = self.log
            folder, self._folder = self._folder, None
            folder.cleanup()

    def kill(self) -> None:
        """Kill it (SIGKILL), until `start`."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            _close(process, STOP_S)

    def make_whole(self) -> None:
        """Start it unless it runs, and again if the broker was reset meanwhile."""
        if self.running and self._beside == self._contents():
            return
        self.kill()
        self.start()

    def _contents(self) -> object:
        """What differs after each reset of the broker."""
        return self.bootstrap if isinstance(self._kafka, str) else self._kafka.data_dir


def _close(process: Popen[bytes], patience_s: float) -> None:
    """End a process by the end of its standard input, or kill it after a while."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(patience_s)
    except TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
