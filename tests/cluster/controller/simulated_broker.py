"""A broker of Apache Kafka 3.9 as the controller sees it: it obeys requests and answers them."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.cluster.controller.propagation import LEADER_DURING_DELETE
from kwire.cluster.controller.state import TopicPartition
from kwire.cluster.metadata.image import BrokerImage, Endpoint
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kwire.codecs.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kwire.codecs.primitives import Message
from tests.cluster.controller.laws import Laws


@dataclass
class Local:
    """A broker's own state of a partition that it hosts."""

    topic_id: bytes
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class SimulatedBroker:
    """A broker of Apache Kafka 3.9 as the controller sees it."""

    def __init__(self, broker_id: int, laws: Laws) -> None:
        self.id = broker_id
        self.laws = laws
        self.epoch = -1
        self.is_alive = False
        self.logs: dict[tuple[bytes, int], str] = {}
        """By topic id and partition, with the topic's name."""
        self.failed: set[tuple[bytes, int]] = set()
        """Logs on a disk that has failed."""
        self._forget()

    def _forget(self) -> None:
        self.controller_epoch = 0
        self.hosted: dict[TopicPartition, Local] = {}
        self.shown: dict[TopicPartition, tuple[int, int, tuple[int, ...]]] = {}
        self.shown_brokers: frozenset[int] = frozenset()

    def start(self, epoch: int) -> BrokerImage:
        self._forget()
        self.is_alive, self.epoch = True, epoch
        endpoint = Endpoint("PLAINTEXT", f"host{self.id}", 9000 + self.id)
        return BrokerImage(self.id, (endpoint,), None, epoch)

    def handle(self, request: Message) -> Message:
        if isinstance(request, LeaderAndIsrRequest):
            return self._leader_and_isr(request)
        if isinstance(request, UpdateMetadataRequest):
            return self._update_metadata(request)
        assert isinstance(request, StopReplicaRequest)
        return self._stop_replica(request)

    def _stale(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        if broker_epoch < self.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        error = self._stale(request.controller_epoch, request.broker_epoch)
        if error:
            return LeaderAndIsrResponse(error)
        topics = []
        for topic in request.topic_states:
            errors = []
            for each in topic.partition_states:
                topic_partition = (topic.topic_name, each.partition_index)
                log = (topic.topic_id, each.partition_index)
                code = ErrorCode.NONE
                partition = self.hosted.get(topic_partition)
                if log in self.failed:
                    code = ErrorCode.KAFKA_STORAGE_ERROR
                    self.hosted.pop(topic_partition, None)
                elif (
                    partition is None
                    or partition.topic_id != topic.topic_id
                    or (partition.leader_epoch < each.leader_epoch)
                ):
                    assert self.id in each.replicas, (self.id, topic_partition, each.replicas)
                    self.logs[log] = topic.topic_name
                    self.hosted[topic_partition] = Local(
                        topic.topic_id,
                        each.leader,
                        each.leader_epoch,
                        each.partition_epoch,
                        tuple(each.isr),
                        tuple(each.replicas),
                    )
                    if each.leader == self.id:
                        self.laws.led(*log, each.leader_epoch, self.id)
                errors.append(LeaderAndIsrPartitionError("", each.partition_index, code))
            topics.append(LeaderAndIsrTopicError(topic.topic_id, errors))
        return LeaderAndIsrResponse(topics=topics)

    def _update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        error = self._stale(request.controller_epoch, request.broker_epoch)
        if error:
            return UpdateMetadataResponse(error)
        self.shown_brokers = frozenset(each.id for each in request.live_brokers)
        for topic in request.topic_states:
            for each in topic.partition_states:
                topic_partition = (topic.topic_name, each.partition_index)
                if each.leader == LEADER_DURING_DELETE:
                    self.shown.pop(topic_partition, None)
                else:
                    self.shown[topic_partition] = (each.leader, each.leader_epoch, tuple(each.isr))
        return UpdateMetadataResponse()

    def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        error = self._stale(request.controller_epoch, request.broker_epoch)
        if error:
            return StopReplicaResponse(error)
        errors = []
        for topic in request.topic_states:
            for each in topic.partition_states:
                topic_partition = (topic.topic_name, each.partition_index)
                partition = self.hosted.get(topic_partition)
                code = ErrorCode.NONE
                logs = [log for log, name in self.logs.items() if (name, log[1]) == topic_partition]
                if not self.failed.isdisjoint(logs):
                    code = ErrorCode.KAFKA_STORAGE_ERROR
                elif partition is not None and 0 <= each.leader_epoch < partition.leader_epoch:
                    code = ErrorCode.FENCED_LEADER_EPOCH
                else:
                    self.hosted.pop(topic_partition, None)
                    for log in logs if each.delete_partition else ():
                        del self.logs[log]
                errors.append(StopReplicaPartitionError(*topic_partition, code))
        return StopReplicaResponse(partition_errors=errors)
