"""Decisions about a partition in a given state, and the answers to requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kwire.cluster.controller import deletion, elections, isr, liveness, reassignment
from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.controller.propagation import BrokerRequestBatch
from kwire.cluster.controller.state import ControllerState, DeletionProgress
from kwire.cluster.metadata.changes import (
    AlterPartition,
    CreateTopic,
    RegisterBroker,
    SetConfigs,
    apply_all,
)
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.elect_leaders import (
    ElectLeadersRequest,
    PartitionResult,
    TopicPartitions,
)
from kwire.codecs.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from kwire.settings import BrokerConfig, ConfigResourceType, load
from tests.cluster.controller.laws import UNCLEAN
from tests.cluster.controller.simulation import Host

CONFIG = BrokerConfig({"node.id": "1"})
LED = PartitionImage(1, leader_epoch=5, partition_epoch=7, replicas=(1, 2, 3), isr=(1, 2, 3))
PARTITION = ("t", 0)
EPOCH = 100
"""Of each broker's registration, and its id."""


def broker(broker_id: int) -> BrokerImage:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker_id)
    return BrokerImage(broker_id, (endpoint,), epoch=EPOCH + broker_id)


def controller_state(*partitions: PartitionImage, away: int | None = None) -> ControllerState:
    """A controller of three brokers and the topic `t`; one of them may be absent."""
    live = [each for each in (1, 2, 3) if each != away]
    image = apply_all(
        ClusterImage("cluster", controller_id=1, controller_epoch=9),
        [
            *(RegisterBroker(broker(each)) for each in live),
            CreateTopic(TopicImage("t", b"t" * 16, partitions)),
        ],
    )
    state = ControllerState(Host(1, CONFIG, CONFIG), image)
    state.members = {each: EPOCH + each for each in live}
    for index, partition in enumerate(partitions):
        state.add_to_indexes(("t", index), partition)
    return state


def changes(state: ControllerState, effects: ControllerEffects) -> list[AlterPartition]:
    made = [decide(state.image) for decide in effects.decisions]
    return [each for each in made if isinstance(each, AlterPartition)]


def reply(state: ControllerState, effects: ControllerEffects) -> Any:  # noqa: ANN401 - any response
    """The reply after all decisions are committed."""
    changes(state, effects)
    return effects.then().reply if effects.then is not None else effects.reply


# -- elections


def elected(state: ControllerState, kind: int, *wanted: tuple[str, int]) -> list[PartitionResult]:
    topics = [TopicPartitions(topic, [index]) for topic, index in wanted]
    answer = reply(state, elections.elect_leaders(state, ElectLeadersRequest(kind, topics)))
    results = answer.replica_election_results
    return [partition for topic in results for partition in topic.partition_result]


@pytest.mark.parametrize(
    ("topic_partition", "message"),
    [(("t", 3), "No such partition as t-3"), (("n", 0), "No such topic as n")],
)
def test_election_of_an_unknown_topic_or_partition_names_it(
    topic_partition: tuple[str, int], message: str
) -> None:
    [result] = elected(controller_state(LED), elections.PREFERRED, topic_partition)
    assert (result.error_code, result.error_message) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        message,
    )


def test_unknown_election_type_is_refused_for_each_partition() -> None:
    [result] = elected(controller_state(LED), 7, PARTITION)
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Unknown election type 7",
    )


@pytest.mark.parametrize("leader", [NO_LEADER, 3])
def test_unclean_election_needs_a_partition_without_live_leader(leader: int) -> None:
    state = controller_state(replace(LED, leader=leader, isr=(3,)), away=3)
    effects = elections.elect_leaders(state, ElectLeadersRequest(1, [TopicPartitions("t", [0])]))
    [change] = changes(state, effects)
    assert (change.state.leader, change.state.isr, change.state.recovering) == (1, (1,), True)
    [refused] = elected(controller_state(LED), elections.UNCLEAN, PARTITION)
    assert refused.error_code == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize(("in_sync", "leader"), [((1, 2), [1]), ((2,), [])])
def test_balancing_elects_preferred_leaders_that_can_lead(
    in_sync: tuple[int, ...], leader: list[int]
) -> None:
    state = controller_state(replace(LED, leader=2, isr=in_sync))
    effects = elections.balance_leaders(state)
    assert len(effects.decisions) == len(leader)
    assert [change.state.leader for change in changes(state, effects)] == leader


# -- who leads


def test_partition_is_leaderless_if_its_leader_is_gone_or_never_elected() -> None:
    partitions = [LED, replace(LED, leader=3), replace(LED, leader=NO_LEADER)]
    assert controller_state(*partitions).leaderless == {("t", 2)}
    assert controller_state(*partitions, away=3).leaderless == {("t", 1), ("t", 2)}


