"""Controllers: a model of the KRaft controllers of a cluster, and the log of their records.

The controllers themselves never fail here: what they have written is committed.  Each method is one
thing that they do; `deciding` says how partitions change by it.  Brokers replay the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from kwire.cluster.metadata.features import METADATA_VERSION, NEWEST_METADATA_VERSION
from kwire.cluster.metadata.image import (
    NO_LEADER,
    UNASSIGNED,
    BrokerImage,
    ClusterImage,
    KraftPartitionImage,
    TopicImage,
)
from kwire.cluster.stores.kraft.draft import FENCED, UNFENCED
from kwire.cluster.stores.kraft.records import MetadataBatch
from kwire.cluster.stores.kraft.replaying import MetadataReplay
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from kwire.codecs.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.codecs.messages.feature_level_record import FeatureLevelRecord
from kwire.codecs.messages.partition_change_record import PartitionChangeRecord
from kwire.codecs.messages.partition_record import PartitionRecord
from kwire.codecs.messages.register_broker_record import RegisterBrokerRecord
from kwire.codecs.messages.remove_topic_record import RemoveTopicRecord
from kwire.codecs.messages.topic_record import TopicRecord
from kwire.codecs.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.codecs.primitives import Message
from tests.cluster.replication.metadata_simulation.deciding import PartitionDecision, Rules

CLUSTER_ID = "simulated"
NO_EPOCH = -1
NOBODY = -1

Where = tuple[str, int]
"""A partition: the topic's name, and its index."""


@dataclass(frozen=True)
class Registration:
    """What a broker registers with."""

    broker_id: int
    incarnation: bytes
    directories: tuple[bytes, ...]
    previous_epoch: int = NO_EPOCH
    """The epoch with which it stopped cleanly."""


