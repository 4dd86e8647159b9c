"""Requests that only a controller serves: elections and reassignments, on a lone broker.

A broker that is not the controller answers as Apache Kafka 3.9.2 on ZooKeeper does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.metadata.changes import AlterPartition
from kwire.cluster.metadata.election import offline_decisions
from kwire.cluster.metadata.image import ClusterImage, PartitionImage
from kwire.cluster.stores.contract import Fenced, NotController, StoreError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.codecs.messages.alter_partition import AlterPartitionRequest
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.controlled_shutdown import ControlledShutdownRequest
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kwire.codecs.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from kwire.codecs.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from kwire.codecs.primitives import Message
from tests.cluster.decisions.client import AdminClient, new_topic
from tests.cluster.decisions.conftest import OpenAdmin
from tests.inside import RawClient

PREFERRED, UNCLEAN = 0, 1
NOT_THE_CONTROLLER = "This is not the correct controller for this cluster."
Results = list[tuple[str, list[tuple[int, int, str | None]]]]


async def elect(
    admin: AdminClient, kind: int, *topics: tuple[str, list[int]], version: int = 2
) -> Results:
    """ElectLeaders for these partitions, or for all."""
    asked = [TopicPartitions(*topic) for topic in topics] or None
    response = await admin.ask(
        ElectLeadersRequest(kind, asked, 5000), version, ElectLeadersResponse
    )
    assert response.error_code == ErrorCode.NONE
    return results_of(response)


def results_of(response: ElectLeadersResponse) -> Results:
    return [
        (
            result.topic,
            [(e.partition_id, e.error_code, e.error_message) for e in result.partition_result],
        )
        for result in response.replica_election_results
    ]


def reassign(topic: str, replicas: Sequence[int] | None) -> AlterPartitionReassignmentsRequest:
    wanted = ReassignablePartition(0, None if replicas is None else list(replicas))
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(topic, [wanted])])


async def list_reassignments(
    admin: AdminClient, *topics: str
) -> ListPartitionReassignmentsResponse:
    asked = [ListPartitionReassignmentsTopics(topic, [0, 1]) for topic in topics] or None
    request = ListPartitionReassignmentsRequest(5000, asked)
    return await admin.ask(request, 0, ListPartitionReassignmentsResponse)


def becoming(
    topic: str, change: Callable[[PartitionImage], PartitionImage]
) -> Callable[[ClusterImage], AlterPartition]:
    """A decision that gives partition 0 of the topic another state."""

    def decide(image: ClusterImage) -> AlterPartition:
        known = image.topics[topic]
        before = known.partitions[0]
        after = replace(change(before), partition_epoch=before.partition_epoch + 1)
        return AlterPartition(topic, known.id, 0, before.partition_epoch, after)

    return decide


async def test_election_is_refused_for_a_partition_with_an_offline_log(
    open_admin: OpenAdmin,
) -> None:
    async with open_admin() as admin:
        await admin.make("a", partitions=2)
        broker = admin.broker
        await broker.membership.commit(offline_decisions(broker.image, broker.node_id, {("a", 0)}))
        none_preferred = (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        none_eligible = (0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
        for kind, (index, error) in ((PREFERRED, none_preferred), (UNCLEAN, none_eligible)):
            ((topic, results),) = await elect(admin, kind)
            assert topic == "a"
            assert [result[:2] for result in results] == [(index, error)]
        # Its disk is back, and with it the leader.
        await broker.membership.commit(offline_decisions(broker.image, broker.node_id, set()))
        assert await elect(admin, UNCLEAN) == [("a", [])]


async def test_reassignment_is_listed_and_cancelled(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a", "b")
        node = admin.broker.node_id
        # Nothing that one broker is asked for gets this far; another cluster may have left it.
        left = becoming("a", lambda known: replace(known, replicas=(node, 7), adding=(7,)))
        await admin.broker.membership.commit([left])
        for names in ((), ("a", "b")):
            (topic,) = (await list_reassignments(admin, *names)).topics
            (partition,) = topic.partitions
            assert (topic.name, partition.partition_index) == ("a", 0)
            assert (partition.replicas, partition.adding_replicas) == ([node, 7], [7])
        assert (await list_reassignments(admin, "b")).topics == []
        for expected in (ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
            reply = await admin.ask(reassign("a", None), 1, AlterPartitionReassignmentsResponse)
            assert reply.responses[0].partitions[0].error_code == expected
        known = admin.broker.image.topics["a"].partitions[0]
        assert (known.replicas, known.adding, known.leader) == ((node,), (), node)


async def test_election_is_answered_once_the_metadata_shows_the_leader(
    open_admin: OpenAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        broker = admin.broker
        await broker.membership.commit([becoming("a", lambda known: replace(known, leader=-1))])
        before = broker.image
        asked: list[tuple[bool, bool, int]] = []

        async def wait_until(
            _: LoneMembership, seen: Callable[[ClusterImage], bool], timeout_ms: int
        ) -> bool:
            asked.append((seen(before), seen(broker.image), timeout_ms))
            return False

        monkeypatch.setattr(LoneMembership, "wait_until", wait_until)
        assert await elect(admin, UNCLEAN, ("a", [0])) == [("a", [(0, ErrorCode.NONE, None)])]
        assert asked == [(False, True, 5000)]

        async def elected(*_: object) -> ElectLeadersResponse:
            return ElectLeadersResponse(
                replica_election_results=[ReplicaElectionResult("a", [PartitionResult(0)])]
            )

        # Here the controller has decided, and nobody tells this broker.
        monkeypatch.setattr(broker.metadata, "image", before)
        monkeypatch.setattr(LoneMembership, "ask", elected)
        ((_, (late,)),) = await elect(admin, UNCLEAN, ("a", [0]))
        assert late[:2] == (0, ErrorCode.REQUEST_TIMED_OUT)


async def test_request_for_the_present_state_changes_nothing(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        before = admin.broker.image
        request = reassign("a", [admin.broker.node_id])
        reply = await admin.ask(request, 0, AlterPartitionReassignmentsResponse)
        assert reply.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert (await elect(admin, PREFERRED, ("a", [0])))[0][1][0][
            1
        ] == ErrorCode.ELECTION_NOT_NEEDED
        assert admin.broker.image is before


@pytest.mark.parametrize("error", [StoreError("no room"), Fenced(), NotController()])
async def test_error_of_the_store_is_answered_to_the_client(
    open_admin: OpenAdmin, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    async with open_admin() as admin:
        await admin.make("a")
        node = admin.broker.node_id
        left = becoming("a", lambda known: replace(known, replicas=(node, 7), adding=(7,)))
        await admin.broker.membership.commit([left])
        monkeypatch.setattr(admin.broker.node.store, "commit", raising(error))
        reply = await admin.ask(reassign("a", None), 1, AlterPartitionReassignmentsResponse)
        (created,) = await admin.create(new_topic("b"))
        if str(error):
            expected = (ErrorCode.KAFKA_STORAGE_ERROR, "no room")
        else:
            expected = (ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER)
        assert (reply.error_code, reply.error_message, reply.responses) == (*expected, [])
        assert (created.error_code, created.error_message) == expected


# -- a broker that is not the controller


def raising(error: Exception) -> Callable[..., Any]:
    async def ask(*arguments: object) -> NoReturn:
        raise error

    return ask


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another broker is the controller."""
    monkeypatch.setattr(LoneMembership, "is_controller", False)
    monkeypatch.setattr(LoneMembership, "ask", raising(NotController()))


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_elections_are_refused_for_each_partition_separately(
    open_admin: OpenAdmin, version: int
) -> None:
    refusal = (ErrorCode.NOT_CONTROLLER, None)
    async with open_admin() as admin:
        await admin.broker.membership.create_internal_topic("__consumer_offsets")
        everything = await elect(admin, PREFERRED, version=version)
        assert everything == [("__consumer_offsets", [(each, *refusal) for each in range(4)])]
        asked = await elect(admin, PREFERRED, ("t", [0, 1]), ("n", [0]), version=version)
        assert asked == [("t", [(0, *refusal), (1, *refusal)]), ("n", [(0, *refusal)])]


