"""Runs Apache Kafka's administrative tools one after another in one Java process.

A tool in a separate process takes a second or two, nearly all of it to start Java and to load
classes.  `run` sends it to a ToolServer instead, which starts at the first use and ends with this
process.

Only the tools in TOOLS are run like this, as they end without a signal and close what they have
opened.  A client that reads or writes records has its own process, so that it ends as it does for a
user.
"""

from __future__ import annotations

import atexit
import base64
import os
import select
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from kwire.conformance import java

TOOLS = frozenset(
    {
        "kafka.admin.ConfigCommand",
        "kafka.tools.StorageTool",
        "org.apache.kafka.tools.AclCommand",
        "org.apache.kafka.tools.ClientMetricsCommand",
        "org.apache.kafka.tools.ClusterTool",
        "org.apache.kafka.tools.DelegationTokenCommand",
        "org.apache.kafka.tools.DumpLogSegments",
        "org.apache.kafka.tools.FeatureCommand",
        "org.apache.kafka.tools.LeaderElectionCommand",
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "org.apache.kafka.tools.TopicCommand",
        "org.apache.kafka.tools.TransactionsCommand",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "org.apache.kafka.tools.streams.StreamsGroupCommand",
    }
)
"""The classes that `run` accepts."""

JVM_OPTIONS = "JAVA_TOOL_OPTIONS"
"""Options for each Java machine, in the environment.  One that runs already would not take them."""

SOURCE = Path(__file__).with_name("ToolServer.java")
END_TIMEOUT_S = 10


class ToolServer:
    """A Java process with the jars of one version; thread-safe."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._owner = os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether it can run a tool: it is alive and was started by this process, not a parent."""
        return self._owner == os.getpid() and self._process.poll() is None

    def run(
        self, class_name: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end.

        After `timeout_s`, ends the Java process with the tool and raises subprocess.TimeoutExpired.
        """
        fields = [class_name, stdin, *arguments]
        line = b" ".join(base64.b64encode(field.encode()) for field in fields) + b"\n"
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
            response = self._read_response(time.monotonic() + timeout_s)
        if response is None:
            self.close()
            raise subprocess.TimeoutExpired([class_name, *arguments], timeout_s)
        status, output, errors = response.split(b" ")
        return subprocess.CompletedProcess(
            [class_name, *arguments],
            int(status),
            base64.b64decode(output).decode(),
            base64.b64decode(errors).decode(),
        )

    def _read_response(self, deadline: float) -> bytes | None:
        """Return the next line, or None if the deadline passes or the Java process ends first."""
        assert self._process.stdout is not None
        fd, received = self._process.stdout.fileno(), b""
        poll = select.poll()  # a test process has descriptors above 1,023: too many for select()
        poll.register(fd, select.POLLIN)
        while not received.endswith(b"\n"):
            wait_s = deadline - time.monotonic()
            if wait_s <= 0 or not poll.poll(wait_s * 1000):
                return None
            data = os.read(fd, 1 << 20)
            if not data:
                return None
            received += data
        return received.rstrip(b"\n")

    def close(self) -> None:
        """End the Java process."""
        if self._owner != os.getpid():
            return
        process = self._process
        process.kill()
        process.wait(END_TIMEOUT_S)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


_servers: dict[str, ToolServer] = {}
_starting = threading.Lock()


def server(
    version: str, libs: Path, cache_dir: Path, command: Callable[..., list[str]]
) -> ToolServer | None:
    """Return this process's server for a version, or None if there is no Java compiler.

    `command(class_name, plugins=...)` returns the command line of a class of that version.
    """
    with _starting:
        running = _servers.get(version)
        if running is None or not running.is_running:
            classes = _compile(libs, cache_dir)
            if classes is None:
                return None
            if running is None:
                atexit.register(lambda: _servers[version].close())
            running = _servers[version] = ToolServer(command("ToolServer", plugins=[classes]))
        return running


@cache
def _compile(libs: Path, cache_dir: Path) -> Path | None:
    """Return the folder of the program, compiled once."""
    number = zlib.crc32(SOURCE.read_bytes() + str(libs).encode())
    folder = cache_dir / f"tool-server-{number:08x}"
    if not folder.is_dir():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        try:
            java.compiled(SOURCE, libs, making)
        except java.JavaMissing:
            return None
        try:
            making.rename(folder)
        except OSError:  # another process was faster
            assert folder.is_dir()
    return folder
