"""Requests to brokers: LeaderAndIsr, UpdateMetadata and StopReplica, at the versions of 3.9.

A `BrokerRequestBatch` collects the consequences of one event, so that each broker gets at most one
request of each kind for it.  LeaderAndIsr comes first (who leads what a broker hosts), then
UpdateMetadata (what brokers answer clients), then StopReplica (what a broker no longer hosts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TypeVar

from kwire.cluster.controller.effects import BrokerRequest
from kwire.cluster.controller.state import ControllerState, TopicPartition
from kwire.cluster.metadata.election import is_new
from kwire.cluster.metadata.image import (
    NO_LEADER,
    SECURITY_PROTOCOL_NUMBERS,
    PartitionImage,
    TopicImage,
)
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kwire.codecs.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

VERSIONS = {LeaderAndIsrRequest: 7, UpdateMetadataRequest: 8, StopReplicaRequest: 4}
"""The version of each request at inter.broker.protocol.version 3.9."""

LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2
"""Brokers accept it whatever leader epoch they have: a deleted topic has no later one."""

T = TypeVar("T")


class BrokerRequestBatch:
    """The requests that follow from one event.

    Call `requests` once, after everything is added: it reads the state as it is then.
    """

    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._led: dict[int, dict[TopicPartition, bool]] = {}
        self._shown: dict[TopicPartition, None] = {}
        self._viewers: set[int] = set()
        self._stopped: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}

    def add_leader_and_isr(
        self, brokers: Iterable[int], topic_partition: TopicPartition, *, new: bool = False
    ) -> None:
        """Send the partition's leader and ISR to brokers that have replicas.

        `new` allows them to create the log if it does not exist.  Brokers that are not members are
        left out, and so are those that have deleted their replica of a topic being deleted: they
        would create it again.
        """
        for broker_id in brokers:
            if broker_id in self._state.members and not self._state.is_deleted(
                broker_id, topic_partition
            ):
                led = self._led.setdefault(broker_id, {})
                led[topic_partition] = led.get(topic_partition, False) or new

    def add_update_metadata(
        self, topic_partitions: Iterable[TopicPartition], viewers: Iterable[int] | None = None
    ) -> None:
        """Send `viewers`, by default all members, these partitions and all live brokers."""
        self._viewers.update(self._state.members if viewers is None else viewers)
        self._shown.update(dict.fromkeys(topic_partitions))

    def add_stop_replica(
        self, brokers: Iterable[int], topic_partition: TopicPartition, *, delete: bool
    ) -> None:
        """Have brokers stop their replicas of a partition, and with `delete` delete their logs."""
        state = self._state.partition(topic_partition)
        deleting = self._state.is_deleting(topic_partition[0])
        epoch = NO_LEADER if state is None else state.leader_epoch
        for broker_id in brokers:
            if broker_id in self._state.members:
                self._stopped.setdefault(broker_id, {})[topic_partition] = (
                    StopReplicaPartitionState(
                        topic_partition[1], EPOCH_DURING_DELETE if deleting else epoch, delete
                    )
                )

    def requests(self) -> list[BrokerRequest]:
        """All requests, in the order in which they must be sent."""
        return [*self._leader_and_isr(), *self._update_metadata(), *self._stop_replica()]

    # -- the requests

    def _leader_and_isr(self) -> Iterator[BrokerRequest]:
        """Yield one LeaderAndIsr request for each broker with partitions to lead or follow."""
        state, image = self._state, self._state.image
        # Brokers share a partition's state: with many replicas this saves most of the work.
        states: dict[tuple[TopicPartition, bool], LeaderAndIsrPartitionState] = {}

        def state_of(topic_partition: TopicPartition, new: bool) -> LeaderAndIsrPartitionState:
            """Return the partition's state, made once for all brokers."""
            partition_state = states.get((topic_partition, new))
            if partition_state is None:
                partition = image.topics[topic_partition[0]].partitions[topic_partition[1]]
                partition_state = _leader_and_isr_state(topic_partition[1], partition, new)
                states[topic_partition, new] = partition_state
            return partition_state

        for broker_id, led in sorted(self._led.items()):
            topics = [
                LeaderAndIsrTopicState(topic.name, topic.id, partition_states)
                for topic, topic_partitions in _by_topic(state, led)
                if (
                    partition_states := [
                        state_of(each, led[each])
                        for each in topic_partitions
                        # A reassignment may have ended since the partition was added.
                        if broker_id in topic.partitions[each[1]].replicas
                    ]
                )
            ]
            if not topics:
                continue
            leaders = {each.leader for topic in topics for each in topic.partition_states}
            yield BrokerRequest(
                broker_id,
                state.members[broker_id],
                LeaderAndIsrRequest(
                    controller_id=state.settings.node_id,
                    controller_epoch=image.controller_epoch,
                    broker_epoch=state.members[broker_id],
                    topic_states=topics,
                    live_leaders=list(_leaders(state, leaders)),
                ),
            )

    def _update_metadata(self) -> Iterator[BrokerRequest]:
        """Yield UpdateMetadata for each broker that has to see new metadata.

        All requests have the same partitions and live brokers.  Partitions that never had a leader
        are left out.
        """
        state = self._state
        viewers = sorted(self._viewers & state.members.keys())
        if not viewers:
            return
        topics = []
        for topic, topic_partitions in _by_topic(state, self._shown):
            shown = [
                _shown_state(state, topic_partition, topic.partitions[topic_partition[1]])
                for topic_partition in topic_partitions
                if not is_new(topic.partitions[topic_partition[1]])
            ]
            if shown:
                topics.append(UpdateMetadataTopicState(topic.name, topic.id, shown))
        brokers = list(_live_brokers(state))
        for broker_id in viewers:
            yield BrokerRequest(
                broker_id,
                state.members[broker_id],
                UpdateMetadataRequest(
                    controller_id=state.settings.node_id,
                    controller_epoch=state.image.controller_epoch,
                    broker_epoch=state.members[broker_id],
                    topic_states=topics,
                    live_brokers=brokers,
                ),
            )

    def _stop_replica(self) -> Iterator[BrokerRequest]:
        """Yield one StopReplica request for each broker with replicas to stop."""
        state = self._state
        for broker_id, stopped in sorted(self._stopped.items()):
            topics = [
                StopReplicaTopicState(
                    name, [stopped[topic_partition] for topic_partition in topic_partitions]
                )
                for name, topic_partitions in groupby(
                    sorted(stopped), key=lambda topic_partition: topic_partition[0]
                )
            ]
            yield BrokerRequest(
                broker_id,
                state.members[broker_id],
                StopReplicaRequest(
                    controller_id=state.settings.node_id,
                    controller_epoch=state.image.controller_epoch,
                    broker_epoch=state.members[broker_id],
                    topic_states=topics,
                ),
            )


