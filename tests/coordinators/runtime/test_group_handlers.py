"""The request handlers of groups, compared with answers of Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cluster.metadata.changes import RegisterBroker
from kwire.cluster.metadata.image import BrokerImage, Endpoint
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_groups import DeleteGroupsRequest
from kwire.codecs.messages.describe_groups import DescribeGroupsRequest
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.codecs.messages.list_groups import ListGroupsRequest
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.codecs.messages.sync_group import SyncGroupRequest
from tests.requests.handlers.node import NODE_ID, Node

AnyMessage = Any
"""A request or response of any kind."""

BAD_ID = b"\1" * 16
OTHER_BAD_ID = b"\2" * 16
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
GROUP_OPERATIONS = 3400
"""What Kafka says anyone may do with a group where there is no authorizer."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.broker.coordinators.groups.partitions = 1
    listening = BrokerImage(NODE_ID, (Endpoint("PLAINTEXT", "here", 9092),))
    node.show(RegisterBroker(listening))
    trio.run(_create, node, "__consumer_offsets")
    node.create("t", 2)
    yield node
    node.close()


async def _create(node: Node, topic: str) -> None:
    """Taking up a coordinator sets its timers, which needs the loop's clock."""
    node.create(topic, cleanup_policy="compact")


def call(node: Node, request: AnyMessage, version: int) -> AnyMessage:
    async def within() -> AnyMessage:
        return node.call(request, version)

    return trio.run(within)


def commit(*topics: tuple[str | bytes, list[int]], **fields: AnyMessage) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=fields.pop("group_id", "G"),
        topics=[
            OffsetCommitRequestTopic(
                name=place if isinstance(place, str) else "",
                topic_id=place if isinstance(place, bytes) else bytes(16),
                partitions=[OffsetCommitRequestPartition(index, 10 + index) for index in indexes],
            )
            for place, indexes in topics
        ],
        **fields,
    )


def errors(response: AnyMessage) -> list[tuple[str | bytes, list[tuple[int, str]]]]:
    return [
        (
            getattr(topic, "name", "") or topic.topic_id,
            [(p.partition_index, ErrorCode(p.error_code).name) for p in topic.partitions],
        )
        for topic in response.topics
    ]


# -- OffsetCommit


def test_offset_commit_by_topic_id_answers_missing_topics_first(node: Node) -> None:
    topic_id = node.broker.image.topics["t"].id
    reply = call(node, commit((topic_id, [0, 9, -1]), (BAD_ID, [0, 1])), 10)
    assert errors(reply) == [
        (topic_id, [(9, UNKNOWN.name), (-1, UNKNOWN.name), (0, "NONE")]),
        (BAD_ID, [(0, "UNKNOWN_TOPIC_ID"), (1, "UNKNOWN_TOPIC_ID")]),
    ]


def test_offset_commit_of_missing_topics_does_not_reach_the_group(node: Node) -> None:
    request = commit((BAD_ID, [0]), (OTHER_BAD_ID, [0]), generation_id_or_member_epoch=4)
    assert errors(call(node, request, 10)) == [
        (BAD_ID, [(0, "UNKNOWN_TOPIC_ID")]),
        (OTHER_BAD_ID, [(0, "UNKNOWN_TOPIC_ID")]),
    ]
    assert call(node, DescribeGroupsRequest(["G"]), 6).groups[0].error_code


def test_offset_commit_keeps_topic_errors_if_the_group_has_an_error(node: Node) -> None:
    request = commit(("t", [0, 9]), generation_id_or_member_epoch=4)
    assert errors(call(node, request, 9)) == [("t", [(9, UNKNOWN.name), (0, "GROUP_ID_NOT_FOUND")])]


def test_offset_commit_without_partitions_creates_no_group(node: Node) -> None:
    assert call(node, commit(), 9).topics == []
    assert call(node, commit(("t", [])), 9).topics == []
    assert call(node, DescribeGroupsRequest(["G"]), 6).groups[0].error_code