@pytest.mark.usefixtures("elsewhere")
async def test_reassignments_are_refused_as_a_whole_request(open_admin: OpenAdmin) -> None:
    refusal = (ErrorCode.NOT_CONTROLLER, NOT_THE_CONTROLLER)
    async with open_admin() as admin:
        for version in (0, 1):
            request = reassign("a", [1])
            reply = await admin.ask(request, version, AlterPartitionReassignmentsResponse)
            assert (reply.error_code, reply.error_message) == refusal
            assert reply.responses == []
        listed = await list_reassignments(admin)
        assert (listed.error_code, listed.error_message, listed.topics) == (*refusal, [])


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("version", [2, 7])
async def test_create_topics_on_another_broker_is_not_controller(
    open_admin: OpenAdmin, version: int, validate_only: bool
) -> None:
    async with open_admin() as admin:
        topics = [new_topic(name, 1, 1) for name in ("x", "t", "x", "_bad/")]
        request = CreateTopicsRequest(topics, 5000, validate_only)
        response = await admin.ask(request, version, CreateTopicsResponse)
        assert [
            (each.name, each.error_code, each.error_message, each.num_partitions)
            for each in response.topics
        ] == [(topic.name, ErrorCode.NOT_CONTROLLER, "", -1) for topic in topics]
        assert admin.broker.image.topics.keys() == set()