def gathered(
    state: ControllerState, gather: Callable[[BrokerRequestBatch], None]
) -> list[BrokerRequest]:
    """Return the requests of a new batch after `gather` has filled it."""
    batch = BrokerRequestBatch(state)
    gather(batch)
    return batch.requests()


def _by_topic(
    state: ControllerState, topic_partitions: Iterable[TopicPartition]
) -> Iterator[tuple[TopicImage, list[TopicPartition]]]:
    """Yield each topic that still exists, with those of the given partitions that exist."""
    for name, group in groupby(
        sorted(topic_partitions), key=lambda topic_partition: topic_partition[0]
    ):
        topic = state.image.topics.get(name)
        if topic is not None:
            yield (
                topic,
                [
                    topic_partition
                    for topic_partition in group
                    if topic_partition[1] < len(topic.partitions)
                ],
            )


def _leader_and_isr_state(
    index: int, partition: PartitionImage, new: bool
) -> LeaderAndIsrPartitionState:
    """Return a partition's state in the form that LeaderAndIsr sends.

    `new` allows the broker to create the log if it does not exist.
    """
    return LeaderAndIsrPartitionState(
        partition_index=index,
        controller_epoch=partition.controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
        is_new=new,
        leader_recovery_state=int(partition.recovering),
    )


def _shown_state(
    state: ControllerState, topic_partition: TopicPartition, partition: PartitionImage
) -> UpdateMetadataPartitionState:
    """Return a partition's state for clients; while its topic is deleted it has no leader."""
    deleting = state.is_deleting(topic_partition[0])
    online = state.online(topic_partition)
    return UpdateMetadataPartitionState(
        partition_index=topic_partition[1],
        controller_epoch=partition.controller_epoch,
        leader=LEADER_DURING_DELETE if deleting else partition.leader,
        leader_epoch=0 if deleting else partition.leader_epoch,
        isr=list(partition.isr),
        zk_version=0 if deleting else partition.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=[each for each in partition.replicas if not online(each)],
    )


def _leaders(state: ControllerState, leaders: set[int]) -> Iterator[LeaderAndIsrLiveLeader]:
    """Yield the addresses at which followers reach these leaders."""
    listener = state.settings.config.inter_broker_listener
    for broker_id in sorted(leaders & state.members.keys()):
        broker = state.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(listener)
        if endpoint is not None:
            yield LeaderAndIsrLiveLeader(broker_id, endpoint.host, endpoint.port)


def _live_brokers(state: ControllerState) -> Iterator[UpdateMetadataBroker]:
    """Yield each live broker with its endpoints, for UpdateMetadata."""
    for broker_id in sorted(state.members):
        broker = state.image.brokers.get(broker_id)
        if broker is not None:
            endpoints = [
                UpdateMetadataEndpoint(
                    each.port,
                    each.host,
                    each.listener,
                    SECURITY_PROTOCOL_NUMBERS[each.security_protocol],
                )
                for each in broker.endpoints
            ]
            yield UpdateMetadataBroker(broker_id, endpoints=endpoints, rack=broker.rack)
