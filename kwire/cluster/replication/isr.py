"""Asking the controller for other in-sync replicas: AlterPartition (KIP-497), v2-3.

All that is asked for while a request is under way goes into the next one; a partition is in one
request at a time.  What is answered, as Apache Kafka 3.9:

    no error                                      the ISR, unless the partition has moved on
    OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA   it was not changed: the committed ISR holds
    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, NEW_LEADER_ELECTED,
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID  it is not known what holds: the maximal ISR counts
                                                  until the controller says what is (LeaderAndIsr)
    any other, of a partition or of the request,  asked again after 50 ms
    or no answer
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.peers.error import PeerError
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from kwire.cluster.replication.context import ReplicationContext
    from kwire.storage.partitions.partition import Partition

log = logging.getLogger("kwire.replication")

RETRY_S: Final = 0.05
EPOCHS_SINCE: Final = 3
PARTITIONS_MAX: Final = 10_000
"""In one request: a broker that dies makes each leader ask for all that it shared with it."""

_NOT_CHANGED = {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA}
_NOT_KNOWN = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
}

_Key = tuple[bytes, int]


class Proposal:
    """One partition's wish, and what it was decided by."""

    __slots__ = ("isr", "leader_epoch", "members", "partition", "partition_epoch")

    def __init__(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self.partition = partition
        self.isr = isr
        self.members = [BrokerState(each, _broker_epoch(partition, each)) for each in isr]
        """In the lives in which they fetched: one that has begun another may lack what it had."""
        self.leader_epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch

    @property
    def is_current(self) -> bool:
        """Whether the partition still waits for this; the controller may have spoken meanwhile."""
        partition = self.partition
        leading = partition.leading
        return (
            leading is not None
            and leading.proposed is self.isr
            and partition.leader_epoch == self.leader_epoch
            and partition.partition_epoch == self.partition_epoch
        )


class IsrChanges:
    """All partitions' wishes, on their way to the controller."""

    def __init__(self, host: ReplicationContext) -> None:
        self._host = host
        self._unsent: dict[_Key, Proposal] = {}
        self._wanted = trio.Event()

    def ask(self, partition: Partition, isr: tuple[int, ...]) -> None:
        self._unsent[partition.topic_id, partition.index] = Proposal(partition, isr)
        self._wanted.set()

    async def run(self) -> None:
        """Send what is asked for, one request at a time, until cancelled."""
        while True:
            await self._wanted.wait()
            proposals = self._take()
            if not proposals:
                self._wanted = trio.Event()
                continue
            if not await self._send(proposals):
                await trio.sleep(RETRY_S)

    def _take(self) -> dict[_Key, Proposal]:
        """What goes into one request."""
        taken: dict[_Key, Proposal] = {}
        while self._unsent and len(taken) < PARTITIONS_MAX:
            key, proposal = self._unsent.popitem()
            if proposal.is_current:
                taken[key] = proposal
        return taken

    async def _send(self, proposals: dict[_Key, Proposal]) -> bool:
        """Whether the request as such was answered; what is to be asked again is unsent then."""
        try:
            response = await self._host.alter_partition(self._request(proposals))
        except PeerError as problem:
            log.warning("the controller cannot be asked for other in-sync replicas: %s", problem)
            self._again(proposals)
            return False
        if response.error_code:
            name = ErrorCode(response.error_code).name
            log.warning("the controller changes no in-sync replicas: %s", name)
            self._again(proposals)
            return False
        return self._apply(response, proposals)

    def _apply(self, response: AlterPartitionResponse, proposals: dict[_Key, Proposal]) -> bool:
        again = dict(proposals)
        for topic in response.topics:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition_index
                proposal = again.get(key)
                if proposal is None:
                    continue
                error = ErrorCode(answer.error_code)
                if not error or error in _NOT_CHANGED or error in _NOT_KNOWN:
                    del again[key]
                if not error:
                    settle(
                        proposal,
                        answer.leader_epoch,
                        answer.partition_epoch,
                        tuple(answer.isr),
                    )
                else:
                    _note_refused(proposal, error)
        self._again(again)
        return not again

    def _again(self, proposals: dict[_Key, Proposal]) -> None:
        """Unsend them; `_take` leaves out what is asked for no longer by then."""
        for key, proposal in proposals.items():
            self._unsent.setdefault(key, proposal)

    def _request(self, proposals: dict[_Key, Proposal]) -> AlterPartitionRequest:
        topics: dict[bytes, list[RequestPartitionData]] = {}
        for (topic_id, index), proposal in proposals.items():
            topics.setdefault(topic_id, []).append(
                RequestPartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=list(proposal.members),
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._host.node_id,
            broker_epoch=self._host.broker_epoch,
            topics=[RequestTopicData(topic_id, asked) for topic_id, asked in topics.items()],
        )


def in_version(request: AlterPartitionRequest, version: int) -> AlterPartitionRequest:
    """`request` for a controller that takes this version: before v3 without the brokers' epochs."""
    if version >= EPOCHS_SINCE:
        return request
    topics = [
        RequestTopicData(
            topic.topic_id,
            [
                replace(
                    each,
                    new_isr=[broker.broker_id for broker in each.new_isr_with_epochs],
                    new_isr_with_epochs=[],
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


def _broker_epoch(partition: Partition, broker_id: int) -> int:
    """Of the follower's last Fetch; -1 for the leader itself, and before Fetch v15."""
    leading = partition.leading
    follower = None if leading is None else leading.follower(broker_id)
    return -1 if follower is None else follower.broker_epoch


def settle(
    proposal: Proposal, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]
) -> None:
    """Take over what the controller says of a partition, if it is not older than what it knows."""
    partition = proposal.partition
    leading = partition.leading
    if (
        leading is not None
        and proposal.is_current
        and leader_epoch == partition.leader_epoch
        and partition_epoch >= partition.partition_epoch
    ):
        leading.settled(isr, partition_epoch)


def _note_refused(proposal: Proposal, error: ErrorCode) -> None:
    partition = proposal.partition
    log.info(
        "the in-sync replicas of %s-%d stay %s, not %s: %s",
        partition.topic,
        partition.index,
        list(partition.isr),
        list(proposal.isr),
        error.name,
    )
    if error in _NOT_CHANGED and proposal.is_current and partition.leading is not None:
        partition.leading.refused()
