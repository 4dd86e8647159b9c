"""`kwire serve --brokers N`: a cluster of processes, of which some die."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
    TopicMetadata,
)

from kwire.cli.hosting.several import settings_of
from kwire.client.access.acls import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
    create_acls,
    describe_acls,
)
from kwire.client.cluster import Cluster
from kwire.testing.hosting.ports import free_port
from tests.commands.forked import run_kwire
from tests.polling import until
from tests.storage.data_folder import folders

pytestmark = pytest.mark.slow
WAIT_S = 120
"""Nothing takes a second of it; the machine may be at work on other things."""
READY = re.compile(r"broker (\d+) is ready at localhost:(\d+), process (\d+)")


class Several:
    """The command, and what it says."""

    def __init__(self, data: Path, *options: str, brokers: int | None = 3, port: int = 0) -> None:
        """Without `brokers` the command is not told how many there are to be."""
        several = [] if brokers is None else [f"--brokers={brokers}"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kwire.cli", "serve", *several, f"--port={port}",
             f"--data={data}", "--exit-on-eof", *options],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def wait_for(self, words: str, *, after: int = 0) -> str:
        """What was said behind the first `after` characters, once these words are in it."""
        until(lambda: words in self.said[after:] or self.process.poll() is not None)
        assert words in self.said[after:], self.said
        return self.said[after:]

    @property
    def pids(self) -> dict[int, int]:
        """By broker, of those started last."""
        return {int(found[0]): int(found[2]) for found in READY.findall(self.said)}

    @property
    def bootstrap(self) -> str:
        return ",".join(
            f"localhost:{port}" for _, port, _ in READY.findall(self.wait_for("brokers are ready"))
        )

    def end(self) -> int:
        """The exit status after SIGTERM."""
        self.process.terminate()
        status = self.process.wait(WAIT_S)
        self._reader.join()
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Several]:
    # A broker that died counts as in sync until that is known: at most this long.
    cluster = Several(tmp_path / "data", "--set=min.insync.replicas=2")
    yield cluster
    cluster.close()


def connected(bootstrap: str) -> AdminClient:
    """A client that has found the controller: librdkafka may wait for it in vain else."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.list_topics(timeout=WAIT_S)
    return admin


def described(admin: AdminClient, topic: str) -> TopicMetadata:
    """What some broker tells: one that has not yet heard of a change tells of before it."""
    return admin.list_topics(topic, timeout=WAIT_S).topics[topic]


def leaders_of(topic: TopicMetadata) -> list[int]:
    return sorted(each.leader for each in topic.partitions.values())


def replicated(topic: TopicMetadata) -> bool:
    isrs = [sorted(each.isrs) for each in topic.partitions.values()]
    return isrs == [[1, 2, 3]] * 3


def produce(bootstrap: str, first: int, count: int, topic: str = "t") -> None:
    """Records `first` to before `first + count`, each acknowledged by all in sync."""
    failed = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 1}
    )
    for number in range(first, first + count):
        producer.produce(
            topic,
            str(number),
            partition=number % 3,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(WAIT_S) == 0
    assert not failed


def consume(bootstrap: str, count: int, topic: str = "t") -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(3)])
    found: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += [int(message.value() or b"-1") for message in consumer.consume(1000, 0.1)]
    consumer.close()
    return sorted(found)


def test_cluster_keeps_all_records_while_a_broker_dies_and_restarts(several: Several) -> None:
    bootstrap = several.bootstrap
    admin = connected(bootstrap)
    admin.create_topics([NewTopic("t", 3, 3)])["t"].result(WAIT_S)
    until(lambda: replicated(described(admin, "t")))
    made = described(admin, "t")
    assert leaders_of(made) == [1, 2, 3]
    produce(bootstrap, 0, 3000)

    victim = made.partitions[0].leader
    os.kill(several.pids[victim], signal.SIGKILL)
    produce(bootstrap, 3000, 3000)
    until(lambda: victim not in leaders_of(described(admin, "t")))

    said = len(several.said)
    several.wait_for(f"broker {victim} was ended by SIGKILL")
    several.process.send_signal(signal.SIGHUP)
    several.wait_for(f"broker {victim} is ready", after=said)
    until(lambda: replicated(described(admin, "t")))
    assert consume(bootstrap, 6000) == list(range(6000))
    assert several.end() == 0


