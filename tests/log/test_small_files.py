"""Checkpoints, identity files and snapshots have Apache Kafka's bytes; damage is detected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codecs.batch_layout import SEQUENCE_RANGE
from kwire.codecs.uuids import uuid_bytes
from kwire.log import LogDirError
from kwire.log.directory import checkpoints, meta_properties, partition_metadata
from kwire.log.directory.files import Files
from kwire.log.directory.meta_properties import MetaProperties
from kwire.log.error import CorruptFile
from kwire.log.leader_epochs import LeaderEpochCache
from kwire.log.producers.entry import ProducerEntry, WrittenBatch
from kwire.log.producers.snapshot import decode, encode

# Written by Apache Kafka 4.3.1: a producer that is idle, and one in a transaction.
APACHE_SNAPSHOT = Path(__file__).parent / "data" / "apache-4.3.1" / "00000000000000000023.snapshot"

INT16, INT32, INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1


def test_checkpoint_file_has_kafkas_format(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    checkpoints.write_offsets(Files(), path, {("a-topic", 0): 5, ("b", 12): 2**40})
    assert path.read_text() == "0\n2\na-topic 0 5\nb 12 1099511627776\n"
    assert checkpoints.read_offsets(Files(), path) == {("a-topic", 0): 5, ("b", 12): 2**40}
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_missing_and_empty_checkpoints_have_no_offsets(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    assert checkpoints.read_offsets(Files(), path) == {}
    path.write_bytes(b"")  # as Apache Kafka makes them at its start
    assert checkpoints.read_offsets(Files(), path) == {}


@pytest.mark.parametrize(
    "content",
    ["\n", "0\n", "1\n0\n", "0\n1\n", "0\n0\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 b\n", "0\n-1\n",
     "0\n1\na 0 1 2\n", "x\ny\n", "\x00\n\x00", "\ufffe"],
)  # fmt: skip
def test_damaged_checkpoint_raises_corrupt_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(content)
    with pytest.raises(CorruptFile):
        checkpoints.read_offsets(Files(), path)


@given(st.binary(max_size=40))
def test_arbitrary_checkpoint_bytes_are_decoded_or_raise_corrupt_file(data: bytes) -> None:
    for fields in (2, 3):
        try:
            decoded = checkpoints.decode(data, fields)
        except CorruptFile:
            continue
        assert all(len(entry) == fields for entry in decoded)


def test_snapshot_of_apache_kafka_is_read_and_written_unchanged() -> None:
    data = APACHE_SNAPSHOT.read_bytes()
    entries = decode(data)
    assert [
        (e.producer_id, e.epoch, e.coordinator_epoch, e.last_timestamp, e.txn_first_offset)
        for e in entries
    ] == [(1000, 0, -1, 1700000000005, -1), (1002, 0, -1, 1700000000200, 22)]
    assert entries[0].batches == [WrittenBatch(5, 5, 0, 1700000000005)]
    assert encode(entries) == data


def test_damaged_byte_of_a_snapshot_raises_corrupt_file() -> None:
    data = APACHE_SNAPSHOT.read_bytes()
    for at in range(len(data)):
        with pytest.raises(CorruptFile):
            decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(CorruptFile):
            decode(data[:at])
    with pytest.raises(CorruptFile):
        decode(data + b"\0")


written = st.builds(
    WrittenBatch,
    st.integers(0, INT32),
    st.integers(0, INT64),
    st.integers(0, 1000),
    st.integers(-1, INT64),
)
producers = st.builds(
    ProducerEntry,
    st.integers(0, INT64),
    st.integers(0, INT16),
    st.integers(-1, INT32),
    st.just(5),
    st.integers(-1, INT64),
    st.lists(written, max_size=1),
)


@given(st.lists(producers, unique_by=lambda entry: entry.producer_id))
def test_snapshot_entries_are_read_as_written(entries: list[ProducerEntry]) -> None:
    found = {entry.producer_id: entry for entry in decode(encode(entries))}
    assert found.keys() == {entry.producer_id for entry in entries}
    for entry in entries:
        again = found[entry.producer_id]
        # Only one timestamp is kept, of the last batch or of a marker behind it.
        stamped = [batch._replace(timestamp=entry.last_timestamp) for batch in entry.batches]
        assert again.batches == stamped
        assert again.last_timestamp == entry.last_timestamp
        assert again.txn_first_offset == entry.txn_first_offset
        assert again.next_sequence == entry.next_sequence < SEQUENCE_RANGE


def test_partition_metadata_has_kafkas_format(tmp_path: Path) -> None:
    topic_id = uuid_bytes("shFfnxmkSmmhZ4xv91SX-w")
    partition_metadata.write(Files(), tmp_path, topic_id)
    text = (tmp_path / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: shFfnxmkSmmhZ4xv91SX-w"
    assert partition_metadata.read(Files(), tmp_path) == topic_id
    assert len(uuid_bytes(partition_metadata.new_directory_id())) == 16


@pytest.mark.parametrize("text", ["", "AAAA", "!" * 22, "A" * 23])
def test_text_that_is_no_uuid_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid"):
        uuid_bytes(text)


KRAFT = """#
#Sat Nov 21 08:50:05 UTC 2026
node.id=1
directory.id=ZFL20n1uLxPHnVaA9v9t3w
version=1
cluster.id=AAAAAAAAQACEAgAAAAAAAA
"""


def test_meta_properties_of_apache_kafka_are_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(KRAFT)
    found = meta_properties.read(Files(), tmp_path)
    assert found == MetaProperties(1, 1, "AAAAAAAAQACEAgAAAAAAAA", "ZFL20n1uLxPHnVaA9v9t3w")
    meta_properties.write(Files(), tmp_path, found)
    wanted = sorted(line for line in KRAFT.splitlines() if not line.startswith("#"))
    assert sorted(path.read_text().splitlines()) == wanted
    path.write_text("version=0\nbroker.id=3\ncluster.id=x\n")
    assert meta_properties.read(Files(), tmp_path) == MetaProperties(0, 3, "x")


@pytest.mark.parametrize(
    "text",
    [
        "version=2\nnode.id=1\ncluster.id=x\n",
        "version=one\nnode.id=1\ncluster.id=x\n",
        "version=1\nnode.id=me\ncluster.id=x\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=x\n",
        "version=0\ncluster.id=x\n",
        "garbage",
        "\0" * 88,
        "",
    ],
)
def test_invalid_meta_properties_raise_log_dir_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(LogDirError, match="cannot be understood"):
        meta_properties.read(Files(), tmp_path)


class TestLeaderEpochs:
    """The answers of Kafka's LeaderEpochFileCache."""

    @pytest.fixture
    def cache(self, tmp_path: Path) -> LeaderEpochCache:
        cache = LeaderEpochCache(tmp_path, Files())
        for epoch, offset in ((2, 0), (5, 10), (7, 30)):
            cache.assign(epoch, offset)
        return cache

    @pytest.mark.parametrize(
        ("epoch", "found"),
        [
            (-1, (-1, -1)),
            (0, (0, 0)),
            (1, (1, 0)),
            (2, (2, 10)),
            (4, (2, 10)),
            (5, (5, 30)),
            (6, (5, 30)),
            (7, (7, 50)),
            (8, (-1, -1)),
        ],
    )
    def test_end_offset_of_an_epoch_follows_from_the_next_epoch(
        self, cache: LeaderEpochCache, epoch: int, found: tuple[int, int]
    ) -> None:
        assert cache.end_offset_for(epoch, 50) == found

    def test_epoch_of_an_offset_is_unknown_below_the_log_start(
        self, cache: LeaderEpochCache
    ) -> None:
        assert [cache.epoch_for(offset) for offset in (0, 9, 10, 29, 30, 99)] == [2, 2, 5, 5, 7, 7]
        cache.truncate_from_start(12)
        assert cache.epoch_for(11) is None
        assert cache.epoch_for(12) == 5

    def test_assigning_the_latest_epoch_again_changes_nothing(
        self, cache: LeaderEpochCache
    ) -> None:
        cache.assign(7, 40)
        assert cache.entries == [(2, 0), (5, 10), (7, 30)]

    def test_assigning_an_epoch_removes_contradicting_entries(
        self, cache: LeaderEpochCache
    ) -> None:
        cache.assign(6, 20)
        assert cache.entries == [(2, 0), (5, 10), (6, 20)]
        cache.assign(8, 5)
        assert cache.entries == [(2, 0), (8, 5)]
        assert cache.latest_epoch == 8

    @pytest.mark.parametrize(
        ("start", "left"),
        [
            (0, [(2, 0), (5, 10), (7, 30)]),
            (1, [(2, 1), (5, 10), (7, 30)]),
            (10, [(5, 10), (7, 30)]),
            (11, [(5, 11), (7, 30)]),
            (99, [(7, 99)]),
        ],
    )
    def test_truncation_from_the_start_keeps_epochs_in_use(
        self, cache: LeaderEpochCache, start: int, left: list[tuple[int, int]]
    ) -> None:
        cache.truncate_from_start(start)
        assert cache.entries == left

    def test_truncation_from_the_end_removes_later_epochs(self, cache: LeaderEpochCache) -> None:
        cache.truncate_from_end(10)
        assert (cache.entries, cache.latest_epoch) == ([(2, 0)], 2)
        cache.clear()
        assert (cache.entries, cache.latest_epoch) == ([], -1)
        assert cache.end_offset_for(2, 50) == (-1, -1)

    def test_leader_epoch_file_is_read_as_flushed(
        self, cache: LeaderEpochCache, tmp_path: Path
    ) -> None:
        path = tmp_path / "leader-epoch-checkpoint"
        assert path.read_text() == "0\n3\n2 0\n5 10\n7 30\n"
        cache.truncate_from_end(10)
        cache.flush()
        assert path.read_text() == "0\n1\n2 0\n"
        again = LeaderEpochCache(tmp_path, Files())
        again.load()
        assert again.entries == [(2, 0)]