@pytest.mark.parametrize("version", range(2, 10))
def test_offset_commit_by_name_accepts_the_empty_group_id(node: Node, version: int) -> None:
    request = commit(("t", [0]), ("nope", [1]), group_id="")
    assert errors(call(node, request, version)) == [
        ("nope", [(1, UNKNOWN.name)]),
        ("t", [(0, "NONE")]),
    ]


# -- OffsetFetch


def fetched(response: AnyMessage) -> list[tuple[str, list[tuple[int, int, str]]]]:
    return [
        (
            topic.name,
            [
                (p.partition_index, p.committed_offset, ErrorCode(p.error_code).name)
                for p in topic.partitions
            ],
        )
        for topic in response.topics
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_returns_minus_one_for_uncommitted_partitions(
    node: Node, version: int
) -> None:
    call(node, commit(("t", [0, 1])), 9)
    topics = [OffsetFetchRequestTopic("t", [0, 9]), OffsetFetchRequestTopic("nope", [0])]
    reply = call(node, OffsetFetchRequest(group_id="G", topics=topics), version)
    assert fetched(reply) == [
        ("t", [(0, 10, "NONE"), (9, -1, "NONE")]),
        ("nope", [(0, -1, "NONE")]),
    ]
    if version >= 2:
        reply = call(node, OffsetFetchRequest(group_id="G", topics=None), version)
        assert fetched(reply) == [("t", [(0, 10, "NONE"), (1, 11, "NONE")])]


def test_offset_fetch_returns_the_error_of_the_group(node: Node) -> None:
    node.broker.coordinators.groups.resign(0)
    topics = [OffsetFetchRequestTopic("t", [0, 1])]
    failed = [("t", [(0, -1, "NOT_COORDINATOR"), (1, -1, "NOT_COORDINATOR")])]
    request = OffsetFetchRequest(group_id="G", topics=topics)
    assert fetched(call(node, request, 1)) == failed
    reply = call(node, request, 2)
    assert (reply.error_code, reply.topics) == (ErrorCode.NOT_COORDINATOR, [])
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("G", topics=None)])
    assert call(node, several, 8).groups[0].error_code == ErrorCode.NOT_COORDINATOR


def test_offset_fetch_by_topic_id_returns_offsets_by_id(node: Node) -> None:
    node.create("gone")
    call(node, commit(("t", [0]), ("gone", [0])), 9)
    topic_id = node.broker.image.topics["t"].id
    asked = [
        OffsetFetchRequestTopics(topic_id=BAD_ID, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0, 1]),
    ]
    groups = [OffsetFetchRequestGroup("G", topics=asked), OffsetFetchRequestGroup("G", topics=None)]
    image = node.broker.image
    node.broker.metadata.image = image.without_topics(["gone"])  # the offset outlives it a moment
    named, everything = call(node, OffsetFetchRequest(groups=groups), 10).groups
    assert [
        (t.topic_id, [(p.committed_offset, p.error_code) for p in t.partitions])
        for t in named.topics
    ] == [(topic_id, [(10, 0), (-1, 0)]), (BAD_ID, [(-1, ErrorCode.UNKNOWN_TOPIC_ID)])]
    assert [t.topic_id for t in everything.topics] == [topic_id]


# -- OffsetDelete


def delete(*topics: tuple[str, list[int]], group_id: str = "G") -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(i) for i in indexes])
            for name, indexes in topics
        ],
    )


