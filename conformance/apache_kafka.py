"""Apache Kafka for comparisons and measurements: obtains its jars, runs its nodes and tools.

A node is one of KRaft (`ApacheKafka`), or a broker of a cluster on ZooKeeper (`ZooKeeperBroker`).

`mvn dependency:copy-dependencies` downloads the jars of a version once from Maven Central, into the
user's cache directory.  KWIRE_APACHE_KAFKA_LIBS may name a folder of jars to use instead.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from kwire.conformance import class_archive, java, resident
from kwire.testing.hosting.ending import end
from kwire.testing.hosting.lifetime import Startable
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import answers
from kwire.testing.zookeeper import ZooKeeperProcess

VERSION = "4.4.0"
"""The reference: its node, clients and Streams."""
TOOLS_VERSION = "4.3.1"
"""The last version of which all artifacts are published: of 4.4.0, the command line tools, Connect
and the test jars are not.  It is also the second reference for what 4.4.0 changed."""
ZOOKEEPER_VERSION = "3.9.2"
"""The last version with clusters on ZooKeeper; its jars include ZooKeeper."""
TOOLS_PACKAGES = (
    "org.apache.kafka.tools.",
    "org.apache.kafka.connect.",
    "org.apache.kafka.streams.tests.",
)
LIBS_VARIABLE = "KWIRE_APACHE_KAFKA_LIBS"
LOG4J_VERSION = "2.25.1"
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
STOPPED_JVM = 128 + signal.SIGTERM
"""The exit status of a Java process that SIGTERM has ended in order."""
CLUSTER_ID = "kwireConformanceKfk0A"
MAVEN_TIMEOUT_S = 900  # some 100 MB of jars
START_TIMEOUT_S = 300

# For short-lived tools and test brokers, which must start quickly rather than run fast.
QUICK_JVM = ("-Xmx512m", *java.QUICK)
# For the node that all tests of a run share.  Hostile requests make it ask for arrays larger than
# its heap, and each costs a collection of all that the other tests have left there.
SHARED_JVM = ("-Xmx1g", *java.QUICK)
# The options of kafka-server-start.sh and kafka-run-class.sh, for measurements.
SERVER_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)

LOG4J_XML = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR">
  <Appenders><Console name="err" target="SYSTEM_ERR">
    <PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="${sys:kwire.log.level:-WARN}"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""

# The logging configuration of versions before 4.
RELOAD4J_PROPERTIES = """log4j.rootLogger=${kwire.log.level}, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.Target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class ApacheKafkaError(RuntimeError):
    """Apache Kafka could not be downloaded or started; the message ends with its output."""


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, which compare as versions do."""
    return tuple(int(number) for number in version.split("."))


def version_of(class_name: str) -> str:
    """Return the newest version whose jars have a class of Apache Kafka."""
    of_tools = class_name in resident.TOOLS or class_name.startswith(TOOLS_PACKAGES)
    return TOOLS_VERSION if of_tools else VERSION


def _artifacts(version: str) -> list[tuple[str, str, str, str]]:
    """(group, artifact, version, classifier) of the artifacts that, with dependencies, are needed.

    Kafka 4 leaves the choice of a logging backend to its distribution; 3.x depends on reload4j.
    """
    kafka = "org.apache.kafka"
    chosen = [(kafka, name, version, "") for name in ("kafka_2.13", "kafka-streams")]
    if release(version) <= release(TOOLS_VERSION):
        names = ["kafka-tools", "connect-runtime", "connect-file", "connect-mirror"]
        chosen += [(kafka, name, version, "") for name in names]
        chosen += [(kafka, name, version, "test") for name in ("kafka-clients", "kafka-streams")]
    if release(version) >= (4,):
        log4j = "org.apache.logging.log4j"
        names = ["log4j-core", "log4j-slf4j-impl", "log4j-1.2-api"]
        chosen += [(log4j, name, LOG4J_VERSION, "") for name in names]
    return chosen


def _pom(version: str) -> str:
    """Return the Maven project whose dependencies are the jars of this version of Apache Kafka."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{number}</version>"
        + (f"<classifier>{classifier}</classifier>" if classifier else "")
        + "</dependency>\n"
        for group, artifact, number, classifier in _artifacts(version)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        "<groupId>kwire</groupId><artifactId>apache-kafka</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def cache_dir() -> Path:
    """Return the folder of files that are downloaded or made once for Apache Kafka."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "kwire", "apache-kafka")


def libs(version: str = VERSION) -> Path:
    """The folder of the jars of `version`; downloads them first if they are missing (a minute).

    Raises JavaMissing without Java or Maven, ApacheKafkaError if Maven fails.
    """
    java.executable()
    given = os.environ.get(LIBS_VARIABLE)
    if given and any(Path(given).glob(f"kafka-clients-{version}.jar")):
        return Path(given)
    target = cache_dir() / version
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{version}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one process downloads
        if not target.is_dir():
            _download(version, target)
    return target


def _download(version: str, target: Path) -> None:
    """Download the jars to a temporary folder beside `target`, and rename it to `target`."""
    maven = shutil.which("mvn")
    if maven is None:
        raise java.JavaMissing(
            f"no mvn on PATH: Maven downloads Apache Kafka {version} (or set {LIBS_VARIABLE} to a"
            " folder of its jars)"
        )
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{version}.new-") as folder:
        Path(folder, "pom.xml").write_text(_pom(version))
        jars = Path(folder, "jars")
        done = subprocess.run(
            [
                maven,
                "-q",
                "-B",
                f"{DEPENDENCY_PLUGIN}:copy-dependencies",
                f"-DoutputDirectory={jars}",
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT_S,
        )
        if done.returncode:
            output = (done.stdout + done.stderr)[-2000:]
            raise ApacheKafkaError(f"mvn could not download Apache Kafka {version}:\n{output}")
        jars.rename(target)


def _logging(version: str) -> str:
    """Return the option that sends Apache Kafka's logging to stderr; stdout is a tool's result."""
    if release(version) >= (4,):
        return f"-Dlog4j2.configurationFile={_write_cached_file('log4j2.xml', LOG4J_XML)}"
    return (
        f"-Dlog4j.configuration=file:{_write_cached_file('log4j.properties', RELOAD4J_PROPERTIES)}"
    )


def _write_cached_file(name: str, content: str) -> Path:
    """Write a file into the cache directory unless it has this content; return its path.

    The rename makes the file complete for other processes at any moment.
    """
    path = cache_dir() / name
    if not path.is_file() or path.read_text() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{name}.{os.getpid()}")
        fresh.write_text(content)
        fresh.rename(path)
    return path


def command(
    class_name: str,
    arguments: Sequence[str | Path] = (),
    *,
    version: str | None = None,
    jvm: Sequence[str] = QUICK_JVM,
    log_level: str = "WARN",
    plugins: Sequence[Path] = (),
) -> list[str]:
    """Return the command line that runs `class_name` with the jars of `version` and `plugins`.

    Without a version, the jars are those of `version_of`.
    """
    version = version or version_of(class_name)
    archived = class_archive.options(libs(version)) if tuple(jvm) in (QUICK_JVM, SHARED_JVM) else ()
    return [
        str(java.executable()),
        _logging(version),
        *jvm,
        *archived,
        f"-Dkwire.log.level={log_level}",
        "-cp",
        os.pathsep.join((f"{libs(version)}/*", *map(str, plugins))),
        class_name,
        *map(str, arguments),
    ]


def source_command(
    source: Path, arguments: Sequence[str] = (), jars: Path | None = None
) -> list[str]:
    """Return the command line that compiles a Java program of one file, and runs it.

    `jars` is the folder of its jars, those of VERSION if not given.  The program is short: the
    options of a quick start halve the processor time of compiler and program.
    """
    folder = jars or libs()
    archived = class_archive.options(folder)
    options = [*QUICK_JVM, *archived, "-cp", f"{folder}/*"]
    return [str(java.executable()), *options, str(source), *arguments]


def run(
    class_name: str,
    arguments: Sequence[str | Path] = (),
    *,
    stdin: str = "",
    timeout_s: float = 600,
    version: str | None = None,
    plugins: Sequence[Path] = (),
) -> subprocess.CompletedProcess[str]:
    """Run one Java class to its end; stdout and stderr are captured, and no status is an error.

    Short tools share a Java machine (see `resident`), which needs the jars of a version with all
    tools and has no `plugins`.  Without a version, the jars are those of `version_of`.
    """
    version = version or version_of(class_name)
    may_share = (
        not plugins and release(version) <= release(TOOLS_VERSION) and class_name in resident.TOOLS
    )
    if may_share and resident.JVM_OPTIONS not in os.environ:
        machine = resident.server(
            version, libs(version), cache_dir(), partial(command, version=version)
        )
        if machine is not None:
            return machine.run(class_name, [*map(str, arguments)], stdin, timeout_s)
    return subprocess.run(
        command(class_name, arguments, version=version, plugins=plugins),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


class ApacheKafka(Startable):
    """One KRaft node (broker and controller in one) with its data in `directory`.

    A context manager that starts the node on entry and stops it on exit.  `settings` are added to
    those of a single node and override them.  The data remains after a stop, so the node can be
    started again.  `plugins` are jars with classes that settings name.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        version: str = VERSION,
        jvm: Sequence[str] = QUICK_JVM,
        log_level: str = "WARN",
        plugins: Sequence[Path] = (),
    ) -> None:
        """Prepare a node that keeps its files in `directory`; port 0 means any free port.

        `settings` take precedence over the node's own. `plugins` are jars for its class path.
        """
        self.directory = directory.resolve()
        self.plugins = tuple(plugins)
        self.port = port or free_port()
        self.version = version
        self.jvm = tuple(jvm)
        self.log_level = log_level
        given = dict(settings or {})
        self.settings = self._own_settings(given) | given
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    def _own_settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a single node."""
        node_id = given.get("node.id", "1")
        controller = free_port()
        return {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.quorum.voters": f"{node_id}@localhost:{controller}",
            "listeners": f"PLAINTEXT://localhost:{self.port},CONTROLLER://localhost:{controller}",
            "advertised.listeners": f"PLAINTEXT://localhost:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def format(self) -> None:
        """Write server.properties, and format the log directory unless it is formatted."""
        properties = self._write_properties()
        if (self.directory / "data" / "meta.properties").exists():
            return
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
        # A setting may name a class of a plug-in, which the tool looks up too.
        done = run("kafka.tools.StorageTool", arguments, version=self.version, plugins=self.plugins)
        if done.returncode:
            raise ApacheKafkaError(f"format failed:\n{done.stdout}{done.stderr}")

    def _write_properties(self) -> Path:
        """Write the node's settings and return the path of the file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        lines = [f"{name}={value}\n" for name, value in self.settings.items()]
        properties.write_text("".join(lines))
        return properties

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process and return at once; call `format` before, and `wait_until_up` after."""
        with open(self.log_file, "ab") as out:
            self._process = subprocess.Popen(
                command(
                    "kafka.Kafka",
                    [self.directory / "server.properties"],
                    version=self.version,
                    jvm=self.jvm,
                    log_level=self.log_level,
                    plugins=self.plugins,
                ),
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in pytest must end the tests first
            )
        return self._process

    def wait_until_up(self) -> None:
        """Return once the broker accepts connections; raises if it died or took too long."""
        assert self._process is not None, "not started"
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            if self._is_up():
                return
            time.sleep(0.05)
        self.stop()
        tail = self.log_file.read_text(errors="replace")[-3000:]
        raise ApacheKafkaError(f"Apache Kafka {self.version} did not start:\n{tail}")

    def _is_up(self) -> bool:
        with socket.socket() as link:
            link.settimeout(1)
            return link.connect_ex(("localhost", self.port)) == 0

    def start(self) -> None:
        self.format()
        self.spawn()
        self.wait_until_up()

    def stop(self) -> int:
        """Stop the node with SIGTERM and wait; kill it if that takes too long.

        Returns 0 if it ended in order or did not run, and else its exit status.
        """
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal.SIGCONT)  # a paused process does not handle SIGTERM
        status = end(process)
        return 0 if status == STOPPED_JVM else status

    def kill(self) -> None:
        """Kill the node (SIGKILL); `spawn` starts it again with its data.

        On ZooKeeper, no start succeeds until the session of the killed process has expired.
        """
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


class ZooKeeperBroker(ApacheKafka):
    """A broker of a cluster on ZooKeeper, with its data in `directory`.

    `zookeeper_connect` is the setting zookeeper.connect.  The brokers of one cluster have the same
    one, and different values of `broker_id`.
    """

    def __init__(
        self,
        directory: Path,
        zookeeper_connect: str,
        broker_id: int = 1,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        version: str = ZOOKEEPER_VERSION,
        jvm: Sequence[str] = QUICK_JVM,
        log_level: str = "WARN",
    ) -> None:
        """Prepare a broker of the cluster on this ZooKeeper; port 0 means any free port."""
        self.broker_id = broker_id
        self.zookeeper_connect = zookeeper_connect
        super().__init__(
            directory, port=port, settings=settings, version=version, jvm=jvm, log_level=log_level
        )

    def _own_settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a broker that may be the only one of its cluster."""
        return {
            "broker.id": str(self.broker_id),
            "zookeeper.connect": self.zookeeper_connect,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def format(self) -> None:
        """Write server.properties; the broker formats its log directories itself."""
        self._write_properties()

    def _is_up(self) -> bool:
        """Return whether the broker answers; it accepts connections before it is registered."""
        return answers("127.0.0.1", self.port)

    def pause(self) -> None:
        """Pause the process (SIGSTOP), as a very long garbage collection does."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


def archive_classes(version: str = VERSION) -> None:
    """Make the class data archive (class_archive), so that later starts take half the time.

    This starts and stops a node once; it does nothing while another process makes the archive.
    """
    jars = libs(version)
    with open(class_archive.path(jars).with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if class_archive.path(jars).exists():
            return
        with tempfile.TemporaryDirectory(dir=jars.parent, prefix="archive.new-") as folder:
            written = Path(folder, "classes.jsa")
            with _node_of(version, Path(folder), (*QUICK_JVM, *class_archive.writing(written))):
                pass
            class_archive.keep(written, jars)


@contextmanager
def _node_of(version: str, folder: Path, jvm: Sequence[str]) -> Iterator[None]:
    """Run a node as tests use this version: in a cluster on ZooKeeper or in one on KRaft."""
    with ExitStack() as stack:
        node = ApacheKafka(folder / "node", version=version, jvm=jvm)
        if version == ZOOKEEPER_VERSION:
            zookeeper = ZooKeeperProcess(folder / "zookeeper", jars=libs(version))
            connect = stack.enter_context(zookeeper).connect()
            node = ZooKeeperBroker(folder / "node", connect, version=version, jvm=jvm)
        stack.enter_context(node)
        yield


def lock_exclusively(file: IO[str]) -> None:
    """Hold the advisory lock of an open file until it is closed."""
    fcntl.flock(file, fcntl.LOCK_EX)
