"""Requests about the quorum of controllers: DescribeQuorum, voters, brokers and controllers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.cluster.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    FinalizedFeatures,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kwire.codecs.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.codecs.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.codecs.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from kwire.codecs.messages.unregister_controller import UnregisterControllerRequest
from kwire.codecs.primitives import ZERO_UUID, Message
from kwire.requests.context import CloseConnection
from tests.inside import RawClient, running_broker
from tests.requests.handlers.node import NODE_ID, Node

DIRECTORY = bytes(range(16))
HERE = Listener("CONTROLLER", "localhost", 9093)


def about(*topics: tuple[str, list[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        [
            RequestTopicData(name, [RequestPartitionData(index) for index in indexes])
            for name, indexes in topics
        ]
    )


METADATA = about(("__cluster_metadata", [0]))


async def described(node: Node, version: int = 2) -> ResponsePartitionData:
    response: DescribeQuorumResponse
    response, _ = await node.wait_for(METADATA, version)
    assert response.error_code == ErrorCode.NONE
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert partition.error_code == ErrorCode.NONE
    return partition


async def test_broker_alone_is_the_one_voter_and_leads(node: Node) -> None:
    node.broker.node.now_ms = lambda: 12_345
    await node.store.register(node.broker.node.registration)
    partition = await described(node)
    (voter,) = partition.current_voters
    assert partition.leader_id == voter.replica_id == NODE_ID
    assert partition.leader_epoch == 1
    assert voter.log_end_offset == partition.high_watermark == 1
    assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == 12_345
    assert voter.replica_directory_id == ZERO_UUID
    assert partition.observers == []


async def test_quorum_names_the_addresses_of_the_voter(node: Node) -> None:
    image = node.broker.image.with_broker(node.broker.node.registration)
    node.broker.metadata.image = image
    response, _ = await node.wait_for(METADATA, 2)
    ((node_id, listeners),) = [(each.node_id, each.listeners) for each in response.nodes]
    assert node_id == NODE_ID
    assert [(each.name, each.host) for each in listeners] == [("PLAINTEXT", "localhost")]


@pytest.mark.parametrize("version", range(3))
async def test_other_partitions_are_unknown_together_with_the_metadata(
    node: Node, version: int
) -> None:
    for topics in (
        [("other", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0]), ("other", [0])],
        [("__cluster_metadata", [0]), ("__cluster_metadata", [0])],
    ):
        response, _ = await node.wait_for(about(*topics), version)
        assert response.error_code == ErrorCode.NONE
        found = [
            (topic.topic_name, each.partition_index, each.error_code, each.leader_id)
            for topic in response.topics
            for each in topic.partitions
        ]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found == [(name, index, unknown, 0) for name, all_ in topics for index in all_]
        assert response.nodes == []


def add(
    node: Node,
    cluster_id: str | None,
    voter_id: int = 9,
    directory_id: bytes = DIRECTORY,
    *listeners: Listener,
) -> tuple[ErrorCode, str]:
    request = AddRaftVoterRequest(cluster_id, 1000, voter_id, directory_id, list(listeners))
    response = node.call(request, 1)
    return ErrorCode(response.error_code), response.error_message


def test_no_voter_can_be_added_to_a_fixed_quorum(node: Node) -> None:
    error = ErrorCode.UNSUPPORTED_VERSION
    message = "Cluster doesn't support adding voter because the kraft.version feature is 0"
    for cluster_id in (None, "test-cluster"):
        assert add(node, cluster_id, 9, DIRECTORY, HERE) == (error, message)
    lower = Listener("controller", "localhost", 9093)
    assert add(node, None, 9, DIRECTORY, Listener("A"), lower) == (error, message)


def test_voter_of_another_cluster_is_refused_before_all_other_mistakes(node: Node) -> None:
    for cluster_id in ("other", ""):
        message = f'The given id "{cluster_id}" doesn\'t match the cluster id "test-cluster"'
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
        assert add(node, cluster_id, -1, ZERO_UUID) == (error, message)
        removal = RemoveRaftVoterRequest(cluster_id, -1, ZERO_UUID)
        response = node.call(removal, 0)
        assert (response.error_code, response.error_message) == (error, message)


@pytest.mark.parametrize(("voter_id", "directory_id"), [(-1, DIRECTORY), (9, ZERO_UUID)])
def test_voter_without_id_or_directory_is_invalid(
    node: Node, voter_id: int, directory_id: bytes
) -> None:
    error, message = add(node, None, voter_id, directory_id, HERE)
    assert error == ErrorCode.INVALID_REQUEST
    assert message == "Add voter request didn't include a valid voter"
    response = node.call(RemoveRaftVoterRequest(None, voter_id, directory_id), 0)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Remove voter request didn't include a valid voter"


def test_new_voter_needs_an_address_on_the_listener_of_controllers(
    make_node: Callable[..., Node],
) -> None:
    named = {
        "listeners": "PLAINTEXT://localhost:0,RAFT://localhost:1",
        "controller.listener.names": "RAFT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,RAFT:PLAINTEXT",
    }
    for settings, name in (({}, "CONTROLLER"), (named, "RAFT")):
        error, message = add(make_node(settings), None, 9, DIRECTORY, Listener("b", "h", 7))
        assert error == ErrorCode.INVALID_REQUEST
        assert message == (
            "Add voter request didn't include the endpoint (Endpoints(endpoints="
            "{ListenerName(B)=h/<unresolved>:7})) for the default listener "
            f"ListenerName({name})"
        )


def test_listener_without_a_name_is_refused_too(node: Node) -> None:
    """Apache Kafka 4.4.0 ends when it gets one."""
    assert add(node, None, 9, DIRECTORY, Listener(""))[0] == ErrorCode.INVALID_REQUEST


def test_no_voter_can_be_removed_from_a_fixed_quorum(node: Node) -> None:
    response = node.call(RemoveRaftVoterRequest(None, NODE_ID, DIRECTORY), 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.error_message == (
        "Cluster doesn't support removing voter because the kraft.version feature is 0"
    )


def test_voters_stay_the_same_at_kraft_version_1(node: Node) -> None:
    features = FinalizedFeatures({KRAFT_VERSION: 1}, epoch=1)
    node.broker.metadata.image = node.broker.image.with_features(features)
    error, message = add(node, None, 9, DIRECTORY, HERE)
    assert error == ErrorCode.UNSUPPORTED_VERSION
    assert message == "The quorum of this cluster has one voter, and cannot have others."
    response = node.call(RemoveRaftVoterRequest(None, 9, DIRECTORY), 0)
    assert response.error_code == ErrorCode.VOTER_NOT_FOUND
    assert response.error_message == (
        "Cannot remove voter ReplicaKey(id=9, directoryId=AAECAwQFBgcICQoLDA0ODw) from the set of "
        "voters [ReplicaKey(id=1, directoryId=AAAAAAAAAAAAAAAAAAAAAA)]"
    )


@pytest.mark.parametrize(
    ("level", "controller_id", "error"),
    [
        (32, NODE_ID, ErrorCode.INVALID_REQUEST),
        (32, 77, ErrorCode.UNSUPPORTED_VERSION),
        (33, NODE_ID, ErrorCode.INVALID_REQUEST),
        (33, 77, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
        (33, -1, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
    ],
)
def test_unregister_controller_finds_the_active_one_or_none(
    node: Node, level: int, controller_id: int, error: ErrorCode
) -> None:
    features = FinalizedFeatures({METADATA_VERSION: level}, epoch=1)
    node.broker.metadata.image = node.broker.image.with_features(features)
    response = node.call(UnregisterControllerRequest(controller_id), 0)
    assert response.error_code == error
    assert (
        response.error_message
        == {
            ErrorCode.INVALID_REQUEST: "Controller cannot unregister itself while it is active.",
            ErrorCode.UNSUPPORTED_VERSION: (
                "The current MetadataVersion is too old to support controller unregistration."
            ),
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED: (
                f"Controller ID {controller_id} is not currently registered."
            ),
        }[error]
    )


@pytest.mark.parametrize(
    "request_",
    [
        METADATA,
        UnregisterBrokerRequest(NODE_ID),
        AddRaftVoterRequest(None),
        RemoveRaftVoterRequest(None),
        UnregisterControllerRequest(77),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_quorum_requests_close_the_connection_on_zookeeper(
    make_node: Callable[..., Node], request_: Message
) -> None:
    node = make_node({"zookeeper.connect": "localhost:1"})
    reply = node.start(request_, 0) if request_.API_KEY in (55, 64) else None
    with pytest.raises(CloseConnection, match="is not served"):
        node.call(request_, 0) if reply is None else await reply


async def test_unknown_broker_cannot_be_unregistered(node: Node) -> None:
    await node.broker.membership.begin()  # type: ignore[attr-defined]  # of a broker alone
    for broker_id in (77, -1):
        response, _ = await node.wait_for(UnregisterBrokerRequest(broker_id), 0)
        assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert response.error_message == f"Broker ID {broker_id} is not currently registered"


async def quorum_of(client: RawClient) -> ResponsePartitionData:
    response = await client.ask(METADATA, 2, DescribeQuorumResponse)
    return response.topics[0].partitions[0]


async def test_epoch_and_offset_of_the_quorum_grow_with_each_start(tmp_path: Path) -> None:
    before = (0, 0)
    for start in range(3):
        async with running_broker(tmp_path) as broker:
            client = await RawClient.connect(broker)
            first = await quorum_of(client)
            await create(client, f"t{start}")
            second = await quorum_of(client)
        assert first.leader_epoch == second.leader_epoch == start + 1
        now = (first.high_watermark, second.high_watermark)
        assert before[1] < now[0] < now[1]
        before = now


async def create(client: RawClient, topic: str) -> tuple[int, str | None]:
    request = CreateTopicsRequest([CreatableTopic(topic, 1, 1)], timeout_ms=1000)
    response = await client.ask(request, 7, CreateTopicsResponse)
    (result,) = response.topics
    return result.error_code, result.error_message


async def leaders(client: RawClient) -> tuple[int, list[int], list[int]]:
    """The controller, the brokers, and the leader of each partition, as Metadata shows them."""
    shown = await client.ask(MetadataRequest(None), 12, MetadataResponse)
    led = [each.leader_id for topic in shown.topics for each in topic.partitions]
    return shown.controller_id, [each.node_id for each in shown.brokers], led


async def test_broker_alone_that_is_unregistered_leads_nothing_until_its_restart(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await create(client, "t")
        me = broker.node_id
        assert await leaders(client) == (me, [me], [me])
        request = UnregisterBrokerRequest(me)
        done = await client.ask(request, 0, UnregisterBrokerResponse)
        assert (done.error_code, done.error_message) == (ErrorCode.NONE, "")
        # Metadata names this broker even so: librdkafka could not ask anybody otherwise.
        assert await leaders(client) == (-1, [me], [-1])
        listed = await client.ask(DescribeClusterRequest(), 2, DescribeClusterResponse)
        assert (listed.controller_id, listed.brokers) == (-1, [])
        assert (await quorum_of(client)).leader_id == me
        again = await client.ask(request, 0, UnregisterBrokerResponse)
        assert again.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        error, message = await create(client, "u")
        assert error == ErrorCode.INVALID_REPLICATION_FACTOR
        assert message == (
            "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or "
            "have all their log directories cordoned."
        )
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        assert await leaders(client) == (me, [me], [me])
