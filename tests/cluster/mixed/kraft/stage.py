"""Mixed clusters of kwire and Apache Kafka 4.4.0 brokers on controllers of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kwire.client.topics import create_topic
from kwire.conformance import apache_kafka
from kwire.conformance.kraft_cluster import APACHE, KWIRE, KRaftCluster
from tests.cluster.mixed.by_tools import ALL, Tool
from tests.cluster.mixed.watched import WatchedCluster
from tests.waiting import until

__all__ = ["ALL", "KINDS", "SAFE", "SPREAD", "OnKRaft", "on_kraft"]

SPREAD = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
KINDS = [(KWIRE, KWIRE, APACHE), (APACHE, APACHE, KWIRE)]
"""Clusters of three brokers with a majority of each kind."""
SAFE = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "6000"}
"""Settings with which an acknowledged record has two replicas."""


class OnKRaft(WatchedCluster):
    """The brokers of a cluster on controllers of Apache Kafka; `quorum` has the controllers."""

    def __init__(self, quorum: KRaftCluster) -> None:
        self.quorum = quorum
        self.brokers = quorum.brokers
        self.down = set()

    def become(self, broker_id: int, kind: str) -> None:
        """Replace a stopped broker by one of another kind, with the same data, id and port."""
        self.quorum.become(broker_id, kind)

    def create(self, name: str, assignment: list[list[int]] | None = None) -> None:
        """Create a topic, by default with three partitions and a replica on each broker."""
        with self.client(self.up[0]) as client:
            made = create_topic(client, name, assignment=assignment or SPREAD)
            assert made.error_code == 0, made
        until(lambda: self.in_sync(name), f"{name} in sync")

    def wait_until_all_know(self) -> None:
        """Wait until each running broker reports exactly the running ones."""
        until(
            lambda: all(self.members(number) == {*self.up} for number in self.up),
            f"members {self.up}",
        )

    def tool(self, asked: int) -> Tool:
        """Runs Apache Kafka's tools with this broker as bootstrap server."""

        def run(name: str, *arguments: str) -> str:
            words = ["--bootstrap-server", self.address(asked), *arguments]
            done = apache_kafka.run(name, words)
            assert done.returncode == 0, (name, arguments, done.stdout, done.stderr)
            return done.stdout

        return run

    def check_equal(self, *topics: str) -> None:
        """Stop all brokers, and check that the replicas of these topics are equal byte for byte."""
        for broker_id in self.up:
            self.stop(broker_id)
        assert [self.differing(topic) for topic in topics] == [[] for _ in topics]


@contextmanager
def on_kraft(
    directory: Path,
    *kinds: str,
    controllers: int = 1,
    settings: Mapping[str, str] | None = None,
) -> Iterator[OnKRaft]:
    """A running cluster with brokers of these kinds, with ids from 1 on; all are killed after."""
    quorum = KRaftCluster(directory, kinds, controllers=controllers, settings=settings)
    quorum.start()
    try:
        yield OnKRaft(quorum)
    finally:
        quorum.kill()
