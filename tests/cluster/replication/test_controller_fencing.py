"""LeaderAndIsr, StopReplica and UpdateMetadata: from which controller, to which registration.

Also what StopReplica does by the leader epoch that it names, and which leader epochs are news.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.fetch import FetchRequest
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrResponse
from tests.cluster.replication.following_stage import (
    LEADER,
    TOPIC,
    TRUNCATES_ON_FETCH,
    FollowingStage,
    batch,
    data,
    fetched,
    following,
    requested_partitions,
)

CONTROLLER_EPOCH = 5
ANY_REGISTRATION = -1

Word = Callable[[FollowingStage, int, int], ErrorCode]
"""Says something by a controller of this epoch to this registration; gives the answer's error."""


def told_error(response: LeaderAndIsrResponse) -> ErrorCode:
    return ErrorCode(response.topics[0].partition_errors[0].error_code)


def leads(stage: FollowingStage, controller_epoch: int, broker_epoch: int) -> ErrorCode:
    reply = stage.send_leader_and_isr(
        {0: 1}, 9, controller_epoch=controller_epoch, broker_epoch=broker_epoch
    )
    if reply.error_code:
        assert told_error(reply) == reply.error_code, "of the request, and of each partition"
    return ErrorCode(reply.error_code)


def deletes(stage: FollowingStage, controller_epoch: int, broker_epoch: int) -> ErrorCode:
    reply = stage.send_stop_replica(
        0, -1, delete=True, controller_epoch=controller_epoch, broker_epoch=broker_epoch
    )
    assert bool(reply.partition_errors) == (not reply.error_code)
    return ErrorCode(reply.error_code)


def shows(stage: FollowingStage, controller_epoch: int, broker_epoch: int) -> ErrorCode:
    reply = stage.send_update_metadata(controller_epoch=controller_epoch, broker_epoch=broker_epoch)
    return ErrorCode(reply.error_code)


def state(stage: FollowingStage) -> tuple[object, ...]:
    """Everything that one of these requests can change."""
    broker = stage.broker.broker
    assert broker is not None
    hosted = {
        index: each.leader_epoch for index, each in broker.hosted.by_topic.get(TOPIC, {}).items()
    }
    return hosted, sorted(broker.logs.logs), sorted(broker.image.brokers)


words = pytest.mark.parametrize("word", [leads, deletes, shows])


@words
@pytest.mark.parametrize(
    ("controller", "registration", "error"),
    [
        (0, 0, ErrorCode.NONE),
        (1, 0, ErrorCode.NONE),
        (-1, 0, ErrorCode.STALE_CONTROLLER_EPOCH),
        (0, -1, ErrorCode.STALE_BROKER_EPOCH),
        (1, -1, ErrorCode.STALE_BROKER_EPOCH),
        (0, 1, ErrorCode.NONE),  # the broker has not heard of its next registration yet
        (0, None, ErrorCode.NONE),
    ],
)
async def test_request_is_accepted_only_from_the_latest_controller_to_the_latest_registration(
    tmp_path: Path, word: Word, controller: int, registration: int | None, error: ErrorCode
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 3, controller_epoch=CONTROLLER_EPOCH)
        before = state(stage)
        epoch = ANY_REGISTRATION if registration is None else stage.broker.epoch + registration
        assert word(stage, CONTROLLER_EPOCH + controller, epoch) == error
        assert (state(stage) == before) == bool(error)


@words
async def test_earlier_controller_is_refused_after_any_request_of_a_later_one(
    tmp_path: Path, word: Word
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        epoch = stage.broker.epoch
        assert word(stage, CONTROLLER_EPOCH, epoch) == ErrorCode.NONE
        for other in (leads, deletes, shows):
            assert other(stage, CONTROLLER_EPOCH - 1, epoch) == ErrorCode.STALE_CONTROLLER_EPOCH
            assert other(stage, CONTROLLER_EPOCH, epoch) == ErrorCode.NONE


async def test_refused_request_does_not_raise_the_known_controller_epoch(
    tmp_path: Path,
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        epoch = stage.broker.epoch
        assert leads(stage, CONTROLLER_EPOCH + 1, epoch - 1) == ErrorCode.STALE_BROKER_EPOCH
        assert leads(stage, CONTROLLER_EPOCH, epoch) == ErrorCode.NONE


@words
async def test_request_to_an_ended_registration_is_refused_before_and_after_the_next_one(
    tmp_path: Path, word: Word
) -> None:
    """The broker steps down before it registers again; earlier requests arrive late."""
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 3, controller_epoch=CONTROLLER_EPOCH)
        stage.broker.requests.step_down()
        before, ended = state(stage), stage.broker.epoch
        assert word(stage, CONTROLLER_EPOCH, ended) == ErrorCode.STALE_BROKER_EPOCH
        assert state(stage) == before
        assert word(stage, CONTROLLER_EPOCH, ended + 1) == ErrorCode.NONE
        assert state(stage) != before


# -- the leader epoch that StopReplica names


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.NONE),
        (4, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
        (-2, ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("delete", [True, False])
async def test_stop_replica_is_fenced_only_by_an_earlier_leader_epoch(
    tmp_path: Path, leader_epoch: int, error: ErrorCode, delete: bool
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER, 1: LEADER}, 3)
        call = await stage.next_request(FetchRequest)
        reply = stage.send_stop_replica(0, leader_epoch, delete=delete)
        assert reply.partition_errors[0].error_code == error
        broker = stage.broker.broker
        assert broker is not None
        left = {0, 1} if error or not delete else {1}
        assert broker.hosted.by_topic[TOPIC].keys() == left
        assert {index for _, index in broker.logs.logs} == left
        await stage.answer(call, fetched(data(0, batch(0, 3)), data(1, batch(0, 3))))
        followed = {0, 1} if error else {1}
        assert requested_partitions(await stage.next_request(FetchRequest)).keys() == followed


async def test_stop_replica_of_an_unknown_partition_is_no_error(tmp_path: Path) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        for delete in (True, False):
            [reply] = stage.send_stop_replica(4, 3, delete=delete).partition_errors
            assert (reply.topic_name, reply.partition_index) == (TOPIC, 4)
            assert reply.error_code == ErrorCode.NONE


# -- the leader epochs that LeaderAndIsr names


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (2, ErrorCode.STALE_CONTROLLER_EPOCH),
        (3, ErrorCode.STALE_CONTROLLER_EPOCH),
        (4, ErrorCode.NONE),
    ],
)
async def test_leader_and_isr_is_applied_only_with_a_later_leader_epoch(
    tmp_path: Path, leader_epoch: int, error: ErrorCode
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 3)
        assert told_error(stage.send_leader_and_isr({0: 1}, leader_epoch)) == error
        assert stage.partition().is_leader == (not error)


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(2, ErrorCode.STALE_CONTROLLER_EPOCH), (3, ErrorCode.NONE), (4, ErrorCode.NONE)],
)
async def test_next_registration_accepts_the_same_leader_epoch_but_no_earlier_one(
    tmp_path: Path, leader_epoch: int, error: ErrorCode
) -> None:
    async with following(tmp_path, TRUNCATES_ON_FETCH) as stage:
        stage.send_leader_and_isr({0: LEADER}, 3)
        stage.broker.requests.step_down()
        reply = stage.send_leader_and_isr(
            {0: LEADER}, leader_epoch, broker_epoch=stage.broker.epoch + 1
        )
        assert told_error(reply) == error
        assert stage.partition().following == (not error)