def test_offset_delete_answers_each_partition(node: Node) -> None:
    call(node, commit(("t", [0, 1])), 9)
    reply = call(node, delete(("t", [0, 7]), ("nope", [0])), 0)
    assert errors(reply) == [
        ("t", [(7, UNKNOWN.name), (0, "NONE")]),
        ("nope", [(0, UNKNOWN.name)]),
    ]
    reply = call(node, delete(("t", [0]), ("nope", [0]), group_id="no group"), 0)
    assert (reply.error_code, reply.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    reply = call(node, delete(("t", [0]), group_id=""), 0)
    assert (reply.error_code, reply.topics) == (ErrorCode.INVALID_GROUP_ID, [])


# -- groups


def test_describe_groups_includes_authorized_operations_if_requested(node: Node) -> None:
    call(node, commit(("t", [0])), 9)
    request = DescribeGroupsRequest(["G", "none"], include_authorized_operations=True)
    described, missing = call(node, request, 6).groups
    assert (described.group_id, missing.group_id) == ("G", "none")
    assert described.authorized_operations == GROUP_OPERATIONS
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert missing.error_message == "Group none not found."
    assert missing.authorized_operations == -(1 << 31)
    described, missing = call(node, request, 5).groups
    assert (missing.error_code, missing.group_state) == (ErrorCode.NONE, "Dead")
    assert missing.authorized_operations == GROUP_OPERATIONS


def test_delete_groups_answers_a_repeated_group_once(node: Node) -> None:
    call(node, commit(("t", [0])), 9)
    reply = call(node, DeleteGroupsRequest(["G", "none", "G"]), 2)
    assert [(r.group_id, r.error_code) for r in reply.results] == [
        ("G", ErrorCode.NONE),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def test_list_groups_filters_by_state_and_type_in_any_case(node: Node) -> None:
    call(node, commit(("t", [0])), 9)
    for request, count in [
        (ListGroupsRequest(), 1),
        (ListGroupsRequest(states_filter=[" EMPTY "]), 1),
        (ListGroupsRequest(states_filter=["nonsense", ""]), 0),
        (ListGroupsRequest(types_filter=["share"]), 0),
        (ListGroupsRequest(types_filter=["share", "CLASSIC"]), 1),
    ]:
        assert len(call(node, request, 5).groups) == count


@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_join_error_has_the_null_or_empty_protocol_of_its_version(
    node: Node, version: int, name: str | None
) -> None:
    reply = call(node, JoinGroupRequest(group_id="", session_timeout_ms=10_000), version)
    assert (reply.error_code, reply.protocol_name) == (ErrorCode.INVALID_GROUP_ID, name)


def test_log_has_the_reason_of_a_join(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """KIP-800."""
    caplog.set_level("INFO")
    join = JoinGroupRequest(
        "G", 10_000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("range", b"")]
    )
    join.member_id = call(node, join, 9).member_id
    join.reason = "need to revoke partitions"

    async def ask() -> None:
        with trio.move_on_after(0):
            await node.start(join, 9)

    trio.run(ask)
    assert f"member {join.member_id} joins (need to revoke partitions)" in caplog.text


def test_id_of_a_static_member_begins_with_its_instance_id(node: Node) -> None:
    """Any other's with its client's; so operators know whose it is."""

    async def ask(instance: str | None) -> str:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        join = JoinGroupRequest("G", 10_000, protocol_type="consumer", protocols=protocols)
        join.group_instance_id = instance
        with trio.move_on_after(0):
            await node.start(join, 3 if instance is None else 9)
        (described,) = node.call(DescribeGroupsRequest(["G"]), 5).groups
        return str(described.members[-1].member_id)

    assert trio.run(ask, "an-instance").startswith("an-instance-")
    assert trio.run(ask, None).startswith("-")


def test_invalid_join_returns_the_member_id_of_the_request(node: Node) -> None:
    for request, error in [
        (JoinGroupRequest("", 10_000, member_id="me"), ErrorCode.INVALID_GROUP_ID),
        (JoinGroupRequest("G", 1, member_id="me"), ErrorCode.INVALID_SESSION_TIMEOUT),
    ]:
        reply = call(node, request, 9)
        assert (reply.error_code, reply.member_id) == (error, "me")


@pytest.mark.parametrize(("kind", "name"), [(None, "range"), ("consumer", None)])
def test_sync_group_without_protocol_is_inconsistent(
    node: Node, kind: str | None, name: str | None
) -> None:
    request = SyncGroupRequest(group_id="G", protocol_type=kind, protocol_name=name)
    reply = call(node, request, 5)
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert reply.assignment == b""


def test_leave_of_a_missing_group_answers_each_member(node: Node) -> None:
    reply = call(node, LeaveGroupRequest(group_id="none", members=[]), 3)
    assert (reply.error_code, reply.members) == (ErrorCode.NONE, [])
    reply = call(node, LeaveGroupRequest(group_id="none", members=[MemberIdentity("x", "i")]), 3)
    (answer,) = reply.members
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (answer.member_id, answer.group_instance_id) == ("x", "i")
    reply = call(node, LeaveGroupRequest(group_id="none", member_id="x"), 2)
    assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- FindCoordinator

HERE = (NODE_ID, "here", 9092)
NOWHERE = (-1, "", -1)
MALFORMED = "This most likely occurs because of a request being malformed"


@pytest.mark.parametrize("version", range(4))
def test_find_coordinator_returns_the_leader_for_one_key(node: Node, version: int) -> None:
    for key in ("G", ""):
        found = call(node, FindCoordinatorRequest(key=key), version)
        assert (found.node_id, found.host, found.port) == HERE
        assert (found.error_code, found.error_message) == (0, "NONE" if version else "")


@pytest.mark.parametrize("kind", [2, 9, -1])
def test_find_coordinator_refuses_an_unknown_key_type(node: Node, kind: int) -> None:
    found = call(node, FindCoordinatorRequest(key="G", key_type=kind), 3)
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message.startswith(MALFORMED)
    assert (found.node_id, found.host, found.port) == NOWHERE


def test_find_coordinator_answers_several_keys(node: Node) -> None:
    found = call(node, FindCoordinatorRequest(coordinator_keys=["G", "", "G"]), 4).coordinators
    assert [c.key for c in found] == ["G", "", "G"]
    assert {(c.node_id, c.host, c.port) for c in found} == {HERE}
    assert {c.error_message for c in found} == {""}
    assert call(node, FindCoordinatorRequest(), 4).coordinators == []
    (unknown,) = call(
        node, FindCoordinatorRequest(coordinator_keys=["G"], key_type=7), 4
    ).coordinators
    assert unknown.error_code == ErrorCode.INVALID_REQUEST
    assert unknown.error_message.startswith(MALFORMED)


@pytest.mark.parametrize(
    ("version", "key"),
    [
        (5, "G:AAAAAAAAAAAAAAAAAAAAAA:0"),
        (6, "G"),
        (6, "G:short:0"),
        (6, "G:AAAAAAAAAAAAAAAAAAAAAA:x"),
    ],
)
def test_find_coordinator_refuses_wrong_keys_of_share_partitions(
    node: Node, version: int, key: str
) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[key], key_type=2)
    (found,) = call(node, request, version).coordinators
    assert (found.error_code, found.error_message) == (ErrorCode.INVALID_REQUEST, "")
    assert "__share_group_state" not in node.broker.image.topics


def test_find_coordinator_of_a_transaction_creates_no_group(node: Node) -> None:
    trio.run(_create, node, "__transaction_state")
    found = call(node, FindCoordinatorRequest(key="tx", key_type=1), 3)
    assert found.error_code == ErrorCode.NONE
    assert call(node, ListGroupsRequest(), 5).groups == []


def test_find_coordinator_is_not_available_if_the_leader_lacks_the_listener(node: Node) -> None:
    elsewhere = BrokerImage(NODE_ID, (Endpoint("OTHER", "here", 9092),))
    node.show(RegisterBroker(elsewhere))
    found = call(node, FindCoordinatorRequest(key="G"), 3)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
