"""ListOffsets: every answer is what Apache Kafka 4.3.1 gave."""

from __future__ import annotations

import pytest

from kwire.codecs.batches import ControlType
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.log import delete_records
from tests.requests.handlers.node import Node

VERSIONS = range(1, 12)
NOT_FOUND = (0, -1, -1, -1)
UNSUPPORTED = (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
Answer = tuple[int, int, int, int]


def ask(
    node: Node,
    *asked: tuple[int, int] | tuple[int, int, int],
    version: int = 8,
    topic: str = "t",
    replica_id: int = -1,
    isolation_level: int = 0,
) -> dict[int, Answer]:
    """(partition, timestamp, current leader epoch) -> (error, timestamp, offset, leader epoch)."""
    partitions = [
        ListOffsetsPartition(each[0], timestamp=each[1], current_leader_epoch=(*each, -1)[2])
        for each in asked
    ]
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=partitions)],
    )
    reply = node.call(request, version)
    return {
        each.partition_index: (each.error_code, each.timestamp, each.offset, each.leader_epoch)
        for each in reply.topics[0].partitions
    }


@pytest.fixture
def empty(node: Node) -> Node:
    node.create("t", 2)
    return node


@pytest.fixture
def filled(empty: Node) -> Node:
    """20 records; the last batch's timestamps are not in order."""
    for first in (1000, 2000, 3000):
        empty.append("t", timestamps=tuple(range(first, first + 5)))
    empty.append("t", timestamps=(9000, 500, 2500, 9000, 1))
    return empty


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "since", "offset", "leader_epoch"),
    [
        (-1, 1, 0, 0),
        (-2, 1, 0, 0),
        (-3, 7, -1, -1),
        (-4, 8, 0, 0),
        (-5, 9, -1, -1),
        (-6, 11, -1, -1),
        (-7, 99, -1, -1),
        (0, 1, -1, -1),
        (5000, 1, -1, -1),
    ],
)
def test_an_empty_partition(
    empty: Node, version: int, timestamp: int, since: int, offset: int, leader_epoch: int
) -> None:
    answer = ask(empty, (0, timestamp), version=version)[0]
    if version < since:
        assert answer == UNSUPPORTED
    else:
        assert answer == (0, -1, offset, leader_epoch if version >= 4 else -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("timestamp", "found_timestamp", "offset"),
    [
        (-1, -1, 20),
        (-2, -1, 0),
        (0, 1000, 0),
        (1000, 1000, 0),
        (1001, 1001, 1),
        (1004, 1004, 4),
        (1005, 2000, 5),
        (3004, 3004, 14),
        (3005, 9000, 15),
        (9000, 9000, 15),
        (9001, -1, -1),
    ],
)
def test_list_offsets_finds_the_first_record_at_or_after_a_timestamp(
    filled: Node, version: int, timestamp: int, found_timestamp: int, offset: int
) -> None:
    leader_epoch = 0 if version >= 4 and offset >= 0 else -1
    answer = ask(filled, (0, timestamp), version=version)[0]
    assert answer == (0, found_timestamp, offset, leader_epoch)


def test_list_offsets_finds_the_largest_timestamp(filled: Node) -> None:
    assert ask(filled, (0, -3), version=7)[0] == (0, 9000, 15, 0)
    assert ask(filled, (0, -3), version=6)[0] == UNSUPPORTED


def test_list_offsets_finds_nothing_in_tiered_storage(filled: Node) -> None:
    assert ask(filled, (0, -4), version=8)[0] == (0, -1, 0, 0)
    assert ask(filled, (0, -5), version=9)[0] == NOT_FOUND
    assert ask(filled, (0, -6), version=11)[0] == NOT_FOUND


def test_list_offsets_skips_deleted_records(filled: Node) -> None:
    delete_records(filled.partition("t").log, 7, 20)
    for timestamp in (0, 1000, 2000, 2002):
        assert ask(filled, (0, timestamp))[0] == (0, 2002, 7, 0)
    assert ask(filled, (0, 2003))[0] == (0, 2003, 8, 0)
    assert ask(filled, (0, -2))[0] == ask(filled, (0, -4))[0] == (0, -1, 7, 0)
    delete_records(filled.partition("t").log, 20, 20)
    assert ask(filled, (0, 1000))[0] == NOT_FOUND
    assert ask(filled, (0, -2))[0] == ask(filled, (0, -1))[0] == (0, -1, 20, 0)


def test_list_offsets_returns_the_leader_epoch_of_the_record(empty: Node) -> None:
    empty.append("t", timestamps=(1000, 1001))
    empty.change_leader("t", 0, leader=1, leader_epoch=4)
    empty.append("t", timestamps=(2000, 2001))
    empty.change_leader("t", 0, leader=1, leader_epoch=6)
    assert ask(empty, (0, 1001))[0] == (0, 1001, 1, 0)
    assert ask(empty, (0, 1002))[0] == (0, 2000, 2, 4)
    assert ask(empty, (0, -3))[0] == (0, 2001, 3, 4)
    assert ask(empty, (0, -2))[0] == (0, -1, 0, 0)
    assert ask(empty, (0, -1))[0] == (0, -1, 4, 6)
    delete_records(empty.partition("t").log, 3, 4)
    assert ask(empty, (0, -2))[0] == (0, -1, 3, 4)


