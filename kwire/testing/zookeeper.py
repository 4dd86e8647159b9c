"""ZooKeeper for a test or for a cluster on this machine: a process of its own, on a free port.

with ZooKeeperProcess(tmp_path) as zookeeper:
    start_broker({"zookeeper.connect": zookeeper.connect("/some-chroot")})

Its jars are those that pyspark brings, or those of a folder that is named: `lib` of a ZooKeeper
distribution, `libs` of Apache Kafka 3.9 and older.  It ends with the process that started it.
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

from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.lifetime import ServerProcess
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import hold_lifeline

JARS_VARIABLE: Final = "KWIRE_ZOOKEEPER_JARS"
MAIN_CLASS: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xms16m", "-Xmx256m")
"""It starts with a quarter of a second of processor time, and takes some 50 MB; tens of thousands
of partitions need more than 64 MB of heap."""

NEEDED_JARS: Final = ("zookeeper-[0-9]*.jar", "zookeeper-jute-*.jar", "slf4j-api-*.jar")
USED_JARS: Final = ("metrics-core-*.jar", "snappy-java-*.jar", "commons-io-*.jar", "netty-*.jar")
LOGGER_JARS: Final = (
    "log4j-api-*.jar", "log4j-core-*.jar", "log4j-slf4j*-impl-*.jar",
    "slf4j-reload4j-*.jar", "reload4j-*.jar", "logback-*.jar",
)  # fmt: skip
"""What writes a log, of Spark, of Kafka and of ZooKeeper: twice the time to start."""

START_TIMEOUT_S: Final = 120.0
ASK_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.02

SETTINGS: Final = {
    "tickTime": "100",  # ms; how exactly sessions expire
    "minSessionTimeout": "200",
    "maxSessionTimeout": "600000",
    "maxClientCnxns": "0",  # all clients come from this machine
    "admin.enableServer": "false",  # its web server is not among pyspark's jars
    "4lw.commands.whitelist": "*",
    "preAllocSize": "1024",  # kB of its transaction log at a time, instead of 64 MB
}


class ZooKeeperMissing(RuntimeError):
    """There is no Java, or no ZooKeeper for it; the sentence says what would help."""


class ZooKeeperStartError(RuntimeError):
    """It ended, or did not answer in time; the message holds what it printed."""


def find_jars(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder of ZooKeeper's jars: `given`, else of KWIRE_ZOOKEEPER_JARS, else pyspark's.

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
        f"no ZooKeeper: install pyspark, which brings one, or name a folder of its jars in"
        f" {JARS_VARIABLE} (lib of a ZooKeeper distribution, libs of Apache Kafka 3.9)"
    )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME={home} has none" if home else "there is no java on PATH"
        raise ZooKeeperMissing(f"ZooKeeper needs Java, and {where}")
    return found


def _class_path(jars: Path, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from (str(path) for path in sorted(jars.glob(pattern)))


class ZooKeeperProcess(ServerProcess):
    """One ZooKeeper server over its whole life, through as many processes as it is started.

    It keeps its port and its data.  `settings` are those of zoo.cfg, before those chosen here;
    `jvm` are options of Java; `is_logged` has it write its log to `log_path`; `host` is where it
    runs.
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
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.port}"

    def connect(self, chroot: str = "") -> str:
        """What `zookeeper.connect` is for those who use everything below `chroot`."""
        return f"{self.address}{chroot}"

    def command(self) -> list[str]:
        jars = find_jars(self.jars)
        patterns = (*NEEDED_JARS, *USED_JARS, *(LOGGER_JARS if self.is_logged else ()))
        class_path = ":".join(_class_path(jars, patterns))
        config = str(self.directory / "zoo.cfg")
        java = [_java(), *self.jvm, "-cp", class_path, MAIN_CLASS, config]
        return [*self.host.launcher, *java]

    def spawn(self) -> None:
        """Start it and return at once; `wait_until_up` waits.  Raises ZooKeeperMissing."""
        assert self._process is None, "ZooKeeper is running"
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
                start_new_session=True,  # Ctrl-C is for its users, who stop it after themselves
            )
        self._guard = _kill_at_our_end(self._process.pid)

    def wait_until_up(self) -> None:
        """Return once it serves.  Raises ZooKeeperStartError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while "Mode:" not in self.ask("srvr"):
            assert self._process is not None
            hint = "" if self.is_logged else " (is_logged=True has it say more)"
            if self._process.poll() is not None:
                status = self._process.returncode
                self.kill()
                raise ZooKeeperStartError(f"it ended with status {status}{hint}:\n{self.log}")
            if time.monotonic() > deadline:
                self.kill()
                raise ZooKeeperStartError(f"no reply in {START_TIMEOUT_S} s{hint}:\n{self.log}")
            time.sleep(POLL_S)

    def ask(self, word: str) -> str:
        """What it replies to one of its four-letter words; empty if it does not."""
        said = b""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.host.address, self.port), ASK_TIMEOUT_S) as link,
        ):
            link.sendall(word.encode())
            while got := link.recv(65536):
                said += got
        return said.decode(errors="replace")

    def _before_the_end(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            assert guard.stdin is not None
            guard.stdin.close()


def _kill_at_our_end(pid: int) -> subprocess.Popen[bytes]:
    """A shell that kills `pid` when its standard input ends, as it does with this process."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; kill -9 {pid}"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None
    hold_lifeline(guard.stdin)
    return guard
