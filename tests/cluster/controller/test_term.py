"""One term of a controller: its start, and what follows from each change in the store.

The indexes always match the image (`indexes_of`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kwire.cluster.controller.effects import BrokerRequest, ControllerEffects
from kwire.cluster.controller.machine import ClusterController
from kwire.cluster.controller.state import ControllerState, DeletionProgress, partition_of
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    RegisterBroker,
    SetConfigs,
    UnregisterBroker,
    apply_all,
)
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest
from kwire.codecs.messages.stop_replica import (
    StopReplicaRequest,
)
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kwire.settings import BrokerConfig, ConfigResourceType
from tests.cluster.controller import laws
from tests.cluster.controller.simulation import Host
from tests.cluster.controller.test_controller_decisions import (
    CONFIG,
    EPOCH,
    LED,
    MOVING,
    PARTITION,
    broker,
    changes,
    controller_state,
)
from tests.cluster.controller.test_liveness import (
    decided_states,
    failed_on,
    leader_and_isr_sent,
    stop_replica_sent,
    update_metadata_sent,
)
from tests.cluster.controller.test_requests_to_brokers import requests_of_kind

T = b"t" * 16
NEVER = unassigned_partition((1, 2))
QUIET = BrokerConfig({"node.id": "1", "auto.leader.rebalance.enable": "false"})


def image_of(
    *partitions: PartitionImage, topics: dict[str, PartitionImage] | None = None, away: int = 0
) -> ClusterImage:
    """Topic `t` with these partitions, other topics with one, and three brokers but `away`."""
    image = controller_state(*partitions, away=away or None).image
    for name, partition in (topics or {}).items():
        image = CreateTopic(TopicImage(name, name.encode() * 16, (partition,))).apply_to(image)
    return image


class StartedController:
    """A started controller, and the image that its store publishes."""

    def __init__(self, image: ClusterImage, config: BrokerConfig = QUIET) -> None:
        self.host = Host(1, config, config)
        self.machine = ClusterController(self.host, image)
        self.start_effects = self.machine.start()

    @property
    def state(self) -> ControllerState:
        return self.machine.state

    def changed(self, *made: Change) -> ControllerEffects:
        before = self.state.image
        after = apply_all(before, made)
        return self.machine.image_changed(after, delta_of(before, after, made))

    def altered(self, after: PartitionImage, index: int = 0, topic: str = "t") -> ControllerEffects:
        topic_image = self.state.image.topics[topic]
        epoch = topic_image.partitions[index].partition_epoch
        return self.changed(AlterPartition(topic, topic_image.id, index, epoch, after))


def indexes_of(state: ControllerState) -> dict[str, object]:
    """The indexes, without empty entries."""
    return {
        "hosted": {each: its for each, its in state.hosted.items() if its},
        "leaderless": state.leaderless,
        "reassigned": state.reassigned,
        "preferred": {each: count for each, count in state.preferred.items() if count},
        "displaced": {each: its for each, its in state.displaced.items() if its},
    }


def indexes_from_image(state: ControllerState) -> dict[str, object]:
    """The indexes as computed from the whole image."""
    anew = ControllerState(state.settings, state.image)
    anew.members = state.members
    for name, topic in state.image.topics.items():
        for index, partition in enumerate(topic.partitions):
            anew.add_to_indexes((name, index), partition)
    return indexes_of(anew)


# -- the begin


def test_new_controller_sends_live_brokers_then_leaders_then_all_partitions() -> None:
    started = StartedController(
        image_of(LED, NEVER, topics={"s": replace(LED, replicas=(2, 3), leader=2, isr=(2, 3))})
    )
    requests = started.start_effects.requests
    first, rest = requests[:3], requests[3:]
    assert [each.broker_id for each in first] == [1, 2, 3]
    assert update_metadata_sent(first) == {1: [], 2: [], 3: []}
    kinds = [type(each.request) for each in rest]
    assert kinds == [LeaderAndIsrRequest] * 3 + [UpdateMetadataRequest] * 3
    assert leader_and_isr_sent(rest) == {
        1: [PARTITION],
        2: [("s", 0), PARTITION],
        3: [("s", 0), PARTITION],
    }
    assert update_metadata_sent(rest) == {each: [("s", 0), PARTITION] for each in (1, 2, 3)}
    for request in requests_of_kind(rest, LeaderAndIsrRequest).values():
        assert not any(
            each.is_new for topic in request.topic_states for each in topic.partition_states
        )
    assert decided_states(started.state, started.start_effects) == [(1, 1, (1, 2))]


def test_new_controller_resumes_what_the_former_one_left() -> None:
    """Absent brokers, leaderless partitions, reassignments, deletions."""
    image = image_of(
        LED,
        replace(LED, leader=NO_LEADER, isr=(1,)),
        MOVING,
        topics={"s": replace(LED, replicas=(1, 2), isr=(1, 2)), "r": LED},
        away=3,
    )
    for name in "rs":
        image = MarkForDeletion(name, name.encode() * 16).apply_to(image)
    started = StartedController(image)
    assert started.state.members == {1: EPOCH + 1, 2: EPOCH + 2}
    assert decided_states(started.state, started.start_effects) == [
        (0, 1, (1, 2)),
        (1, 1, (1,)),
        (2, 1, (1, 2)),
    ]
    assert started.state.deletions == {
        "r": DeletionProgress(halted=True),
        "s": DeletionProgress(requested={(1, 0), (2, 0)}),
    }
    stops = [
        each
        for each in started.start_effects.requests
        if isinstance(each.request, StopReplicaRequest)
    ]
    assert stop_replica_sent(stops) == {1: [("s", 0, True)], 2: [("s", 0, True)]}


def test_indexes_of_a_new_controller_match_the_image() -> None:
    partitions = [LED, replace(LED, leader=2), MOVING, NEVER, replace(LED, leader=NO_LEADER)]
    started = StartedController(image_of(*partitions))
    assert indexes_of(started.state) == {
        "hosted": {
            1: {("t", each) for each in range(5)},
            2: {("t", each) for each in range(5)},
            3: {("t", each) for each in (0, 1, 2, 4)},
        },
        "leaderless": {("t", 3), ("t", 4)},
        "reassigned": {("t", 2)},
        "preferred": {1: 5},
        "displaced": {1: {("t", 1), ("t", 3), ("t", 4)}},
    }


# -- partitions change


def test_new_topic_gets_leaders_before_anything_is_sent() -> None:
    started = StartedController(image_of(LED))
    effects = started.changed(CreateTopic(TopicImage("n", b"n" * 16, (NEVER, NEVER))))
    assert effects.requests == []
    assert decided_states(started.state, effects) == [(0, 1, (1, 2)), (1, 1, (1, 2))]


def test_first_leader_is_sent_to_replicas_which_may_create_the_log() -> None:
    started = StartedController(image_of(LED, NEVER))
    effects = started.altered(
        replace(NEVER, leader=1, leader_epoch=0, partition_epoch=0, isr=(1, 2)), 1
    )
    assert effects.decisions == []
    assert leader_and_isr_sent(effects.requests) == {1: [("t", 1)], 2: [("t", 1)]}
    for request in requests_of_kind(effects.requests, LeaderAndIsrRequest).values():
        assert request.topic_states[0].partition_states[0].is_new
    assert update_metadata_sent(effects.requests) == {each: [("t", 1)] for each in (1, 2, 3)}


def test_new_leader_is_sent_to_live_replicas_and_in_metadata_to_all() -> None:
    started = StartedController(image_of(LED, away=3))
    started.state.offline[2] = {PARTITION}
    effects = started.altered(replace(LED, leader=2, leader_epoch=6, partition_epoch=8, isr=(1, 2)))
    assert leader_and_isr_sent(effects.requests) == {1: [PARTITION]}
    [state] = (
        requests_of_kind(effects.requests, LeaderAndIsrRequest)[1].topic_states[0].partition_states
    )
    assert not state.is_new
    assert update_metadata_sent(effects.requests) == {1: [PARTITION], 2: [PARTITION]}
    assert stop_replica_sent(effects.requests) == {}


def test_isr_of_the_same_leader_epoch_is_sent_only_as_metadata() -> None:
    started = StartedController(image_of(LED))
    effects = started.altered(replace(LED, partition_epoch=8, isr=(1, 2)))
    assert [type(each.request) for each in effects.requests] == [UpdateMetadataRequest] * 3
    assert update_metadata_sent(effects.requests) == {each: [PARTITION] for each in (1, 2, 3)}
    assert (effects.decisions, effects.then) == ([], None)


@pytest.mark.parametrize(("leaving", "told_ones"), [(1, {1, 2, 3}), (2, {1, 2, 3}), (3, {1, 2})])
def test_broker_that_shuts_down_is_sent_only_partitions_it_leads_or_led(
    leaving: int, told_ones: set[int]
) -> None:
    """It no longer follows."""
    started = StartedController(image_of(LED))
    started.state.shutting_down.add(leaving)
    effects = started.altered(replace(LED, leader=2, leader_epoch=6, partition_epoch=8))
    assert leader_and_isr_sent(effects.requests).keys() == told_ones


def test_added_replica_may_create_its_log_and_removed_one_deletes_it() -> None:
    started = StartedController(image_of(replace(LED, replicas=(1, 2), isr=(1, 2))))
    moving = replace(MOVING, replicas=(3, 1, 2), leader_epoch=6, partition_epoch=8)
    effects = started.altered(moving)
    new = {
        broker_id: request.topic_states[0].partition_states[0].is_new
        for broker_id, request in requests_of_kind(effects.requests, LeaderAndIsrRequest).items()
    }
    assert new == {1: False, 2: False, 3: True}
    assert stop_replica_sent(effects.requests) == {}
    assert effects.decisions == []
    ended = replace(moving, replicas=(3, 1), isr=(1, 3), adding=(), removing=())
    effects = started.altered(replace(ended, leader_epoch=7, partition_epoch=9))
    assert stop_replica_sent(effects.requests) == {2: [("t", 0, True)]}
    assert leader_and_isr_sent(effects.requests).keys() == {1, 3}


@pytest.mark.parametrize(
    "fields", [{}, {"adding": (), "replicas": (1, 2)}, {"removing": ()}], ids=str
)
def test_reassignment_ends_once_all_targets_are_in_sync(
    fields: dict[str, Any],
) -> None:
    before = replace(LED, replicas=(1, 2, 3), isr=(1,), adding=(3,), removing=(2,))
    before = replace(before, **fields)
    started = StartedController(image_of(before))
    effects = started.altered(replace(before, isr=before.replicas, partition_epoch=8))
    [change] = changes(started.state, effects)
    assert (change.state.adding, change.state.removing) == ((), ())
    assert set(change.state.replicas) == set(before.replicas) - set(before.removing)


def test_deletion_resumes_when_a_reassignment_ends() -> None:
    started = StartedController(MarkForDeletion("t", T).apply_to(image_of(MOVING)))
    assert started.state.deletions == {"t": DeletionProgress(halted=True)}
    ended = replace(
        MOVING, replicas=(1, 2), adding=(), removing=(), partition_epoch=8, leader_epoch=6
    )
    effects = started.altered(ended)
    assert started.state.deletions == {"t": DeletionProgress(requested={(1, 0), (2, 0)})}
    stops = effects.requests[-2:]
    assert stop_replica_sent(stops) == {1: [("t", 0, True)], 2: [("t", 0, True)]}


@pytest.mark.parametrize("fields", [{"adding": ()}, {"removing": ()}], ids=str)
def test_deletion_waits_for_a_reassignment_that_only_adds_or_removes(
    fields: dict[str, Any],
) -> None:
    moving = replace(MOVING, **fields)
    started = StartedController(MarkForDeletion("t", T).apply_to(image_of(moving)))
    assert started.state.deletions == {"t": DeletionProgress(halted=True)}
    ended = replace(moving, replicas=(1, 2), adding=(), removing=(), partition_epoch=8)
    started.altered(ended)
    assert started.state.deletions == {"t": DeletionProgress(requested={(1, 0), (2, 0)})}


def test_isr_member_that_left_before_the_commit_is_removed() -> None:
    started = StartedController(image_of(replace(LED, isr=(1, 2)), away=3))
    effects = started.altered(replace(LED, partition_epoch=8))
    assert decided_states(started.state, effects) == [(0, 1, (1, 2))]
    assert len(effects.decisions) == 2


# -- settings, and what the store was told


def test_topic_that_starts_to_allow_unclean_elections_gets_leaders() -> None:
    lost = replace(LED, leader=NO_LEADER, isr=(3,))
    started = StartedController(image_of(lost, LED, topics={"s": lost, "r": lost}, away=3))
    made = [
        SetConfigs(ConfigResourceType.TOPIC, name, {}, {key: "true"})
        for name, key in (("s", "preallocate"), ("t", laws.UNCLEAN))
    ]
    effects = started.changed(*made)
    assert len(effects.decisions) == 1
    assert decided_states(started.state, effects) == [(0, 1, (1,))]
    named_like_it = SetConfigs(ConfigResourceType.GROUP, "r", {}, {laws.UNCLEAN: "true"})
    assert started.changed(named_like_it).decisions == []


def test_isr_changed_in_the_store_is_sent_to_all() -> None:
    started = StartedController(image_of(LED, LED))
    effects = started.machine.isr_changed([("t", 1)])
    assert update_metadata_sent(effects.requests) == {each: [("t", 1)] for each in (1, 2, 3)}
    assert effects.decisions == []


def test_failed_log_dirs_send_leader_and_isr_to_their_brokers() -> None:
    started = StartedController(image_of(LED))
    assert leader_and_isr_sent(started.machine.log_dirs_failed([2]).requests) == {2: [PARTITION]}


# -- answers


def test_response_counts_only_for_the_broker_epoch_of_its_request() -> None:
    started = StartedController(image_of(LED))
    for epoch, is_heard in ((EPOCH + 1, False), (EPOCH + 3, False), (EPOCH + 2, True)):
        sent_to = BrokerRequest(2, epoch, LeaderAndIsrRequest())
        response = failed_on(2, (T, 0, ErrorCode.KAFKA_STORAGE_ERROR))
        assert bool(started.machine.response_received(sent_to, response).decisions) == is_heard
    failed = UpdateMetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    for nothing_said in (None, failed):
        sent_to = BrokerRequest(1, EPOCH + 1, UpdateMetadataRequest())
        effects = started.machine.response_received(sent_to, nothing_said)
        assert (effects.requests, effects.decisions) == ([], [])


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [
        (2, EPOCH + 2, ErrorCode.NONE),
        (2, EPOCH + 1, ErrorCode.STALE_BROKER_EPOCH),
        (2, EPOCH + 3, ErrorCode.STALE_BROKER_EPOCH),
        (3, EPOCH + 3, ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_producer_ids_need_the_current_broker_epoch(
    broker_id: int, epoch: int, error: ErrorCode
) -> None:
    started = StartedController(image_of(LED, away=3))
    request = AllocateProducerIdsRequest(broker_id, epoch)
    assert started.machine.may_allocate_producer_ids(request).reply == error


# -- the indexes


def test_topic_recreated_in_one_delta_is_new() -> None:
    started = StartedController(image_of(LED, replace(LED, leader=2), MOVING))
    again = TopicImage("t", b"u" * 16, (replace(LED, replicas=(2, 1), leader=2, isr=(2, 1)), NEVER))
    effects = started.changed(DeleteTopic("t", T), CreateTopic(again))
    assert indexes_of(started.state) == indexes_from_image(started.state)
    assert indexes_of(started.state)["preferred"] == {1: 1, 2: 1}
    for request in requests_of_kind(effects.requests, LeaderAndIsrRequest).values():
        assert request.topic_states[0].partition_states[0].is_new
    assert stop_replica_sent(effects.requests) == {}


def any_state(draw: random.Random, partition_epoch: int) -> PartitionImage:
    replicas = draw.sample(range(1, 5), draw.randint(1, 3))
    if not partition_epoch and draw.random() < 0.2:
        return unassigned_partition(tuple(replicas))
    isr = draw.sample(replicas, draw.randint(1, len(replicas)))
    return PartitionImage(
        draw.choice([*isr, NO_LEADER]),
        partition_epoch,
        partition_epoch,
        tuple(replicas),
        tuple(isr),
        adding=tuple(replicas[:1]) if draw.random() < 0.2 else (),
        removing=tuple(replicas[-1:]) if draw.random() < 0.2 else (),
    )


def any_changes(draw: random.Random, image: ClusterImage, number: int) -> Sequence[Change]:
    """One or two random changes of one topic or broker."""
    name = draw.choice("abc")
    topic = image.topics.get(name)
    kind = draw.randrange(8)
    made = CreateTopic(
        TopicImage(name, number.to_bytes(16), tuple(any_state(draw, 0) for _ in range(2)))
    )
    if kind == 0:
        broker_id = draw.randint(1, 4)
        if broker_id in image.brokers:
            return [UnregisterBroker(broker_id)]
        return [RegisterBroker(replace(broker(broker_id), epoch=EPOCH + number))]
    if topic is None:
        return [made]
    if kind == 1:
        return [DeleteTopic(name, topic.id)]
    if kind == 2:
        return [DeleteTopic(name, topic.id), made]
    if kind == 3:
        return [AddPartitions(name, topic.id, len(topic.partitions), (any_state(draw, 0),))]
    index = draw.randrange(len(topic.partitions))
    epoch = topic.partitions[index].partition_epoch
    return [AlterPartition(name, topic.id, index, epoch, any_state(draw, number))]


@pytest.mark.parametrize("seed", range(20))
def test_indexes_match_the_image_after_random_changes(seed: int) -> None:
    draw = random.Random(seed)
    started = StartedController(image_of(LED))
    for number in range(1, 60):
        effects = started.changed(*any_changes(draw, started.state.image, number))
        if effects.then is not None:
            effects.then()
        for name in "abct":
            for index in range(3):
                partition = partition_of(started.state.image, (name, index))
                assert partition is None or started.state.partition((name, index)) is partition
        assert indexes_of(started.state) == indexes_from_image(started.state), number


def test_state_before_the_start_has_empty_indexes() -> None:
    state = ControllerState(Host(1, CONFIG, CONFIG), ClusterImage("c"))
    assert indexes_of(state) == {
        "hosted": {},
        "leaderless": set(),
        "reassigned": set(),
        "preferred": {},
        "displaced": {},
    }
    assert list(state.partitions_of("t")) == []
