"""The limits of a transaction, its reported figures, and records that cannot be written."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import pyarrow
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from kwire.client.connection import BrokerConnection
from kwire.codecs.messages.describe_transactions import DescribeTransactionsRequest
from kwire.pipeline.exactly_once import (
    WRITTEN_DDL,
    Bounds,
    ExactlyOnceWriter,
    PartitionWriter,
    TaskFenced,
    WriteError,
    WritePlan,
)
from kwire.pipeline.positions import MapRecord, Position, position_of
from kwire.pipeline.transactional import TransactionalClient
from tests.pipeline.targets import (
    PATIENCE_S,
    SMALL,
    WHOLE,
    Record,
    Target,
    batch,
    create,
    numbered,
    set_clock,
)

pytestmark = [pytest.mark.slow]


def test_reported_figures_of_a_partition_add_up(target: Target) -> None:
    """The figures cover several transactions, and rows that were in the target before."""
    rows = numbered(40)
    target.write(rows, range(5))
    batches = [batch(target.topic, 0, range(start, start + 10), rows) for start in range(0, 40, 10)]
    (written,) = target.writer().write(batches, WritePlan())
    places = [message.offset() for message in target.messages()]
    assert (written.topic, written.partition) == (target.topic, 0)
    assert (written.records, written.skipped, written.transactions) == (35, 5, 4)
    assert (written.first, written.last, written.position) == (places[5], places[-1], 40)
    assert written.size_bytes == batches[0][5:].nbytes + sum(each.nbytes for each in batches[1:])
    again = target.write(rows)
    assert (again.first, again.last, again.size_bytes, again.position) == (-1, -1, 0, 40)


def test_large_batch_is_split_at_the_limits_of_transactions(target: Target) -> None:
    rows = numbered(35)
    whole = [batch(target.topic, 0, range(35), rows)]
    (written,) = target.writer().write(whole, WritePlan())
    assert (written.records, written.transactions) == (35, 4)
    size_bytes = whole[0].nbytes // 5 + 1
    bounds = replace(WHOLE, size_bytes=size_bytes)
    (by_size,) = target.writer(bounds).write([batch(target.topic, 1, range(35), rows)], WritePlan())
    assert (by_size.records, by_size.transactions) == (35, 5)


def test_rows_wait_no_longer_than_a_transaction_may_take(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While rows come, those before them are committed every so often."""
    rows = numbered(9)
    now, ahead_s = time.monotonic, 0.0
    set_clock(monkeypatch, lambda: now() + ahead_s)
    writer = PartitionWriter(target.writer(WHOLE), target.topic, 0, Position(target.topic), 0)
    writer.add(batch(target.topic, 0, range(3), rows))
    writer.add(batch(target.topic, 0, range(3, 6), rows))
    assert target.records() == []
    ahead_s = WHOLE.duration_s
    writer.add(batch(target.topic, 0, range(6, 8), rows))
    assert target.records() == rows[:8]
    writer.add(batch(target.topic, 0, range(8, 9), rows))
    assert target.records() == rows[:8], "its time has just begun"
    writer.flush()
    assert target.records() == rows
    writer.flush()
    assert writer.finish().transactions == 2


