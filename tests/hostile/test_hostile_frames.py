"""Tests that hostile frames neither stop a broker, nor fill its memory, nor delay other clients.

There are 5,000 frames; KWIRE_HOSTILE_FRAMES=100000 is the long form.  The run's seed (`--seed`)
determines the frames, but not the order among connections.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import trio

from kwire.client.connection import BrokerConnection
from kwire.client.errors import ClientError
from kwire.codecs.batches import Record, build, iter_batches, records
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.conformance.hostile.attack import AttackOutcome, attack
from kwire.conformance.hostile.requests import TOPICS, RequestMaker
from kwire.testing import BrokerProcess

FRAMES = int(os.environ.get("KWIRE_HOSTILE_FRAMES", "5000"))
WARM_UP_FRAMES = 1000
"""Frames before the first measurement of memory: they import every handler and create topics."""

GROWTH_MB_MAX = 48
"""Memory that may remain in use.

It holds some topics, groups, producers and 1,000 fetch sessions (their limit), and memory that the
allocator keeps.  A leak of 1 kB for each frame would be 98 MB in the long form.
"""

PEAK_MB_MAX = 128
"""Highest memory above the first measurement: 16 connections with a frame and a response each.

Allocating by a length or count before its bytes arrive would take 100 MB to 2 GB at once.
"""

BUSY_S_MAX = 5.0
"""Limit on the broker's processor time between a request of the normal client and its response.

The request itself takes less than a millisecond.  Elapsed time would depend on the machine, too.
"""

PATIENCE_S = 120.0

SETTLE_S = 120.0
COMPLAINT = re.compile("unhandled|Traceback|RuntimeWarning")
"""Signs of a defect in the log; one is a coroutine that was never awaited."""

STEADY_TOPIC = "steady"
BATCH_RECORDS = 10


def memory_mb(pid: int, what: str) -> float:
    """VmRSS (current) or VmHWM (highest) of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    raise LookupError(what)


def processor_s(pid: int) -> float:
    """Processor time in seconds that all threads of a process have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_sockets(pid: int) -> int:
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed in between
            count += os.readlink(link).startswith("socket:")
    return count


def connect(broker: BrokerProcess, client_id: str, timeout_s: float) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", broker.port, client_id=client_id, timeout_s=timeout_s)


class SteadyClient:
    """Writes numbered records with acks=all and reads each batch back, until told to stop."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._connection = connect(broker, "steady", PATIENCE_S)
        self._pid = broker.pid
        self.rounds = 0
        self.slowest_s = 0.0
        self.busiest_s = 0.0
        """The broker's highest processor time during one request."""

    def round(self) -> None:
        """Write and read one batch. Raises AssertionError or ClientError."""
        first = self.rounds * BATCH_RECORDS
        written = [
            Record(first + index, 1_700_000_000_000, b"%d" % (first + index), b"steady" * 10)
            for index in range(BATCH_RECORDS)
        ]
        self._timed(lambda: self._produce(first, written))
        read: list[Record] = []
        self._timed(lambda: read.extend(self._fetch(first)))
        assert read == written
        self.rounds += 1

    def close(self) -> None:
        self._connection.close()

    def _timed(self, call: Callable[[], None]) -> None:
        started, used_s = time.monotonic(), processor_s(self._pid)
        call()
        self.busiest_s = max(self.busiest_s, processor_s(self._pid) - used_s)
        self.slowest_s = max(self.slowest_s, time.monotonic() - started)

    def _produce(self, first: int, written: list[Record]) -> None:
        partition = PartitionProduceData(index=0, records=build(written))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=STEADY_TOPIC, partition_data=[partition])],
        )
        reply = self._connection.call(request, version_max=12)
        [result] = reply.responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, first)

    def _fetch(self, first: int) -> list[Record]:
        partition = FetchPartition(partition=0, fetch_offset=first, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            topics=[FetchTopic(topic=STEADY_TOPIC, partitions=[partition])],
        )
        reply = self._connection.call(request, version_max=12)
        [result] = reply.responses[0].partitions
        assert result.error_code == ErrorCode.NONE
        data = bytes(result.records)
        return [record for position, _ in iter_batches(data) for record in records(data, position)]


@contextmanager
def steady_client(broker: BrokerProcess) -> Iterator[SteadyClient]:
    """A client that works in its own thread; its exception is raised at the end."""
    client = SteadyClient(broker)
    stop = threading.Event()
    failures: list[AssertionError | ClientError] = []

    def work() -> None:
        try:
            while not stop.wait(0.005):
                client.round()
        except (AssertionError, ClientError) as failure:
            failures.append(failure)

    thread = threading.Thread(target=work, name="steady client")
    thread.start()
    try:
        yield client
    finally:
        stop.set()
        thread.join()
        client.close()
    if failures:
        raise failures[0]


def create_topics(link: BrokerConnection) -> list[bytes]:
    """Create the topics of hostile requests and of the steady client; the ids of the former."""
    wanted = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        for name in (*TOPICS, STEADY_TOPIC)
    ]
    reply = link.call(CreateTopicsRequest(topics=wanted, timeout_ms=10_000))
    assert all(topic.error_code == ErrorCode.NONE for topic in reply.topics), reply
    return [topic.topic_id for topic in reply.topics if topic.name != STEADY_TOPIC]


def run_attack(broker: BrokerProcess, maker: RequestMaker, seed: int, frames: int) -> AttackOutcome:
    outcome = trio.run(attack, "127.0.0.1", broker.port, maker, random.Random(seed), frames)
    print(f"seed {seed}: {outcome}")
    return outcome


def settle(broker: BrokerProcess, sockets: int) -> None:
    """Wait until the broker has closed the attackers' connections."""
    deadline = time.monotonic() + SETTLE_S
    while open_sockets(broker.pid) > sockets:
        assert time.monotonic() < deadline, f"{open_sockets(broker.pid)} sockets, not {sockets}"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_broker_survives_hostile_frames(broker: BrokerProcess, rng: random.Random) -> None:
    seed = rng.randrange(1 << 32)
    with closing(connect(broker, "test", timeout_s=60.0)) as link:
        topic_ids = create_topics(link)
        maker = RequestMaker(random.Random(seed), link.versions, topic_ids)
    with steady_client(broker) as steady:
        sockets = open_sockets(broker.pid)
        run_attack(broker, maker, seed, WARM_UP_FRAMES)
        settle(broker, sockets)
        before_mb = memory_mb(broker.pid, "VmRSS")
        outcome = run_attack(broker, maker, seed + 1, FRAMES)
        settle(broker, sockets)
    after_mb, peak_mb = memory_mb(broker.pid, "VmRSS"), memory_mb(broker.pid, "VmHWM")
    print(
        f"memory {before_mb:.0f} MB, then {after_mb:.0f} MB, at most {peak_mb:.0f} MB; "
        f"{steady.rounds} steady rounds, the slowest request {steady.slowest_s * 1000:.0f} ms"
    )
    assert outcome.sent.total() == FRAMES
    assert outcome.wrong_replies == []
    assert outcome.replies > FRAMES // 10, "most of the attack never reached a handler"
    assert steady.rounds > 10
    assert steady.busiest_s < BUSY_S_MAX
    assert after_mb - before_mb < GROWTH_MB_MAX
    assert peak_mb - before_mb < PEAK_MB_MAX
    complaints = [line for line in broker.log.splitlines() if COMPLAINT.search(line)]
    assert complaints == []
