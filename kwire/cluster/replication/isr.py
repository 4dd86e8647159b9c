"""IsrChanges: sends proposed ISRs to the controller by AlterPartition (KIP-497), versions 2 and 3.

One request is in flight at a time; proposals that arrive meanwhile go into the next one.  The
result for a partition, as in Apache Kafka 3.9:

    no error                                      the answered ISR holds, unless the partition has
                                                  changed since
    OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA   the ISR was not changed: the committed ISR holds
    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, NEW_LEADER_ELECTED,
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID  unknown: the maximal ISR counts until the
                                                  controller sends LeaderAndIsr
    any other error, of the partition or of the   the proposal is sent again after 50 ms
    request, or no answer
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
"""First version of AlterPartition that names the broker epochs of the proposed ISR."""
PARTITIONS_MAX: Final = 10_000
"""Partitions in one request.  When a broker dies, each leader shrinks the ISR of every partition
that it shared with that broker."""

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


class IsrProposal:
    """The ISR that a leader proposes for its partition, and the epochs that it is based on."""

    __slots__ = ("isr", "leader_epoch", "members", "partition", "partition_epoch")

    def __init__(self, partition: Partition, isr: tuple[int, ...], own_epoch: int = -1) -> None:
        """`isr` is the proposed one; the epochs are the partition's present ones.

        `own_epoch` is the broker epoch with which the controller gets this broker in the ISR.
        """
        self.partition = partition
        self.isr = isr
        self.members = [
            BrokerState(broker_id, _broker_epoch(partition, broker_id, own_epoch))
            for broker_id in isr
        ]
        """The ISR with the broker epochs in which the followers fetched.

        A follower that has restarted since then may have lost records; the controller compares
        its epoch.
        """
        self.leader_epoch = partition.leader_epoch
        self.partition_epoch = partition.partition_epoch

    @property
    def is_current(self) -> bool:
        """Whether the partition still waits for the answer to this proposal.

        It does not after a LeaderAndIsr of the controller.
        """
        partition = self.partition
        leading = partition.leading
        return (
            leading is not None
            and leading.proposed is self.isr
            and partition.leader_epoch == self.leader_epoch
            and partition.partition_epoch == self.partition_epoch
        )


class IsrChanges:
    """The queue of proposals of all partitions led here, and the task that sends them."""

    def __init__(self, host: ReplicationContext) -> None:
        self._host = host
        self._unsent: dict[_Key, IsrProposal] = {}
        self._wanted = trio.Event()
        self.refused = 0
        """How many proposals the controller has refused."""

    def propose(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Queue `isr` as the proposed ISR of `partition`; it replaces a queued older one."""
        proposal = IsrProposal(partition, isr, self._host.own_isr_epoch)
        self._unsent[partition.topic_id, partition.index] = proposal
        self._wanted.set()

    async def run(self) -> None:
        """Send queued proposals, one request at a time, until cancelled."""
        while True:
            await self._wanted.wait()
            proposals = self._take()
            if not proposals:
                self._wanted = trio.Event()
                continue
            if not await self._send(proposals):
                await trio.sleep(RETRY_S)

    def _take(self) -> dict[_Key, IsrProposal]:
        """Removes the proposals of the next request from the queue and returns them.

        Outdated ones are dropped.
        """
        taken: dict[_Key, IsrProposal] = {}
        while self._unsent and len(taken) < PARTITIONS_MAX:
            key, proposal = self._unsent.popitem()
            if proposal.is_current:
                taken[key] = proposal
        return taken

    async def _send(self, proposals: dict[_Key, IsrProposal]) -> bool:
        """Sends one request; returns whether it decided every proposal.

        Proposals that it did not decide are in the queue again.
        """
        try:
            response = await self._host.alter_partition(self._request(proposals))
        except PeerError as problem:
            log.warning("Cannot send AlterPartition to the controller: %s. Retrying.", problem)
            self._requeue(proposals)
            return False
        if response.error_code:
            name = ErrorCode(response.error_code).name
            log.warning("The controller refused AlterPartition: %s. Retrying.", name)
            self._requeue(proposals)
            return False
        return self._apply(response, proposals)

    def _apply(self, response: AlterPartitionResponse, proposals: dict[_Key, IsrProposal]) -> bool:
        """Applies the controller's response; returns whether it decided every proposal.

        Proposals with another error, or without a result, are put into the queue again.
        """
        undecided = dict(proposals)
        for topic in response.topics:
            for answer in topic.partitions:
                key = topic.topic_id, answer.partition_index
                proposal = undecided.get(key)
                if proposal is None:
                    continue
                error = ErrorCode(answer.error_code)
                if not error or error in _NOT_CHANGED or error in _NOT_KNOWN:
                    del undecided[key]
                if not error:
                    settle(
                        proposal,
                        answer.leader_epoch,
                        answer.partition_epoch,
                        tuple(answer.isr),
                    )
                else:
                    self.refused += 1
                    _note_refused(proposal, error)
        self._requeue(undecided)
        return not undecided

    def _requeue(self, proposals: dict[_Key, IsrProposal]) -> None:
        """Queue proposals again, unless a newer one of the partition is queued."""
        for key, proposal in proposals.items():
            self._unsent.setdefault(key, proposal)

    def _request(self, proposals: dict[_Key, IsrProposal]) -> AlterPartitionRequest:
        """Return the AlterPartition request for the proposals, by topic."""
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
    """Return `request` as this version states it: before version 3 without broker epochs."""
    if version >= EPOCHS_SINCE:
        return request
    topics = [
        RequestTopicData(
            topic.topic_id,
            [
                replace(
                    data,
                    new_isr=[broker.broker_id for broker in data.new_isr_with_epochs],
                    new_isr_with_epochs=[],
                )
                for data in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return replace(request, topics=topics)


def _broker_epoch(partition: Partition, broker_id: int, own_epoch: int) -> int:
    """Broker epoch in the follower's last Fetch, -1 before Fetch v15; `own_epoch` of the leader."""
    if broker_id == partition.node_id:
        return own_epoch
    leading = partition.leading
    follower = None if leading is None else leading.follower(broker_id)
    return -1 if follower is None else follower.broker_epoch


def settle(
    proposal: IsrProposal, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]
) -> None:
    """Applies the ISR that the controller committed, unless the partition knows a later state."""
    partition = proposal.partition
    leading = partition.leading
    if (
        leading is not None
        and proposal.is_current
        and leader_epoch == partition.leader_epoch
        and partition_epoch >= partition.partition_epoch
    ):
        leading.settled(isr, partition_epoch)


def _note_refused(proposal: IsrProposal, error: ErrorCode) -> None:
    """Logs that the controller refused a proposal, and withdraws it if it is current.

    After INELIGIBLE_REPLICA the leader treats followers more strictly; see `Leading.refused`.
    """
    partition = proposal.partition
    log.info(
        "The controller refused an ISR change of %s-%d from %s to %s: %s.",
        partition.topic,
        partition.index,
        list(partition.isr),
        list(proposal.isr),
        error.name,
    )
    if error in _NOT_CHANGED and proposal.is_current and partition.leading is not None:
        partition.leading.refused(ineligible=error is ErrorCode.INELIGIBLE_REPLICA)
