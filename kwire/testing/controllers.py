"""KRaft controllers of Apache Kafka, in processes of their own, for brokers beside them.

controllers = ControllersProcess(tmp_path, KafkaProgram(java, libs), count=3)
with controllers:
    cluster = KraftClusterProcess(
        tmp_path, controllers.addresses, lifelines=controllers.lifelines
    )
    with cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)

Java and Apache Kafka's jars have to be there.  The controllers end when the process that started
them ends, and the brokers that have their lifelines.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from kwire.codecs.uuids import random_uuid, uuid_text
from kwire.testing.hosting.guard import Guard
from kwire.testing.hosting.host import HERE, Host
from kwire.testing.hosting.lifetime import ServerProcess, Startable
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import answers

FIRST_CONTROLLER_ID: Final = 101
"""Controllers and brokers share one range of ids; these are above those of the brokers."""
LISTENER: Final = "CONTROLLER"
QUORUM_FILE: Final = "quorum.json"
"""In the folder of the cluster: its id, and the ids and ports of its controllers."""

SERVER_CLASS: Final = "kafka.Kafka"
FORMAT_CLASS: Final = "kafka.tools.StorageTool"
JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
START_TIMEOUT_S: Final = 300.0
FORMAT_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.05
TAIL_CHARS: Final = 3000

LOGGING: Final = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR">
  <Appenders><Console name="out" target="SYSTEM_OUT">
    <PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""

OF_BROKERS: Final = frozenset(
    {
        "broker.id",
        "broker.rack",
        "inter.broker.listener.name",
        "log.dir",
        "metadata.log.dir",
        "security.inter.broker.protocol",
    }
)
"""Settings that a controller does not share with brokers; those of its own replace the others."""


class KafkaProgram(NamedTuple):
    """Apache Kafka as it is installed: a Java, the folder of the jars, and options of Java."""

    java: Path
    libs: Path
    jvm: Sequence[str] = JVM

    def command(self, class_name: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs a class of Apache Kafka."""
        return [
            str(self.java), *self.jvm, *options, "-cp", f"{self.libs}/*", class_name, *arguments
        ]  # fmt: skip


class ControllersError(RuntimeError):
    """A controller could not be formatted, ended, or did not answer; the message has its output."""


class ControllerProcess(ServerProcess):
    """One controller, which can be stopped and started again; it keeps its port and its data.

    `settings` are its settings, of which those that make it a controller are chosen here.
    """

    def __init__(
        self,
        directory: Path,
        program: KafkaProgram,
        controller_id: int,
        port: int,
        settings: Mapping[str, str],
        host: Host = HERE,
    ) -> None:
        """Prepares a controller with its data and log under `directory`, which is formatted."""
        self.directory = directory.resolve()
        super().__init__(self.directory / "controller.log")
        self.program = program
        self.port = port
        self.host = host
        own = {
            "process.roles": "controller",
            "node.id": str(controller_id),
            "listeners": f"{LISTENER}://{self.address}",
            "advertised.listeners": f"{LISTENER}://{self.address}",
            "controller.listener.names": LISTENER,
            "listener.security.protocol.map": f"{LISTENER}:PLAINTEXT",
            "log.dirs": str(self.data_dir),
        }
        shared = {name: value for name, value in settings.items() if name not in OF_BROKERS}
        self.settings = {**shared, **own}
        self._guard: Guard | None = None

    @property
    def address(self) -> str:
        return f"{self.host.address}:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    def spawn(self) -> None:
        """Start the process without waiting; `wait_until_up` waits."""
        assert self._process is None, "The controller is running."
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = write_properties(self.directory / "server.properties", self.settings)
        logging = self.directory / "log4j2.xml"
        logging.write_text(LOGGING)
        java = self.program.command(
            SERVER_CLASS, str(properties), options=[f"-Dlog4j2.configurationFile={logging}"]
        )
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.host.launcher, *java],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,  # Ctrl-C must not reach it before the brokers have stopped
            )
        self._guard = Guard(self._process.pid)

    def wait_until_up(self) -> None:
        """Return once the controller answers.  Raises ControllersError."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.host.address, self.port):
            assert self._process is not None
            if self._process.poll() is not None:
                status = self._process.returncode
                self.kill()
                raise ControllersError(
                    f"The controller ended with status {status}:\n{self.log[-TAIL_CHARS:]}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise ControllersError(
                    f"The controller did not answer within {START_TIMEOUT_S} s:\n"
                    f"{self.log[-TAIL_CHARS:]}"
                )
            time.sleep(POLL_S)

    @property
    def lifeline(self) -> int:
        """A file descriptor; the controller runs as long as a process has it open."""
        assert self._guard is not None, "The controller is not running."
        return self._guard.lifeline

    def _before_the_end(self) -> None:
        """End the guard, which kills the controller if this process is killed."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.release()


