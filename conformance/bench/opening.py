"""Measures how long a broker takes to open its data: `python -m kwire.conformance.bench.opening`.

- After a clean stop: many partitions with one record each, and the memory for each of them.
- After kill -9: gigabytes that were never flushed, on the same directory for both brokers.
  Apache Kafka writes it, and each broker gets a copy.

The time is from the start of the process until every partition answers ListOffsets, with the files
in the page cache. Each figure is the median of the turns.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import tempfile
import time
from pathlib import Path

from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.conformance.apache_kafka import SERVER_JVM, ApacheKafka
from kwire.conformance.bench import frames
from kwire.conformance.bench.brokers import Kwire
from kwire.conformance.wire.broker import NotReady, RemoteBroker
from kwire.conformance.wire.peer import Address, ClientConnection

PARTITIONS_A_TOPIC = 100
BATCH_BYTES = 1_000_000
WAIT_S = 600.0
POLL_S = 0.02


def create(broker: RemoteBroker, peer: ClientConnection, partitions: int) -> list[str]:
    """Create topics with that many partitions in total; return their names."""
    names = [f"topic-{number}" for number in range(partitions // PARTITIONS_A_TOPIC)]
    for name in names:
        topic = CreatableTopic(name, PARTITIONS_A_TOPIC, 1)
        reply = broker.ask(peer, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        assert not reply.topics[0].error_code, reply
    wait_until_served(broker.address, names)
    return names


def write(
    broker: RemoteBroker, peer: ClientConnection, topics: list[str], batch: bytes, rounds: int
) -> None:
    """Write `rounds` batches to every partition."""
    for _ in range(rounds):
        for topic in topics:
            for index in range(PARTITIONS_A_TOPIC):
                data = TopicProduceData(topic, partition_data=[PartitionProduceData(index, batch)])
                request = ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[data])
                reply = broker.ask(peer, request, 12)
                assert not reply.responses[0].partition_responses[0].error_code, reply


def wait_until_served(address: Address, topics: list[str]) -> None:
    """Wait until every partition answers ListOffsets."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, NotReady):  # the broker does not accept connections yet
            if _all_served(address, topics):
                return
        time.sleep(POLL_S)
    raise NotReady(f"not all partitions are served after {WAIT_S} s")


def _all_served(address: Address, topics: list[str]) -> bool:
    """Return whether the broker returns the end offset of every partition of these topics."""
    wanted = [
        ListOffsetsTopic(t, [ListOffsetsPartition(i, -1, -1) for i in range(PARTITIONS_A_TOPIC)])
        for t in topics
    ]
    peer = ClientConnection(address)
    try:
        reply = RemoteBroker(address).ask(peer, ListOffsetsRequest(replica_id=-1, topics=wanted), 5)
    finally:
        peer.close()
    return not any(p.error_code for topic in reply.topics for p in topic.partitions)


def connect_to(address: Address) -> tuple[RemoteBroker, ClientConnection]:
    broker = RemoteBroker(address)
    broker.read_versions_and_ids()
    return broker, ClientConnection(address)


def clean_stop(root: Path, partitions: int, turns: int) -> None:
    """Measure kwire's start after a clean stop, and the memory of a partition."""
    kwire = Kwire(root / "clean")
    kwire.start()
    empty_mb = kwire.rss_mb() or 0.0
    broker, peer = connect_to(kwire.address)
    topics = create(broker, peer, partitions)
    write(broker, peer, topics, frames.batch(1, 100), 1)
    peer.close()
    times = []
    for _ in range(turns):
        start = time.monotonic()
        kwire.end()
        stopped = time.monotonic()
        kwire.start()
        wait_until_served(kwire.address, topics)
        times.append(time.monotonic() - stopped)
        print(f"  stop {stopped - start:.2f} s, start {times[-1]:.2f} s", flush=True)
    kilobytes = ((kwire.rss_mb() or 0.0) - empty_mb) * 1000 / partitions
    kwire.stop()
    print(
        f"after a clean stop, {partitions} partitions: kwire {statistics.median(times):.2f} s,"
        f" {kilobytes:.1f} kB of memory a partition"
    )


def measure_after_kill(root: Path, partitions: int, gigabytes: float, turns: int) -> None:
    """Measure both brokers' start on the data that Apache Kafka has after kill -9."""
    node = ApacheKafka(root / "apache", jvm=SERVER_JVM)
    rounds = max(1, round(gigabytes * 1e9 / partitions / BATCH_BYTES))
    with node:
        broker, peer = connect_to(("localhost", node.port))
        topics = create(broker, peer, partitions)
        write(broker, peer, topics, frames.batch(1, BATCH_BYTES), rounds)
        peer.close()
        os.kill(node.pid, signal.SIGKILL)
    data_of_node = node.directory
    ours, theirs = [], []
    for turn in range(turns):
        ours.append(_kwire_opens(data_of_node / "data", root / f"kwire-{turn}", topics))
        theirs.append(_apache_opens(node, topics))
        print(f"  kwire {ours[-1]:.2f} s, Apache Kafka {theirs[-1]:.2f} s", flush=True)
    print(
        f"after kill -9, {partitions} partitions, {rounds * partitions * BATCH_BYTES / 1e9:.1f} GB:"
        f" kwire {statistics.median(ours):.2f} s, Apache Kafka {statistics.median(theirs):.2f} s"
    )


def _kwire_opens(data: Path, directory: Path, topics: list[str]) -> float:
    """Return the seconds that kwire takes to open a copy of `data` and serve all topics.

    The node id 1 is that of the broker that wrote the data.
    """
    kwire = Kwire(directory)
    kwire.settings["node.id"] = "1"
    shutil.copytree(data, directory / "data")
    start = time.monotonic()
    kwire.start()
    wait_until_served(kwire.address, topics)
    took = time.monotonic() - start
    kwire.stop()
    return took


def _apache_opens(node: ApacheKafka, topics: list[str]) -> float:
    """Start the node on its data and kill it again, so that the next turn finds the same data."""
    start = time.monotonic()
    node.spawn()
    wait_until_served(("localhost", node.port), topics)
    took = time.monotonic() - start
    os.kill(node.pid, signal.SIGKILL)
    node.stop()
    return took


def main() -> None:
    """Measure the opening after a clean stop and after kill -9; 0 partitions skip one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clean", type=int, default=10_000, help="partitions after a clean stop")
    parser.add_argument("--killed", type=int, default=1_000, help="partitions after kill -9")
    parser.add_argument("--gigabytes", type=float, default=10.0, help="after kill -9")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="a folder with room for two copies")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory, prefix="kwire-opening-") as folder:
        if given.clean:
            clean_stop(Path(folder), given.clean, given.turns)
        if given.killed:
            measure_after_kill(Path(folder), given.killed, given.gigabytes, given.turns)


if __name__ == "__main__":
    main()
