"""Metadata and related requests; expected answers are those of Apache Kafka 4.3.1."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.metadata.changes import AddPartitions
from kwire.cluster.metadata.image import BrokerImage, Endpoint
from kwire.cluster.metadata.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.codecs.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.codecs.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kwire.codecs.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kwire.codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.codecs.primitives import ZERO_UUID
from kwire.requests.handlers.metadata import HIDDEN_MAX
from tests.cluster.decisions.client import TOPIC, AdminClient, new_topic
from tests.cluster.decisions.conftest import OpenAdmin
from tests.inside import RawClient

NOT_ASKED = -(2**31)
ALL_TOPIC_OPERATIONS = 3576
ALL_CLUSTER_OPERATIONS = 8096


async def ask(
    admin: AdminClient, topics: list[MetadataRequestTopic] | None, version: int, **fields: bool
) -> MetadataResponse:
    return await admin.ask(MetadataRequest(topics, **fields), version, MetadataResponse)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def outcomes(response: MetadataResponse) -> list[tuple[str | None, ErrorCode]]:
    return [(topic.name, ErrorCode(topic.error_code)) for topic in response.topics]


@pytest.mark.parametrize("version", range(14))
async def test_metadata_returns_named_topics_at_every_version(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin({"broker.rack": "r1"}) as admin:
        await admin.make("a", partitions=2)
        response = await ask(admin, named("a"), version)
        (broker,) = response.brokers
        assert (broker.node_id, broker.host) == (1, "127.0.0.1")
        assert broker.port == admin.broker.config.listeners[0].port
        assert broker.rack == ("r1" if version >= 1 else None)
        assert response.controller_id == (1 if version >= 1 else -1)
        assert response.cluster_id == (admin.broker.image.cluster_id if version >= 2 else None)
        (topic,) = response.topics
        assert (topic.name, topic.error_code, topic.is_internal) == ("a", 0, False)
        known = admin.broker.image.topics["a"]
        assert topic.topic_id == (known.id if version >= 10 else ZERO_UUID)
        assert topic.topic_authorized_operations == NOT_ASKED
        assert response.cluster_authorized_operations == NOT_ASKED
        for index, partition in enumerate(topic.partitions):
            assert (partition.partition_index, partition.error_code) == (index, 0)
            assert partition.leader_epoch == (0 if version >= 7 else -1)
            assert (partition.leader_id, partition.replica_nodes) == (1, [1])
            assert (partition.isr_nodes, partition.offline_replicas) == ([1], [])
        assert len(topic.partitions) == 2


@pytest.mark.parametrize("version", range(14))
async def test_metadata_returns_all_topics_without_names(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b")
        everything: list[MetadataRequestTopic] | None = None if version else []
        assert outcomes(await ask(admin, everything, version)) == [("a", 0), ("b", 0)]
        if version:
            assert outcomes(await ask(admin, [], version)) == []


async def test_metadata_returns_existing_topics_first_and_once(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b")
        asked = named("nope", "b", "bad name", "a", "b", "", "nope")
        response = await ask(admin, asked, 12, allow_auto_topic_creation=False)
        assert outcomes(response) == [
            ("b", ErrorCode.NONE),
            ("a", ErrorCode.NONE),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]


async def test_metadata_returns_topics_by_id(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b")
        topic_id = admin.broker.image.topics["a"].id
        by_id = MetadataRequestTopic(topic_id, None)
        unknown = MetadataRequestTopic(b"x" * 16, None)
        for version in (12, 13):
            assert outcomes(await ask(admin, [by_id], version)) == [("a", 0)]
            assert outcomes(await ask(admin, [by_id, unknown, by_id], version)) == [
                (None, ErrorCode.UNKNOWN_TOPIC_ID),
                ("a", ErrorCode.NONE),
            ]
            # One id makes it a list of ids: the names beside it are not looked at.
            assert outcomes(await ask(admin, [by_id, *named("b")], version)) == [("a", 0)]
            wrong_name = MetadataRequestTopic(topic_id, "b")
            assert outcomes(await ask(admin, [wrong_name], version)) == [("a", 0)]


@pytest.mark.parametrize("version", [10, 11])
async def test_topic_ids_before_version_12_fail_the_request(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        topic_id = admin.broker.image.topics["a"].id
        for name, answered_name in ((None, ""), ("a", "a")):
            response = await ask(admin, [MetadataRequestTopic(topic_id, name)], version)
            assert outcomes(response) == [(answered_name, ErrorCode.INVALID_REQUEST)]
            assert response.topics[0].topic_id == topic_id
            assert (response.brokers, response.cluster_id) == ([], None)


async def test_topic_without_name_and_id_fails_the_request(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        response = await ask(admin, [MetadataRequestTopic(ZERO_UUID, None)], 13)
        assert outcomes(response) == [("", ErrorCode.UNKNOWN_SERVER_ERROR)]
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", range(14))
async def test_metadata_creates_unknown_topics(open_admin: OpenAdmin, version: int) -> None:
    async with open_admin({"num.partitions": "3"}) as admin:
        unknown = [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        if version >= 4:
            response = await ask(admin, named("new"), version, allow_auto_topic_creation=False)
            assert outcomes(response) == unknown
            assert await admin.names() == set()
        assert outcomes(await ask(admin, named("new"), version)) == unknown
        (topic,) = (await ask(admin, named("new"), version)).topics
        assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 3)


async def joined(admin: AdminClient) -> None:
    """Join a group; the answer does not matter."""
    request = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", [])
    await admin.ask(request, 5, JoinGroupResponse)


async def test_group_member_sees_a_topic_it_created_after_a_delay(
    open_admin: OpenAdmin, still_clock: trio.testing.MockClock
) -> None:
    """kafka-go's group reader hangs if the topic appears between its first two requests."""
    unknown = [("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    async with open_admin() as admin:
        other = AdminClient(admin.broker, await RawClient.connect(admin.broker))
        await joined(admin)
        assert outcomes(await ask(admin, named("new"), 12)) == unknown
        assert outcomes(await ask(other, named("new"), 12)) == [("new", ErrorCode.NONE)]
        still_clock.jump(0.499)
        assert outcomes(await ask(admin, named("new"), 12)) == unknown
        never = await ask(admin, named("new"), 12, allow_auto_topic_creation=False)
        assert outcomes(never) == unknown
        assert await admin.names() == {"new"}
        still_clock.jump(0.002)
        assert outcomes(await ask(admin, named("new"), 12)) == [("new", ErrorCode.NONE)]


async def test_metadata_recreates_a_deleted_topic_only_if_allowed(open_admin: OpenAdmin) -> None:
    """The answer is unknown topic, but a request that allows it creates the topic, as in Kafka."""
    async with open_admin() as admin:
        for name, allowed in (("kept", True), ("gone", False)):
            await admin.make(name)
            gone = DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
            await admin.ask(gone, 5, DeleteTopicsResponse)
            response = await ask(admin, named(name), 12, allow_auto_topic_creation=allowed)
            assert outcomes(response) == [(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert await admin.names() == {"kept"}
        await admin.make("gone")
        assert outcomes(await ask(admin, named("gone"), 12)) == [("gone", ErrorCode.NONE)]


async def test_delay_of_created_topics_is_limited_in_number(
    open_admin: OpenAdmin, still_clock: trio.testing.MockClock
) -> None:
    async with open_admin() as admin:
        await joined(admin)
        wanted = named(*(f"t{number}" for number in range(HIDDEN_MAX + 5)))
        await ask(admin, wanted, 12)
        errors = [error for _, error in outcomes(await ask(admin, wanted, 12))]
        assert errors.count(ErrorCode.NONE) == 5


async def test_metadata_creates_no_topics_if_auto_creation_is_off(open_admin: OpenAdmin) -> None:
    async with open_admin({"auto.create.topics.enable": "false"}) as admin:
        await ask(admin, named("new"), 12)
        assert await admin.names() == set()
        await admin.alter(4, "", ("auto.create.topics.enable", 0, "true"))
        assert admin.broker.config.auto_create_topics_enable is False, "it is read-only"


async def test_metadata_creates_only_topics_with_legal_names(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a.b")
        await ask(admin, named("a_b", "bad name", "c", "__cluster_metadata"), 12)
        assert await admin.names() == {"a.b", "c"}


async def test_internal_topics_are_created_with_their_coordinators_settings(
    open_admin: OpenAdmin,
) -> None:
    settings = {"offsets.topic.num.partitions": "7", "transaction.state.log.num.partitions": "2"}
    async with open_admin(settings) as admin:
        await ask(admin, named(GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC), 12)
        offsets, transactions = (
            await ask(admin, named(GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC), 12)
        ).topics
        assert (offsets.is_internal, len(offsets.partitions)) == (True, 7)
        assert offsets.partitions[0].replica_nodes == [1], "3 by default, but there is one broker"
        assert (transactions.is_internal, len(transactions.partitions)) == (True, 2)
        described = await admin.describe(TOPIC, GROUP_METADATA_TOPIC)
        own = {each.name: each.value for each in described.configs if each.config_source == 1}
        assert own == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }


async def test_explicit_replication_factor_of_an_internal_topic_is_not_reduced(
    open_admin: OpenAdmin,
) -> None:
    async with open_admin({"offsets.topic.replication.factor": "3"}) as admin:
        await ask(admin, named(GROUP_METADATA_TOPIC), 12)
        await create_internal_topic(admin.broker.membership, GROUP_METADATA_TOPIC)
        assert await admin.names() == set()


async def test_authorized_operations_are_returned_only_on_request(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        for version in (8, 10, 13):
            cluster = {"include_cluster_authorized_operations": True} if version <= 10 else {}
            response = await ask(
                admin,
                named("a", "nope"),
                version,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=True,
                **cluster,
            )
            operations = [topic.topic_authorized_operations for topic in response.topics]
            assert operations == [ALL_TOPIC_OPERATIONS] * 2
            expected = ALL_CLUSTER_OPERATIONS if cluster else NOT_ASKED
            assert response.cluster_authorized_operations == expected
        plain = await ask(admin, named("a"), 13)
        assert plain.topics[0].topic_authorized_operations == NOT_ASKED


async def test_unreachable_leaders_are_reported_by_version(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("gone", "elsewhere")
        image = admin.broker.image
        other = BrokerImage(8, (Endpoint("INTERNAL", "10.0.0.8", 9092),))
        for name, leader in (("gone", 9), ("elsewhere", 8)):
            topic = image.topics[name]
            moved = replace(topic.partitions[0], leader=leader, replicas=(leader,), isr=(leader,))
            image = image.with_topics([replace(topic, partitions=(moved,))])
        admin.broker.metadata.image = image.with_broker(
            other
        )  # as a controller elsewhere would have it
        for version, not_found in (
            (5, ErrorCode.LEADER_NOT_AVAILABLE),
            (6, ErrorCode.LISTENER_NOT_FOUND),
        ):
            response = await ask(admin, named("gone", "elsewhere"), version)
            gone, elsewhere = (topic.partitions[0] for topic in response.topics)
            assert (gone.error_code, gone.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
            assert gone.offline_replicas == [9]
            assert (elsewhere.error_code, elsewhere.leader_id) == (not_found, -1)
            assert elsewhere.offline_replicas == []
            assert [broker.node_id for broker in response.brokers] == [1]


async def test_metadata_response_follows_every_change(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        assert len((await admin.metadata("a")).topics[0].partitions) == 1
        topic = admin.broker.image.topics["a"]
        grown = AddPartitions("a", topic.id, 1, topic.partitions * 2)
        await admin.broker.membership.commit([lambda image: grown])
        assert len((await admin.metadata("a")).topics[0].partitions) == 3


async def test_metadata_returns_the_addresses_of_the_clients_listener(
    open_admin: OpenAdmin,
) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "advertised.listeners": "INSIDE://broker:9092,OUTSIDE://example.org:19092",
        "inter.broker.listener.name": "INSIDE",
    }
    async with open_admin(settings) as admin:
        (broker,) = (await admin.metadata()).brokers
        assert (broker.host, broker.port) == ("broker", 9092)
        port = admin.broker.config.listeners[1].port
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        outside = AdminClient(admin.broker, type(admin._client)(stream))
        (broker,) = (await outside.metadata()).brokers
        assert (broker.host, broker.port) == ("example.org", 19092)
        await stream.aclose()


# -- DescribeCluster


@pytest.mark.parametrize("version", range(3))
async def test_describe_cluster_returns_the_brokers(open_admin: OpenAdmin, version: int) -> None:
    async with open_admin({"broker.rack": "r1"}) as admin:
        for asked, operations in ((True, ALL_CLUSTER_OPERATIONS), (False, NOT_ASKED)):
            response = await admin.ask(
                DescribeClusterRequest(asked), version, DescribeClusterResponse
            )
            assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
            assert (response.cluster_id, response.controller_id) == (
                admin.broker.image.cluster_id,
                1,
            )
            assert response.cluster_authorized_operations == operations
            (broker,) = response.brokers
            assert (broker.broker_id, broker.host, broker.rack) == (1, "127.0.0.1", "r1")


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 0"),
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER",
        ),
        (-1, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type -1"),
    ],
)
async def test_describe_cluster_refuses_controller_endpoints(
    open_admin: OpenAdmin, kind: int, error: ErrorCode, message: str
) -> None:
    async with open_admin() as admin:
        request = DescribeClusterRequest(endpoint_type=kind)
        response = await admin.ask(request, 1, DescribeClusterResponse)
        assert (response.error_code, response.error_message) == (error, message)
        assert (response.cluster_id, response.brokers) == ("", [])


# -- DescribeTopicPartitions


async def partitions(
    admin: AdminClient, names: list[str], limit: int = 2000, cursor: Cursor | None = None
) -> tuple[list[tuple[str | None, ErrorCode, list[int]]], tuple[str, int] | None]:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
    response = await admin.ask(request, 0, DescribeTopicPartitionsResponse)
    next_cursor = response.next_cursor
    return (
        [
            (topic.name, ErrorCode(topic.error_code), [p.partition_index for p in topic.partitions])
            for topic in response.topics
        ],
        None if next_cursor is None else (next_cursor.topic_name, next_cursor.partition_index),
    )


async def test_describe_topic_partitions_returns_pages(open_admin: OpenAdmin) -> None:
    ok, four = ErrorCode.NONE, [0, 1, 2, 3]
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
    async with open_admin({"max.request.partition.size.limit": "7"}) as admin:
        await admin.make("p1", "p2", "p3", partitions=4)
        for names, limit, cursor, topics, next_cursor in (
            (["p3", "p1", "p3"], 8, None, [("p1", ok, four), ("p3", ok, [0, 1, 2])], ("p3", 3)),
            (["p1", "p2"], 6, None, [("p1", ok, four), ("p2", ok, [0, 1])], ("p2", 2)),
            (["p1", "p2"], 4, None, [("p1", ok, four)], ("p2", 0)),
            (["p1"], 0, None, [("p1", ok, [0])], ("p1", 1)),
            (["p1"], -1, None, [("p1", ok, [0])], ("p1", 1)),
            ([], 99, Cursor("p2", 2), [("p2", ok, [2, 3]), ("p3", ok, four)], None),
            ([], 99, Cursor("p15", 2), [("p2", ok, four), ("p3", ok, [0, 1, 2])], ("p3", 3)),
            (["p1", "p2"], 99, Cursor("p2", 9), [("p2", ok, [])], None),
            (["p1", "p2"], 9, Cursor("p3", 0), [("p1", invalid, []), ("p2", invalid, [])], None),
            (["p1"], 9, Cursor("p1", -1), [("p1", invalid, [])], None),
            (["zz", "aa", "p3"], 2, None,
             [("aa", unknown, []), ("p3", ok, [0, 1])], ("p3", 2)),
            (["bad name"], 2, None,
             [("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION, [])], None),
            (["p1", ""], 2, None,
             [("p1", ErrorCode.UNKNOWN_SERVER_ERROR, []),
              ("", ErrorCode.UNKNOWN_SERVER_ERROR, [])], None),
        ):  # fmt: skip
            assert await partitions(admin, names, limit, cursor) == (topics, next_cursor)


async def test_all_pages_together_have_every_partition_once(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b", "c", partitions=5)
        cursor, found, pages = None, [], 0
        while True:
            topics, next_cursor = await partitions(admin, [], 4, cursor)
            found += [(name, index) for name, _, indexes in topics for index in indexes]
            pages += 1
            if next_cursor is None:
                break
            cursor = Cursor(*next_cursor)
        assert found == [(name, index) for name in "abc" for index in range(5)]
        assert pages == 4


# -- DescribeLogDirs


@pytest.mark.parametrize("version", range(1, 6))
async def test_describe_log_dirs_returns_sizes_at_every_version(
    open_admin: OpenAdmin, version: int
) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b", partitions=2)

        async def describe(
            topics: list[DescribableLogDirTopic] | None,
        ) -> list[tuple[str, list[int]]]:
            request = DescribeLogDirsRequest(topics)
            response = await admin.ask(request, version, DescribeLogDirsResponse)
            (result,) = response.results
            assert (response.error_code, result.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
            assert result.log_dir == str(admin.broker.logs.online_dirs[0].path)
            if version >= 4:
                volume = os.statvfs(result.log_dir)
                assert result.total_bytes == volume.f_blocks * volume.f_frsize
                assert 0 < result.usable_bytes <= result.total_bytes
            else:
                assert (result.total_bytes, result.usable_bytes) == (-1, -1)
            sizes = {(p.partition_size, p.offset_lag) for t in result.topics for p in t.partitions}
            assert sizes <= {(0, 0)}
            return sorted(
                (topic.name, sorted(each.partition_index for each in topic.partitions))
                for topic in result.topics
            )

        assert await describe(None) == [("a", [0, 1]), ("b", [0, 1])]
        assert await describe([]) == []
        asked = [DescribableLogDirTopic("a", [1, 1, 9]), DescribableLogDirTopic("nope", [0])]
        assert await describe(asked) == [("a", [1])]


async def test_describe_log_dirs_reports_a_failed_directory(
    open_admin: OpenAdmin, tmp_path: Path
) -> None:
    async with open_admin({"log.dirs": f"{tmp_path / 'first'},{tmp_path / 'other'}"}) as admin:
        await admin.create(new_topic("a", 2))
        directory = admin.broker.logs.online_dirs[1]
        admin.broker.logs.dirs.dir_failed(directory, OSError(5, "Input/output error"))
        response = await admin.ask(DescribeLogDirsRequest(None), 5, DescribeLogDirsResponse)
        (result,) = (each for each in response.results if each.log_dir == str(directory.path))
        assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)