class QuorumRecord(NamedTuple):
    """What a cluster's folder says of its controllers.  It does not change."""

    cluster_id: str
    ports: dict[int, int]
    """By the controllers' ids."""
    directory_ids: dict[int, str]

    @classmethod
    def new(cls, count: int) -> QuorumRecord:
        """The record of a new cluster with that many controllers, at free ports."""
        ids = range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + count)
        return cls(
            uuid_text(random_uuid(os.urandom)),
            {each: free_port() for each in ids},
            {each: uuid_text(random_uuid(os.urandom)) for each in ids},
        )

    @classmethod
    def read(cls, directory: Path) -> QuorumRecord | None:
        """The record in a cluster's folder, or None.  Raises ControllersError if it is damaged."""
        path = directory / QUORUM_FILE
        try:
            found = json.loads(path.read_text())
            controllers = {each["id"]: each for each in found["controllers"]}
            return cls(
                found["cluster_id"],
                {number: each["port"] for number, each in controllers.items()},
                {number: each["directory_id"] for number, each in controllers.items()},
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ControllersError(f"{path} does not say what the controllers are") from error

    def write(self, directory: Path) -> None:
        """Write the record into the cluster's folder, whole or not at all."""
        controllers = [
            {"id": number, "port": port, "directory_id": self.directory_ids[number]}
            for number, port in self.ports.items()
        ]
        text = json.dumps({"cluster_id": self.cluster_id, "controllers": controllers}, indent=2)
        directory.mkdir(parents=True, exist_ok=True)
        fresh = directory / f"{QUORUM_FILE}.new"
        fresh.write_text(f"{text}\n")
        fresh.rename(directory / QUORUM_FILE)


class ControllersProcess(Startable):
    """The controllers of one cluster, which elect a leader among themselves.

    They keep their ids, ports and data in `directory`.  `count` is how many a new cluster has; None
    stands for one, or for those that the folder has.  `settings` are of all controllers: they
    decide with the same names as brokers, for example `num.partitions`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        program: KafkaProgram,
        count: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        host: Host = HERE,
    ) -> None:
        """Prepares the controllers; `start` starts them.

        Raises ControllersError if the folder has another number of controllers.
        """
        self.directory = Path(directory).resolve()
        self.program = program
        known = QuorumRecord.read(self.directory)
        if known is not None and count not in (None, len(known.ports)):
            raise ControllersError(
                f"{count} controllers cannot run on {directory}, which has a quorum of"
                f" {len(known.ports)}"
            )
        self.record = known or QuorumRecord.new(count or 1)
        self.addresses = ",".join(f"{host.address}:{port}" for port in self.record.ports.values())
        self._settings = {**(settings or {}), "controller.quorum.bootstrap.servers": self.addresses}
        self.controllers = {
            number: ControllerProcess(
                self.directory / f"controller-{number}", program, number, port, self._settings, host
            )
            for number, port in self.record.ports.items()
        }

    def spawn(self) -> None:
        """Format the controllers that are not formatted, and start all; `wait_until_up` waits.

        Raises ControllersError.
        """
        self.format()
        for controller in self.controllers.values():
            controller.spawn()

    def wait_until_up(self) -> None:
        """Return once all controllers answer.  Raises ControllersError."""
        for controller in self.controllers.values():
            controller.wait_until_up()

    def start(self) -> None:
        """Start the controllers; returns once all answer.  On failure all are stopped."""
        try:
            self.spawn()
            self.wait_until_up()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all controllers (SIGTERM) at the same time, so that none waits for the others."""
        with ThreadPoolExecutor(len(self.controllers)) as threads:
            list(threads.map(ControllerProcess.stop, self.controllers.values()))

    def lifelines(self) -> tuple[int, ...]:
        """File descriptors for the brokers, which need the controllers to leave the cluster."""
        return tuple(each.lifeline for each in self.controllers.values() if each.running)

    # -- the first start

    def format(self) -> None:
        """Write the first files of the controllers that have none, by Apache Kafka's own tool.

        The tool formats one folder.  The others get the same files: they name all controllers.
        """
        fresh = [each for each in self.controllers.values() if not each.data_dir.exists()]
        if not fresh:
            return
        self.record.write(self.directory)
        made = self.directory / "controllers.new"
        shutil.rmtree(made, ignore_errors=True)
        self._format(made)
        for number, controller in self.controllers.items():
            if controller in fresh:
                controller.directory.mkdir(parents=True, exist_ok=True)
                copy = controller.directory / "data.new"
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(made / "data", copy)
                write_properties(copy / "meta.properties", self._identity(number))
                copy.rename(controller.data_dir)
        shutil.rmtree(made)

    def _format(self, folder: Path) -> None:
        """Run the tool for the first controller, with its log directory in `folder`."""
        first = self.controllers[FIRST_CONTROLLER_ID]
        folder.mkdir(parents=True)
        properties = write_properties(
            folder / "server.properties", first.settings | {"log.dirs": str(folder / "data")}
        )
        logging = folder / "log4j2.xml"
        logging.write_text(LOGGING)
        voters = ",".join(
            f"{number}@{each.address}:{self.record.directory_ids[number]}"
            for number, each in self.controllers.items()
        )
        done = subprocess.run(
            self.program.command(
                FORMAT_CLASS, "format", "--cluster-id", self.record.cluster_id,
                "--config", str(properties), "--initial-controllers", voters,
                options=[f"-Dlog4j2.configurationFile={logging}"],
            ),
            capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            output = (done.stdout + done.stderr)[-TAIL_CHARS:]
            raise ControllersError(f"Apache Kafka did not format the controllers:\n{output}")

    def _identity(self, controller_id: int) -> dict[str, str]:
        """Return the content of `meta.properties` of a controller."""
        return {
            "version": "1",
            "node.id": str(controller_id),
            "cluster.id": self.record.cluster_id,
            "directory.id": self.record.directory_ids[controller_id],
        }


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a file of settings; returns its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