def test_wrong_current_leader_epoch_is_refused(filled: Node) -> None:
    filled.change_leader("t", 0, leader=1, leader_epoch=2)
    for timestamp in (-1, 1000):
        errors = [ask(filled, (0, timestamp, epoch))[0][0] for epoch in (-1, -2, 1, 2, 3)]
        fenced, unknown = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
        assert errors == [0, fenced, fenced, 0, unknown]


def test_list_offsets_refuses_unknown_partitions_and_timestamps(empty: Node) -> None:
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)
    assert ask(empty, (9, -1), (0, -1)) == {9: unknown, 0: (0, -1, 0, 0)}
    assert ask(empty, (0, -1), topic="nope") == {0: unknown}
    assert ask(empty, (0, -1), topic="") == {0: unknown}
    assert ask(empty, (9, -7)) == {9: UNSUPPORTED}
    assert ask(empty, (0, -7, 5)) == {0: UNSUPPORTED}


def test_list_offsets_of_a_repeated_partition_gives_invalid_request(empty: Node) -> None:
    invalid = (ErrorCode.INVALID_REQUEST, -1, -1, -1)
    assert ask(empty, (0, -1), (1, -1), (0, -2)) == {0: invalid, 1: (0, -1, 0, 0)}
    assert ask(empty, (9, -7), (9, -7)) == {9: invalid}


def test_list_offsets_answers_a_repeated_topic_once(empty: Node) -> None:
    def topic(name: str, *indexes: int) -> ListOffsetsTopic:
        partitions = [ListOffsetsPartition(index, timestamp=-1) for index in indexes]
        return ListOffsetsTopic(name=name, partitions=partitions)

    topics = [topic("t", 0), topic("nope", 0), topic("t", 1, 0), topic("u")]
    reply = empty.call(ListOffsetsRequest(replica_id=-1, topics=topics), 8)
    assert [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in reply.topics
    ] == [
        ("t", [(0, ErrorCode.INVALID_REQUEST), (1, 0)]),
        ("nope", [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]


def test_list_offsets_read_committed_ends_at_the_last_stable_offset(empty: Node) -> None:
    empty.append("t", timestamps=(1000, 1001))
    empty.append("t", timestamps=(2000, 2001), producer=(7, 0, 0), transactional=True)
    empty.append("t", timestamps=(3000,))

    def offsets(isolation_level: int, replica_id: int = -1) -> list[int]:
        asked = [(0, timestamp) for timestamp in (-1, -2, -3, 1001, 1002)]
        return [
            ask(empty, each, isolation_level=isolation_level, replica_id=replica_id)[0][2]
            for each in asked
        ]

    assert offsets(0) == [5, 0, 4, 1, 2]
    assert offsets(1) == [2, 0, -1, 1, -1]
    assert offsets(1, replica_id=-2) == [5, 0, 4, 1, 2]
    empty.end_transaction("t", 0, ControlType.COMMIT, 7, now_ms=1500)
    assert offsets(1) == [6, 0, 4, 1, 2]


def test_unknown_isolation_level_gives_unknown_server_error(empty: Node) -> None:
    failed = (ErrorCode.UNKNOWN_SERVER_ERROR, -1, -1, -1)
    assert ask(empty, (0, -1), (9, -1), isolation_level=9) == {0: failed, 9: failed}


def test_partition_led_by_another_broker_gives_not_leader_or_follower(empty: Node) -> None:
    empty.change_leader("t", 1, leader=2, leader_epoch=1)
    assert ask(empty, (1, -1)) == {1: (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)}


def test_list_offsets_of_the_debugging_replica_reads_a_followers_log_end(filled: Node) -> None:
    """tests/cli/test_cluster.py sends a follower of Apache Kafka the same request."""
    filled.change_leader("t", 0, leader=2, leader_epoch=1)
    assert ask(filled, (0, -1), replica_id=-2) == {0: (0, -1, 20, 1)}
    assert ask(filled, (0, -2), replica_id=-2) == {0: (0, -1, 0, 0)}
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)
    assert ask(filled, (9, -1), replica_id=-2) == {9: unknown}
    for replica_id in (-1, -3, 5):
        refused = (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
        assert ask(filled, (0, -1), replica_id=replica_id) == {0: refused}


def test_list_offsets_searches_log_append_time(node: Node) -> None:
    node.create("t", message_timestamp_type="LogAppendTime")
    node.append("t", timestamps=(1, 2, 3))
    assert ask(node, (0, -3))[0] == (0, 10_000, 0, 0)
    assert ask(node, (0, 4))[0] == (0, 10_000, 0, 0)
    assert ask(node, (0, 10_001))[0] == NOT_FOUND
