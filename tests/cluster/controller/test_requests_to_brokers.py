"""The requests to brokers that follow from an event, field by field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import pytest

from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.propagation import BrokerRequestBatch
from kwire.cluster.controller.state import ControllerState, DeletionProgress
from kwire.cluster.metadata.changes import CreateTopic
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import (
    NO_LEADER,
    BrokerImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kwire.settings import BrokerConfig
from tests.cluster.controller.simulation import Host
from tests.cluster.controller.test_controller_decisions import (
    EPOCH,
    LED,
    PARTITION,
    controller_state,
)

M = TypeVar("M", LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)

RICH = PartitionImage(
    2,
    leader_epoch=5,
    partition_epoch=7,
    replicas=(1, 2, 3),
    isr=(2, 1),
    adding=(1,),
    removing=(3,),
    recovering=True,
    controller_epoch=8,
)
"""A partition of which each field says something else."""
RICH_STATE = LeaderAndIsrPartitionState(
    partition_index=0,
    controller_epoch=8,
    leader=2,
    leader_epoch=5,
    isr=[2, 1],
    partition_epoch=7,
    replicas=[1, 2, 3],
    adding_replicas=[1],
    removing_replicas=[3],
    is_new=False,
    leader_recovery_state=1,
)


def requests_of_kind(requests: list[BrokerRequest], kind: type[M]) -> dict[int, M]:
    """The requests of one kind, by broker; each broker gets at most one."""
    found: dict[int, M] = {}
    for each in requests:
        if isinstance(each.request, kind):
            assert each.broker_id not in found
            found[each.broker_id] = each.request
    return found


def with_topic(state: ControllerState, name: str, *partitions: PartitionImage) -> None:
    topic = TopicImage(name, name.encode() * 16, partitions)
    state.image = CreateTopic(topic).apply_to(state.image)
    for index, partition in enumerate(partitions):
        state.add_to_indexes((name, index), partition)


# -- LeaderAndIsr


def test_leader_and_isr_has_every_field_of_the_partition() -> None:
    batch = BrokerRequestBatch(controller_state(RICH))
    batch.add_leader_and_isr([3], PARTITION)
    [request] = batch.requests()
    assert request == BrokerRequest(
        3,
        EPOCH + 3,
        LeaderAndIsrRequest(
            controller_id=1,
            controller_epoch=9,
            broker_epoch=EPOCH + 3,
            topic_states=[LeaderAndIsrTopicState("t", b"t" * 16, [RICH_STATE])],
            live_leaders=[LeaderAndIsrLiveLeader(2, "127.0.0.1", 9002)],
        ),
    )


def test_leader_and_isr_groups_partitions_by_topic_for_each_broker() -> None:
    state = controller_state(LED, replace(LED, leader=2), LED)
    with_topic(state, "s", replace(LED, leader=3))
    batch = BrokerRequestBatch(state)
    batch.add_leader_and_isr([3, 1], ("t", 2))
    batch.add_leader_and_isr([1], ("s", 0))
    batch.add_leader_and_isr([1], ("t", 1))
    sent = requests_of_kind(batch.requests(), LeaderAndIsrRequest)
    assert {
        broker_id: [
            (topic.topic_name, topic.topic_id, [each.partition_index for each in states])
            for topic in request.topic_states
            if (states := topic.partition_states)
        ]
        for broker_id, request in sent.items()
    } == {1: [("s", b"s" * 16, [0]), ("t", b"t" * 16, [1, 2])], 3: [("t", b"t" * 16, [2])]}
    assert [each.broker_id for each in sent[1].live_leaders] == [1, 2, 3]
    assert [each.broker_id for each in sent[3].live_leaders] == [1]


def test_broker_that_has_lost_its_replica_gets_no_leader_and_isr() -> None:
    """A reassignment may have ended between the event and its requests."""
    batch = BrokerRequestBatch(controller_state(replace(RICH, replicas=(1, 2), removing=())))
    batch.add_leader_and_isr([1, 3], PARTITION)
    assert list(requests_of_kind(batch.requests(), LeaderAndIsrRequest)) == [1]


@pytest.mark.parametrize(
    ("first", "second", "is_new"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_leader_and_isr_is_new_if_any_addition_says_so(
    first: bool, second: bool, is_new: bool
) -> None:
    batch = BrokerRequestBatch(controller_state(LED))
    batch.add_leader_and_isr([1, 2], PARTITION, new=first)
    batch.add_leader_and_isr([1], PARTITION, new=second)
    sent = requests_of_kind(batch.requests(), LeaderAndIsrRequest)
    new = {each: sent[each].topic_states[0].partition_states[0].is_new for each in (1, 2)}
    assert new == {1: is_new, 2: first}


def test_absent_broker_gets_no_request_and_is_no_live_leader() -> None:
    batch = BrokerRequestBatch(controller_state(replace(LED, leader=3), away=3))
    batch.add_leader_and_isr([1, 3], PARTITION)
    batch.add_update_metadata([PARTITION], [1, 3])
    batch.add_stop_replica([1, 3], PARTITION, delete=False)
    requests = batch.requests()
    assert {each.broker_id for each in requests} == {1}
    assert requests_of_kind(requests, LeaderAndIsrRequest)[1].live_leaders == []


def test_live_leader_has_its_inter_broker_address() -> None:
    """The address of the inter-broker listener, if the leader has that listener."""
    state = controller_state(LED, replace(LED, leader=2))
    config = BrokerConfig(
        {
            "node.id": "1",
            "inter.broker.listener.name": "INNER",
            "listeners": "INNER://:1,OUTER://:2",
            "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
        }
    )
    state.settings = Host(1, config, config)
    endpoints = (Endpoint("OUTER", "out", 1), Endpoint("INNER", "in", 2))
    state.image = state.image.with_broker(BrokerImage(1, endpoints, epoch=EPOCH + 1))
    batch = BrokerRequestBatch(state)
    batch.add_leader_and_isr([3], PARTITION)
    batch.add_leader_and_isr([3], ("t", 1))
    sent = requests_of_kind(batch.requests(), LeaderAndIsrRequest)[3]
    assert sent.live_leaders == [LeaderAndIsrLiveLeader(1, "in", 2)]


@pytest.mark.parametrize("how_far", ["asked", "done"])
def test_deleted_replica_gets_no_leader_and_isr(how_far: str) -> None:
    """The broker would create the replica again."""
    state = controller_state(LED, LED)
    going = state.deletions["t"] = DeletionProgress()
    (going.requested if how_far == "asked" else going.deleted).add((2, 0))
    batch = BrokerRequestBatch(state)
    for index in (0, 1):
        batch.add_leader_and_isr([2, 3], ("t", index))
    sent = requests_of_kind(batch.requests(), LeaderAndIsrRequest)
    assert {
        broker_id: [each.partition_index for each in request.topic_states[0].partition_states]
        for broker_id, request in sent.items()
    } == {2: [1], 3: [0, 1]}


def test_partition_deleted_since_is_left_out() -> None:
    state = controller_state(LED, LED)
    batch = BrokerRequestBatch(state)
    for topic_partition in (("t", 1), ("t", 2), ("n", 0)):
        batch.add_leader_and_isr([1], topic_partition)
        batch.add_update_metadata([topic_partition], [1])
    led = requests_of_kind(batch.requests(), LeaderAndIsrRequest)[1]
    shown = requests_of_kind(batch.requests(), UpdateMetadataRequest)[1]
    assert [[each.partition_index for each in led.topic_states[0].partition_states]] == [[1]]
    assert [topic.topic_name for topic in shown.topic_states] == ["t"]
    assert [each.partition_index for each in shown.topic_states[0].partition_states] == [1]


# -- UpdateMetadata


def test_update_metadata_has_partition_states_and_live_brokers() -> None:
    state = controller_state(RICH, away=3)
    state.shutting_down.add(1)
    endpoints = (Endpoint("IN", "one", 1, "SASL_SSL"), Endpoint("OUT", "two", 2, "SSL"))
    state.image = state.image.with_broker(BrokerImage(1, endpoints, "rack", epoch=EPOCH + 1))
    batch = BrokerRequestBatch(state)
    batch.add_update_metadata([PARTITION])
    partition = UpdateMetadataPartitionState(
        partition_index=0,
        controller_epoch=8,
        leader=2,
        leader_epoch=5,
        isr=[2, 1],
        zk_version=7,
        replicas=[1, 2, 3],
        offline_replicas=[1, 3],
    )
    brokers = [
        UpdateMetadataBroker(
            1,
            endpoints=[
                UpdateMetadataEndpoint(1, "one", "IN", 3),
                UpdateMetadataEndpoint(2, "two", "OUT", 1),
            ],
            rack="rack",
        ),
        UpdateMetadataBroker(
            2, endpoints=[UpdateMetadataEndpoint(9002, "127.0.0.1", "PLAINTEXT", 0)], rack=None
        ),
    ]
    assert batch.requests() == [
        BrokerRequest(
            each,
            EPOCH + each,
            UpdateMetadataRequest(
                controller_id=1,
                controller_epoch=9,
                broker_epoch=EPOCH + each,
                topic_states=[UpdateMetadataTopicState("t", b"t" * 16, [partition])],
                live_brokers=brokers,
            ),
        )
        for each in (1, 2)
    ]


def test_update_metadata_shows_a_deleted_topic_as_being_deleted() -> None:
    state = controller_state(RICH)
    state.deletions["t"] = DeletionProgress()
    batch = BrokerRequestBatch(state)
    batch.add_update_metadata([PARTITION], [2])
    [topic] = requests_of_kind(batch.requests(), UpdateMetadataRequest)[2].topic_states
    [shown] = topic.partition_states
    assert (shown.leader, shown.leader_epoch, shown.zk_version) == (-2, 0, 0)
    assert (shown.isr, shown.replicas) == ([2, 1], [1, 2, 3])


def test_update_metadata_leaves_out_new_partitions() -> None:
    state = controller_state(unassigned_partition((1, 2)), LED)
    with_topic(state, "s", unassigned_partition((1,)))
    batch = BrokerRequestBatch(state)
    batch.add_update_metadata([("s", 0), ("t", 0), ("t", 1)], [3])
    [topic] = requests_of_kind(batch.requests(), UpdateMetadataRequest)[3].topic_states
    assert (topic.topic_name, [each.partition_index for each in topic.partition_states]) == (
        "t",
        [1],
    )


def test_update_metadata_without_viewers_sends_nothing() -> None:
    batch = BrokerRequestBatch(controller_state(LED))
    batch.add_update_metadata([PARTITION], [])
    assert batch.requests() == []


def test_update_metadata_without_partitions_sends_live_brokers_to_all() -> None:
    batch = BrokerRequestBatch(controller_state(LED))
    batch.add_update_metadata(())
    sent = requests_of_kind(batch.requests(), UpdateMetadataRequest)
    assert {each: request.topic_states for each, request in sent.items()} == {1: [], 2: [], 3: []}
    assert [each.id for each in sent[1].live_brokers] == [1, 2, 3]


def test_member_without_registration_is_no_live_broker() -> None:
    """It has left, but its departure is not handled yet."""
    state = controller_state(LED)
    state.image = state.image.without_broker(1)
    batch = BrokerRequestBatch(state)
    batch.add_leader_and_isr([2], PARTITION)
    batch.add_update_metadata((), [2])
    requests = batch.requests()
    assert requests_of_kind(requests, LeaderAndIsrRequest)[2].live_leaders == []
    assert [
        each.id for each in requests_of_kind(requests, UpdateMetadataRequest)[2].live_brokers
    ] == [2, 3]


# -- StopReplica


def test_stop_replica_groups_partitions_by_topic_with_leader_epochs() -> None:
    state = controller_state(LED, replace(LED, leader_epoch=6))
    with_topic(state, "s", LED)
    batch = BrokerRequestBatch(state)
    batch.add_stop_replica([2], ("t", 1), delete=True)
    batch.add_stop_replica([3, 2], ("t", 0), delete=False)
    batch.add_stop_replica([2], ("s", 0), delete=True)
    batch.add_stop_replica([2], ("s", 4), delete=True)
    assert batch.requests() == [
        BrokerRequest(
            each,
            EPOCH + each,
            StopReplicaRequest(
                controller_id=1,
                controller_epoch=9,
                broker_epoch=EPOCH + each,
                topic_states=states,
            ),
        )
        for each, states in (
            (
                2,
                [
                    StopReplicaTopicState(
                        "s",
                        [
                            StopReplicaPartitionState(0, 5, True),
                            StopReplicaPartitionState(4, NO_LEADER, True),
                        ],
                    ),
                    StopReplicaTopicState(
                        "t",
                        [
                            StopReplicaPartitionState(0, 5, False),
                            StopReplicaPartitionState(1, 6, True),
                        ],
                    ),
                ],
            ),
            (3, [StopReplicaTopicState("t", [StopReplicaPartitionState(0, 5, False)])]),
        )
    ]


def test_stop_replica_of_a_deleted_topic_has_the_epoch_above_all() -> None:
    state = controller_state(LED)
    state.deletions["t"] = DeletionProgress()
    batch = BrokerRequestBatch(state)
    batch.add_stop_replica([2], PARTITION, delete=True)
    [topic] = requests_of_kind(batch.requests(), StopReplicaRequest)[2].topic_states
    assert topic.partition_states == [StopReplicaPartitionState(0, -2, True)]


def test_requests_are_leader_and_isr_then_update_metadata_then_stop_replica() -> None:
    batch = BrokerRequestBatch(controller_state(LED))
    batch.add_stop_replica([1], PARTITION, delete=False)
    batch.add_update_metadata([PARTITION], [1])
    batch.add_leader_and_isr([1], PARTITION)
    kinds: list[Any] = [type(each.request) for each in batch.requests()]
    assert kinds == [LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest]


# -- effects together


def test_added_effects_follow_in_order() -> None:
    order = []

    def step(name: str) -> ControllerEffects:
        order.append(name)
        return ControllerEffects(timers=[(name, 1)])

    def request(number: int) -> BrokerRequest:
        return BrokerRequest(number, EPOCH, LeaderAndIsrRequest())

    first = ControllerEffects([request(1)], [lambda _: None], lambda: step("first"), [("one", 1)])
    second = ControllerEffects([request(2)], [lambda _: None], lambda: step("second"), [("two", 2)])
    decisions = [*first.decisions, *second.decisions]
    first.add(second)
    assert first.requests == [request(1), request(2)]
    assert first.decisions == decisions
    assert first.timers == [("one", 1), ("two", 2)]
    assert first.then is not None
    assert first.then().timers == [("first", 1), ("second", 1)]
    assert order == ["first", "second"]


@pytest.mark.parametrize("which", [0, 1])
def test_added_effects_keep_the_only_continuation(which: int) -> None:
    following = ControllerEffects(timers=[("x", 1)])
    both = [ControllerEffects(), ControllerEffects()]
    both[which].then = lambda: following
    both[0].add(both[1])
    assert both[0].then is not None
    assert both[0].then() is following


def test_added_effects_without_continuations_have_none() -> None:
    effects = ControllerEffects()
    effects.add(ControllerEffects())
    assert effects.then is None