# -- who is in sync


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "error"),
    [
        (5, 7, ErrorCode.NONE),
        (6, 7, ErrorCode.NOT_CONTROLLER),
        (5, 8, ErrorCode.NOT_CONTROLLER),
        (4, 7, ErrorCode.FENCED_LEADER_EPOCH),
        (5, 6, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_isr_change_with_other_epochs_is_refused(
    leader_epoch: int, partition_epoch: int, error: ErrorCode
) -> None:
    """A larger epoch means that there is a later controller."""
    state = controller_state(LED)
    asked = RequestPartitionData(0, leader_epoch, [1, 2], partition_epoch=partition_epoch)
    request = AlterPartitionRequest(1, EPOCH + 1, [RequestTopicData(b"t" * 16, [asked])])
    answer = reply(state, isr.alter_partition(state, request))
    assert answer.topics[0].partitions[0].error_code == error


# -- reassignments

MOVING = replace(LED, replicas=(1, 2, 3), isr=(1, 2), adding=(3,), removing=(2,))


def test_reassignment_resumes_when_a_target_broker_starts() -> None:
    state = controller_state(MOVING, replace(LED, replicas=(1, 2), isr=(1, 2)), away=3)
    state.image = state.image.with_broker(broker(3))
    [change] = changes(state, liveness.start_brokers(state, {3: EPOCH + 3}))
    assert (change.index, change.state.leader_epoch) == (0, MOVING.leader_epoch + 1)


def test_reassignment_does_not_resume_when_a_removed_broker_starts() -> None:
    state = controller_state(replace(MOVING, isr=(1,)), away=2)
    state.image = state.image.with_broker(broker(2))
    assert changes(state, liveness.start_brokers(state, {2: EPOCH + 2})) == []


@pytest.mark.parametrize("may_change", [True, False])
def test_reassignment_response_repeats_whether_the_factor_may_change(may_change: bool) -> None:
    state = controller_state(LED)
    asked = [ReassignableTopic("t", [ReassignablePartition(0, [1, 2])])]
    request = AlterPartitionReassignmentsRequest(1000, may_change, asked)
    answer = reply(state, reassignment.alter_reassignments(state, request))
    assert answer.allow_replication_factor_change == may_change
    [result] = answer.responses[0].partitions
    expected = ErrorCode.NONE if may_change else ErrorCode.INVALID_REPLICATION_FACTOR
    assert result.error_code == expected


def test_list_of_reassignments_has_no_error_message() -> None:
    answer = reassignment.list_reassignments(
        controller_state(MOVING), ListPartitionReassignmentsRequest()
    )
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)


def test_reassignment_in_the_store_may_name_an_absent_broker() -> None:
    state = controller_state(replace(LED, replicas=(1,), isr=(1,)), away=3)
    asked = reassignment.reassignments_requested(state, {PARTITION: (1, 3), ("n", 0): (1,)})
    [change] = changes(state, asked)
    assert (change.state.replicas, change.state.adding) == ((1, 3), (3,))
    assert reply(state, asked) == [("n", 0)]


# -- requests to brokers


def test_every_request_has_the_controllers_and_the_brokers_epoch() -> None:
    batch = BrokerRequestBatch(controller_state(LED))
    batch.add_leader_and_isr([1, 2], PARTITION)
    batch.add_update_metadata([PARTITION])
    batch.add_stop_replica([3], PARTITION, delete=True)
    sent = batch.requests()
    assert len(sent) == 2 + 3 + 1
    for each in sent:
        request: Any = each.request
        epochs = (request.controller_id, request.controller_epoch, request.broker_epoch)
        assert epochs == (1, 9, EPOCH + each.broker_id)


# -- deletions


def stopped(deletes: Mapping[int, bool]) -> StopReplicaRequest:
    states = [StopReplicaPartitionState(index, -2, delete) for index, delete in deletes.items()]
    return StopReplicaRequest(topic_states=[StopReplicaTopicState("t", states)])


def test_response_marks_only_requested_deletions_as_done() -> None:
    """A broker that restarted is sent StopReplica again.

    A response to an earlier request says nothing about its replicas.
    """
    state = controller_state(LED, LED, LED)
    going = state.deletions["t"] = DeletionProgress(requested={(2, 0), (2, 1)}, halted=True)
    request = stopped({0: True, 1: False, 2: True})
    deletion.stop_replica_answered(state, 2, request, StopReplicaResponse(partition_errors=[]))
    assert (going.requested, going.deleted) == ({(2, 1)}, set())


# -- unclean.leader.election.enable


def test_unclean_election_default_elects_at_once_unless_the_topic_forbids_it() -> None:
    """The election once waited for another change of the partition."""
    lost = replace(LED, leader=NO_LEADER, isr=(3,))
    state = controller_state(lost, away=3)
    host = Host(1, CONFIG, CONFIG)
    forbidding = CreateTopic(TopicImage("n", b"n" * 16, (lost,)), {UNCLEAN: "false"})
    image = apply_all(state.image, [forbidding])
    controller = ClusterController(host, image)
    controller.start()
    assert controller.state.leaderless == {("t", 0), ("n", 0)}

    def elected_after(resource: int, name: str, on: bool) -> list[str]:
        host.config = load(None, {UNCLEAN: str(on).lower()})
        before = controller.state.image
        partition = before.configs_of(resource, name)
        changed = {UNCLEAN: str(on).lower(), "num.io.threads": str(before.version + 1)}
        change = SetConfigs(resource, name, partition, changed)
        after = apply_all(before, [change]).with_version(before.version + 1)
        effects = controller.image_changed(after, delta_of(before, after, [change]))
        return [change.topic for change in changes(controller.state, effects)]

    assert elected_after(ConfigResourceType.BROKER, "", False) == []
    assert elected_after(ConfigResourceType.BROKER, "", True) == ["t"]
    assert elected_after(ConfigResourceType.BROKER, "", True) == [], "it is on already"
    assert elected_after(ConfigResourceType.BROKER, "1", False) == []
    assert elected_after(ConfigResourceType.BROKER, "1", True) == ["t"]
