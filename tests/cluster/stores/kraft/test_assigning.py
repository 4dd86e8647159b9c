"""Assignments of replicas to log directories: the queue, and the task that sends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import trio
import trio.testing

from kwire.cluster.metadata.image import (
    NO_LEADER,
    UNASSIGNED,
    ClusterImage,
    KraftPartitionImage,
    TopicImage,
)
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.kraft.assigning import (
    BATCH_MAX,
    AssignmentQueue,
    DirectoryAssignments,
    request_of,
)
from kwire.cluster.stores.kraft.lifecycle import Lifecycle
from kwire.cluster.stores.kraft.living import BrokerLife
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.codecs.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kwire.codecs.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.cluster.stores.kraft.lifecycle_stage import IDENTITY

A, B = b"a" * 16, b"b" * 16
TOPIC, OTHER = b"t" * 16, b"o" * 16
PARTITIONS = BATCH_MAX + 10


def image_with(directories: dict[int, bytes], replicas: tuple[int, ...] = (2, 1)) -> ClusterImage:
    """A topic whose replicas on broker 1 are in these directories, and in none otherwise."""
    partitions = tuple(
        KraftPartitionImage(
            2, 0, 0, replicas, replicas, directories=(B, directories.get(index, UNASSIGNED))
        )
        for index in range(PARTITIONS)
    )
    return ClusterImage("c").with_topics([TopicImage("t", TOPIC, partitions)])


def answer_to(
    request: AssignReplicasToDirsRequest, error_of: Callable[[int], int] = lambda index: 0
) -> AssignReplicasToDirsResponse:
    """The controllers' answer, with an error for each partition index."""
    return AssignReplicasToDirsResponse(
        directories=[
            ResponseDirectoryData(
                directory.id,
                [
                    ResponseTopicData(
                        topic.topic_id,
                        [
                            ResponsePartitionData(index, error_of(index))
                            for index in (each.partition_index for each in topic.partitions)
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def test_request_groups_replicas_by_directory_and_topic() -> None:
    wanted = {(TOPIC, 0): A, (TOPIC, 1): B, (OTHER, 0): A, (TOPIC, 2): A}
    request = request_of(1, 29, wanted)
    decoded = AssignReplicasToDirsRequest.decode(request.encode(0), 0)
    assert (decoded.broker_id, decoded.broker_epoch) == (1, 29)
    assert {
        directory.id: {
            topic.topic_id: [each.partition_index for each in topic.partitions]
            for topic in directory.topics
        }
        for directory in decoded.directories
    } == {A: {TOPIC: [0, 2], OTHER: [0]}, B: {TOPIC: [1]}}


def test_later_directory_of_a_replica_replaces_the_one_that_waits() -> None:
    queue = AssignmentQueue()
    queue.add((TOPIC, 0), A)
    queue.add((TOPIC, 0), B)
    assert queue.batch() == {(TOPIC, 0): B}


def test_answer_about_an_earlier_directory_keeps_the_later_one() -> None:
    queue = AssignmentQueue()
    queue.add((TOPIC, 0), A)
    sent = queue.batch()
    queue.add((TOPIC, 0), B)
    assert queue.answered(sent, answer_to(request_of(1, 29, sent))) == 0
    assert queue.batch() == {(TOPIC, 0): B}


def test_refused_replica_waits_behind_the_others() -> None:
    queue = AssignmentQueue()
    for index in range(3):
        queue.add((TOPIC, index), A)
    sent = queue.batch()
    answer = answer_to(
        request_of(1, 29, sent),
        lambda index: 0 if index else int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    )
    queue.add((OTHER, 7), A)
    assert queue.answered(sent, answer) == 1
    assert list(queue.batch()) == [(OTHER, 7), (TOPIC, 0)]


def test_refused_request_leaves_everything_waiting() -> None:
    queue = AssignmentQueue()
    queue.add((TOPIC, 0), A)
    sent = queue.batch()
    answer = answer_to(request_of(1, 29, sent))
    answer.error_code = ErrorCode.STALE_BROKER_EPOCH
    assert queue.answered(sent, answer) == 1
    assert queue.batch() == sent


def test_what_the_metadata_have_or_no_longer_need_is_dropped() -> None:
    queue = AssignmentQueue()
    queue.add((TOPIC, 0), A)
    queue.add((TOPIC, 1), A)
    queue.add((TOPIC, 2), A)
    queue.add((TOPIC, PARTITIONS), A)
    queue.add((OTHER, 0), A)
    queue.drop_settled(image_with({0: A, 1: B}), 1)
    assert queue.batch() == {(TOPIC, 1): A, (TOPIC, 2): A}
    queue.drop_settled(image_with({}, (2, 3)), 1)
    assert queue.batch() == {}


def test_known_directory_is_sent_again_while_the_partition_has_no_leader() -> None:
    """Controllers of Apache Kafka 4.4.0 elect one by it, if the replica was lost before."""
    queue = AssignmentQueue()
    queue.add((TOPIC, 0), A)
    image = image_with({0: A})
    topic = image.topics["t"]
    leaderless = replace(topic.partitions[0], leader=NO_LEADER)
    queue.drop_settled(
        image.with_topics([replace(topic, partitions=(leaderless, *topic.partitions[1:]))]), 1
    )
    assert queue.batch() == {(TOPIC, 0): A}
    queue.drop_settled(image, 1)
    assert queue.batch() == {}


@dataclass
class Channel:
    """Registers the broker in `epoch`, and answers assignments."""

    epoch: int = 29
    failures: int = 0
    sent: list[AssignReplicasToDirsRequest] = field(default_factory=list)

    async def call(self, request: Any, timeout_ms: float) -> Any:  # noqa: ANN401 - of three APIs
        await trio.sleep(0.01)
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=self.epoch)
        is_stale = request.broker_epoch != self.epoch
        code = ErrorCode.STALE_BROKER_EPOCH if is_stale else ErrorCode.NONE
        if isinstance(request, BrokerHeartbeatRequest):
            return BrokerHeartbeatResponse(error_code=code, is_caught_up=True)
        assert isinstance(request, AssignReplicasToDirsRequest)
        self.sent.append(request)
        if self.failures:
            self.failures -= 1
            raise PeerError("the controllers", f"no answer within {timeout_ms} ms")
        if is_stale:
            return AssignReplicasToDirsResponse(error_code=code)
        return answer_to(request)


async def test_replicas_are_sent_in_batches_again_after_failures_and_in_a_new_epoch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    channel = Channel(failures=2)
    image = image_with({})
    life = BrokerLife(Lifecycle(IDENTITY), channel, lambda: 100)
    assignments = DirectoryAssignments(channel, life, lambda: image)
    for index in range(PARTITIONS):
        assignments.assign(TOPIC, index, A)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(assignments.run)
        await trio.sleep(1)
        assert not channel.sent, "not before the registration"
        nursery.start_soon(life.run)
        await trio.sleep(1)
        assert assignments.waiting == 0
        sizes = [len(each.directories[0].topics[0].partitions) for each in channel.sent]
        assert sizes == [BATCH_MAX, BATCH_MAX, BATCH_MAX, PARTITIONS - BATCH_MAX]
        channel.epoch = 50
        assignments.assign(TOPIC, 0, B)
        await trio.sleep(30)
        assert assignments.waiting == 0
        assert channel.sent[-1].broker_epoch == 50
        nursery.cancel_scope.cancel()


async def test_task_ends_when_the_broker_has_left(autojump_clock: trio.testing.MockClock) -> None:
    channel = Channel()
    life = BrokerLife(Lifecycle(IDENTITY), channel, lambda: 100)
    image = image_with({})
    assignments = DirectoryAssignments(channel, life, lambda: image)
    assignments.assign(TOPIC, 0, A)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(assignments.run)
        nursery.start_soon(life.leave)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(life.run)
    assert not channel.sent
