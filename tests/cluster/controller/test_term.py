"""A term of a controller: what its begin tells and decides, and what each change of the store does.

What it knows by its indexes is at any time what the image says (`known_by`).
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
from tests.cluster.controller.test_coming_and_going import decided, failed_on, led, shown, stopped
from tests.cluster.controller.test_decided import (
    CONFIG,
    EPOCH,
    LED,
    MOVING,
    PLACE,
    broker,
    changes,
    stated,
)
from tests.cluster.controller.test_told import sent

T = b"t" * 16
NEVER = unassigned_partition((1, 2))
QUIET = BrokerConfig({"node.id": "1", "auto.leader.rebalance.enable": "false"})


def image_of(
    *partitions: PartitionImage, topics: dict[str, PartitionImage] | None = None, away: int = 0
) -> ClusterImage:
    """The topic `t` of these partitions, others of one, and three brokers but one."""
    image = stated(*partitions, away=away or None).image
    for name, known in (topics or {}).items():
        image = CreateTopic(TopicImage(name, name.encode() * 16, (known,))).apply_to(image)
    return image


class Told:
    """A machine that has begun, and is told of changes as the store publishes them."""

    def __init__(self, image: ClusterImage, config: BrokerConfig = QUIET) -> None:
        self.host = Host(1, config, config)
        self.machine = ClusterController(self.host, image)
        self.begun = self.machine.start()

    @property
    def state(self) -> ControllerState:
        return self.machine.state

    def changed(self, *made: Change) -> ControllerEffects:
        before = self.state.image
        after = apply_all(before, made)
        return self.machine.image_changed(after, delta_of(before, after, made))

    def altered(self, after: PartitionImage, index: int = 0, topic: str = "t") -> ControllerEffects:
        known = self.state.image.topics[topic]
        epoch = known.partitions[index].partition_epoch
        return self.changed(AlterPartition(topic, known.id, index, epoch, after))


def known_by(state: ControllerState) -> dict[str, object]:
    """What the indexes say, without what they say of nothing."""
    return {
        "hosted": {each: its for each, its in state.hosted.items() if its},
        "leaderless": state.leaderless,
        "reassigned": state.reassigned,
        "preferred": {each: count for each, count in state.preferred.items() if count},
        "displaced": {each: its for each, its in state.displaced.items() if its},
    }


def known_anew(state: ControllerState) -> dict[str, object]:
    """What they say who looks at the whole image."""
    anew = ControllerState(state.settings, state.image)
    anew.members = state.members
    for name, topic in state.image.topics.items():
        for index, known in enumerate(topic.partitions):
            anew.add_to_indexes((name, index), known)
    return known_by(anew)


# -- the begin


def test_new_controller_tells_everybody_who_is_alive_then_who_leads_and_then_all_there_is() -> None:
    told = Told(
        image_of(LED, NEVER, topics={"s": replace(LED, replicas=(2, 3), leader=2, isr=(2, 3))})
    )
    requests = told.begun.requests
    first, rest = requests[:3], requests[3:]
    assert [each.broker_id for each in first] == [1, 2, 3]
    assert shown(first) == {1: [], 2: [], 3: []}
    kinds = [type(each.request) for each in rest]
    assert kinds == [LeaderAndIsrRequest] * 3 + [UpdateMetadataRequest] * 3
    assert led(rest) == {1: [PLACE], 2: [("s", 0), PLACE], 3: [("s", 0), PLACE]}
    assert shown(rest) == {each: [("s", 0), PLACE] for each in (1, 2, 3)}
    for request in sent(rest, LeaderAndIsrRequest).values():
        assert not any(
            each.is_new for topic in request.topic_states for each in topic.partition_states
        )
    assert decided(told.state, told.begun) == [(1, 1, (1, 2))]


def test_new_controller_goes_on_with_what_the_one_before_left() -> None:
    """Brokers that went, partitions without a leader, reassignments, deletions."""
    image = image_of(
        LED,
        replace(LED, leader=NO_LEADER, isr=(1,)),
        MOVING,
        topics={"s": replace(LED, replicas=(1, 2), isr=(1, 2)), "r": LED},
        away=3,
    )
    for name in "rs":
        image = MarkForDeletion(name, name.encode() * 16).apply_to(image)
    told = Told(image)
    assert told.state.members == {1: EPOCH + 1, 2: EPOCH + 2}
    assert decided(told.state, told.begun) == [(0, 1, (1, 2)), (1, 1, (1,)), (2, 1, (1, 2))]
    assert told.state.deletions == {
        "r": DeletionProgress(halted=True),
        "s": DeletionProgress(requested={(1, 0), (2, 0)}),
    }
    stops = [each for each in told.begun.requests if isinstance(each.request, StopReplicaRequest)]
    assert stopped(stops) == {1: [("s", 0, True)], 2: [("s", 0, True)]}


def test_new_controller_knows_by_its_indexes_what_the_image_says() -> None:
    partitions = [LED, replace(LED, leader=2), MOVING, NEVER, replace(LED, leader=NO_LEADER)]
    told = Told(image_of(*partitions))
    assert known_by(told.state) == {
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


def test_topic_that_is_made_gets_its_leaders_and_nobody_is_told_before() -> None:
    told = Told(image_of(LED))
    effects = told.changed(CreateTopic(TopicImage("n", b"n" * 16, (NEVER, NEVER))))
    assert effects.requests == []
    assert decided(told.state, effects) == [(0, 1, (1, 2)), (1, 1, (1, 2))]


def test_first_leader_of_a_partition_is_told_to_its_replicas_that_may_make_it() -> None:
    told = Told(image_of(LED, NEVER))
    effects = told.altered(
        replace(NEVER, leader=1, leader_epoch=0, partition_epoch=0, isr=(1, 2)), 1
    )
    assert effects.decisions == []
    assert led(effects.requests) == {1: [("t", 1)], 2: [("t", 1)]}
    for request in sent(effects.requests, LeaderAndIsrRequest).values():
        assert request.topic_states[0].partition_states[0].is_new
    assert shown(effects.requests) == {each: [("t", 1)] for each in (1, 2, 3)}


def test_another_leader_is_told_to_replicas_that_are_there_and_to_all_for_clients() -> None:
    told = Told(image_of(LED, away=3))
    told.state.offline[2] = {PLACE}
    effects = told.altered(replace(LED, leader=2, leader_epoch=6, partition_epoch=8, isr=(1, 2)))
    assert led(effects.requests) == {1: [PLACE]}
    [state] = sent(effects.requests, LeaderAndIsrRequest)[1].topic_states[0].partition_states
    assert not state.is_new
    assert shown(effects.requests) == {1: [PLACE], 2: [PLACE]}
    assert stopped(effects.requests) == {}


def test_isr_in_the_same_leader_epoch_is_told_for_clients_alone() -> None:
    told = Told(image_of(LED))
    effects = told.altered(replace(LED, partition_epoch=8, isr=(1, 2)))
    assert [type(each.request) for each in effects.requests] == [UpdateMetadataRequest] * 3
    assert shown(effects.requests) == {each: [PLACE] for each in (1, 2, 3)}
    assert (effects.decisions, effects.then) == ([], None)


@pytest.mark.parametrize(("leaving", "told_ones"), [(1, {1, 2, 3}), (2, {1, 2, 3}), (3, {1, 2})])
def test_broker_about_to_go_is_told_only_of_what_it_has_led_or_leads(
    leaving: int, told_ones: set[int]
) -> None:
    """It follows no longer."""
    told = Told(image_of(LED))
    told.state.shutting_down.add(leaving)
    effects = told.altered(replace(LED, leader=2, leader_epoch=6, partition_epoch=8))
    assert led(effects.requests).keys() == told_ones


def test_replica_that_comes_may_make_its_log_and_one_that_goes_deletes_it() -> None:
    told = Told(image_of(replace(LED, replicas=(1, 2), isr=(1, 2))))
    moving = replace(MOVING, replicas=(3, 1, 2), leader_epoch=6, partition_epoch=8)
    effects = told.altered(moving)
    new = {
        broker_id: request.topic_states[0].partition_states[0].is_new
        for broker_id, request in sent(effects.requests, LeaderAndIsrRequest).items()
    }
    assert new == {1: False, 2: False, 3: True}
    assert stopped(effects.requests) == {}
    assert effects.decisions == []
    ended = replace(moving, replicas=(3, 1), isr=(1, 3), adding=(), removing=())
    effects = told.altered(replace(ended, leader_epoch=7, partition_epoch=9))
    assert stopped(effects.requests) == {2: [("t", 0, True)]}
    assert led(effects.requests).keys() == {1, 3}


@pytest.mark.parametrize(
    "fields", [{}, {"adding": (), "replicas": (1, 2)}, {"removing": ()}], ids=str
)
def test_reassignment_ends_once_all_that_are_to_stay_are_in_sync(
    fields: dict[str, Any],
) -> None:
    before = replace(LED, replicas=(1, 2, 3), isr=(1,), adding=(3,), removing=(2,))
    before = replace(before, **fields)
    told = Told(image_of(before))
    effects = told.altered(replace(before, isr=before.replicas, partition_epoch=8))
    [change] = changes(told.state, effects)
    assert (change.state.adding, change.state.removing) == ((), ())
    assert set(change.state.replicas) == set(before.replicas) - set(before.removing)


def test_deletion_that_waited_for_the_end_of_a_reassignment_goes_on() -> None:
    told = Told(MarkForDeletion("t", T).apply_to(image_of(MOVING)))
    assert told.state.deletions == {"t": DeletionProgress(halted=True)}
    ended = replace(
        MOVING, replicas=(1, 2), adding=(), removing=(), partition_epoch=8, leader_epoch=6
    )
    effects = told.altered(ended)
    assert told.state.deletions == {"t": DeletionProgress(requested={(1, 0), (2, 0)})}
    stops = effects.requests[-2:]
    assert stopped(stops) == {1: [("t", 0, True)], 2: [("t", 0, True)]}


@pytest.mark.parametrize("fields", [{"adding": ()}, {"removing": ()}], ids=str)
def test_deletion_waits_for_a_reassignment_that_adds_or_removes_only(
    fields: dict[str, Any],
) -> None:
    moving = replace(MOVING, **fields)
    told = Told(MarkForDeletion("t", T).apply_to(image_of(moving)))
    assert told.state.deletions == {"t": DeletionProgress(halted=True)}
    ended = replace(moving, replicas=(1, 2), adding=(), removing=(), partition_epoch=8)
    told.altered(ended)
    assert told.state.deletions == {"t": DeletionProgress(requested={(1, 0), (2, 0)})}


def test_member_of_the_isr_that_went_before_its_coming_was_committed_is_gone_on_without() -> None:
    told = Told(image_of(replace(LED, isr=(1, 2)), away=3))
    effects = told.altered(replace(LED, partition_epoch=8))
    assert decided(told.state, effects) == [(0, 1, (1, 2))]
    assert len(effects.decisions) == 2


# -- settings, and what the store was told


def test_elections_are_held_where_a_topic_allows_unclean_ones_from_now_on() -> None:
    lost = replace(LED, leader=NO_LEADER, isr=(3,))
    told = Told(image_of(lost, LED, topics={"s": lost, "r": lost}, away=3))
    made = [
        SetConfigs(ConfigResourceType.TOPIC, name, {}, {key: "true"})
        for name, key in (("s", "preallocate"), ("t", laws.UNCLEAN))
    ]
    effects = told.changed(*made)
    assert len(effects.decisions) == 1
    assert decided(told.state, effects) == [(0, 1, (1,))]
    named_like_it = SetConfigs(ConfigResourceType.GROUP, "r", {}, {laws.UNCLEAN: "true"})
    assert told.changed(named_like_it).decisions == []


def test_isr_that_a_leader_changed_in_the_store_is_shown_to_all() -> None:
    told = Told(image_of(LED, LED))
    effects = told.machine.isr_changed([("t", 1)])
    assert shown(effects.requests) == {each: [("t", 1)] for each in (1, 2, 3)}
    assert effects.decisions == []


def test_brokers_that_lost_disks_are_asked() -> None:
    told = Told(image_of(LED))
    assert led(told.machine.log_dirs_failed([2]).requests) == {2: [PLACE]}


# -- answers


def test_answer_is_heard_in_the_life_that_was_asked() -> None:
    told = Told(image_of(LED))
    for epoch, is_heard in ((EPOCH + 1, False), (EPOCH + 3, False), (EPOCH + 2, True)):
        sent_to = BrokerRequest(2, epoch, LeaderAndIsrRequest())
        response = failed_on(2, (T, 0, ErrorCode.KAFKA_STORAGE_ERROR))
        assert bool(told.machine.response_received(sent_to, response).decisions) == is_heard
    failed = UpdateMetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    for nothing_said in (None, failed):
        sent_to = BrokerRequest(1, EPOCH + 1, UpdateMetadataRequest())
        effects = told.machine.response_received(sent_to, nothing_said)
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
def test_producer_ids_are_for_members_in_their_lives(
    broker_id: int, epoch: int, error: ErrorCode
) -> None:
    told = Told(image_of(LED, away=3))
    request = AllocateProducerIdsRequest(broker_id, epoch)
    assert told.machine.may_allocate_producer_ids(request).reply == error


# -- the indexes


def test_topic_that_is_deleted_and_made_anew_at_once_was_never_led() -> None:
    told = Told(image_of(LED, replace(LED, leader=2), MOVING))
    again = TopicImage("t", b"u" * 16, (replace(LED, replicas=(2, 1), leader=2, isr=(2, 1)), NEVER))
    effects = told.changed(DeleteTopic("t", T), CreateTopic(again))
    assert known_by(told.state) == known_anew(told.state)
    assert known_by(told.state)["preferred"] == {1: 1, 2: 1}
    for request in sent(effects.requests, LeaderAndIsrRequest).values():
        assert request.topic_states[0].partition_states[0].is_new
    assert stopped(effects.requests) == {}


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
    """One or two, of one topic or broker."""
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
def test_indexes_say_what_the_image_says_whatever_changes(seed: int) -> None:
    draw = random.Random(seed)
    told = Told(image_of(LED))
    for number in range(1, 60):
        effects = told.changed(*any_changes(draw, told.state.image, number))
        if effects.then is not None:
            effects.then()
        for name in "abct":
            for index in range(3):
                known = partition_of(told.state.image, (name, index))
                assert known is None or told.state.partition((name, index)) is known
        assert known_by(told.state) == known_anew(told.state), number


def test_controller_that_never_begins_knows_of_nothing() -> None:
    state = ControllerState(Host(1, CONFIG, CONFIG), ClusterImage("c"))
    assert known_by(state) == {
        "hosted": {},
        "leaderless": set(),
        "reassigned": set(),
        "preferred": {},
        "displaced": {},
    }
    assert list(state.partitions_of("t")) == []
