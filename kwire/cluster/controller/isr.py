"""AlterPartition (key 56), v2-3: which replicas are in sync, as the partition's leader says.

Behaviour
- Only a registered broker is heard, in its epoch: else STALE_BROKER_EPOCH for the whole request.
- An unknown topic id: UNKNOWN_TOPIC_ID; an unknown partition: UNKNOWN_TOPIC_OR_PARTITION.
- A leader or partition epoch that is not known here yet: NOT_CONTROLLER, for there seems to be a
  later controller.  An earlier leader epoch: FENCED_LEADER_EPOCH.
- What is so already is answered with success, whatever partition epoch it was asked by; else an
  earlier partition epoch is INVALID_UPDATE_VERSION.
- A leader that recovers is alone in sync, and does not recover again once it has (KIP-704):
  INVALID_REQUEST.  So is what another broker than the leader says, an ISR without it, and one with
  brokers that have no replica.  (Apache Kafka believes all that, in ZooKeeper mode.)
- Who is not alive, or about to shut down, cannot come into sync: INELIGIBLE_REPLICA (KIP-841).

The epochs of the replicas' brokers (v3) are not looked at, as by Apache Kafka in ZooKeeper mode.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.cluster.controller.effects import Effects
from kwire.cluster.controller.state import ControllerState, Place, partition_of
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
    """What a leader says of one partition, as a `Decision`; what came of it."""

    def __init__(
        self, state: ControllerState, place: Place, leader: int, asked: RequestPartitionData
    ) -> None:
        self._state = state
        self._place = place
        self._leader = leader
        self._asked = asked
        with_epochs = [each.broker_id for each in asked.new_isr_with_epochs]
        self._isr = tuple(with_epochs or asked.new_isr)
        self._recovering = asked.leader_recovery_state == 1
        self._error = ErrorCode.NONE
        self._now: PartitionImage | None = None

    def __call__(self, image: ClusterImage) -> AlterPartition | None:
        known = partition_of(image, self._place)
        if known is None or is_new(known):
            self._error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return None
        self._error, self._now = self._stale(known), known
        if self._error or self._is_so(known):
            return None
        self._error = self._wrong(known)
        if self._error:
            return None
        self._now = replace(
            known,
            isr=self._isr,
            recovering=self._recovering,
            partition_epoch=known.partition_epoch + 1,
        )
        return self._state.alteration(image, self._place, self._now)

    def _stale(self, known: PartitionImage) -> ErrorCode:
        asked = self._asked
        is_newer = asked.partition_epoch > known.partition_epoch
        if is_newer or asked.leader_epoch > known.leader_epoch:
            return ErrorCode.NOT_CONTROLLER
        if asked.leader_epoch < known.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _is_so(self, known: PartitionImage) -> bool:
        return (self._leader, self._isr, self._recovering) == (
            known.leader,
            known.isr,
            known.recovering,
        )

    def _wrong(self, known: PartitionImage) -> ErrorCode:
        if self._asked.partition_epoch < known.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if self._recovering and (len(self._isr) > 1 or not known.recovering):
            return ErrorCode.INVALID_REQUEST
        if not self._is_of_members() or self._state.shutting_down.intersection(self._isr):
            return ErrorCode.INELIGIBLE_REPLICA
        is_leaders = self._leader == known.leader and self._leader in self._isr
        if not is_leaders or not set(self._isr) <= set(known.replicas):
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _is_of_members(self) -> bool:
        """Whether all are members, in the lives in which their leader knows them (KIP-903).

        A broker that has lost its power since may lack what it had.  -1 says nothing of that, as
        a leader on Apache Kafka does with ZooKeeper.
        """
        members = self._state.members
        lives = {each.broker_id: each.broker_epoch for each in self._asked.new_isr_with_epochs}
        return all(
            each in members and lives.get(each, -1) in (-1, members[each]) for each in self._isr
        )

    def answer(self) -> ResponsePartitionData:
        if self._error or self._now is None:
            return ResponsePartitionData(self._asked.partition_index, self._error)
        return ResponsePartitionData(
            self._asked.partition_index,
            ErrorCode.NONE,
            leader_id=self._now.leader,
            leader_epoch=self._now.leader_epoch,
            isr=list(self._now.isr),
            leader_recovery_state=int(self._now.recovering),
            partition_epoch=self._now.partition_epoch,
        )


def alter_partition(state: ControllerState, request: AlterPartitionRequest) -> Effects:
    if state.members.get(request.broker_id) != request.broker_epoch:
        return Effects(reply=AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
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
        asked = [
            IsrChange(state, (name, each.partition_index), request.broker_id, each)
            for each in topic.partitions
        ]
        changes.append((topic.topic_id, asked))

    def reply() -> Effects:
        known = [
            ResponseTopicData(topic_id=topic_id, partitions=[each.answer() for each in asked])
            for topic_id, asked in changes
        ]
        return Effects(reply=AlterPartitionResponse(topics=[*unknown, *known]))

    return Effects(decisions=[each for _, asked in changes for each in asked], then=reply)