class Controllers:
    """See the module."""

    def __init__(self, rules: Rules, elected_lossy: Callable[[bytes, int, int], None]) -> None:
        """`elected_lossy(topic_id, index, leader)` is called before an unclean election."""
        self.rules = rules
        self.log: list[MetadataBatch] = []
        self._elected_lossy = elected_lossy
        self._replay = MetadataReplay(CLUSTER_ID)
        self._topics_made = 0
        self._write([FeatureLevelRecord(METADATA_VERSION, NEWEST_METADATA_VERSION)])

    @property
    def image(self) -> ClusterImage:
        """The truth."""
        return self._replay.image

    @property
    def end_offset(self) -> int:
        return self._replay.end_offset

    def _write(self, records: list[Message]) -> None:
        """Commit a batch: its records count together."""
        if records:
            first = self.end_offset
            batch = MetadataBatch(first, first + len(records) - 1, 1, 0, False, records)
            self.log.append(batch)
            self._replay.add(batch)

    def partition(self, where: Where) -> KraftPartitionImage:
        state = self.image.topics[where[0]].partitions[where[1]]
        assert isinstance(state, KraftPartitionImage)
        return state

    def wheres(self) -> list[Where]:
        """All partitions."""
        return [
            (name, index)
            for name in sorted(self.image.topics)
            for index in range(len(self.image.topics[name].partitions))
        ]

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead: it is unfenced, and not in a controlled shutdown."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.is_leaving

    # -- changes of partitions

    def _decision(
        self, where: Where, *, added: int = NOBODY, removed: Collection[int] = ()
    ) -> PartitionDecision:
        """A decision about a partition, while one broker comes back and others go."""
        state = self.partition(where)

        def is_acceptable(broker_id: int) -> bool:
            if broker_id in removed or broker_id not in state.replicas:
                return False
            if broker_id != added and not self.is_active(broker_id):
                return False
            directory = state.directories[state.replicas.index(broker_id)]
            return self.image.registered[broker_id].has_online(directory)

        isr = tuple(each for each in state.isr if each not in removed)
        return PartitionDecision(state, self.rules, is_acceptable, isr=isr)

    def _record(self, where: Where, decision: PartitionDecision) -> list[Message]:
        topic_id = self.image.topics[where[0]].id
        record = decision.record(topic_id, where[1])
        if record is None:
            return []
        if decision.is_lossy and decision.may_lose:
            self._elected_lossy(topic_id, where[1], record.leader)
        return [record]

    def _without(
        self, broker_id: int, *, is_unclean: bool = False, among: Iterable[Where] | None = None
    ) -> list[Message]:
        """Records that take a broker out of each ISR, and out of each ELR if it is unclean."""
        records: list[Message] = []
        for where in self.wheres() if among is None else among:
            state = self.partition(where)
            if broker_id in state.isr or (is_unclean and broker_id in state.eligible):
                decision = self._decision(where, removed=(broker_id,))
                decision.unclean = frozenset((broker_id,) if is_unclean else ())
                records += self._record(where, decision)
        return records

    # -- brokers

    def register(self, registration: Registration) -> int:
        """Register a broker; returns its epoch, NO_EPOCH if another process has a session."""
        broker_id = registration.broker_id
        known = self.image.registered.get(broker_id)
        is_same = known is not None and known.incarnation == registration.incarnation
        if broker_id in self.image.brokers and not is_same:
            return NO_EPOCH
        records: list[Message] = []
        if not is_same:
            is_clean = known is not None and known.epoch == registration.previous_epoch
            records += self._without(broker_id, is_unclean=not is_clean)
        epoch = self.end_offset + len(records)
        records.append(
            RegisterBrokerRecord(
                broker_id,
                incarnation_id=registration.incarnation,
                broker_epoch=epoch,
                log_dirs=list(registration.directories),
            )
        )
        self._write(records)
        return epoch

    def unregister(self, broker_id: int) -> None:
        """An administrator removes a broker."""
        known = self.image.registered[broker_id]
        removal = UnregisterBrokerRecord(broker_id, known.epoch)
        self._write([*self._without(broker_id), removal])

    def fence(self, broker_id: int) -> None:
        """The session of a broker is over."""
        records = self._without(broker_id)
        self._write([*records, self._change(broker_id, fenced=FENCED)])

    def unfence(self, broker_id: int) -> None:
        """A heartbeat of a broker that has caught up: it counts again, and may lead."""
        records: list[Message] = [self._change(broker_id, fenced=UNFENCED)]
        for where in self.wheres():
            if self.partition(where).leader == NO_LEADER:
                records += self._record(where, self._decision(where, added=broker_id))
        self._write(records)

    def shut_down(self, broker_id: int) -> bool:
        """A heartbeat of a broker that wants to stop; returns whether it may."""
        broker = self.image.brokers[broker_id]
        leads = any(self.partition(where).leader == broker_id for where in self.wheres())
        records = self._without(broker_id)
        if not leads:
            records.append(self._change(broker_id, fenced=FENCED))
        elif not broker.is_leaving:
            records.insert(0, self._change(broker_id, in_controlled_shutdown=1))
        self._write(records)
        return not leads

    def lose_directory(self, broker_id: int, directory: bytes) -> None:
        """A heartbeat names a directory that failed."""
        left = [each for each in self.image.registered[broker_id].directories if each != directory]
        self._write([self._change(broker_id, log_dirs=left)])
        self._write(self._offline_records(broker_id, self.wheres()))

    def assign(self, broker_id: int, topic_id: bytes, index: int, directory: bytes) -> None:
        """AssignReplicasToDirs: a broker says in which directory a replica is."""
        topic = self.image.topic_by_id(topic_id)
        if topic is None:
            return
        where = topic.name, index
        state = self.partition(where)
        if broker_id not in state.replicas:
            return
        directories = list(state.directories)
        place = state.replicas.index(broker_id)
        if directories[place] == directory:
            return
        directories[place] = directory
        self._write([PartitionChangeRecord(index, topic_id, directories=directories)])
        if broker_id in self.image.registered:
            self._write(self._offline_records(broker_id, [where]))

    def _offline_records(self, broker_id: int, among: Iterable[Where]) -> list[Message]:
        """Records for the replicas of a broker that are in no online directory."""
        broker = self.image.registered[broker_id]
        offline = []
        for where in among:
            state = self.partition(where)
            if broker_id in state.replicas:
                directory = state.directories[state.replicas.index(broker_id)]
                if not broker.has_online(directory):
                    offline.append(where)
        return self._without(broker_id, among=offline)

    def _change(self, broker_id: int, **fields: Any) -> Message:  # noqa: ANN401 - of each type
        epoch = self.image.registered[broker_id].epoch
        return BrokerRegistrationChangeRecord(broker_id, epoch, **fields)

    # -- administrators

    def create(self, name: str, assignments: Iterable[tuple[int, ...]]) -> None:
        """A new topic; unless an active broker can lead each partition, nothing."""
        assignments = list(assignments)
        live = [[each for each in replicas if self.is_active(each)] for replicas in assignments]
        if name in self.image.topics or not all(live):
            return
        self._topics_made += 1
        topic_id = self._topics_made.to_bytes(16, "big")
        partitions = [
            PartitionRecord(
                index,
                topic_id,
                list(replicas),
                isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[UNASSIGNED] * len(replicas),
            )
            for index, (replicas, isr) in enumerate(zip(assignments, live, strict=True))
        ]
        self._write([TopicRecord(name, topic_id), *partitions])

    def delete(self, name: str) -> None:
        self._write([RemoveTopicRecord(self.image.topics[name].id)])

    def elect(self, where: Where, *, unclean: bool = False) -> None:
        """ElectLeaders: the first replica, or any if the partition has no leader."""
        decision = self._decision(where)
        decision.prefers_first = not unclean
        decision.may_lose = unclean
        if not unclean or self.partition(where).leader == NO_LEADER:
            self._write(self._record(where, decision))

    def reassign(self, where: Where, target: tuple[int, ...]) -> None:
        """AlterPartitionReassignments, to brokers that are registered."""
        state = self.partition(where)
        before = tuple(each for each in state.replicas if each not in state.adding)
        if not all(each in self.image.registered for each in target):
            return
        decision = self._decision(where)
        decision.replicas = (*target, *[each for each in before if each not in target])
        decision.adding = tuple(each for each in target if each not in before)
        decision.removing = tuple(each for each in before if each not in target)
        decision.isr = tuple(each for each in state.isr if each in decision.replicas)
        if decision.isr:
            self._write(self._record(where, decision))

    # -- leaders

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """AlterPartition of a leader."""
        broker = self.image.registered.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        topics = []
        for asked in request.topics:
            topic = self.image.topic_by_id(asked.topic_id)
            answers = [self._alter(topic, request.broker_id, each) for each in asked.partitions]
            topics.append(ResponseTopicData(asked.topic_id, answers))
        return AlterPartitionResponse(topics=topics)

    def _alter(
        self, topic: TopicImage | None, broker_id: int, asked: RequestPartitionData
    ) -> ResponsePartitionData:
        answer = ResponsePartitionData(asked.partition_index)
        if topic is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            return answer
        where = topic.name, asked.partition_index
        answer.error_code = self._refusal(self.partition(where), broker_id, asked)
        if answer.error_code:
            return answer
        decision = self._decision(where)
        decision.isr = tuple(each.broker_id for each in asked.new_isr_with_epochs)
        decision.has_recovered = True
        self._write(self._record(where, decision))
        state = self.partition(where)
        if state.leader != broker_id:
            answer.error_code = ErrorCode.NEW_LEADER_ELECTED
            return answer
        answer.leader_id, answer.leader_epoch = state.leader, state.leader_epoch
        answer.isr, answer.partition_epoch = list(state.isr), state.partition_epoch
        return answer

    def _refusal(
        self, state: KraftPartitionImage, broker_id: int, asked: RequestPartitionData
    ) -> ErrorCode:
        if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
            return ErrorCode.NOT_CONTROLLER
        if state.leader != broker_id or asked.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if asked.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        isr = [each.broker_id for each in asked.new_isr_with_epochs]
        if broker_id not in isr or not set(isr) <= set(state.replicas):
            return ErrorCode.INVALID_REQUEST
        for member in asked.new_isr_with_epochs:
            broker = self.image.brokers.get(member.broker_id)
            if not _is_eligible(broker, member.broker_epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return ErrorCode.NONE


def _is_eligible(broker: BrokerImage | None, broker_epoch: int) -> bool:
    if broker is None or broker.is_leaving:
        return False
    return broker_epoch in (NO_EPOCH, broker.epoch)
