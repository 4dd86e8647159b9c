"""Repeated, interrupted and fenced writes leave each record once in the target, in order."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pyarrow
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from kwire.client.connection import BrokerConnection
from kwire.codecs.batches import iter_batches
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.pipeline.exactly_once import (
    Bounds,
    OtherSource,
    PartitionWriter,
    RecordTooLarge,
    TaskFenced,
    WriteError,
    WritePlan,
)
from kwire.pipeline.positions import Position, Run
from kwire.pipeline.rows import Columns, Report
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
    on_both,
    set_clock,
)

pytestmark = [pytest.mark.slow]


def test_rows_written_twice_are_in_the_target_once(target: Target) -> None:
    rows = numbered(35)
    first = target.write(rows)
    again = target.write(rows)
    assert target.records() == rows
    assert (first.records, first.skipped, first.transactions) == (35, 0, 4)
    assert (again.records, again.skipped, again.transactions) == (0, 35, 0)
    assert first.position == again.position == 35
    assert first.last - first.first >= 34


@pytest.mark.parametrize("repeated", [1, 2, 5])
def test_rows_repeated_in_one_transaction_are_in_the_target_once(
    target: Target, repeated: int
) -> None:
    """A source may read a batch again after its connection was lost."""
    rows = numbered(9)
    batches = [batch(target.topic, 0, part, rows) for part in (range(5), range(5 - repeated, 9))]
    (written,) = target.writer(bounds=WHOLE).write(batches, WritePlan())
    assert (written.records, written.skipped, written.transactions) == (9, repeated, 1)
    assert target.records() == rows


def test_nulls_headers_and_timestamps_are_as_they_were(target: Target) -> None:
    rows = [
        Record(None, None),
        Record(b"", b""),
        Record(b"tombstone", None, 1),
        Record(None, b"no time", -1),
        Record(b"\x00\xff", bytes(range(256)), 946_684_800_123),
        Record(b"h", b"h", headers=[("a", b"1"), ("a", b"2"), ("", b""), ("null", None)]),
        Record(b"h", b"h", headers=[("ключ", "значение".encode())]),
        Record(b"k", b"later ones without headers"),
    ]
    target.write(rows)
    assert target.records() == rows


def test_empty_headers_are_written_as_none(target: Target) -> None:
    rows = [Record(b"k", b"none", headers=[]), Record(b"k", b"none again", headers=[])]
    target.write(rows)
    target.write([*rows, Record(b"h", b"h", headers=[("a", b"1")]), rows[0]])
    assert [record.headers for record in target.records()] == [None, None, [("a", b"1")], None]


def test_failed_writer_continues_after_its_last_transaction(target: Target) -> None:
    rows = numbered(45)

    def failing() -> Iterator[pyarrow.RecordBatch]:
        yield batch(target.topic, 0, range(25), rows)
        raise ConnectionError("the source is gone")

    with pytest.raises(ConnectionError):
        list(target.writer().write(failing(), WritePlan()))
    kept = len(target.records())
    assert 0 < kept < 45
    written = target.write(rows)
    assert target.records() == rows
    assert (written.skipped, written.records) == (kept, 45 - kept)


KILLED = """
import os, sys, pickle
from kwire.pipeline.exactly_once import WritePlan
from kwire.pipeline.transactional import TransactionalClient
writer, batches, after = pickle.load(sys.stdin.buffer)
commit = TransactionalClient.commit
def die(client):
    global after
    after -= 1
    if after < 0:
        os._exit(9)
    commit(client)
