"""Apache Kafka 3.9.2 with ZooKeeper, started on a data directory that another broker wrote.

Such a broker has its metadata in ZooKeeper, so the directory's topics are written there before it
starts, as if a backup of ZooKeeper had been restored.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kwire.cluster.metadata.image import TOPIC_RESOURCE, TopicImage
from kwire.cluster.stores.change_log import ChangeLog
from kwire.cluster.stores.local import FILE_NAME
from kwire.codecs.uuids import uuid_text
from kwire.conformance.apache_kafka import command
from kwire.testing.hosting.ending import end
from kwire.testing.hosting.ports import free_port
from kwire.testing.hosting.process import answers
from tests.log.interchange.filling import SETTINGS
from tests.polling import until

VERSION = "3.9.2"
STOP_TIMEOUT_S = 300
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOG4J = """log4j.rootLogger=WARN, out
log4j.logger.kafka.log=INFO
log4j.logger.org.apache.kafka.storage=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
META_PROPERTIES = "version=0\nbroker.id={node_id}\ncluster.id={cluster_id}\n"


def take_metadata(data_dir: Path) -> dict[str, object]:
    """ZooKeeper's nodes for what is in kwire's metadata; the directory is marked as ZooKeeper's."""
    _, image = ChangeLog.open_at(data_dir / FILE_NAME)
    node_id = image.topics["codecs"].partitions[0].leader
    text = META_PROPERTIES.format(node_id=node_id, cluster_id=image.cluster_id)
    (data_dir / "meta.properties").write_text(text)
    nodes: dict[str, object] = {"/cluster/id": {"version": "1", "id": image.cluster_id}}
    for topic in image.topics.values():
        nodes |= _topic(topic)
    for (kind, name), values in image.configs.items():
        if kind == TOPIC_RESOURCE:
            nodes[f"/config/topics/{name}"] = {"version": 1, "config": dict(values)}
    return nodes


def _topic(topic: TopicImage) -> dict[str, object]:
    root = f"/brokers/topics/{topic.name}"
    assignment = {str(index): state.replicas for index, state in enumerate(topic.partitions)}
    nodes: dict[str, object] = {
        root: {
            "version": 3,
            "topic_id": uuid_text(topic.id),
            "partitions": assignment,
            "adding_replicas": {},
            "removing_replicas": {},
        }
    }
    for index, state in enumerate(topic.partitions):
        nodes[f"{root}/partitions/{index}/state"] = {
            "version": 1,
            "controller_epoch": 1,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    return nodes


def _commands(nodes: Mapping[str, object]) -> str:
    """The commands of ZooKeeper's shell that create the nodes and their parents."""
    lines: dict[str, str] = {}
    for path, content in nodes.items():
        parts = path.split("/")[1:]
        for depth in range(1, len(parts)):
            above = "/" + "/".join(parts[:depth])
            if above not in nodes:
                lines.setdefault(above, f"create {above}")
        lines[path] = f"create {path} '{json.dumps(content, separators=(',', ':'))}'"
    return "\n".join([*lines.values(), "quit"]) + "\n"


@contextmanager
def running(data_dir: Path, nodes: Mapping[str, object], scratch: Path) -> Iterator[str]:
    """The broker's address, once it answers; afterwards it has stopped cleanly."""
    scratch.mkdir()
    (scratch / "log4j.properties").write_text(LOG4J)
    zookeeper_port, port = free_port(), free_port()
    server = "org.apache.zookeeper.server.ZooKeeperServerMain"
    with _process(server, [str(zookeeper_port), str(scratch / "zookeeper")], scratch, "zookeeper"):
        _create(nodes, zookeeper_port, scratch)
        settings = SETTINGS | {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(data_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        properties = scratch / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with _process("kafka.Kafka", [str(properties)], scratch, "kafka") as kafka:
            until(
                lambda: kafka.poll() is not None or answers("127.0.0.1", port),
                (scratch / "kafka.log").read_text(),
            )
            assert kafka.poll() is None, (scratch / "kafka.log").read_text()
            yield f"127.0.0.1:{port}"


@contextmanager
def _process(
    class_name: str, arguments: list[str], scratch: Path, name: str
) -> Iterator[subprocess.Popen[bytes]]:
    log4j = f"-Dlog4j.configuration=file:{scratch / 'log4j.properties'}"
    with open(scratch / f"{name}.log", "ab") as log:
        process = subprocess.Popen(
            command(class_name, arguments, version=VERSION, jvm=(*JVM, log4j)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        end(process)


def _create(nodes: Mapping[str, object], port: int, scratch: Path) -> None:
    """Write the nodes, once the server listens.

    It may still close the shell's first connection, and what the shell was at is lost then: so
    the shell is run again until all are there.
    """
    until(lambda: _listens(port), "ZooKeeper does not listen")
    log4j = f"-Dlog4j.configuration=file:{scratch / 'log4j.properties'}"
    shell = command(
        "org.apache.zookeeper.ZooKeeperMain",
        ["-server", f"127.0.0.1:{port}"],
        version=VERSION,
        jvm=(*JVM, log4j),
    )
    there: set[str] = set()

    def is_complete() -> bool:
        done = subprocess.run(
            shell, input=_commands(nodes), capture_output=True, text=True, timeout=STOP_TIMEOUT_S
        )
        output = done.stdout + done.stderr
        there.update(re.findall(r"(?:Created|Node already exists:) (\S+)", output))
        return there >= nodes.keys()

    until(is_complete, "ZooKeeper does not take all nodes")


def _listens(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0
