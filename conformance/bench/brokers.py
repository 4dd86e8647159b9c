"""The measured brokers, each in a process of its own on the loopback interface."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kwire.conformance.apache_kafka import SERVER_JVM, VERSION, ApacheKafka
from kwire.conformance.bench import frames, load
from kwire.conformance.bench.load import Address
from kwire.testing.hosting.ending import end
from kwire.testing.hosting.ports import free_port

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 180  # for 10,000 partitions with new records
POLL_S = 0.002


class BrokerFailed(RuntimeError):
    """A broker did not start, or ended; the message ends with its log."""


class BenchBroker(ABC):
    """A measured broker; `directory` holds its data and log, and `start` creates it."""

    name: str
    address: Address
    log_file: Path | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @abstractmethod
    def start(self) -> float:
        """Start the broker; seconds from the start of the process to its first ApiVersions
        response."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the process and delete its data."""

    @abstractmethod
    def restart(self, settings: Mapping[str, str]) -> float:
        """Stop the process cleanly and start it with its data and more settings; returns as
        `start`.

        Raises BrokerFailed if this program did not start the broker.
        """

    @abstractmethod
    def rss_mb(self) -> float | None:
        """Return the resident memory of the process in MB (10^6 bytes), or None if the system does
        not report it."""

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic whose files are deleted as soon as the topic is."""
        configs = {"file.delete.delay.ms": "0"}
        reply = load.ask(self.address, frames.create_topic(topic, partitions, configs))
        if error := frames.topic_error(reply, topic):
            raise frames.RequestFailed(f"{self.name}: CreateTopics gave error code {error}")

    def delete_topic(self, topic: str) -> None:
        reply = load.ask(self.address, frames.delete_topic(topic))
        if error := frames.topic_error(reply, topic):
            raise frames.RequestFailed(f"{self.name}: DeleteTopics gave error code {error}")


def wait_for_reply(address: Address, process: subprocess.Popen[bytes], log_file: Path) -> None:
    """Send ApiVersions until there is a response."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            load.ask(address, frames.api_versions())
        except (OSError, frames.RequestFailed):
            time.sleep(POLL_S)
        else:
            return
    raise BrokerFailed(f"no reply to ApiVersions:\n{log_file.read_text(errors='replace')[-3000:]}")


def rss_mb(pid: int) -> float | None:
    """Return the resident memory in MB of a process and its children; None without /proc."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        statuses = [Path(f"/proc/{number}/status").read_text() for number in (pid, *children)]
    except OSError:
        return None
    sizes = [re.search(r"^VmRSS:\s+(\d+) kB", status, re.M) for status in statuses]
    return sum(int(size[1]) for size in sizes if size) * 1024 / 1e6


class ProcessBroker(BenchBroker):
    """A broker that a command line starts."""

    def __init__(self, directory: Path) -> None:
        """Keep the broker's files in `directory`; it gets a free port on the loopback interface."""
        self.directory = directory
        self.address = ("127.0.0.1", free_port())
        self.log_file: Path = directory / "broker.log"
        self.settings: dict[str, str] = {}
        self.environment: dict[str, str] | None = None  # None: that of this process
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line."""

    def start(self) -> float:
        """Start the broker and return the seconds until its first reply."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.log_file, "wb") as log:
            start = time.monotonic()
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
            )
        wait_for_reply(self.address, self._process, self.log_file)
        return time.monotonic() - start

    def restart(self, settings: Mapping[str, str]) -> float:
        self.settings |= settings
        self.end()
        return self.start()

    def stop(self) -> None:
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def end(self) -> None:
        """Stop the broker cleanly; its data remains."""
        process, self._process = self._process, None
        if process is not None:
            end(process, patience_s=STOP_TIMEOUT_S)

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def rss_mb(self) -> float | None:
        return rss_mb(self._process.pid) if self._process is not None else None


class Kwire(ProcessBroker):
    """`kwire serve` with default settings."""

    name = "kwire"

    def command(self) -> list[str]:
        """Return the command line of `kwire serve` with this broker's settings."""
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.directory / "data"),
            **self.settings,
        }
        sets = [f"--set={name}={value}" for name, value in settings.items()]
        return [sys.executable, "-m", "kwire.cli", "serve", *sets]


class Floor(ProcessBroker):
    """The bare server of `floor.py`, which has no topics and serves only the rows on raw
    sockets."""

    name = "floor"

    def command(self) -> list[str]:
        script = Path(__file__).with_name("floor.py")
        return [sys.executable, str(script), str(self.address[1]), str(self.directory / "log")]

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Do nothing: the server has one log for all names."""

    def delete_topic(self, topic: str) -> None:
        """Do nothing: the log is deleted with the server."""


class Apache(BenchBroker):
    """Apache Kafka with default settings and the JVM options of its own start script."""

    name = f"Apache Kafka {VERSION}"

    def __init__(self, directory: Path) -> None:
        self._node = ApacheKafka(directory, jvm=SERVER_JVM)
        self.address = ("localhost", self._node.port)
        self.log_file = self._node.log_file

    def start(self) -> float:
        """Start the broker; formatting the storage before is not part of the time."""
        self._node.format()
        start = time.monotonic()
        process = self._node.spawn()
        wait_for_reply(self.address, process, self._node.log_file)
        return time.monotonic() - start

    def restart(self, settings: Mapping[str, str]) -> float:
        self._node.settings |= settings
        self._node.stop()
        return self.start()

    def stop(self) -> None:
        self._node.stop()
        shutil.rmtree(self._node.directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The id of the running process."""
        return self._node.pid

    def rss_mb(self) -> float | None:
        return rss_mb(self._node.pid)


class External(BenchBroker):
    """A broker that runs already and keeps running."""

    def __init__(self, name: str, address: Address) -> None:
        self.name = name
        self.address = address

    def start(self) -> float:
        return 0.0

    def restart(self, settings: Mapping[str, str]) -> float:
        raise BrokerFailed(f"{self.name} cannot be restarted: this program did not start it")

    def stop(self) -> None:
        """Do nothing: the broker keeps running."""

    def rss_mb(self) -> float | None:
        return None


@contextmanager
def running(*brokers: BenchBroker) -> Iterator[None]:
    """Start the brokers one after another; stop all of them at the end."""
    started: list[BenchBroker] = []
    try:
        for broker in brokers:
            started.append(broker)
            broker.start()
        yield
    finally:
        for broker in started:
            broker.stop()