TransactionalClient.commit = die
list(writer.write(batches, WritePlan()))
"""


@on_both
def test_transaction_of_a_killed_writer_leaves_no_records(target: Target) -> None:
    rows = numbered(45)
    batches = [batch(target.topic, 0, range(start, start + 5), rows) for start in range(0, 45, 5)]
    sent = pickle.dumps((target.writer(mapped=True), batches, 2))
    done = subprocess.run([sys.executable, "-c", KILLED], input=sent, timeout=300)
    assert done.returncode == 9
    written = target.write(rows, mapped=True)
    assert target.records() == rows
    assert (written.skipped, written.records) == (20, 25)
    assert sum(run.records for run in target.runs()) == 45


def test_fenced_writer_cannot_commit(target: Target) -> None:
    rows = numbered(20)
    zombie = PartitionWriter(target.writer(), target.topic, 0, Position(target.topic), 0)
    zombie.add(batch(target.topic, 0, range(10), rows))
    target.write(rows)
    with (
        closing(zombie),
        pytest.raises(TaskFenced, match=f"another task writes partition 0 of {target.topic} now"),
    ):
        zombie.finish()
    assert target.records() == rows


@on_both
def test_fenced_writer_with_an_open_transaction_cannot_commit(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = numbered(20)
    commit = TransactionalClient.commit
    cut_off: list[TransactionalClient] = []

    def late(client: TransactionalClient) -> None:
        cut_off.append(client)
        monkeypatch.setattr(TransactionalClient, "commit", commit)
        assert target.write(rows).records == 20
        commit(client)

    monkeypatch.setattr(TransactionalClient, "commit", late)
    with pytest.raises(TaskFenced):
        target.write(rows)
    assert not cut_off[0].is_open, "it asks for the cluster to the process' end"
    assert target.records() == rows


@on_both
def test_open_transaction_of_a_killed_writer_is_released(target: Target) -> None:
    rows = numbered(20)
    client = TransactionalClient(
        {"bootstrap.servers": target.bootstrap},
        group=target.writer().group,
        topic=target.topic,
        partition=0,
        patience_s=PATIENCE_S,
    )
    client.open({})
    client.producer.begin_transaction()
    client.produce(Columns.of(batch(target.topic, 0, range(20), rows)), [None] * 20)
    client.producer.flush(PATIENCE_S)
    other = Producer({"bootstrap.servers": target.bootstrap})
    other.produce(target.topic, b"behind it", partition=0)
    other.flush()
    assert target.records(is_open=True) == []
    target.writer().release([(target.topic, 0)])
    assert [record.value for record in target.records()] == [b"behind it"]


def usurp(target: Target, client: TransactionalClient) -> None:
    """Fence a client's producer by another one, which goes at once."""
    settings = {"bootstrap.servers": target.bootstrap, "transactional.id": client.transactional_id}
    Producer(settings).init_transactions(PATIENCE_S)


