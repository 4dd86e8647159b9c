"""Requests that steps have in common; each fails the step if a broker refuses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from kwire.codecs.batches import build
from kwire.codecs.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.record import Record
from kwire.conformance.kraft.asking import TIMEOUT_MS
from kwire.conformance.kraft.stage import RecordsStage, StepFailed

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
"""Types of resources with configs."""
SET, DELETE, APPEND, SUBTRACT = range(4)
PREFERRED, UNCLEAN = 0, 1
ALL = -1
LEADER = 1
_WITHIN_MS = 10_000


def succeed(answer: Any) -> Any:  # noqa: ANN401 - any response
    """Return a response in which no error code is set.  Raises StepFailed."""
    if errors := [*_errors(answer)]:
        raise StepFailed(f"refused with {errors}: {answer!r:.1000}")
    return answer


def _errors(value: Any) -> list[int]:  # noqa: ANN401 - any part of a response
    """Return the error codes in a response that are not 0."""
    if isinstance(value, list):
        return [error for each in value for error in _errors(each)]
    slots = getattr(type(value), "__slots__", ())
    found = []
    for name in slots:
        part = getattr(value, name)
        if name == "error_code" and part:
            found.append(part)
        elif name != "error_code":
            found += _errors(part)
    return found


def create(
    stage: RecordsStage,
    broker_id: int,
    name: str,
    replicas: Sequence[Sequence[int]],
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic whose partitions have these replicas."""
    placed = [CreatableReplicaAssignment(at, [*each]) for at, each in enumerate(replicas)]
    entries = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
    topic = CreatableTopic(name, -1, -1, placed, entries)
    succeed(stage.ask(broker_id, CreateTopicsRequest([topic], TIMEOUT_MS)))


def delete(stage: RecordsStage, broker_id: int, name: str) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(name)], [], TIMEOUT_MS)
    succeed(stage.ask(broker_id, request))


def alter(
    stage: RecordsStage,
    broker_id: int,
    resource: int,
    name: str,
    configs: Mapping[str, str | None],
    operation: int = SET,
) -> None:
    """Change configs; a value of None deletes the config."""
    entries = [
        AlterableConfig(key, DELETE if value is None else operation, value)
        for key, value in configs.items()
    ]
    altered = AlterConfigsResource(resource, name, entries)
    succeed(stage.ask(broker_id, IncrementalAlterConfigsRequest([altered])))


def reassign(
    stage: RecordsStage, broker_id: int, topic: str, replicas: Mapping[int, Sequence[int] | None]
) -> None:
    """Reassign partitions of a topic; None cancels the reassignment of a partition."""
    moved = [
        ReassignablePartition(at, None if each is None else [*each])
        for at, each in replicas.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS, topics=[ReassignableTopic(topic, moved)]
    )
    succeed(stage.ask(broker_id, request))


def elect(
    stage: RecordsStage, broker_id: int, kind: int, topic: str, partitions: Sequence[int]
) -> None:
    """Elect leaders; a partition whose leader is elected already is no error."""
    request = ElectLeadersRequest(kind, [TopicPartitions(topic, [*partitions])], TIMEOUT_MS)
    stage.ask(broker_id, request)


def produce(stage: RecordsStage, topic: str, index: int, count: int = 1, acks: int = ALL) -> None:
    """Produce records to the leader of a partition, once it takes them."""
    now_ms = time.time_ns() // 1_000_000
    batch = bytes(build(Record(0, now_ms, None, b"v" * 100, []) for _ in range(count)))
    partition = [PartitionProduceData(index, batch)]

    def is_taken() -> bool:
        leader = stage.state.partition(topic, index).leader
        if leader not in stage.running:
            return False
        data = TopicProduceData(topic_id=stage.state.topic_id(topic), partition_data=[*partition])
        request = ProduceRequest(acks=acks, timeout_ms=_WITHIN_MS, topic_data=[data])
        answer = stage.ask(leader, request)
        return not _errors(answer)

    stage.wait_for(is_taken, f"a record for {topic}-{index}")
