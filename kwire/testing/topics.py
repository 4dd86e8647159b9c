"""A topic in a test's hands: filled, read, and compared with what should be in it."""

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
"""By which the helpers of a test are known to the broker."""
TIMEOUT_S: Final = 30.0
LOOK_AGAIN_S: Final = 0.02


class Topic:
    """A topic by its name, at a broker that clients reach by `bootstrap`."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Topic({self.bootstrap!r}, {self.name!r})"

    # -- filling it

    def seed(self, values: Iterable[Any]) -> int:
        """Write a record for each value, which may be a `Record`; how many there were.

        A topic that there is not is created, as by any producer.  Raises NotARecord, ClientError.
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
        """Write a record for each line of a file, which is JSON and becomes the value."""
        return self.seed(json_lines(path))

    def seed_csv(self, path: AnyPath, *, key: str | None = None) -> int:
        """Write a record for each row of a file: its value is a JSON object of the columns, all of
        them text, and the column `key` is its key."""
        return self.seed(csv_rows(path, key))

    def seed_saved(self, path: AnyPath) -> int:
        """Write the records that `save` or `kwire consume --format json` has written to a file,
        each to the partition and with the key, headers and time that it had."""
        from kwire.testing.saved import saved_records

        return self.seed(saved_records(path))

    def save(self, path: AnyPath) -> int:
        """Write all records to a file, for `seed_saved` and `kwire produce --format json`."""
        from kwire.testing.saved import saved_lines

        found = self.records()
        Path(path).write_text("".join(saved_lines(found)), encoding="utf-8")
        return len(found)

    # -- looking into it

    def records(self, *, committed: bool = False) -> list[ConsumedRecord]:
        """All records, partition by partition; `committed` leaves out those of transactions that
        are open or were aborted.  Raises ClientError."""
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
        """Fail, with a diff, unless these are the topic's records; `within_s` waits for that.

        What is expected is written as for `seed`.  Keys count where one is given, and JSON is
        compared as JSON.  The order counts where the topic has one partition, unless `in_order`
        says so.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        wanted = [as_record(each) for each in expected]
        deadline = time.monotonic() + within_s
        while True:
            found = self.records(committed=committed)
            ordered = self._partition_count() == 1 if in_order is None else in_order
            differs = difference(wanted, found, ordered=ordered)
            if differs is None:
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(LOOK_AGAIN_S)
        raise AssertionError(
            f"topic {self.name} holds {len(found)} records, and not the {len(wanted)} that were "
            f"expected (-):\n{differs}"
        )

    def wait_for(self, count: int, *, timeout_s: float = TIMEOUT_S) -> list[ConsumedRecord]:
        """The records, once there are `count` or more.  Raises TimeoutError, ClientError."""
        deadline = time.monotonic() + timeout_s
        while len(found := self.records()) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"topic {self.name} holds {len(found)} records after {timeout_s:g} s, "
                    f"and not {count}"
                )
            time.sleep(LOOK_AGAIN_S)
        return found

    def _partition_count(self) -> int:
        with connected(self.bootstrap) as cluster:
            return len(cluster.topic(self.name).partitions)


@contextmanager
def connected(bootstrap: str, timeout_s: float = TIMEOUT_S) -> Iterator[Cluster]:
    """What the helpers ask the broker by."""
    with Cluster(bootstrap, client_id=CLIENT_ID, timeout_s=timeout_s) as cluster:
        yield cluster


def _read_all(cluster: Cluster, topic: str, isolation: Isolation) -> list[ConsumedRecord]:
    count = len(cluster.topic(topic).partitions)
    partitions = [TopicPartition(topic, index) for index in range(count)]
    ends = end_offsets(cluster, partitions, isolation)
    consumer = Consumer(cluster, isolation=isolation, reset=Reset.EARLIEST)
    consumer.assign(start_offsets(cluster, partitions))
    found: list[ConsumedRecord] = []
    try:
        while any(consumer.positions[each] < ends[each] for each in partitions):
            found += consumer.poll()
    finally:
        consumer.close()
    return sorted(
        (each for each in found if each.offset < ends[TopicPartition(topic, each.partition)]),
        key=lambda record: (record.partition, record.offset),
    )
