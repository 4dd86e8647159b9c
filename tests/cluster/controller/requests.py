"""Requests to the controller, as brokers and tools send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

if TYPE_CHECKING:
    from kwire.cluster.controller.state import TopicPartition
    from tests.cluster.controller.simulated_broker import Local


def alter_partition(
    broker_id: int, broker_epoch: int, index: int, local: Local, isr: Sequence[int]
) -> AlterPartitionRequest:
    asked = RequestPartitionData(
        index,
        local.leader_epoch,
        new_isr_with_epochs=[BrokerState(each) for each in isr],
        partition_epoch=local.partition_epoch,
    )
    return AlterPartitionRequest(
        broker_id, broker_epoch, [RequestTopicData(local.topic_id, [asked])]
    )


def reassign(
    topic_partition: TopicPartition, replicas: Sequence[int] | None
) -> AlterPartitionReassignmentsRequest:
    wanted = None if replicas is None else list(replicas)
    topic = ReassignableTopic(
        topic_partition[0], [ReassignablePartition(topic_partition[1], wanted)]
    )
    return AlterPartitionReassignmentsRequest(topics=[topic])


def elect(kind: int, *topic_partitions: TopicPartition) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        kind, [TopicPartitions(topic, [index]) for topic, index in topic_partitions]
    )
