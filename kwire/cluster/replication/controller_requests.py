"""ControllerRequests: carries out the controller's LeaderAndIsr, StopReplica and UpdateMetadata.

All three requests name the epoch of the controller and the broker epoch of this broker.  A request
of an earlier controller, or to an earlier registration of this broker, is refused whole:

    controller epoch below the highest one received    STALE_CONTROLLER_EPOCH
    broker epoch below this broker's (-1 matches any)  STALE_BROKER_EPOCH

LeaderAndIsr checks each partition in this order (as Apache Kafka 3.9):

    its log directory is offline, or may be            KAFKA_STORAGE_ERROR
    its topic id differs from that of the log          INCONSISTENT_TOPIC_ID
    its leader epoch is not above the known one        STALE_CONTROLLER_EPOCH
    this broker is not one of its replicas             UNKNOWN_TOPIC_OR_PARTITION

StopReplica answers FENCED_LEADER_EPOCH to a leader epoch below the known one; -1 and -2 (the topic
is being deleted) are always accepted.

A new partition may find no room on disk (kwire.log.directory.shortage).  It is answered with
KAFKA_STORAGE_ERROR too, and the controller treats the replica as offline.  Later this broker makes
the controller send LeaderAndIsr again.

When the registration of this broker ends, `step_down` makes it lead and follow nothing until the
controller sends LeaderAndIsr for the next registration.  That may name the leader epoch that the
partition already had: if no other replica was in sync, or if this broker was not in the ISR.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.replication.metadata_update import delta_of_update
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kwire.codecs.messages.update_metadata import UpdateMetadataResponse
from kwire.codecs.primitives import ZERO_UUID
from kwire.log import LogError

if TYPE_CHECKING:
    from kwire.cluster.replication.context import ReplicationContext
    from kwire.cluster.replication.manager import ReplicaManager
    from kwire.codecs.messages.update_metadata import UpdateMetadataRequest
    from kwire.storage.partitions.partition import Partition

log = logging.getLogger("kwire.replication")

NO_BROKER_EPOCH: Final = -1
NO_LEADER_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2
TOPICS_SINCE: Final = 5
"""First version of LeaderAndIsr whose response groups errors by topic id."""

ASK_AGAIN_S: Final = 2.0
"""Pause after a shortage of disk space before the controller is made to send LeaderAndIsr again."""

Key = tuple[str, int]


class ControllerRequests:
    """See the module.  Each request is carried out before it is answered, without awaiting."""

    def __init__(
        self, manager: ReplicaManager, host: ReplicationContext, nursery: trio.Nursery
    ) -> None:
        """`manager` leads and follows; `nursery` runs the task that reports shortages."""
        self._manager = manager
        self._host = host
        self._hosted = host.hosted
        self._stepped_down: set[Key] = set()
        """Partitions that were stepped down: LeaderAndIsr may name their known leader epoch."""
        self._shortage_found = trio.Event()
        """Set when a partition found no room on disk."""
        self._reported_offline: set[Key] = set()
        """Partitions without room, for which the controller has not sent StopReplica yet."""
        self._lost_epoch = NO_BROKER_EPOCH
        """Broker epoch of the registration that ended; requests that name it come too late."""
        self.controller_epoch = 0
        nursery.start_soon(self._request_offline_again)

    async def _request_offline_again(self) -> None:
        """Reports partitions without room on disk to the controller, from time to time.

        The controller then sends LeaderAndIsr again, which opens them if there is room by then.
        """
        while True:
            await self._shortage_found.wait()
            await trio.sleep(ASK_AGAIN_S)
            self._shortage_found = trio.Event()
            await self._host.report_offline()

    def step_down(self) -> None:
        """Stops leading and following after this broker's registration has ended.

        Requests that name that registration are refused from now on.
        """
        self._lost_epoch = self._host.broker_epoch
        self._stepped_down |= {(partition.topic, partition.index) for partition in self._hosted}
        self._manager.step_down()

    def _request_error(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Return the error that refuses a whole request, by the epochs that it names; or NONE."""
        is_old = broker_epoch < self._host.broker_epoch or broker_epoch <= self._lost_epoch
        if broker_epoch != NO_BROKER_EPOCH and is_old:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            log.warning(
                "Refusing a request of the controller of epoch %d: epoch %d is known.",
                controller_epoch,
                self.controller_epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    # -- LeaderAndIsr

    def leader_and_isr(self, request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
        """Makes this broker leader or follower of the partitions of `request`.

        Returns the response.
        """
        error = self._request_error(request.controller_epoch, request.broker_epoch)
        answers: dict[bytes, list[LeaderAndIsrPartitionError]] = {}
        states = {
            (name, state.partition_index): (id_, state) for name, id_, state in _states(request)
        }
        for (name, index), (topic_id, state) in states.items():
            answers.setdefault(topic_id, []).append(
                LeaderAndIsrPartitionError(
                    name,
                    index,
                    error or self._become(name, topic_id, state),
                )
            )
        self._manager.end_idle()
        if version < TOPICS_SINCE:
            flat = [answer for topic_answers in answers.values() for answer in topic_answers]
            return LeaderAndIsrResponse(error, partition_errors=flat)
        topics = [
            LeaderAndIsrTopicError(topic_id, topic_answers)
            for topic_id, topic_answers in answers.items()
        ]
        return LeaderAndIsrResponse(error, topics=topics)

    def _become(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> ErrorCode:
        """Makes this broker leader or follower of one partition; returns its error, or NONE."""
        index = state.partition_index
        partition = self._hosted.get(topic, index)
        if partition is not None and partition.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        present_log = self._host.logs.logs.get((topic, index))
        if present_log is not None and _differ(topic_id, present_log.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if partition is not None and self._has_leader_epoch(partition, state.leader_epoch):
            return self._answer_known_epoch(partition, topic_id, state)
        if self._host.node_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            if partition is None:
                partition = self._manager.open(topic, topic_id, index, is_new=state.is_new)
            else:
                _take_id(partition, topic_id)
            self._manager.follow(partition, image_of(state))
        except LogError as error:
            log.error("Cannot lead or follow %s-%d: %s", topic, index, error)
            self._note_failed((topic, index), error.error)
            return error.error
        self._stepped_down.discard((topic, index))
        return ErrorCode.NONE

    def _note_failed(self, key: Key, error: ErrorCode) -> None:
        """Notes that a partition could not be opened for LeaderAndIsr.

        A storage error without a failed log directory is a shortage, which may pass.
        """
        if error == ErrorCode.KAFKA_STORAGE_ERROR and not self._host.logs.offline_dirs:
            self._reported_offline.add(key)
            self._shortage_found.set()

    def _note_stopped(self, key: Key) -> None:
        """Notes that the controller stops a replica, because it treats the replica as offline.

        If there was room for the replica meanwhile, it waits for LeaderAndIsr again.
        """
        if key in self._reported_offline:
            self._reported_offline.discard(key)
            if self._hosted.get(*key) is not None:
                self._stepped_down.add(key)

    def _has_leader_epoch(self, partition: Partition, leader_epoch: int) -> bool:
        """Whether the partition has that leader epoch already, or a later one."""
        if (partition.topic, partition.index) in self._stepped_down:
            return leader_epoch < partition.leader_epoch
        return leader_epoch <= partition.leader_epoch

    @staticmethod
    def _answer_known_epoch(
        partition: Partition, topic_id: bytes, state: LeaderAndIsrPartitionState
    ) -> ErrorCode:
        """Return the result of LeaderAndIsr with a leader epoch that is known already.

        Such a request may still bring a missing topic id; otherwise it is stale.
        """
        same = state.leader_epoch == partition.leader_epoch
        if not same or topic_id == ZERO_UUID or partition.topic_id != ZERO_UUID:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        _take_id(partition, topic_id)
        return ErrorCode.NONE

    # -- StopReplica

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stops the replicas that `request` names, or deletes them; returns the response."""
        error = self._request_error(request.controller_epoch, request.broker_epoch)
        answers = []
        for name, state in _stopped(request):
            if error:
                break
            partition_error = self._stop(name, state)
            answers.append(StopReplicaPartitionError(name, state.partition_index, partition_error))
        self._manager.end_idle()
        return StopReplicaResponse(error, answers)

    def _stop(self, topic: str, state: StopReplicaPartitionState) -> ErrorCode:
        """Stops a replica, and deletes its log if the controller requests it.

        Returns an error, without any change, if the log is offline or the request is of an older
        leader epoch.
        """
        index = state.partition_index
        partition = self._hosted.get(topic, index)
        if partition is not None:
            if partition.log.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            # Two values stand for "no epoch"; the request is then carried out in any epoch.
            named = state.leader_epoch not in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE)
            if named and state.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        if not state.delete_partition:
            self._manager.stop(topic, index)
            self._note_stopped((topic, index))
            return ErrorCode.NONE
        self._stepped_down.discard((topic, index))
        self._reported_offline.discard((topic, index))
        self._manager.delete(topic, index)
        return ErrorCode.NONE

    # -- UpdateMetadata

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Apply the topics and brokers of `request` to this broker's metadata image."""
        error = self._request_error(request.controller_epoch, request.broker_epoch)
        if not error:
            before = self._host.image
            delta = delta_of_update(before, request)
            self._manager.quotas.topics_deleted(delta.deleted)
            self._host.apply_metadata(delta.applied_to(before), delta)
        return UpdateMetadataResponse(error)


def _states(
    request: LeaderAndIsrRequest,
) -> Iterator[tuple[str, bytes, LeaderAndIsrPartitionState]]:
    """Yield topic name, topic id and state of each partition in `request`.

    Old versions do not group partitions by topic, and have no topic ids.
    """
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state


def _stopped(request: StopReplicaRequest) -> Iterator[tuple[str, StopReplicaPartitionState]]:
    """Yield topic and partition of each entry; the request has one of three forms, by version."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state
    delete = request.delete_partitions
    for old in request.topics:
        for index in old.partition_indexes:
            yield old.name, StopReplicaPartitionState(index, NO_LEADER_EPOCH, delete)
    for oldest in request.ungrouped_partitions:
        yield (
            oldest.topic_name,
            StopReplicaPartitionState(oldest.partition_index, NO_LEADER_EPOCH, delete),
        )


def _take_id(partition: Partition, topic_id: bytes) -> None:
    """Set the topic id of a partition that had none."""
    if partition.topic_id == ZERO_UUID != topic_id:
        partition.log.adopt_topic_id(topic_id)
        partition.topic_id = topic_id


def _differ(topic_id: bytes, known_id: bytes) -> bool:
    """Whether these are ids of two different topics; the zero id matches any."""
    return ZERO_UUID not in (topic_id, known_id) and topic_id != known_id


def image_of(state: LeaderAndIsrPartitionState) -> PartitionImage:
    """Return the partition state that a LeaderAndIsr request has."""
    return PartitionImage(
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        tuple(state.replicas),
        tuple(state.isr),
        (),
        tuple(state.adding_replicas),
        tuple(state.removing_replicas),
        state.leader_recovery_state == 1,
        state.controller_epoch,
    )
