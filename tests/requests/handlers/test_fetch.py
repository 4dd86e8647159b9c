"""Fetch without sessions and without waiting: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kwire.codecs.batches import ControlType, iter_batches
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from kwire.log import delete_records
from tests.requests.handlers.node import Node

BATCH = 146  # bytes of what Node.append writes: five records
SESSIONLESS = -1


def asked(
    index: int,
    offset: int,
    max_bytes: int = 1 << 20,
    *,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=max_bytes,
    )


def request(
    *topics: tuple[str | bytes, list[FetchPartition]],
    **fields: Any,  # noqa: ANN401 - fields of FetchRequest
) -> FetchRequest:
    """A request that waits 100 ms for at least one byte, unless `fields` differ."""
    named = [
        FetchTopic(topic_id=name, partitions=partitions)
        if isinstance(name, bytes)
        else FetchTopic(topic=name, partitions=partitions)
        for name, partitions in topics
    ]
    settings = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 26} | fields
    return FetchRequest(topics=named, **settings)


def only(response: FetchResponse) -> PartitionData:
    """The only partition of a response."""
    [topic] = response.responses
    [data] = topic.partitions
    return data


def told(response: FetchResponse) -> list[tuple[int, int, int]]:
    """(partition, error, bytes of records) in the order of the reply."""
    return [
        (data.partition_index, data.error_code, len(bytes_of(data)))
        for topic in response.responses
        for data in topic.partitions
    ]


def bytes_of(data: PartitionData) -> bytes:
    assert data.records is not None, "Kafka sends no records as empty, not as null"
    return bytes(data.records)  # type: ignore[arg-type]  # decoded: never a region


@pytest.fixture
def full(node: Node) -> Node:
    """Topic `t`: three partitions of three batches of five records."""
    node.create("t", 3)
    for index in range(3):
        for _ in range(3):
            node.append("t", index)
    return node


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_of_every_version_returns_the_records(node: Node, version: int) -> None:
    topic_id = node.create("t")
    node.append("t")
    node.append("t")
    name: str | bytes = topic_id if version >= 13 else "t"
    reply = node.call(request((name, [asked(0, 0)])), version)
    data = only(reply)
    assert (reply.error_code, reply.session_id, reply.throttle_time_ms) == (0, 0, 0)
    assert reply.responses[0].topic_id == (topic_id if version >= 13 else bytes(16))
    assert reply.responses[0].topic == ("t" if version < 13 else "")
    assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 10, 10)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.aborted_transactions is None
    assert data.preferred_read_replica == -1
    assert (data.diverging_epoch, data.current_leader, data.snapshot_id) == (None, None, None)
    batches = [header for _, header in iter_batches(bytes_of(data))]
    assert [(each.base_offset, each.last_offset) for each in batches] == [(0, 4), (5, 9)]
    assert [each.partition_leader_epoch for each in batches] == [0, 0]


def test_fetch_of_an_offset_within_a_batch_returns_the_whole_batch(full: Node) -> None:
    data = only(full.call(request(("t", [asked(0, 7)])), 12))
    assert [header.base_offset for _, header in iter_batches(bytes_of(data))] == [5, 10]


@pytest.mark.parametrize("offset", [-1, 16])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_fetch_returns_offset_out_of_range_past_the_end(
    full: Node, offset: int, isolation_level: int
) -> None:
    reply = full.call(request(("t", [asked(0, offset)]), isolation_level=isolation_level), 12)
    data = only(reply)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert data.aborted_transactions is None
    assert bytes_of(data) == b""


def test_fetch_returns_offset_out_of_range_before_the_log_start(full: Node) -> None:
    delete_records(full.partition("t").log, 7, 15)
    data = only(full.call(request(("t", [asked(0, 6)])), 12))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    data = only(full.call(request(("t", [asked(0, 7)])), 12))
    assert (data.error_code, data.log_start_offset) == (0, 7)
    assert len(bytes_of(data)) == 2 * BATCH


@pytest.mark.parametrize(
    ("topic", "version", "error"),
    [
        ("nope", 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (b"\x01" * 16, 13, ErrorCode.UNKNOWN_TOPIC_ID),
        (bytes(16), 13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_fetch_of_an_unknown_topic_returns_an_error(
    node: Node, topic: str | bytes, version: int, error: ErrorCode
) -> None:
    data = only(node.call(request((topic, [asked(0, 0)])), version))
    assert data.error_code == error
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert data.aborted_transactions == []
    assert bytes_of(data) == b""


@pytest.mark.parametrize("index", [3, -1])
def test_fetch_of_an_unknown_partition_returns_an_error(full: Node, index: int) -> None:
    data = only(full.call(request(("t", [asked(index, 0)])), 12))
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert data.aborted_transactions == []


def test_fetch_response_has_unknown_partitions_last(full: Node) -> None:
    reply = full.call(request(("nope", [asked(0, 0)]), ("t", [asked(9, 0), asked(0, 99)])), 12)
    assert [topic.topic for topic in reply.responses] == ["t", "nope", "t"]
    assert told(reply) == [
        (0, ErrorCode.OFFSET_OUT_OF_RANGE, 0),
        (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
    ]


def test_fetch_response_has_partitions_in_request_order(full: Node) -> None:
    full.create("u")
    topics = [("t", [asked(2, 0, 10)]), ("u", [asked(0, 0)]), ("t", [asked(0, 0, 10)])]
    reply = full.call(request(*topics), 12)
    assert [topic.topic for topic in reply.responses] == ["t", "u", "t"]
    assert told(reply) == [(2, 0, BATCH), (0, 0, 0), (0, 0, 0)]


def test_consecutive_partitions_of_a_topic_share_one_entry(full: Node) -> None:
    reply = full.call(request(("t", [asked(0, 0)]), ("t", [asked(1, 0)])), 12)
    assert [len(topic.partitions) for topic in reply.responses] == [2]


@pytest.mark.parametrize("how", ["in one topic", "in two"])
def test_repeated_partition_is_read_once_with_its_last_entry(full: Node, how: str) -> None:
    first, second = asked(0, 0), asked(0, 10)
    topics = (
        [("t", [first, second])] if how == "in one topic" else [("t", [first]), ("t", [second])]
    )
    assert told(full.call(request(*topics), 12)) == [(0, 0, BATCH)]


# Limits


@pytest.mark.parametrize(
    ("partition_max_bytes", "max_bytes", "size"),
    [
        (100, 1 << 20, BATCH),  # the first batch is given whole (KIP-74)
        (0, 1 << 20, BATCH),
        (1 << 20, 0, BATCH),
        (300, 1 << 20, 300),  # and the last may be torn
        (1 << 20, 300, 300),
        (2**31 - 1, 2**31 - 1, 3 * BATCH),
    ],
)
def test_fetch_respects_the_limit_of_one_partition(
    full: Node, partition_max_bytes: int, max_bytes: int, size: int
) -> None:
    limited = request(("t", [asked(0, 0, partition_max_bytes)]), max_bytes=max_bytes)
    assert told(full.call(limited, 12)) == [(0, 0, size)]


@pytest.mark.parametrize(
    ("offsets", "partition_max_bytes", "max_bytes", "sizes"),
    [
        ((0, 0, 0), (1000, 1000, 1000), 1 << 20, (438, 438, 438)),
        ((0, 0, 0), (1000, 1000, 1000), 500, (438, 0, 0)),
        ((0, 0, 0), (1000, 1000, 1000), 700, (438, 262, 0)),
        ((0, 0, 0), (1000, 1000, 1000), 10, (BATCH, 0, 0)),
        ((0, 0, 0), (10, 10, 300), 1 << 20, (BATCH, 0, 300)),
        ((15, 0, 0), (10, 10, 10), 1 << 20, (0, BATCH, 0)),
    ],
)
def test_only_the_first_partition_with_records_exceeds_a_limit(
    full: Node,
    offsets: tuple[int, int, int],
    partition_max_bytes: tuple[int, int, int],
    max_bytes: int,
    sizes: tuple[int, int, int],
) -> None:
    partitions = [asked(at, offsets[at], partition_max_bytes[at]) for at in range(3)]
    reply = full.call(request(("t", partitions), max_bytes=max_bytes), 12)
    assert told(reply) == [(at, 0, sizes[at]) for at in range(3)]


def test_fetch_max_bytes_limits_the_response(make_node: Callable[..., Node]) -> None:
    node = make_node({"fetch.max.bytes": "1024"})
    node.create("t")
    for _ in range(10):
        node.append("t")
    assert told(node.call(request(("t", [asked(0, 0)]), min_bytes=9999), 12)) == [(0, 0, 1024)]


@pytest.mark.parametrize(("partition_max_bytes", "max_bytes"), [(-1, 1 << 20), (1 << 20, -5)])
def test_negative_partition_limit_is_an_error_if_records_exist(
    full: Node, partition_max_bytes: int, max_bytes: int
) -> None:
    limited = request(("t", [asked(0, 0, partition_max_bytes)]), max_bytes=max_bytes)
    data = only(full.call(limited, 12))
    assert (data.error_code, data.high_watermark) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    limited = request(("t", [asked(0, 15, partition_max_bytes)]), max_bytes=max_bytes, min_bytes=0)
    data = only(full.call(limited, 12))
    assert (data.error_code, data.high_watermark) == (0, 15)


def test_negative_partition_limit_fails_only_its_partition(full: Node) -> None:
    reply = full.call(request(("t", [asked(0, 0), asked(1, 0, -1), asked(2, 0)])), 12)
    assert told(reply) == [(0, 0, 438), (1, ErrorCode.UNKNOWN_SERVER_ERROR, 0), (2, 0, 438)]


def test_fetch_response_ends_at_a_segment_boundary(node: Node) -> None:
    node.create("t")
    node.shrink_segments("t", 2 * BATCH)
    for _ in range(5):
        node.append("t")
    assert told(node.call(request(("t", [asked(0, 0)]), min_bytes=10_000), 12)) == [
        (0, 0, 2 * BATCH)
    ]
    assert told(node.call(request(("t", [asked(0, 7)])), 12)) == [(0, 0, BATCH)]


def test_negative_max_bytes_fails_only_the_first_partition(full: Node) -> None:
    spoilt = request(("t", [asked(0, 0), asked(1, 0)]), max_bytes=-1)
    assert told(full.call(spoilt, 12)) == [(0, ErrorCode.UNKNOWN_SERVER_ERROR, 0), (1, 0, BATCH)]
    spoilt = request(("t", [asked(0, 15), asked(1, 0)]), max_bytes=-1)
    assert told(full.call(spoilt, 12)) == [(0, 0, 0), (1, 0, BATCH)]


# Epochs


def test_fetch_with_a_wrong_leader_epoch_is_fenced(node: Node) -> None:
    topic_id = node.create("t")
    node.change_leader("t", 0, leader=1, leader_epoch=3)
    node.append("t")

    def error_of(epoch: int, version: int = 12) -> PartitionData:
        name: str | bytes = topic_id if version >= 13 else "t"
        named = asked(0, 0, current_leader_epoch=epoch)
        return only(node.call(request((name, [named])), version))

    assert error_of(4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error_of(2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert error_of(2).high_watermark == -1
    for right in (3, -1, -7):
        assert error_of(right).error_code == 0
    assert error_of(4, 16).current_leader is None
    assert error_of(2, 15).current_leader is None
    assert error_of(2, 16).current_leader == LeaderIdAndEpoch(1, 3)


@pytest.mark.parametrize(
    ("last_fetched_epoch", "offset", "error", "diverging"),
    [
        (0, 0, 0, None),
        (0, 10, 0, None),
        (0, 11, 0, EpochEndOffset(0, 10)),
        (3, 15, 0, None),
        (3, 16, 0, EpochEndOffset(3, 15)),
        (2, 3, 0, EpochEndOffset(0, 10)),
        (4, 0, ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (0, -1, ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (-3, 0, 0, None),
    ],
)
def test_fetch_returns_the_diverging_epoch_of_a_diverged_log(
    node: Node,
    last_fetched_epoch: int,
    offset: int,
    error: int,
    diverging: EpochEndOffset | None,
) -> None:
    """Epoch 0 has offsets 0-9, epoch 3 has 10-14."""
    node.create("t")
    node.append("t")
    node.append("t")
    node.change_leader("t", 0, leader=1, leader_epoch=3)
    node.append("t")
    named = asked(0, offset, last_fetched_epoch=last_fetched_epoch)
    waits_ms = 0 if diverging is None else 100  # who is told something does not wait
    data = only(node.call(request(("t", [named]), max_wait_ms=waits_ms), 12))
    assert (data.error_code, data.diverging_epoch) == (error, diverging)
    if diverging is not None:
        assert bytes_of(data) == b""
        assert data.high_watermark == 15


# Who asks


@pytest.mark.parametrize("replica_id", [1, 5])
def test_fetch_of_a_broker_without_a_replica_is_refused(full: Node, replica_id: int) -> None:
    plain = only(full.call(request(("t", [asked(0, 0)]), replica_id=replica_id), 12))
    assert plain.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    named = asked(0, 0, current_leader_epoch=0)
    data = only(full.call(request(("t", [named]), replica_id=replica_id), 12))
    assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_replica_id_is_read_from_the_tagged_field_since_v15(node: Node) -> None:
    topic_id = node.create("t")
    fields = {"replica_state": ReplicaState(replica_id=5)}
    data = only(node.call(request((topic_id, [asked(0, 0)]), **fields), 15))
    assert (data.error_code, data.current_leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    reply = node.call(request((topic_id, [asked(0, 0)]), **fields), 16)
    assert only(reply).current_leader == LeaderIdAndEpoch(1, 0)
    assert reply.node_endpoints == []


@pytest.mark.parametrize("replica_id", [-2, -3])
def test_fetch_of_a_debugging_consumer_reads_like_a_consumer(full: Node, replica_id: int) -> None:
    reply = full.call(request(("t", [asked(0, 0)]), replica_id=replica_id), 12)
    assert told(reply) == [(0, 0, 438)]


def test_cluster_id_and_rack_do_not_change_the_response(full: Node) -> None:
    reply = full.call(request(("t", [asked(0, 0)]), cluster_id="other", rack_id="r1"), 12)
    assert told(reply) == [(0, 0, 438)]
    assert only(reply).preferred_read_replica == -1


def test_partition_led_by_another_broker_gives_not_leader_or_follower(node: Node) -> None:
    topic_id = node.create("t")
    node.change_leader("t", 0, leader=2, leader_epoch=1)
    data = only(node.call(request((topic_id, [asked(0, 0)])), 16))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader == LeaderIdAndEpoch(2, 1)


@pytest.mark.parametrize("offset", [0, 15])
@pytest.mark.parametrize(
    ("version", "error"),
    [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)],
)
def test_fetch_from_a_failed_disk_returns_kafka_storage_error(
    full: Node, offset: int, version: int, error: ErrorCode
) -> None:
    """Old clients do not know this error, but look for another leader on the error they get."""
    full.partition("t").log.take_offline()
    assert told(full.call(request(("t", [asked(0, offset)])), version)) == [(0, error, 0)]


# Transactions


@pytest.fixture
def aborted(node: Node) -> Node:
    """Offsets: 0-2 of transaction 7, 3-7 plain, 8 marker (abort), 9-13 plain."""
    node.create("t")
    node.append("t", timestamps=(1000,) * 3, producer=(7, 0, 0), transactional=True)
    node.append("t")
    node.end_transaction("t", 0, ControlType.ABORT, 7)
    node.append("t")
    return node


def test_read_committed_fetch_returns_the_aborted_transactions_of_its_records(
    aborted: Node,
) -> None:
    def read(offset: int, isolation_level: int) -> list[AbortedTransaction] | None:
        fields = {"isolation_level": isolation_level, "max_wait_ms": 0}
        reply = aborted.call(request(("t", [asked(0, offset)]), **fields), 12)
        assert only(reply).last_stable_offset == only(reply).high_watermark == 14
        aborted_transactions: list[AbortedTransaction] | None = only(reply).aborted_transactions
        return aborted_transactions

    assert read(0, 1) == [AbortedTransaction(7, 0)]
    assert read(4, 1) == [AbortedTransaction(7, 0)]
    assert read(9, 1) == []
    assert read(14, 1) == []
    assert read(0, 0) is None


def test_aborted_transaction_in_a_fetch_has_its_first_offset(node: Node) -> None:
    node.create("t")
    node.append("t")
    node.append("t", producer=(8, 0, 0), transactional=True)
    node.append("t", producer=(7, 0, 0), transactional=True)
    node.end_transaction("t", 0, ControlType.ABORT, 7)
    node.end_transaction("t", 0, ControlType.ABORT, 8)
    data = only(node.call(request(("t", [asked(0, 0)]), isolation_level=1), 12))
    assert data.aborted_transactions == [AbortedTransaction(7, 10), AbortedTransaction(8, 5)]


def test_fetch_returns_aborted_records_at_every_isolation_level(aborted: Node) -> None:
    for isolation_level in (0, 1):
        reply = aborted.call(request(("t", [asked(0, 0)]), isolation_level=isolation_level), 12)
        batches = [header.base_offset for _, header in iter_batches(bytes_of(only(reply)))]
        assert batches == [0, 3, 8, 9]


def test_read_committed_fetch_ends_before_an_open_transaction(node: Node) -> None:
    node.create("t")
    node.append("t")
    node.append("t", producer=(7, 0, 0), transactional=True)
    node.append("t")

    def read(offset: int, isolation_level: int) -> tuple[int, int, int, int]:
        fields = {"isolation_level": isolation_level, "max_wait_ms": 0}
        data = only(node.call(request(("t", [asked(0, offset)]), **fields), 12))
        size = len(bytes_of(data))
        return data.error_code, data.high_watermark, data.last_stable_offset, size

    assert read(0, 1) == (0, 15, 5, BATCH)
    assert read(5, 1) == (0, 15, 5, 0)
    assert read(0, 0) == (0, 15, 5, 3 * BATCH)


@pytest.mark.parametrize("offset", [7, 15])
def test_read_committed_fetch_beyond_the_last_stable_offset_does_not_wait(
    node: Node, offset: int
) -> None:
    node.create("t")
    node.append("t")
    node.append("t", producer=(7, 0, 0), transactional=True)
    node.append("t")
    reply = node.call(request(("t", [asked(0, offset)]), isolation_level=1), 12)
    assert told(reply) == [(0, 0, 0)]
    assert only(reply).aborted_transactions == []


def test_read_committed_fetch_held_back_by_a_limit_has_null_aborted_transactions(
    full: Node,
) -> None:
    """Kafka looks up aborted transactions only for records that it returns."""
    for max_bytes in (1, 100):
        partitions = [asked(0, 0), asked(1, 0, max_bytes), asked(2, 16, last_fetched_epoch=0)]
        data = full.call(request(("t", partitions), isolation_level=1), 12).responses[0].partitions
        assert [each.aborted_transactions for each in data] == [[], None, None]
    reply = full.call(
        request(("t", [asked(0, 0), asked(1, 0)]), isolation_level=1, max_bytes=1), 12
    )
    assert told(reply) == [(0, 0, BATCH), (1, 0, 0)]
    assert reply.responses[0].partitions[1].aborted_transactions == []


@pytest.mark.parametrize("isolation_level", [-1, 7])
def test_unknown_isolation_level_gives_unknown_server_error(
    full: Node, isolation_level: int
) -> None:
    wrong = request(("t", [asked(0, 0), asked(7, 0)]), isolation_level=isolation_level)
    reply = full.call(wrong, 12)
    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    for version in (12, 4):
        reply = full.call(wrong, version)
        assert told(reply) == [(0, -1, 0), (7, -1, 0)]
        [topic] = reply.responses
        assert topic.topic == "t"
        for data in topic.partitions:
            assert (data.high_watermark, data.last_stable_offset) == (-1, -1)
            assert data.aborted_transactions == []