def test_one_brokers_folder_is_served_by_three_brokers_and_by_one_again(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    with closing(Several(data, "--set=min.insync.replicas=2", brokers=None, port=port)) as one:
        one.wait_for("broker 1 is ready.")
        admin = connected(f"localhost:{port}")
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result(WAIT_S)
        produce(f"localhost:{port}", 0, 300)
        assert one.end() == 0

    with closing(Several(data)) as three:
        bootstrap = three.bootstrap
        assert consume(bootstrap, 300) == list(range(300))
        admin = connected(bootstrap)
        admin.create_topics([NewTopic("r", 3, 3)])["r"].result(WAIT_S)
        produce(bootstrap, 300, 300)
        produce(bootstrap, 0, 300, topic="r")
        refused = refusals(data, ["--brokers", "3"], [])
        assert all(re.search(r"in use: process \d+ holds the lock", each) for each in refused)
        member = refusals(data / "broker-1", [])[0]
        assert f"serve the cluster with kwire serve --brokers 3 --data {data}" in member
        pids = three.pids.values()
        broker = ConfigResource(ConfigResource.Type.BROKER, "2")
        kept = admin.describe_configs([broker])[broker].result(WAIT_S)["min.insync.replicas"]
        assert (kept.value, kept.source) == ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value)
        assert three.end() == 0
        assert "nobody else could take" not in three.said
        assert "recover" not in three.said
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)

    with closing(Several(data, brokers=None)) as again:
        again.wait_for("1 broker is ready")
        assert "data of 2 more brokers, which are not started: --brokers 3 starts" in again.said
        bootstrap = f"localhost:{READY.findall(again.said)[0][1]}"
        assert consume(bootstrap, 600) == list(range(600))
        assert consume(bootstrap, 300, topic="r") == list(range(300))
        assert again.end() == 0
        assert "recover" not in again.said


def refusals(data: Path, *options: list[str]) -> list[str]:
    """What `kwire serve` says with each of these options on a folder that it is to refuse."""
    said = []
    for each in options:
        done = run_kwire("serve", "--port=0", f"--data={data}", *each, timeout_s=WAIT_S)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        said.append(done.stderr)
    return said


def test_members_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    folders.cluster(tmp_path, 2)
    meta_properties = tmp_path / "broker-2" / "meta.properties"
    meta_properties.write_text("version=1\nnode.id=2\ncluster.id=another\n")
    said = refusals(tmp_path, ["--brokers", "2"])[0]
    assert "broker-2 belongs to cluster another, and this broker joins cluster: use" in said


def test_cluster_stops_cleanly_if_a_broker_dies_meanwhile(several: Several) -> None:
    several.wait_for("brokers are ready")
    pids = several.pids
    os.kill(pids[3], signal.SIGSTOP)  # the first that is told to stop, and waited for
    several.process.terminate()
    several.wait_for("SIGTERM: shutting down")
    os.kill(pids[2], signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pids[2]}").exists())
    os.kill(pids[3], signal.SIGCONT)
    assert several.end() == 0
    assert "Traceback" not in several.said
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())


def test_brokers_and_holder_end_with_their_parent(several: Several) -> None:
    several.wait_for("brokers are ready")
    pids = several.pids.values()
    children = Path(f"/proc/{several.process.pid}/task/{several.process.pid}/children").read_text()
    assert {*map(str, pids)} < {*children.split()}, "and the process that holds the metadata"
    several.process.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children.split()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "node.id=7"], "its own node.id"),
        (["--set", "2:node.id=7"], "its own node.id"),
        (["--set", "3:broker.rack=b"], "the brokers are 1 to 2"),
        (["--set", "0:broker.rack=b"], "the brokers are 1 to 2"),
        (["--data", "a,b"], "name one folder only"),
        (["--set", "nonsense=1"], "unknown setting nonsense"),
    ],
)
def test_serve_brokers_refuses_options_that_it_sets_itself(
    options: list[str], words: str, tmp_path: Path
) -> None:
    done = run_kwire("serve", "--brokers", "2", *options, folder=tmp_path, timeout_s=WAIT_S)
    assert done.returncode != 0
    assert words in done.stderr


def test_acls_apply_at_all_brokers_also_after_a_restart(tmp_path: Path) -> None:
    acl = Acl(
        Resource.TOPIC, Pattern.PREFIXED, "t", "User:alice", "*", Operation.READ, Permission.ALLOW
    )
    options = (
        "--set=authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "--set=super.users=User:ANONYMOUS",
    )
    for wanted in ([acl], [acl, acl._replace(host="10.0.0.1")]):
        cluster = Several(tmp_path / "data", *options)
        try:
            addresses = cluster.bootstrap.split(",")
            told = [Cluster(address, timeout_s=WAIT_S) for address in addresses]
            create_acls(told[0], wanted)
            until(lambda: all(describe_acls(each, AclFilter()) == wanted for each in told))  # noqa: B023 - at once
            for each in told:
                each.close()
            assert cluster.end() == 0
        finally:
            cluster.close()


def test_setting_with_a_broker_number_is_that_brokers_only() -> None:
    given = {"num.partitions": "3", "2:num.partitions": "7", "2:broker.rack": "b"}
    first, second = (settings_of(number, 2, given, 9092) for number in (1, 2))
    assert (first["num.partitions"], second["num.partitions"]) == ("3", "7")
    assert "broker.rack" not in first
    assert second["broker.rack"] == "b"
    assert not any(":" in name for name in (*first, *second))


def test_each_broker_has_the_next_metrics_port() -> None:
    given = {"metrics.port": "9404", "3:metrics.port": "7"}
    ports = [settings_of(number, 3, given, 9092)["metrics.port"] for number in (1, 2, 3)]
    assert ports == ["9404", "9405", "7"]
    assert settings_of(2, 2, {"metrics.port": "0"}, 9092)["metrics.port"] == "0"
