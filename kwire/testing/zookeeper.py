"""A ZooKeeper server process on a free port, for tests and for clusters on one machine.

with ZooKeeperProcess(tmp_path) as zookeeper:
    start_broker({"zookeeper.connect": zookeeper.connect("/some-chroot")})

The jars come from pyspark, or from a folder that the caller names: `lib` of a ZooKeeper
distribution, or `libs` of Apache Kafka 3.9 and older.  The server ends when the process that
started it ends.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kwire.testing.hosting.guard import Guard
from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.lifetime import ServerProcess
from kwire.testing.hosting.ports import free_port

JARS_VARIABLE: Final = "KWIRE_ZOOKEEPER_JARS"
MAIN_CLASS: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xms16m", "-Xmx256m")
"""With these options a start takes a quarter of a second of processor time, and the process takes
some 50 MB.  Metadata of tens of thousands of partitions needs more than 64 MB of heap."""

NEEDED_JARS: Final = ("zookeeper-[0-9]*.jar", "zookeeper-jute-*.jar", "slf4j-api-*.jar")
USED_JARS: Final = ("metrics-core-*.jar", "snappy-java-*.jar", "commons-io-*.jar", "netty-*.jar")
LOGGER_JARS: Final = (
    "log4j-api-*.jar", "log4j-core-*.jar", "log4j-slf4j*-impl-*.jar",
    "slf4j-reload4j-*.jar", "reload4j-*.jar", "logback-*.jar",
)  # fmt: skip
"""Logging backends as Spark, Kafka and ZooKeeper name them.  They double the time of a start."""

START_TIMEOUT_S: Final = 120.0
ASK_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.02

SETTINGS: Final = {
    "tickTime": "100",  # ms; the accuracy of session timeouts
    "minSessionTimeout": "200",
    "maxSessionTimeout": "600000",
    "maxClientCnxns": "0",  # all clients come from this machine
    "admin.enableServer": "false",  # its web server is not among pyspark's jars
    "4lw.commands.whitelist": "*",
    "preAllocSize": "1024",  # kB of its transaction log at a time, instead of 64 MB
}


class ZooKeeperMissing(RuntimeError):
    """Java or ZooKeeper's jars are not installed; the message says how to get them."""


class ZooKeeperStartError(RuntimeError):
    """ZooKeeper ended, or did not answer in time; the message contains its output."""


def find_jars(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder of ZooKeeper's jars: `given`, else $KWIRE_ZOOKEEPER_JARS, else that of pyspark.

    Raises ZooKeeperMissing.
    """
    named = given or os.environ.get(JARS_VARIABLE)
    if named:
        if not any(Path(named).glob(NEEDED_JARS[0])):
            raise ZooKeeperMissing(f"there is no zookeeper-*.jar in {named}")
        return Path(named)
    spark = importlib.util.find_spec("pyspark")
    for folder in () if spark is None else spark.submodule_search_locations or ():
        if any(Path(folder, "jars").glob(NEEDED_JARS[0])):
            return Path(folder, "jars")
    raise ZooKeeperMissing(
        f"no ZooKeeper: install pyspark, which contains it, or set {JARS_VARIABLE} to a folder of"
        " its jars (lib of a ZooKeeper distribution, libs of Apache Kafka 3.9)"
    )


def _java() -> str:
    """Return the path of the java command, from JAVA_HOME if that is set, else from PATH.  Raises
    ZooKeeperMissing if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home} has none" if home else "there is no java on PATH"
        raise ZooKeeperMissing(f"ZooKeeper needs Java, and {where}")
    return java


def _class_path(jars: Path, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from (str(path) for path in sorted(jars.glob(pattern)))


class ZooKeeperProcess(ServerProcess):
    """A ZooKeeper server, which can be stopped and started again.

    It keeps its port and its data over restarts.  `settings` are settings of zoo.cfg; they override
    the defaults of this module.  `jars` is the folder of the jars, `jvm` are further options of
    Java, and `host` is where the server runs.  With `is_logged`, the server writes its log to
    `log_path`, which doubles the time of a start.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, str] | None = None,
        *,
        jars: str | os.PathLike[str] | None = None,
        jvm: Sequence[str] = (),
        is_logged: bool = False,
        host: Host = HERE,
    ) -> None:
        """Prepares a server with its data and log under `directory`; `start` starts it.  `jars` is
        the folder of ZooKeeper's jar files, and `jvm` are more options of the Java machine.
        `is_logged`: it writes a log."""
        self.directory = Path(directory).resolve()
        super().__init__(self.directory / "zookeeper.log")
        self.host = host
        self.port = free_port()
        self.jars = jars
        self.jvm = (*JVM, *jvm)
        self.is_logged = is_logged
        self.settings = {
            "dataDir": str(self.directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": host.address,
            **SETTINGS,
            **(settings or {}),
        }
        self._guard: Guard | None = None

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.port}"

    def connect(self, chroot: str = "") -> str:
        """The value of `zookeeper.connect` for a cluster that keeps its metadata below `chroot`."""
        return f"{self.address}{chroot}"

    def command(self) -> list[str]:
        """Return the command that starts ZooKeeper, run by the launcher of its host."""
        jars = find_jars(self.jars)
        patterns = (*NEEDED_JARS, *USED_JARS, *(LOGGER_JARS if self.is_logged else ()))
        class_path = ":".join(_class_path(jars, patterns))
        config = str(self.directory / "zoo.cfg")
        java = [_java(), *self.jvm, "-cp", class_path, MAIN_CLASS, config]
        return [*self.host.launcher, *java]

    def spawn(self) -> None:
        """Start the process without waiting; `wait_until_up` waits.  Raises ZooKeeperMissing."""
        assert self._process is None, "ZooKeeper is running."
        command = self.command()
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self.settings.items()]
        (self.directory / "zoo.cfg").write_text("".join(lines))
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C must not reach it before its users have stopped
            )
        self._guard = Guard(self._process.pid)

    def wait_until_up(self) -> None:
        """Return once the server answers.  Raises ZooKeeperStartError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while "Mode:" not in self.ask("srvr"):
            assert self._process is not None
            hint = "" if self.is_logged else " (is_logged=True makes it log more)"
            if self._process.poll() is not None:
                status = self._process.returncode
                self.kill()
                raise ZooKeeperStartError(
                    f"ZooKeeper ended with status {status}{hint}:\n{self.log}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise ZooKeeperStartError(
                    f"ZooKeeper did not answer within {START_TIMEOUT_S} s{hint}:\n{self.log}"
                )
            time.sleep(POLL_S)

    def ask(self, word: str) -> str:
        """The response to a four-letter word such as `srvr`; empty if the server is down."""
        response = b""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.host.address, self.port), ASK_TIMEOUT_S) as connection,
        ):
            connection.sendall(word.encode())
            while data := connection.recv(65536):
                response += data
        return response.decode(errors="replace")

    def _before_the_end(self) -> None:
        """Ends the guard process, which kills ZooKeeper if this process is killed."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.release()
