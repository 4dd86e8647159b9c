"""Steps with topics: created, extended, reassigned, moved to another directory, deleted."""

from __future__ import annotations

from pathlib import Path

from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.codecs.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.conformance.kraft.asking import TIMEOUT_MS
from kwire.conformance.kraft.stage import IDS, USED, ClusterStep, RecordsStage, StepFailed
from kwire.conformance.kraft.steps.requests import (
    PREFERRED,
    create,
    delete,
    elect,
    produce,
    reassign,
    succeed,
)

COORDINATORS = {0: "group", 1: "transaction", 2: "AAAAAAAAAAAAAAAAAAAAAw:AAAAAAAAAAAAAAAAAAAABA:0"}
"""A key of each type of coordinator, whose topic the broker creates when it is asked."""


def _create(stage: RecordsStage) -> None:
    configs = {"min.insync.replicas": "2", "retention.ms": "86400000"}
    create(stage, 1, "placed", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], configs)
    create(stage, 2, "pair", [[1, 2], [2, 3]])
    create(stage, 3, "single", [[1], [2], [3], [1]])
    create(stage, 2, "gone", [[1, 2], [2, 1], [3, 1]], {"cleanup.policy": "compact"})
    produce(stage, "placed", 0)
    produce(stage, "pair", 0)


def _refuse(stage: RecordsStage) -> None:
    """Topics that are refused, or only validated."""
    placed = [CreatableReplicaAssignment(0, [1, 2])]
    wrong = (
        CreatableTopic("pair", -1, -1, placed),
        CreatableTopic("no/name", -1, -1, placed),
        CreatableTopic("nobody", -1, -1, [CreatableReplicaAssignment(0, [9])]),
        CreatableTopic("many", 1, 4),
        CreatableTopic("wrong", -1, -1, placed, [CreatableTopicConfig("segment.bytes", "x")]),
    )
    for broker_id in IDS:
        for topic in wrong:
            stage.ask(broker_id, CreateTopicsRequest([topic], TIMEOUT_MS))
        fine = CreatableTopic("fine", -1, -1, placed)
        succeed(stage.ask(broker_id, CreateTopicsRequest([fine], TIMEOUT_MS, True)))


def _extend(stage: RecordsStage) -> None:
    placed = [CreatePartitionsAssignment([3, 1])]
    more = CreatePartitionsTopic("pair", 3, placed)
    succeed(stage.ask(3, CreatePartitionsRequest([more], TIMEOUT_MS)))


def _create_internal(stage: RecordsStage) -> None:
    """Topics that a broker creates because it is asked for a coordinator."""
    for broker_id, (kind, key) in zip(IDS, COORDINATORS.items(), strict=True):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        stage.ask_until(broker_id, request, lambda it: not it.coordinators[0].error_code)


def _create_on_first_use(stage: RecordsStage) -> None:
    for broker_id in IDS:
        name = f"{USED}{broker_id}"
        request = MetadataRequest([MetadataRequestTopic(name=name)], True)
        stage.ask_until(broker_id, request, lambda it: not it.topics[0].error_code)


def _allocate_producer_ids(stage: RecordsStage) -> None:
    for broker_id in IDS:
        request = InitProducerIdRequest(None, TIMEOUT_MS)
        stage.ask_until(broker_id, request, lambda it: not it.error_code)


def _reassign(stage: RecordsStage) -> None:
    reassign(stage, 1, "pair", {0: [3, 2]})
    stage.settle()
    reassign(stage, 2, "placed", {0: [3, 1]})
    stage.settle()
    reassign(stage, 3, "placed", {0: [1, 2, 3]})
    stage.settle()
    reassign(stage, 3, "single", {0: [3], 1: [1]})
    stage.settle()
    elect(stage, 2, PREFERRED, "placed", [0, 1, 2])


def _move(stage: RecordsStage) -> None:
    """Move a replica to the other directory of broker 1."""
    paths = {str(path): path for path in stage.log_dirs(1)}
    at = next(path for path in paths if (paths[path] / "single-3").exists())
    other = next(path for path in paths if path != at)
    moved = [AlterReplicaLogDir(other, [AlterReplicaLogDirTopic("single", [3])])]
    directories = [*stage.state.partition("single", 3).directories]
    succeed(stage.ask(1, AlterReplicaLogDirsRequest(moved)))
    stage.wait_for(
        lambda: [*stage.state.partition("single", 3).directories] != directories,
        "the replica is moved",
    )
    if not (Path(other) / "single-3").exists():
        raise StepFailed(f"single-3 is not in {other}")


def _delete(stage: RecordsStage) -> None:
    delete(stage, 2, "gone")
    stage.settle()
    create(stage, 3, "gone", [[1, 2], [3, 2]])
    stage.settle()
    delete(stage, 1, "gone")


STEPS = (
    ClusterStep("topics are created", _create),
    ClusterStep("topics are refused or validated", _refuse),
    ClusterStep("a topic gets another partition", _extend),
    ClusterStep("coordinators get their topics", _create_internal),
    ClusterStep("topics are created on first use", _create_on_first_use),
    ClusterStep("each broker allocates producer ids", _allocate_producer_ids),
    ClusterStep("partitions are reassigned", _reassign),
    ClusterStep("a replica is moved to another directory", _move),
    ClusterStep("a topic is deleted and created again", _delete),
)
