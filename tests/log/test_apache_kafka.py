"""Apache Kafka opens and continues logs of kwire, and kwire those of Apache Kafka."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.codecs.batches import Compression
from kwire.codecs.control import ControlType, control_batch
from kwire.conformance.apache_kafka import ApacheKafka
from kwire.log import Log, Origin, aborted_transactions
from kwire.log.directory import partition_metadata
from kwire.log.directory.files import Files
from tests.log.configs import log_config

if TYPE_CHECKING:
    from tests.log.conftest import MakeBatch, OpenLog, ReadAll

NOW_MS = 1_700_000_000_000
CONFIG = log_config(segment_bytes=1 << 20, index_interval_bytes=512, segment_ms=10**12)
DUMP = "org.apache.kafka.tools.DumpLogSegments"
JavaClass = Callable[..., CompletedProcess[str]]


def fill(log: Log, make_batch: MakeBatch, stamp: int = NOW_MS) -> None:
    """Some 2 MB: each codec, an idempotent producer, transactions ended both ways and open."""
    for number in range(60):
        stamp += 1000
        batch = make_batch(
            10,
            timestamp=stamp,
            size=4000,
            compression=Compression(number % 5) if number % 2 else Compression.NONE,
            producer_id=1,
            producer_epoch=0,
            base_sequence=10 * number,
        )
        log.append(batch, leader_epoch=number // 20, now_ms=stamp)
        if number % 7 == 3:
            begun = make_batch(
                2,
                timestamp=stamp,
                producer_id=50 + number,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            log.append(begun, leader_epoch=number // 20, now_ms=stamp)
        if number % 7 == 5 and number < 50:
            marker = control_batch(
                ControlType.ABORT if number % 2 else ControlType.COMMIT,
                1,
                producer_id=48 + number,
                producer_epoch=0,
                timestamp=stamp,
            )
            log.append(marker, leader_epoch=2, now_ms=stamp, origin=Origin.COORDINATOR)
    log.high_watermark_advanced(log.log_end_offset)


def dump(java_class: JavaClass, directory: Path, *options: str) -> str:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = sorted(path for path in directory.iterdir() if path.suffix in suffixes)
    done = java_class(DUMP, [*options, "--files", ",".join(map(str, files))])
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


COMPLAINTS = re.compile(r"ismatch|isvalid: false|orrupt|Exception|out of order|ERROR|WARN", re.I)


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "in use"])
def test_dump_log_segments_finds_no_fault_in_a_log_of_kwire(
    stopped: bool, java_class: JavaClass, open_log: OpenLog, make_batch: MakeBatch, log_dir: Path
) -> None:
    log = open_log(CONFIG)
    fill(log, make_batch)
    if stopped:
        log.close()
    text = dump(java_class, log_dir, "--deep-iteration")
    assert not COMPLAINTS.search(text), text
    found = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert found == list(range(log.log_end_offset))
    assert "compresscodec: zstd" in text
    assert len(re.findall("endTxnMarker: ABORT", text)) == 4
    aborted = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset", text)
    assert [(int(a), int(b)) for a, b in aborted] == aborted_transactions(log, 0, 10**6)
    assert re.search(r"producerId: 1 producerEpoch: 0 .* lastSequence: 599", text) or not stopped
    if stopped:
        text = dump(java_class, log_dir, "--index-sanity-check")
        assert text.count("passed sanity check") == 2 * len(log.segments), text


@pytest.fixture
def node(tmp_path: Path, apache_kafka_libs: Path) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(tmp_path / "apache", settings={"transaction.state.log.num.partitions": "1"})
    yield kafka
    kafka.stop()


def consume(bootstrap: str, topic: str, count: int, isolation: str) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        message = consumer.poll(120)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None, message.error()
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        found.append((offset, value))
    consumer.close()
    return found


def new_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
    created.result(120)


def test_log_continues_in_apache_kafka_and_then_in_kwire(
    node: ApacheKafka, open_log: OpenLog, make_batch: MakeBatch, read_all: ReadAll, tmp_path: Path
) -> None:
    node.start()
    new_topic(node.bootstrap, "moved")
    node.stop()
    theirs = node.directory / "data" / "moved-0"
    topic_id = partition_metadata.read(Files(), theirs)
    assert topic_id is not None
    shutil.rmtree(theirs)
    theirs.mkdir()
    now_ms = time.time_ns() // 1_000_000  # Apache Kafka would expire older producers
    log = open_log(CONFIG, directory=theirs, topic_id=topic_id, now_ms=now_ms)
    fill(log, make_batch, now_ms)
    wanted = [(record.offset, record.value) for record in read_all(log)]
    aborted = aborted_transactions(log, 0, log.log_end_offset)
    log.close()
    checkpoint = node.directory / "data" / "recovery-point-offset-checkpoint"
    text = checkpoint.read_text()
    checkpoint.write_text(text.replace("moved 0 0\n", f"moved 0 {log.log_end_offset}\n"))
    before = node.log_file.stat().st_size

    node.start()
    assert consume(node.bootstrap, "moved", len(wanted), "read_uncommitted") == wanted
    stable = log.first_unstable_offset
    assert stable is not None
    in_aborted = {offset for _, first in aborted for offset in (first, first + 1)}
    committed = [(o, v) for o, v in wanted if o < stable and o not in in_aborted]
    assert consume(node.bootstrap, "moved", len(committed), "read_committed") == committed
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    producer.produce("moved", b"from Apache Kafka", timestamp=now_ms)
    producer.flush()
    node.stop()
    output = node.log_file.read_bytes()[before:].decode()
    assert "moved" not in "\n".join(line for line in output.splitlines() if "WARN" in line), output
    assert "ecovering" not in output, output

    again = open_log(CONFIG, directory=theirs, topic_id=topic_id, clean=True, now_ms=now_ms)
    wanted.append((log.log_end_offset, b"from Apache Kafka"))
    assert [(record.offset, record.value) for record in read_all(again)] == wanted
    assert aborted_transactions(again, 0, again.log_end_offset) == aborted
    assert again.producers.entries[1].last_sequence == 599