def test_transaction_that_never_succeeds_raises_after_the_timeout(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction is retried for as long as the target may be unavailable."""
    begun = 0
    now = time.monotonic

    def never(client: TransactionalClient) -> None:
        nonlocal begun
        begun += 1
        set_clock(monkeypatch, lambda: now() + begun * PATIENCE_S * 0.45)
        raise KafkaException(KafkaError(KafkaError._STATE, "not in a transaction"))

    monkeypatch.setattr(TransactionalClient, "commit", never)
    said = f"partition 0 of {target.topic} cannot be written: .*not in a transaction"
    with pytest.raises(WriteError, match=said):
        target.write(numbered(3))
    assert begun == 3
    target.writer().release([(target.topic, 0)])
    assert target.records() == []


def test_permanent_failure_is_raised_with_the_targets_message(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction timeout above the cluster's limit, and a commit that the cluster refuses."""
    with pytest.raises(WriteError, match="timeout"):
        target.write(numbered(3), bounds=replace(SMALL, timeout_s=36_000.0))

    def refused(client: TransactionalClient) -> None:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not for you"))

    monkeypatch.setattr(TransactionalClient, "commit", refused)
    with pytest.raises(WriteError, match="not for you"):
        target.write(numbered(3))
    target.writer().release([(target.topic, 0)])
    assert target.records() == []


@pytest.mark.parametrize(("bounds", "written"), [(WHOLE, 0), (replace(SMALL, records=2), 6)])
def test_refused_record_is_named_with_its_offset(
    target: Target, bounds: Bounds, written: int
) -> None:
    """A compacted topic refuses a record without a key at each retry."""
    topic = NewTopic(f"{target.topic}-compacted", 1, config={"cleanup.policy": "compact"})
    create(target, topic)
    compacted = Target(target.bootstrap, topic.topic)
    rows = [*numbered(7), Record(None, b"no key"), *numbered(2)]
    said = f"the record at offset 7 for partition 0 of {topic.topic} is refused"
    with pytest.raises(WriteError, match=said):
        compacted.write(rows, bounds=bounds)
    compacted.writer().release([(compacted.topic, 0)])
    assert compacted.records() == rows[:written]


def test_transaction_timeout_is_that_of_the_bounds(bootstrap: str, unique: str) -> None:
    target = Target(bootstrap, unique)
    create(target, NewTopic(unique, 1))
    target.write(numbered(3), bounds=replace(SMALL, timeout_s=44.0))
    host, port = bootstrap.rsplit(":", 1)
    group = target.writer().group
    assert group == f"kwire-test-{unique}"
    with closing(
        BrokerConnection(host, int(port), client_id="judge", timeout_s=PATIENCE_S)
    ) as judge:
        request = DescribeTransactionsRequest([f"{group}-{unique}-0"])
        (described,) = judge.call(request).transaction_states
    assert described.transaction_timeout_ms == 44_000


def test_release_skips_targets_that_do_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kwire.pipeline.exactly_once.RELEASE_S", 0.1)
    monkeypatch.setattr("kwire.pipeline.transactional.CALL_S", 0.1)
    closed: list[str] = []
    close = TransactionalClient.close

    def noted(client: TransactionalClient) -> None:
        closed.append(client.where)
        close(client)

    monkeypatch.setattr(TransactionalClient, "close", noted)
    writer = ExactlyOnceWriter({"bootstrap.servers": "127.0.0.1:1"}, "away")
    writer.release([("t", 0), ("t", 1)])
    assert closed == ["partition 0 of t"], "the second would take as long"


def test_release_ends_open_transactions_of_all_partitions(target: Target) -> None:
    rows = numbered(2)
    zombies = []
    for partition in (0, 1):
        position = Position(target.topic)
        zombies.append(PartitionWriter(target.writer(), target.topic, partition, position, 0))
        zombies[-1].add(batch(target.topic, partition, range(2), rows))
    target.writer().release([(target.topic, 0), (target.topic, 1)])
    for zombie in zombies:
        with closing(zombie), pytest.raises(TaskFenced):
            zombie.finish()


def test_positions_are_of_the_sources_topic(target: Target) -> None:
    """Its own origin and way, in the target's topic as it is now."""
    source = "elsewhere"
    plan = WritePlan(
        targets={source: target.topic},
        ids={target.topic: "id-1"},
        origins={source: "cluster/7"},
        via={source: ("a", "b")},
        batch=12,
    )
    rows = numbered(6)
    list(target.writer(mapped=True).write([batch(source, 0, range(3), rows)], plan))
    group = Consumer({"bootstrap.servers": target.bootstrap, "group.id": target.writer().group})
    (committed,) = group.committed([TopicPartition(target.topic, 0)], PATIENCE_S)
    group.close()
    assert committed.offset == 3
    assert position_of(committed.metadata) == Position("cluster/7", "id-1", ("a", "b"), 12)
    (mapped,) = target.messages(target.map_topic)
    record = MapRecord.decode(mapped.key(), mapped.value())  # type: ignore[arg-type]  # bytes
    assert (record.topic, record.partition) == (target.topic, 0)
    assert (record.origin, record.target) == ("cluster/7", "id-1")
    anew = replace(plan, ids={target.topic: "id-2"}, origins={source: "cluster/8"})
    (written,) = target.writer().write([batch(source, 0, range(6), rows)], anew)
    assert (written.skipped, written.records) == (0, 6), "no position in a topic that is new"


def test_task_results_have_sparks_schema(target: Target) -> None:
    rows = numbered(4)
    batches = [batch(target.topic, partition, range(4), rows) for partition in (0, 1)]
    table = pyarrow.Table.from_batches(target.writer().task(WritePlan())(iter(batches)))
    schema = [f"{field.name} {TYPES[str(field.type)]}" for field in table.schema]
    assert ", ".join(schema) == WRITTEN_DDL
    assert table.column("partition").to_pylist() == [0, 1]
    assert table.column("records").to_pylist() == [4, 4]
    assert table.column("topic").to_pylist() == [target.topic] * 2


TYPES = {"string": "string", "int32": "int", "int64": "long"}
