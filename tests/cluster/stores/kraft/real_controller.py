"""A KRaft controller of Apache Kafka 4.4.0, without a broker, and brokers beside it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from kwire.conformance import apache_kafka
from kwire.conformance.apache_kafka import CLUSTER_ID, ApacheKafka, ApacheKafkaError

CONTROLLER_ID = 100
TOOL = "kafka.tools.StorageTool"


class KafkaController(ApacheKafka):
    """The only controller of a cluster, with its data in `directory`.

    The cluster is formatted for `release` with static voters, or for the newest one without.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        release: str | None = None,
    ) -> None:
        """Prepare a controller on a free port."""
        self.release = release
        super().__init__(directory, settings=settings)

    @property
    def quorum(self) -> dict[str, str]:
        """The settings by which nodes find the controller."""
        if self.release is None:
            return {"controller.quorum.bootstrap.servers": self.bootstrap}
        return {"controller.quorum.voters": f"{CONTROLLER_ID}@{self.bootstrap}"}

    def _own_settings(self, given: Mapping[str, str]) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://localhost:{self.port}",
            "advertised.listeners": f"CONTROLLER://localhost:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            **self.quorum,
        }

    @property
    def metadata(self) -> Path:
        """The folder of the metadata log."""
        return self.directory / "data" / "__cluster_metadata-0"

    def format(self) -> None:
        """Format the log directory as that of the only voter."""
        options = ["--standalone"]
        self._format(options if self.release is None else ["--release-version", self.release])

    def _format(self, options: list[str]) -> None:
        properties = self._write_properties()
        if (self.directory / "data" / "meta.properties").exists():
            return
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties), *options]
        done = apache_kafka.run(TOOL, arguments, version=self.version)
        if done.returncode:
            raise ApacheKafkaError(f"format failed:\n{done.stdout}{done.stderr}")

    def forget_log(self) -> None:
        """Remove the log of the stopped controller; its newest snapshot stays.

        Then it has no records for a new observer, which happens in a cluster after
        `metadata.max.retention.bytes`.
        """
        for path in self.metadata.iterdir():
            if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
                path.unlink()
        (self.metadata / "leader-epoch-checkpoint").unlink()


class KafkaBroker(KafkaController):
    """A broker beside a controller, whose metadata log may be there already."""

    def __init__(
        self,
        directory: Path,
        broker_id: int,
        controller: KafkaController,
        *,
        settings: Mapping[str, str] | None = None,
        sasl_port: int | None = None,
    ) -> None:
        """Prepare a broker of the controller's cluster; with `sasl_port` it has a SASL listener."""
        self.broker_id = broker_id
        self.controller = controller
        self.sasl_port = sasl_port
        super().__init__(directory, settings=settings, release=controller.release)

    def _own_settings(self, given: Mapping[str, str]) -> dict[str, str]:
        listeners = f"PLAINTEXT://localhost:{self.port}"
        if self.sasl_port is not None:
            listeners += f",SASL_PLAINTEXT://localhost:{self.sasl_port}"
        return {
            "process.roles": "broker",
            "node.id": str(self.broker_id),
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            **self.controller.quorum,
        }

    def format(self) -> None:
        options = ["--no-initial-controllers"]
        self._format(options if self.release is None else ["--release-version", self.release])

    def take_metadata(self, folder: Path) -> None:
        """Begin with the metadata log in `folder`."""
        self.format()
        shutil.copytree(folder, self.metadata)