@on_both
def test_transaction_aborted_by_the_coordinator_is_written_again(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = numbered(10)
    commit, now = TransactionalClient.commit, time.monotonic

    def slow(client: TransactionalClient) -> None:
        monkeypatch.setattr(TransactionalClient, "commit", commit)
        usurp(target, client)  # fences, as the coordinator's timeout does
        set_clock(monkeypatch, lambda: now() + SMALL.timeout_s)
        commit(client)

    monkeypatch.setattr(TransactionalClient, "commit", slow)
    target.write(rows, bounds=replace(SMALL, patience_s=2 * SMALL.timeout_s))
    assert target.records() == rows


def test_record_that_is_too_large_raises_record_too_large(target: Target) -> None:
    large = random.Random(1).randbytes(1_200_000)
    rows = [*numbered(5), Record(b"large", large), *numbered(3)]
    with pytest.raises(
        RecordTooLarge,
        match=f"at offset 5 is too large for {target.topic}, which takes 1,048,588 bytes: raise",
    ):
        target.write(rows, bounds=WHOLE)


@on_both
def test_batches_are_limited_to_max_message_bytes_of_the_topic(target: Target) -> None:
    topic = NewTopic(f"{target.topic}-small", 1, config={"max.message.bytes": "2000"})
    create(target, topic)
    small = Target(target.bootstrap, topic.topic)
    rows = [Record(b"k", random.Random(n).randbytes(150)) for n in range(100)]
    written = small.write(rows, bounds=WHOLE)
    assert small.records() == rows
    assert written.transactions == 1
    with pytest.raises(RecordTooLarge, match="which takes 2,000 bytes"):
        small.write([*rows, Record(b"k", random.Random(1).randbytes(2000))])


def test_timestamp_0_raises_write_error(target: Target) -> None:
    rows = [Record(), Record(timestamp_ms=0)]
    with pytest.raises(WriteError, match=r"the record at offset 1 .* has the timestamp 0"):
        target.write(rows)
    assert target.records() == []


def test_another_source_of_the_same_name_is_refused(target: Target) -> None:
    rows = numbered(5)
    target.write(rows)
    writer = target.writer()
    plan = WritePlan(origins={target.topic: "another"})
    with pytest.raises(OtherSource, match="give the job another name"):
        list(writer.write([batch(target.topic, 0, range(5), rows)], plan))
    assert target.records() == rows


def test_known_position_is_used_if_the_group_has_none(target: Target) -> None:
    rows = numbered(5)
    plan = WritePlan(known={(target.topic, 0): 3})
    (written,) = target.writer().write([batch(target.topic, 0, range(5), rows)], plan)
    assert target.records() == rows[3:]
    assert (written.skipped, written.records) == (3, 2)


def test_each_partition_has_its_own_rows_and_name(target: Target) -> None:
    rows = numbered(30)
    batches = [batch("elsewhere", 0, range(30), rows), batch("elsewhere", 1, range(20, 30), rows)]
    written = list(target.writer().write(batches, WritePlan(targets={"elsewhere": target.topic})))
    assert [(one.topic, one.partition, one.records) for one in written] == [
        (target.topic, 0, 30),
        (target.topic, 1, 10),
    ]
    assert target.records(0) == rows
    assert target.records(1) == rows[20:]


def offsets_with_gaps(rng: random.Random, count: int) -> list[int]:
    """As compaction and markers leave them."""
    return [offset for offset in range(count) if rng.random() < 0.8]


def expected(target: Target, offsets: list[int]) -> dict[int, int]:
    """The target's offset of each of the source, by the values that lie there."""
    places = {message.value(): message.offset() for message in target.messages()}
    return {offset: places[b"value %d" % offset] for offset in offsets}  # type: ignore[misc]  # an int


def target_offsets(runs: list[Run]) -> dict[int, int]:
    return {run.source + n: run.target + n for run in runs for n in range(run.records)}


@on_both
def test_map_has_the_target_offset_of_each_record(target: Target, rng: random.Random) -> None:
    rows, offsets = numbered(100), offsets_with_gaps(rng, 100)
    target.write(rows, offsets, mapped=True)
    assert target_offsets(target.runs()) == expected(target, offsets)


def test_map_is_right_if_another_producer_writes_between(
    target: Target, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, offsets = numbered(60), offsets_with_gaps(rng, 60)
    other = Producer({"bootstrap.servers": target.bootstrap})
    produce = TransactionalClient.produce
    meddled_at = offsets[::20]  # between the two batches of each transaction

    def meddled(
        client: TransactionalClient, columns: Columns, watched: Iterable[Report | None]
    ) -> None:
        produce(client, columns, watched)
        client.producer.flush()
        if columns.offsets[0] in meddled_at:
            other.produce(target.topic, b"other", partition=0)
            other.flush()

    monkeypatch.setattr(TransactionalClient, "produce", meddled)
    bounds = replace(SMALL, records=25)
    target.write(rows, offsets, mapped=True, bounds=bounds)
    ours = [record for record in target.records() if record.value != b"other"]
    assert ours == [rows[offset] for offset in offsets]
    assert len(ours) < len(target.records())
    assert target_offsets(target.runs()) == expected(target, offsets)


def test_overlapping_rewrites_leave_each_record_once(target: Target, rng: random.Random) -> None:
    rows = numbered(120)
    reached = 0
    while reached < len(rows):
        start = rng.randrange(reached + 1)
        end = min(len(rows), start + rng.randrange(1, 60))
        target.write(rows, range(start, end), mapped=True)
        reached = max(reached, end)
    assert target.records() == rows
    assert sorted(target_offsets(target.runs())) == list(range(120))


@pytest.mark.parametrize(("codec", "number"), [("none", 0), ("gzip", 1), ("lz4", 3), ("zstd", 4)])
def test_batches_are_compressed_in_the_given_codec(
    bootstrap: str, unique: str, codec: str, number: int
) -> None:
    target = Target(bootstrap, unique)
    create(target, NewTopic(unique, 1))
    rows = numbered(50)
    writer = replace(target.writer(Bounds()), compression=codec)
    list(writer.write([batch(unique, 0, range(50), rows)], WritePlan()))
    assert target.records() == rows
    assert codecs_of(bootstrap, unique) == {number}


def codecs_of(bootstrap: str, topic: str) -> set[int]:
    """Of the batches in partition 0, markers aside."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchTopic(topic=topic, partitions=[part])], max_bytes=1 << 20)
    host, port = bootstrap.rsplit(":", 1)
    connection = BrokerConnection(host, int(port), client_id="judge", timeout_s=PATIENCE_S)
    with closing(connection):
        answer = connection.call(request, version_max=11)
    found = answer.responses[0].partitions[0].records
    return {header.compression for _, header in iter_batches(found) if not header.is_control}


SHIPPED = """
import sys, pickle
sys.modules["kwire"] = None  # importing it fails
import pyspark.cloudpickle
run, batches = pickle.load(sys.stdin.buffer)
print(sum(sum(done.column("records").to_pylist()) for done in run(iter(batches))))
"""


@pytest.mark.spark
def test_executors_need_no_kwire(target: Target, tmp_path: Path) -> None:
    cloudpickle = import_module("pyspark.cloudpickle")
    rows = numbered(30)
    task = target.writer(mapped=True).task(WritePlan())
    sent = cloudpickle.dumps((task, [batch(target.topic, 0, range(30), rows)]))
    done = subprocess.run(
        [sys.executable, "-c", SHIPPED], input=sent, capture_output=True, timeout=300, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.stdout.split() == [b"30"], done.stderr.decode()
    assert target.records() == rows
