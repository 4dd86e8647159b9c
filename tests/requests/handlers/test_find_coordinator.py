"""FindCoordinator creates the internal topic at the first request."""

from __future__ import annotations

from collections.abc import Callable

from kwire.cluster.metadata.delta import delta_between
from kwire.cluster.metadata.image import BrokerImage, Endpoint
from kwire.cluster.metadata.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.requests.handlers.node import NODE_ID, Node, as_received

VERSION = 6
HERE = Endpoint("PLAINTEXT", "localhost", 9092)


async def find(node: Node, *keys: str, key_type: int) -> FindCoordinatorResponse:
    await node.store.register(BrokerImage(NODE_ID, (HERE,), None))
    image = await node.store.load()
    node.apply(image, delta_between(node.broker.image, image))
    node.store.watch(node.apply)
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    reply: FindCoordinatorResponse = await node.start(request, VERSION)
    return as_received(reply, VERSION)


async def test_find_coordinator_of_a_transactional_id_creates_transaction_state_only(
    make_node: Callable[..., Node],
) -> None:
    node = make_node({"transaction.state.log.num.partitions": "3"})
    found = await find(node, "one", "two", "", key_type=1)
    assert [(c.key, c.node_id, c.error_code) for c in found.coordinators] == [
        ("one", NODE_ID, ErrorCode.NONE),
        ("two", NODE_ID, ErrorCode.NONE),
        ("", NODE_ID, ErrorCode.NONE),
    ]
    topics = node.broker.image.topics
    assert len(topics[TRANSACTION_STATE_TOPIC].partitions) == 3
    assert GROUP_METADATA_TOPIC not in topics


async def test_find_coordinator_of_a_group_does_not_create_transaction_state(node: Node) -> None:
    found = await find(node, "group", key_type=0)
    assert found.coordinators[0].error_code == ErrorCode.NONE
    assert TRANSACTION_STATE_TOPIC not in node.broker.image.topics


async def test_find_coordinator_of_a_share_partition_creates_the_topic_of_share_groups(
    make_node: Callable[..., Node],
) -> None:
    node = make_node({"share.coordinator.state.topic.num.partitions": "2"})
    found = await find(node, "group:AAAAAAAAAAAAAAAAAAAAAw:0", key_type=2)
    assert [(c.node_id, c.error_code) for c in found.coordinators] == [(NODE_ID, ErrorCode.NONE)]
    topics = node.broker.image.topics
    assert len(topics[SHARE_GROUP_STATE_TOPIC].partitions) == 2
    assert GROUP_METADATA_TOPIC not in topics
