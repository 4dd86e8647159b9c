"""Runs Apache Kafka's administrative tools in one Java machine that stays, one after another.

A tool in a process of its own takes a second or two, nearly all of it to start Java and to load
classes.  `run` sends it to a ToolServer instead, which is started at the first use and ends with
this process.

Only tools that end by themselves are run so, and that close what they have opened: see TOOLS.
A client that reads or writes records has a process of its own, so that it ends as it does for a
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
        "org.apache.kafka.tools.TopicCommand",
        "org.apache.kafka.tools.TransactionsCommand",
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "org.apache.kafka.tools.streams.StreamsGroupCommand",
    }
)
"""The classes that `run` takes."""

JVM_OPTIONS = "JAVA_TOOL_OPTIONS"
"""Options for each Java machine, in the environment.  One that runs already would not take them."""

SOURCE = Path(__file__).with_name("ToolServer.java")
END_TIMEOUT_S = 10


class ToolServer:
    """One Java machine with the jars of one version; thread-safe."""

    def __init__(self, command: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._owner = os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether it can take a tool: it runs, and belongs to this process, not to a parent."""
        return self._owner == os.getpid() and self._process.poll() is None

    def run(
        self, class_name: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end.

        Raises subprocess.TimeoutExpired after `timeout_s`, and ends the machine with the tool.
        """
        fields = [class_name, stdin, *arguments]
        line = b" ".join(base64.b64encode(field.encode()) for field in fields) + b"\n"
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = self._answer(time.monotonic() + timeout_s)
        if answer is None:
            self.close()
            raise subprocess.TimeoutExpired([class_name, *arguments], timeout_s)
        status, output, errors = answer.split(b" ")
        return subprocess.CompletedProcess(
            [class_name, *arguments],
            int(status),
            base64.b64decode(output).decode(),
            base64.b64decode(errors).decode(),
        )

    def _answer(self, deadline: float) -> bytes | None:
        """The next line, or None if it has not arrived by the deadline or the machine ends."""
        assert self._process.stdout is not None
        fd, received = self._process.stdout.fileno(), b""
        while not received.endswith(b"\n"):
            wait_s = deadline - time.monotonic()
            if wait_s <= 0 or not select.select([fd], [], [], wait_s)[0]:
                return None
            data = os.read(fd, 1 << 20)
            if not data:
                return None
            received += data
        return received.rstrip(b"\n")

    def close(self) -> None:
        """End the machine."""
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
    """The machine of this process for a version; None where Java has no compiler.

    `command(class_name, plugins=...)` returns the command line of a class of that version.
    """
    with _starting:
        running = _servers.get(version)
        if running is None or not running.is_running:
            classes = _compiled(libs, cache_dir)
            if classes is None:
                return None
            if running is None:
                atexit.register(lambda: _servers[version].close())
            running = _servers[version] = ToolServer(command("ToolServer", plugins=[classes]))
        return running


@cache
def _compiled(libs: Path, cache_dir: Path) -> Path | None:
    """The folder of the compiled program, which is made once."""
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
