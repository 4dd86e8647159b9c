"""A topic that a test fills, reads and compares with expected records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.consumer import Consumer, Reset
from kwire.client.offsets import Isolation, end_offsets, start_offsets
from kwire.client.producer import Producer
from kwire.testing.differences import difference
from kwire.testing.values import Path as AnyPath
from kwire.testing.values import as_record, csv_rows, encoded, json_lines

if TYPE_CHECKING:
    from kwire.client.fetcher import ConsumedRecord

CLIENT_ID: Final = "kwire-testing"
"""Client id of this package's requests; faults and traces skip it unless they name it."""
TIMEOUT_S: Final = 30.0
LOOK_AGAIN_S: Final = 0.02


class Topic:
    """The topic `name` at the broker or cluster that clients reach at `bootstrap`."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Topic({self.bootstrap!r}, {self.name!r})"

    # -- filling it

    def seed(self, values: Iterable[Any]) -> int:
        """Write one record per value; returns how many it wrote.

        A value may be a `Record`, or anything that a `Record` takes as its value.  The broker
        creates a missing topic, as for any producer.  Raises NotARecord, ClientError.
        """
        with connected(self.bootstrap) as cluster:
            producer = Producer(cluster)
            count = 0
            for record in map(as_record, values):
                producer.send(
                    self.name,
                    encoded(record.value),
                    encoded(record.key),
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                count += 1
            producer.flush()
        return count

    def seed_json_lines(self, path: AnyPath) -> int:
        """Write one record per line of a file: the line, which is JSON, is the value."""
        return self.seed(json_lines(path))

    def seed_csv(self, path: AnyPath, *, key: str | None = None) -> int:
        """Write one record per row of a CSV file.

        The value is a JSON object of all columns as text; the column `key` is the key.
        """
        return self.seed(csv_rows(path, key))

    def seed_saved(self, path: AnyPath) -> int:
        """Write the records of a file that `save` or `kwire consume --format json` wrote.

        Each record keeps its partition, key, headers and timestamp.
        """
        from kwire.testing.saved import saved_records

        return self.seed(saved_records(path))

    def save(self, path: AnyPath) -> int:
        """Write all records to a file, for `seed_saved` and `kwire produce --format json`."""
        from kwire.testing.saved import saved_lines

        records = self.records()
        Path(path).write_text("".join(saved_lines(records)), encoding="utf-8")
        return len(records)

    # -- reading it

    def records(self, *, committed: bool = False) -> list[ConsumedRecord]:
        """All records, ordered by partition and offset.

        `committed` leaves out records of open and aborted transactions.  Raises ClientError.
        """
        isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        with connected(self.bootstrap) as cluster:
            return _read_all(cluster, self.name, isolation)

    def assert_holds(
        self,
        expected: Iterable[Any],
        *,
        within_s: float = 0.0,
        in_order: bool | None = None,
        committed: bool = False,
    ) -> None:
        """Fail with a diff unless the topic holds exactly the expected records.

        Waits for them for up to `within_s` seconds.  `expected` takes the values that `seed` takes.
        Keys are compared if any expected record has one, and JSON is compared as JSON.
        `in_order` says whether the order counts; by default it counts in a topic of one partition.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        expected_records = [as_record(value) for value in expected]
        deadline = time.monotonic() + within_s
        while True:
            records = self.records(committed=committed)
            ordered = self._partition_count() == 1 if in_order is None else in_order
            diff = difference(expected_records, records, ordered=ordered)
            if diff is None:
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(LOOK_AGAIN_S)
        raise AssertionError(
            f"topic {self.name} holds {len(records)} records (+) instead of the "
            f"{len(expected_records)} expected ones (-):\n{diff}"
        )

    def wait_for(self, count: int, *, timeout_s: float = TIMEOUT_S) -> list[ConsumedRecord]:
        """Wait until the topic holds at least `count` records; returns all of them.

        Raises TimeoutError, ClientError.
        """
        deadline = time.monotonic() + timeout_s
        while len(records := self.records()) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"topic {self.name} holds {len(records)} records after {timeout_s:g} s "
                    f"instead of {count}"
                )
            time.sleep(LOOK_AGAIN_S)
        return records

    def _partition_count(self) -> int:
        with connected(self.bootstrap) as cluster:
            return len(cluster.topic(self.name).partitions)


@contextmanager
def connected(bootstrap: str, timeout_s: float = TIMEOUT_S) -> Iterator[Cluster]:
    """A client of the broker with the client id of this package."""
    with Cluster(bootstrap, client_id=CLIENT_ID, timeout_s=timeout_s) as cluster:
        yield cluster


def _read_all(cluster: Cluster, topic: str, isolation: Isolation) -> list[ConsumedRecord]:
    """Return all records that a topic has now, ordered by partition and offset."""
    count = len(cluster.topic(topic).partitions)
    partitions = [TopicPartition(topic, index) for index in range(count)]
    ends = end_offsets(cluster, partitions, isolation)
    consumer = Consumer(cluster, isolation=isolation, reset=Reset.EARLIEST)
    consumer.assign(start_offsets(cluster, partitions))
    records: list[ConsumedRecord] = []
    try:
        while any(consumer.positions[partition] < ends[partition] for partition in partitions):
            records += consumer.poll()
    finally:
        consumer.close()
    # A poll may return records that were written after `ends` was read.
    return sorted(
        (r for r in records if r.offset < ends[TopicPartition(topic, r.partition)]),
        key=lambda record: (record.partition, record.offset),
    )
