"""AlterPartition (key 56), v2-3: the leader of a partition changes its in-sync replicas (ISR).

Behaviour
- A broker that is not registered, or with another epoch: STALE_BROKER_EPOCH for the whole request.
- An unknown topic id: UNKNOWN_TOPIC_ID; an unknown partition: UNKNOWN_TOPIC_OR_PARTITION.
- A leader epoch or partition epoch larger than this controller's: NOT_CONTROLLER, because a later
  controller must have made it.  A smaller leader epoch: FENCED_LEADER_EPOCH.
- A change that is already made succeeds with any partition epoch.  Otherwise a smaller partition
  epoch is INVALID_UPDATE_VERSION.
- INVALID_REQUEST: a recovering leader that names other in-sync replicas, or recovers again after it
  has recovered (KIP-704); a request of another broker than the leader; an ISR without the leader or
  with brokers that have no replica.  (Apache Kafka in ZooKeeper mode accepts all of these.)
- A replica whose broker is gone, shuts down, or has registered again since the leader last heard of
  it cannot be in sync: INELIGIBLE_REPLICA (KIP-841, KIP-903).
"""

from __future__ import annotations

from dataclasses import replace

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.state import ControllerState, TopicPartition, partition_of
from kwire.cluster.metadata.changes import AlterPartition
from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.image import ClusterImage, PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)


class IsrChange:
    """A decision: the ISR that a leader requests for one partition.  `answer` has its result."""

    def __init__(
        self,
        state: ControllerState,
        topic_partition: TopicPartition,
        leader: int,
        request: RequestPartitionData,
    ) -> None:
        """`leader` is the broker that sent the request."""
        self._state = state
        self._topic_partition = topic_partition
        self._leader = leader
        self._request = request
        with_epochs = [each.broker_id for each in request.new_isr_with_epochs]
        # Version 3 sends brokers with their epochs, version 2 only their ids.
        self._isr = tuple(with_epochs or request.new_isr)
        # 1 means RECOVERING: the leader was elected uncleanly and is not done.
        self._recovering = request.leader_recovery_state == 1
        self._error = ErrorCode.NONE
        # The state that `answer` reports: after the change, or the present one.
        self._now: PartitionImage | None = None

    def __call__(self, image: ClusterImage) -> AlterPartition | None:
        """Return the change to the requested ISR.

        None if the ISR is that already, or if the request is stale or not valid; `answer` then has
        the error.
        """
        partition = partition_of(image, self._topic_partition)
        if partition is None or is_new(partition):
            self._error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return None
        self._error, self._now = self._stale(partition), partition
        if self._error or self._is_made(partition):
            return None
        self._error = self._invalid(partition)
        if self._error:
            return None
        self._now = replace(
            partition,
            isr=self._isr,
            recovering=self._recovering,
            partition_epoch=partition.partition_epoch + 1,
        )
        return self._state.alteration(image, self._topic_partition, self._now)

    def _stale(self, partition: PartitionImage) -> ErrorCode:
        """Return the error if the request names old epochs, or NONE."""
        request = self._request
        is_newer = request.partition_epoch > partition.partition_epoch
        if is_newer or request.leader_epoch > partition.leader_epoch:
            return ErrorCode.NOT_CONTROLLER
        if request.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _is_made(self, partition: PartitionImage) -> bool:
        """Return whether the partition is as requested already.

        A leader may send a request twice, if it did not get the response.
        """
        return (self._leader, self._isr, self._recovering) == (
            partition.leader,
            partition.isr,
            partition.recovering,
        )

    def _invalid(self, partition: PartitionImage) -> ErrorCode:
        """Return the error if the requested ISR is not possible, or NONE."""
        if self._request.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if self._recovering and (len(self._isr) > 1 or not partition.recovering):
            return ErrorCode.INVALID_REQUEST
        if not self._is_of_members() or self._state.shutting_down.intersection(self._isr):
            return ErrorCode.INELIGIBLE_REPLICA
        is_leaders = self._leader == partition.leader and self._leader in self._isr
        if not is_leaders or not set(self._isr) <= set(partition.replicas):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _is_of_members(self) -> bool:
        """Whether all replicas are registered with the epochs that the leader names (KIP-903).

        A broker that has registered again may have lost records, for instance by a power failure.
        A leader that does not know the epoch sends -1, as Apache Kafka does in ZooKeeper mode.
        """
        members = self._state.members
        epochs = {each.broker_id: each.broker_epoch for each in self._request.new_isr_with_epochs}
        return all(
            each in members and epochs.get(each, -1) in (-1, members[each]) for each in self._isr
        )

    def answer(self) -> ResponsePartitionData:
        """The partition's part of the response, once the change is decided and committed."""
        if self._error or self._now is None:
            return ResponsePartitionData(self._request.partition_index, self._error)
        return ResponsePartitionData(
            self._request.partition_index,
            ErrorCode.NONE,
            leader_id=self._now.leader,
            leader_epoch=self._now.leader_epoch,
            isr=list(self._now.isr),
            leader_recovery_state=int(self._now.recovering),
            partition_epoch=self._now.partition_epoch,
        )


def alter_partition(state: ControllerState, request: AlterPartitionRequest) -> ControllerEffects:
    """Change the in-sync replicas of the partitions in a leader's request."""
    if state.members.get(request.broker_id) != request.broker_epoch:
        return ControllerEffects(
            reply=AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        )
    changes: list[tuple[bytes, list[IsrChange]]] = []
    unknown: list[ResponseTopicData] = []
    for topic in request.topics:
        name = state.image.names_by_id.get(topic.topic_id)
        if name is None:
            answers = [
                ResponsePartitionData(each.partition_index, ErrorCode.UNKNOWN_TOPIC_ID)
                for each in topic.partitions
            ]
            unknown.append(ResponseTopicData(topic_id=topic.topic_id, partitions=answers))
            continue
        of_topic = [
            IsrChange(state, (name, each.partition_index), request.broker_id, each)
            for each in topic.partitions
        ]
        changes.append((topic.topic_id, of_topic))

    def reply() -> ControllerEffects:
        """Return the response, with the result of each partition."""
        answered = [
            ResponseTopicData(topic_id=topic_id, partitions=[each.answer() for each in of_topic])
            for topic_id, of_topic in changes
        ]
        return ControllerEffects(reply=AlterPartitionResponse(topics=[*unknown, *answered]))

    return ControllerEffects(
        decisions=[each for _, of_topic in changes for each in of_topic], then=reply
    )
