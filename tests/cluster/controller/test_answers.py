"""The controller answers and decides as Apache Kafka 3.9.2 did in the same sequence of requests.

Leader epochs are not compared: when replicas are added and removed, Apache Kafka uses some that are
not needed.  `answers.jsonl` is written by `pytest --rewrite -m long
tests/cluster/controller/test_answers.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.metadata.changes import Change, CreateTopic
from kwire.cluster.metadata.election import unassigned_partition
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kwire.codecs.messages.alter_partition import AlterPartitionRequest
from kwire.codecs.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kwire.codecs.messages.controlled_shutdown import ControlledShutdownRequest
from kwire.codecs.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codecs.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.codecs.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.settings import BrokerConfig
from kwire.testing.zookeeper import ZooKeeperProcess
from tests.cluster.controller.answers import (
    LEADER_EPOCH,
    PREFERRED,
    Line,
    State,
    Story,
    TopicPartition,
)
from tests.cluster.controller.simulation import Cluster, Term
from tests.cluster.controller.zookeeper_stage import ZooKeeperStage, staged_brokers

ANSWERS = Path(__file__).with_name("answers.jsonl")
CONFIG = BrokerConfig({"node.id": "1", "auto.leader.rebalance.enable": "false"})


class SimulatedStage:
    """See tests.cluster.controller.answers.Stage."""

    def __init__(self) -> None:
        self._cluster = Cluster(3, CONFIG)
        self._cluster.laws.unclean.update(each.to_bytes(16, "big") for each in range(99))
        self._paused: set[int] = set()
        self._made = 0
        self._work()

    @property
    def _term(self) -> Term:
        assert self._cluster.term is not None
        return self._cluster.term

    @property
    def _image(self) -> ClusterImage:
        return self._cluster.store.image

    def _work(self) -> None:
        """Do all steps except those that need a paused broker."""
        while True:
            before, delivered = self._image, False
            self._term.see()
            while self._term.queue:
                self._term.work()
            for broker in self._cluster.live:
                while broker not in self._paused and self._cluster.deliver(self._term, broker):
                    delivered = True
            self._join()
            if not delivered and self._image is before and not self._term.queue:
                return

    def _join(self) -> None:
        """Let leaders report that followers have caught up, except paused ones."""
        for name, topic in list(self._image.topics.items()):
            for index, partition in enumerate(topic.partitions):
                following = {each for each in self._cluster.live if each not in self._paused}
                if partition.leader not in self._paused:
                    self._cluster.propose_isr((name, index), [*following, *partition.isr])

    def create(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        self._made += 1
        topic_id = self._made.to_bytes(16, "big")
        partitions = tuple([unassigned_partition(tuple(each)) for each in assignment])

        def create(_: ClusterImage) -> Change:
            return CreateTopic(TopicImage(topic, topic_id, partitions))

        self._term.take(ControllerEffects(decisions=[create]))
        self._work()

    def ask(self, request: Any) -> Any:  # noqa: ANN401 - any request and its reply
        machine = self._term.machine
        question: dict[int, Callable[[Any], ControllerEffects]] = {
            43: machine.elect_leaders,
            45: machine.alter_reassignments,
            46: machine.list_reassignments,
        }
        replies: list[Any] = []
        self._term.take(question[request.API_KEY](request), replies.append)
        while not replies:
            self._term.work()
        return replies[0]

    def state(self, topic_partition: TopicPartition) -> State:
        partition = self._image.topics[topic_partition[0]].partitions[topic_partition[1]]
        return State(
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            frozenset(partition.isr),
            partition.adding,
            partition.removing,
        )

    def settle(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self._work()

    def pause(self, broker: int) -> None:
        self._paused.add(broker)

    def resume(self, broker: int) -> None:
        self._paused.remove(broker)
        self._work()

    def kill(self, broker: int) -> None:
        self._cluster.kill(broker)
        self._work()

    def start(self, broker: int) -> None:
        self._cluster.start(broker)
        self._work()


def kept() -> list[Any]:
    return [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]


def states() -> list[Any]:
    return [line["then"] for line in kept()]


def check(lines: Iterable[Line]) -> None:
    """Compare lines with the recorded ones, except for leader epochs."""
    for answered, expected in zip(lines, kept(), strict=True):
        line = json.loads(json.dumps(answered))
        for topic_partition, state in expected["then"].items():
            theirs, ours = state[LEADER_EPOCH], line["then"][topic_partition][LEADER_EPOCH]
            assert 0 <= ours <= theirs, (line["asked"], topic_partition)
            line["then"][topic_partition][LEADER_EPOCH] = theirs
        assert line == expected


def test_simulated_controller_matches_recorded_kafka_controller() -> None:
    check(Story(SimulatedStage()).lines())


class MetadataStage(ZooKeeperStage):
    """A stage that also checks that Metadata shows each elected leader after the answer."""

    elected = 0

    def ask(self, request: Any, broker: int = 1) -> Any:  # noqa: ANN401 - any request and its reply
        reply = super().ask(request, broker)
        if isinstance(request, ElectLeadersRequest):
            for result in reply.replica_election_results:
                for each in result.partition_result:
                    if each.error_code == ErrorCode.NONE:
                        self._check_told(result.topic, each.partition_id, request.election_type)
        return reply

    def _check_told(self, topic: str, index: int, kind: int) -> None:
        (answered,) = super().ask(MetadataRequest([MetadataRequestTopic(name=topic)])).topics
        partition = {each.partition_index: each for each in answered.partitions}[index]
        live = partition.replica_nodes[:1] if kind == PREFERRED else partition.isr_nodes
        assert partition.leader_id in live, (topic, partition)
        self.elected += 1


@pytest.mark.long
@pytest.mark.usefixtures("zookeeper_libs")
@pytest.mark.parametrize("apache", [(1,), (2,), (3,), (2, 3)], ids=str)
def test_mixed_cluster_matches_recorded_kafka_controller(
    zookeeper: ZooKeeperProcess, tmp_path: Path, unique: str, apache: tuple[int, ...]
) -> None:
    """Broker 1 is the controller; broker 3 pauses, dies and returns."""
    connect = zookeeper.connect(f"/{unique}")
    with ZooKeeperStage(staged_brokers(tmp_path, connect, apache), connect, states()) as stage:
        check(Story(stage).lines())


@pytest.mark.slow
def test_kwire_cluster_matches_recorded_kafka_controller(
    zookeeper: ZooKeeperProcess, tmp_path: Path, unique: str
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    with MetadataStage(staged_brokers(tmp_path, connect), connect, states()) as stage:
        check(Story(stage).lines())
        check_refused(stage)
        assert stage.elected == 3


def check_refused(stage: ZooKeeperStage) -> None:
    """Check that broker 2, which is not the controller, refuses as Apache Kafka 3.9.2 does."""
    asked = (
        AlterPartitionReassignmentsRequest(),
        ListPartitionReassignmentsRequest(),
        AlterPartitionRequest(2),
        AllocateProducerIdsRequest(2),
    )
    for request in asked:
        assert stage.ask(request, broker=2).error_code == ErrorCode.NOT_CONTROLLER, request
    shutdown = stage.ask(ControlledShutdownRequest(3), broker=2)
    assert shutdown.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    created = stage.ask(CreateTopicsRequest([CreatableTopic("x", 1, 1)]), broker=2).topics
    deleted = stage.ask(DeleteTopicsRequest([DeleteTopicState("t")]), broker=2).responses
    grown = stage.ask(CreatePartitionsRequest([CreatePartitionsTopic("t", 9)]), broker=2).results
    elected = stage.ask(ElectLeadersRequest(0, [TopicPartitions("t", [0])]), broker=2)
    (election,) = elected.replica_election_results
    for (result,) in (created, deleted, grown, election.partition_result):
        assert result.error_code == ErrorCode.NOT_CONTROLLER, result
    everything = stage.ask(ElectLeadersRequest(0, None), broker=2).replica_election_results
    assert {each.topic for each in everything} == {"t", "t1", "u", "u1", "v", "v1"}


@pytest.mark.long
@pytest.mark.usefixtures("zookeeper_libs")
def test_kafka_cluster_matches_its_recorded_answers(
    zookeeper: ZooKeeperProcess, tmp_path: Path, unique: str, rewrite: bool
) -> None:
    connect = zookeeper.connect(f"/{unique}")
    with ZooKeeperStage(staged_brokers(tmp_path, connect, (1, 2, 3)), connect) as stage:
        lines = list(Story(stage).lines())
    if rewrite:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        ANSWERS.write_text(text, encoding="utf-8")
    assert [json.loads(json.dumps(line)) for line in lines] == kept()
