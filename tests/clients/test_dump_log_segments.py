"""Tests that Apache Kafka's DumpLogSegments reads kwire's files without complaints."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing import BrokerProcess

JavaClass = Callable[..., CompletedProcess[str]]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 400  # of each codec
VALUE_BYTES = 1500
ZERO_BYTES = 300  # a batch that does not get smaller is sent without compression
SEGMENT_BYTES = 1 << 20  # the smallest that Kafka takes
TIMEOUT_S = 120.0
GROUP = "dump-group"
TRANSACTIONAL_ID = "dump-txn"

FALSE_ALARM = re.compile(r"Non-consecutive offsets in .*\n  -1 is followed by [1-9]\d*\n")
"""A complaint about every segment but the first, also of Apache Kafka's own files.

The tool assumes offset -1 before a file's first record.
"""

COMPLAINTS = re.compile(
    r"Mismatches|Non-consecutive|misaligned|corrupt|Index timestamp mismatch|invalid|"
    r"isvalid: false|Out of order|Could not|Exception",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a stopped broker, with records of every codec."""
    broker = BrokerProcess(
        tmp_path_factory.mktemp("dump"),
        {
            "log.index.interval.bytes": "1000",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        },
    )
    with broker:
        _fill(broker.bootstrap)
        _commit(broker.bootstrap)
        _transact(broker.bootstrap)
    return broker.data_dir


def _fill(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"segment.bytes": str(SEGMENT_BYTES)}
    admin.create_topics([NewTopic("codecs", 1, 1, config=config)])["codecs"].result(TIMEOUT_S)
    values = random.Random(1)
    start_ms = int(time.time() * 1000)
    for position, codec in enumerate(CODECS):
        settings = {"compression.type": codec, "enable.idempotence": True, "linger.ms": 20}
        producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 20_000, **settings})
        for number in range(RECORDS):
            stamp = start_ms + position * RECORDS + number
            value = values.randbytes(VALUE_BYTES - ZERO_BYTES) + bytes(ZERO_BYTES)
            headers: list[tuple[str, str | bytes | None]] = [("codec", codec.encode())]
            producer.produce("codecs", value, b"key", headers=headers, timestamp=stamp)
        assert producer.flush(TIMEOUT_S) == 0


def _commit(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.subscribe(["codecs"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition("codecs", 0, 33)], asynchronous=False)
    consumer.close()


def _transact(bootstrap: str) -> None:
    """Write a committed transaction, an aborted one, and one that stays open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("transactions", 1, 1)])["transactions"].result(TIMEOUT_S)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID}
    producer = Producer(settings)
    producer.init_transactions(TIMEOUT_S)
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        producer.produce("transactions", b"value")
        assert producer.flush(TIMEOUT_S) == 0
        if end is not None:
            end(TIMEOUT_S)


def files(data_dir: Path, partition: str, suffix: str) -> list[Path]:
    found = sorted((data_dir / partition).glob(f"*{suffix}"))
    assert found, f"no {suffix} in {partition}"
    return found


def dump(java_class: JavaClass, paths: list[Path], *arguments: str) -> str:
    given = ["--files", ",".join(map(str, paths)), *arguments]
    done = java_class("org.apache.kafka.tools.DumpLogSegments", given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert FALSE_ALARM.sub("", done.stderr) == ""
    complaint = COMPLAINTS.search(done.stdout)
    assert complaint is None, done.stdout[max(0, complaint.start() - 300) :][:1000]
    return done.stdout


@pytest.fixture(scope="module")
def dumped(java_class: JavaClass, data_dir: Path) -> dict[str, str]:
    """The entries of all files of both topics by partition and suffix; one Java machine reads them.

    For example "codecs-0.log" has the text about all segments of that partition.
    """
    kinds = {
        "codecs-0": (".log", ".index", ".timeindex", ".snapshot"),
        "transactions-0": (".log", ".txnindex"),
    }
    paths = [
        path
        for partition, suffixes in kinds.items()
        for suffix in suffixes
        for path in files(data_dir, partition, suffix)
    ]
    text = dump(java_class, paths, "--deep-iteration", "--print-data-log")
    _, *parts = re.split(r"^Dumping (.+)$", text, flags=re.MULTILINE)
    assert parts[::2] == [str(path) for path in paths]
    found: dict[str, str] = {}
    for path, part in zip(paths, parts[1::2], strict=True):
        name = path.parent.name + path.suffix
        found[name] = found.get(name, "") + part
    return found


def test_dump_has_every_record_of_every_segment(data_dir: Path, dumped: dict[str, str]) -> None:
    assert len(files(data_dir, "codecs-0", ".log")) > 2
    text = dumped["codecs-0.log"]
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.M)]
    assert offsets == list(range(len(CODECS) * RECORDS))
    assert set(re.findall(r"compresscodec: (\w+)", text)) == set(CODECS)
    assert len(re.findall(r"headerKeys: \[codec\]", text)) == len(offsets)


def test_dump_finds_no_mismatch_between_indexes_and_segments(
    java_class: JavaClass, data_dir: Path, dumped: dict[str, str]
) -> None:
    indexes = files(data_dir, "codecs-0", ".index")
    time_indexes = files(data_dir, "codecs-0", ".timeindex")
    of_groups = files(data_dir, "__consumer_offsets-0", "index")
    everything = indexes + time_indexes + of_groups
    sane = dump(java_class, everything, "--index-sanity-check")
    assert sane.count("passed sanity check") == sum(each.stat().st_size > 0 for each in everything)
    checked = dump(java_class, indexes, "--verify-index-only")
    assert checked.count("Dumping") == len(indexes)
    places = re.findall(r"^offset: \d+ position: \d+", dumped["codecs-0.index"], re.M)
    assert len(places) > len(indexes)
    times = re.findall(r"^timestamp: \d+ offset: \d+", dumped["codecs-0.timeindex"], re.M)
    assert len(times) >= len(time_indexes)


def test_dump_reads_producer_snapshots(dumped: dict[str, str]) -> None:
    text = dumped["codecs-0.snapshot"]
    producers = set(re.findall(r"^producerId: (\d+) producerEpoch: 0", text, re.M))
    assert len(producers) == len(CODECS)


def test_dump_decodes_the_offsets_topic(java_class: JavaClass, data_dir: Path) -> None:
    segments = files(data_dir, "__consumer_offsets-0", ".log")
    text = dump(java_class, segments, "--offsets-decoder", "--deep-iteration")
    assert f'"group":"{GROUP}","topic":"codecs","partition":0' in text
    assert '"offset":33' in text
    assert '"protocolType":"consumer"' in text


def test_dump_decodes_the_transaction_topic(java_class: JavaClass, data_dir: Path) -> None:
    segments = files(data_dir, "__transaction_state-0", ".log")
    text = dump(java_class, segments, "--transaction-log-decoder", "--deep-iteration")
    assert f'"transactionalId":"{TRANSACTIONAL_ID}"' in text
    states = [int(state) for state in re.findall(r'"transactionStatus":(\d+)', text)]
    empty, ongoing, commits, aborts, committed, aborted = range(6)
    assert states == [empty, ongoing, commits, committed, ongoing, aborts, aborted, ongoing]


def test_dump_reads_markers_and_aborted_transactions(dumped: dict[str, str]) -> None:
    text = dumped["transactions-0.log"]
    assert re.findall(r"endTxnMarker: (\w+)", text) == ["COMMIT", "ABORT"]
    assert text.count("isTransactional: true") == 5
    aborted = dumped["transactions-0.txnindex"]
    assert re.search(r"producerId: \d+ firstOffset: 2 lastOffset: 3", aborted)
