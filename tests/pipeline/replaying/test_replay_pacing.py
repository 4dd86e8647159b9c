"""Records are written when they are due, across partitions in the order of time, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from kwire.pipeline.exactly_once import PartitionResult, WritePlan
from kwire.pipeline.replaying.pacing import DUE, TRANSACTION_S, PacedWriter, ReplayPace
from tests.pipeline.archiving.archives import NOON_MS, create_topic, topic_rows

pytestmark = pytest.mark.slow

PARTITIONS = 3
STEP_MS = 100
RECORDS = 100


def batches(count: int, each: int) -> Iterator[pa.RecordBatch]:
    """Batches as a task gets them: by due time, with partitions in turn."""
    for start in range(0, count, each):
        numbers = range(start, min(start + each, count))
        stamps = [NOON_MS + number * STEP_MS for number in numbers]
        yield pa.RecordBatch.from_pydict(
            {
                "topic": ["t"] * len(numbers),
                "partition": pa.array([n % PARTITIONS for n in numbers], pa.int32()),
                "offset": [number // PARTITIONS for number in numbers],
                "timestamp": pa.array([s * 1000 for s in stamps], pa.timestamp("us", "UTC")),
                "key": pa.array([None] * len(numbers), pa.binary()),
                "value": [b"%d" % number for number in numbers],
                DUE: stamps,
            }
        )


def replay(bootstrap: str, target: str, pace: ReplayPace) -> list[PartitionResult]:
    client = {"bootstrap.servers": bootstrap}
    writer = PacedWriter(client, f"pace-{target}", pace=pace)
    return list(writer.write(batches(RECORDS, 7), WritePlan(targets={"t": target})))


class Arrivals(threading.Thread):
    """Reads a topic, and records the arrival time of each number."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="arrivals")
        self.came: list[tuple[float, int]] = []
        self.stop = threading.Event()
        settings = {"bootstrap.servers": bootstrap, "group.id": "arrivals"}
        self._consumer = Consumer(settings | {"isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])

    def run(self) -> None:
        while not self.stop.is_set() and len(self.came) < RECORDS:
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.came.append((time.time(), int(message.value() or b"")))
        self._consumer.close()


def test_no_record_is_early_or_out_of_order_in_its_partition(bootstrap: str, unique: str) -> None:
    """Ten seconds of records are replayed at double speed, or slower on a busy machine."""
    create_topic(bootstrap, f"{unique}-before", PARTITIONS)
    # The first transaction of a broker creates an internal topic, which takes some time.
    replay(bootstrap, f"{unique}-before", ReplayPace(NOON_MS, time.time() - 3600, 1.0))
    for number, speed in enumerate((2.0, 0.5, 0.1)):
        topic = f"{unique}-{number}"
        create_topic(bootstrap, topic, PARTITIONS)
        arrivals = Arrivals(bootstrap, topic)
        arrivals.start()
        pace = ReplayPace(NOON_MS, time.time() + 0.5, speed)
        try:
            written = replay(bootstrap, topic, pace)
        finally:
            arrivals.join(120)
            arrivals.stop.set()
        check_order(written, arrivals, pace)
        if came_on_the_way(written, arrivals, pace):
            return
    pytest.fail("they come at the end, also at a tenth of the pace")


def came_on_the_way(written: list[PartitionResult], arrivals: Arrivals, pace: ReplayPace) -> bool:
    last_due_s = pace.due_s(NOON_MS + (RECORDS - 1) * STEP_MS)
    return arrivals.came[0][0] < last_due_s and all(one.transactions > 2 for one in written)


def check_order(written: list[PartitionResult], arrivals: Arrivals, pace: ReplayPace) -> None:
    assert sum(one.records for one in written) == len(arrivals.came) == RECORDS
    for at, number in arrivals.came:
        assert at >= pace.due_s(NOON_MS + number * STEP_MS) - 0.001
    lasts_s = RECORDS * STEP_MS / 1000 / pace.speed
    assert written[0].transactions <= 2 + lasts_s / TRANSACTION_S
    for partition in range(PARTITIONS):
        numbers = [number for _, number in arrivals.came if number % PARTITIONS == partition]
        assert numbers == list(range(partition, RECORDS, PARTITIONS))


def test_late_records_are_written_at_once_and_only_once(bootstrap: str, unique: str) -> None:
    create_topic(bootstrap, unique, PARTITIONS)
    long_ago = ReplayPace(NOON_MS, time.time() - 3600, 1.0)
    assert sum(one.records for one in replay(bootstrap, unique, long_ago)) == RECORDS
    again = replay(bootstrap, unique, long_ago)
    assert [(one.records, one.skipped) for one in again] == [(0, 34), (0, 33), (0, 33)]
    found = topic_rows(bootstrap, unique)
    assert len(found) == RECORDS
    assert {row.timestamp_ms for row in found} == {NOON_MS + n * STEP_MS for n in range(RECORDS)}


def test_due_time_follows_the_speed() -> None:
    pace = ReplayPace(1_000, 50.0, 4.0)
    assert pace.due_s(1_000) == 50.0
    assert pace.due_s(5_000) == 51.0
    assert pace.reached_ms(51.0) == 5_000
    assert pace.reached_ms(49.0) < 1_000