@pytest.mark.usefixtures("elsewhere")
async def test_delete_topics_on_another_broker_is_not_controller(open_admin: OpenAdmin) -> None:
    async with open_admin({"delete.topic.enable": "false"}) as admin:
        for version in (1, 5):
            by_name = DeleteTopicsRequest(topic_names=["t", "nothing"], timeout_ms=5000)
            response = await admin.ask(by_name, version, DeleteTopicsResponse)
            assert [(each.name, each.error_code) for each in response.responses] == [
                ("t", ErrorCode.NOT_CONTROLLER),
                ("nothing", ErrorCode.NOT_CONTROLLER),
            ]
        named = [DeleteTopicState("t"), DeleteTopicState(None, b"x" * 16), DeleteTopicState("t")]
        request = DeleteTopicsRequest(topics=named, timeout_ms=5000)
        response = await admin.ask(request, 6, DeleteTopicsResponse)
        assert [
            (each.name, each.topic_id, each.error_code, each.error_message)
            for each in response.responses
        ] == [(each.name, each.topic_id, ErrorCode.NOT_CONTROLLER, None) for each in named]


@pytest.mark.usefixtures("elsewhere")
async def test_create_partitions_on_another_broker_is_not_controller(open_admin: OpenAdmin) -> None:
    async with open_admin() as admin:
        topics = [CreatePartitionsTopic(name, 4, None) for name in ("t", "n", "t")]
        response = await admin.ask(
            CreatePartitionsRequest(topics, 5000), 3, CreatePartitionsResponse
        )
        assert [(each.name, each.error_code, each.error_message) for each in response.results] == [
            (name, ErrorCode.NOT_CONTROLLER, None) for name in ("t", "n")
        ]


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ControlledShutdownRequest(1), 3),
        (AlterPartitionRequest(1), 3),
        (AllocateProducerIdsRequest(1), 0),
    ],
)
async def test_requests_between_brokers_are_not_served_by_a_lone_broker(
    open_admin: OpenAdmin, request_: Message, version: int
) -> None:
    async with open_admin() as admin:
        client = await RawClient.connect(admin.broker)
        await client.send(request_, version)
        assert await client.receive_frame() is None
