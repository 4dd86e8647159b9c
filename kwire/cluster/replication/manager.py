"""What the controller tells this broker to do: LeaderAndIsr, StopReplica, UpdateMetadata.

All three say from which controller they are and for which registration of this broker.  What comes
from a controller of old, or was meant for this broker before it came back, is refused:

    controller epoch below the highest heard   STALE_CONTROLLER_EPOCH, and nothing is done
    broker epoch below this broker's (-1: any) STALE_BROKER_EPOCH, and nothing is done

and of LeaderAndIsr, partition by partition, in this order (Apache Kafka 3.9):

    its disk has failed, or it may be on one that has   KAFKA_STORAGE_ERROR
    another topic id than its log's                     INCONSISTENT_TOPIC_ID
    a leader epoch that is known here already, or older STALE_CONTROLLER_EPOCH
    this broker is no replica                           UNKNOWN_TOPIC_OR_PARTITION

StopReplica: a leader epoch below the known one is FENCED_LEADER_EPOCH; -1 and -2 (the topic is
being deleted) are taken whatever is known.

A partition that there is no room for now (kwire.log.directory.shortage) is answered with
KAFKA_STORAGE_ERROR too, and the controller takes it for lost: it is asked to tell of it again.

A broker whose registration is gone leads and follows nothing until it is told again, by whoever
knows of its next one: `step_down`.  What it is told then may be the leader epoch it had: of a
partition that had no other replica in sync, or that was followed here outside of the ISR.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.metadata.image import PartitionImage
from kwire.cluster.replication.fetchers import Fetchers
from kwire.cluster.replication.isr import IsrChanges
from kwire.cluster.replication.leading import LeaderContext, Leading
from kwire.cluster.replication.metadata_update import delta_of_update
from kwire.cluster.replication.quotas import ReplicationQuotas
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kwire.codecs.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kwire.codecs.messages.update_metadata import UpdateMetadataResponse
from kwire.codecs.primitives import ZERO_UUID
from kwire.log import Log, LogError
from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ResourceKey
    from kwire.cluster.replication.context import ReplicationContext
    from kwire.codecs.messages.update_metadata import UpdateMetadataRequest

log = logging.getLogger("kwire.replication")

NO_BROKER_EPOCH: Final = -1
NO_LEADER_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2
TOPICS_SINCE: Final = 5
"""LeaderAndIsr: errors are told by topic id."""

ASK_AGAIN_S: Final = 2.0
"""From a shortage until the controller is asked to tell again: room is made by people, or soon."""

Key = tuple[str, int]


class ReplicaManager:
    """See the module.  What it is told it does before it answers; nothing in it waits."""

    def __init__(self, host: ReplicationContext, nursery: trio.Nursery) -> None:
        self._host = host
        self._hosted = host.hosted
        self.quotas = ReplicationQuotas(host)
        self._fetchers = Fetchers(host, nursery, self.quotas.follower)
        self._changes = IsrChanges(host)
        self._leaders = LeaderContext(
            self._changes,
            now_ms=host.now_ms,
            is_alive=lambda broker_id: broker_id in host.image.brokers,
            is_eligible=lambda broker_id: broker_id in host.image.brokers,
            lag_max_ms=host.config.replica_lag_time_max_ms,
        )
        self._fetchers_wanted = host.config.num_replica_fetchers
        self._set_down: set[Key] = set()
        """Partitions to be told of anew: the leader epoch that is known here says nothing."""
        self._short = trio.Event()
        """There was no room for a partition."""
        self._taken_for_lost: set[Key] = set()
        """Those that there was no room for, which the controller has not had stopped yet."""
        self._lost_epoch = NO_BROKER_EPOCH
        """This broker's registration that ended; what was sent to it comes late."""
        self.controller_epoch = 0
        nursery.start_soon(self._changes.run)
        nursery.start_soon(self._watch_isr)
        nursery.start_soon(self._be_told_again)

    async def _watch_isr(self) -> None:
        """Who fell behind is noticed after 1.5 times replica.lag.time.max.ms at the latest."""
        while True:
            await trio.sleep(self._leaders.lag_max_ms / 2 / 1000)
            for partition in self._hosted:
                if partition.leading is not None:
                    partition.leading.maybe_shrink()

    async def _be_told_again(self) -> None:
        """Have the controller tell of what there was no room for, until there is."""
        while True:
            await self._short.wait()
            await trio.sleep(ASK_AGAIN_S)
            self._short = trio.Event()
            await self._host.report_offline()

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        """This broker's dynamic settings may be others, and what is set on topics."""
        self.quotas.configs_changed(changed)
        wanted = self._host.config.num_replica_fetchers
        if wanted != self._fetchers_wanted:
            self._fetchers_wanted = wanted
            self._fetchers.rearrange()

    def logs_lost(self, lost: Iterable[Log]) -> None:
        """Their disk has failed: there is nothing to append to any longer."""
        for each in lost:
            self._fetchers.forget(each.topic, each.partition)
        self._fetchers.end_idle()

    def step_down(self) -> None:
        """The registration of this broker is gone: lead and follow nothing until told again.

        Others may lead by now what was led here.  Whoever waits in a partition is answered, and
        the coordinators that live in those that were led resign.
        """
        self._lost_epoch = self._host.broker_epoch
        for partition in self._hosted:
            self._fetchers.forget(partition.topic, partition.index)
            self._set_down.add((partition.topic, partition.index))
            was_leader = partition.is_leader
            partition.stop(partition.why_not_led())
            if was_leader:
                self._hosted.on_leadership_change(partition)
        self._fetchers.end_idle()

    def _refused(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Why a request is not for this broker as it is, or of a controller that is none."""
        is_old = broker_epoch < self._host.broker_epoch or broker_epoch <= self._lost_epoch
        if broker_epoch != NO_BROKER_EPOCH and is_old:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            log.warning(
                "the controller of epoch %d is none any longer: %d is known",
                controller_epoch,
                self.controller_epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    # -- LeaderAndIsr

    def leader_and_isr(self, request: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
        """Lead or follow the partitions of `request`."""
        error = self._refused(request.controller_epoch, request.broker_epoch)
        answers: dict[bytes, list[LeaderAndIsrPartitionError]] = {}
        states = {
            (name, state.partition_index): (id_, state) for name, id_, state in _states(request)
        }
        for (name, index), (topic_id, state) in states.items():
            answers.setdefault(topic_id, []).append(
                LeaderAndIsrPartitionError(
                    name,
                    index,
                    error or self._become(name, topic_id, state),
                )
            )
        self._fetchers.end_idle()
        if version < TOPICS_SINCE:
            flat = [each for told in answers.values() for each in told]
            return LeaderAndIsrResponse(error, partition_errors=flat)
        topics = [LeaderAndIsrTopicError(topic_id, told) for topic_id, told in answers.items()]
        return LeaderAndIsrResponse(error, topics=topics)

    def _become(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> ErrorCode:
        """Leader or follower of one partition, as it is told."""
        index = state.partition_index
        partition = self._hosted.get(topic, index)
        if partition is not None and partition.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        found = self._host.logs.logs.get((topic, index))
        if found is not None and _differ(topic_id, found.topic_id):
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if partition is not None and self._knows(partition, state.leader_epoch):
            return self._known_epoch(partition, topic_id, state)
        if self._host.node_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            if partition is None:
                partition = self._open(topic, topic_id, state)
            else:
                _take_id(partition, topic_id)
            self._follow(partition, image_of(state))
        except LogError as problem:
            log.error("%s-%d cannot be taken over: %s", topic, index, problem)
            self._note_refused((topic, index), problem.error)
            return problem.error
        return ErrorCode.NONE

    def _note_refused(self, key: Key, error: ErrorCode) -> None:
        """What is told of it again is news; where no disk failed it was a shortage, and passes."""
        if self._hosted.get(*key) is not None:
            self._set_down.add(key)
        if error == ErrorCode.KAFKA_STORAGE_ERROR and not self._host.logs.offline_dirs:
            self._taken_for_lost.add(key)
            self._short.set()

    def _note_stopped(self, key: Key) -> None:
        """Who takes a replica for lost has it stopped, maybe after there was room for it again."""
        if key in self._taken_for_lost:
            self._taken_for_lost.discard(key)
            if self._hosted.get(*key) is not None:
                self._set_down.add(key)

    def _knows(self, partition: Partition, leader_epoch: int) -> bool:
        """Whether it leads or follows in that leader epoch already, or in a later one."""
        if (partition.topic, partition.index) in self._set_down:
            return leader_epoch < partition.leader_epoch
        return leader_epoch <= partition.leader_epoch

    @staticmethod
    def _known_epoch(
        partition: Partition, topic_id: bytes, state: LeaderAndIsrPartitionState
    ) -> ErrorCode:
        """Nothing new, but perhaps the topic's id, which it has had none of."""
        same = state.leader_epoch == partition.leader_epoch
        if not same or topic_id == ZERO_UUID or partition.topic_id != ZERO_UUID:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        _take_id(partition, topic_id)
        return ErrorCode.NONE

    def _open(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> Partition:
        """The partition, on its log.  LogError."""
        logs, index = self._hosted.logs, state.partition_index
        is_there = (topic, index) in logs.logs
        if not is_there and not state.is_new and logs.offline_dirs:
            # An empty log in its place would be taken for the partition.
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, "it may be in a directory that failed")
        return self._hosted.open(topic, topic_id, index, has_followers=True)

    def _follow(self, partition: Partition, image: PartitionImage) -> None:
        """Lead it or follow its leader in a new epoch.  LogError."""
        was_leader = partition.is_leader
        self._fetchers.forget(partition.topic, partition.index)
        partition.follow(image)
        self._set_down.discard((partition.topic, partition.index))
        if partition.is_leader:
            self._lead(partition, image, new_leader=not was_leader)
        elif partition.leader >= 0:
            partition.following = True
            self._fetchers.follow(partition)
        if was_leader or partition.is_leader:
            self._hosted.on_leadership_change(partition)

    def _lead(self, partition: Partition, image: PartitionImage, *, new_leader: bool) -> None:
        if len(image.replicas) == 1:
            partition.leading = None
            partition.advance_high_watermark(partition.log.log_end_offset, 0)
            return
        leading = partition.leading
        if not isinstance(leading, Leading):
            leading = partition.leading = Leading(partition, self._leaders)
        leading.follow(image, new_leader=new_leader, new_epoch=True)

    # -- StopReplica

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Follow the partitions of `request` no longer, or remove them."""
        error = self._refused(request.controller_epoch, request.broker_epoch)
        answers = []
        for name, state in _stopped(request):
            if error:
                break
            told = self._stop(name, state)
            answers.append(StopReplicaPartitionError(name, state.partition_index, told))
        self._fetchers.end_idle()
        return StopReplicaResponse(error, answers)

    def _stop(self, topic: str, state: StopReplicaPartitionState) -> ErrorCode:
        index = state.partition_index
        partition = self._hosted.get(topic, index)
        if partition is not None:
            if partition.log.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            named = state.leader_epoch not in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE)
            if named and state.leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        self._fetchers.forget(topic, index)
        if not state.delete_partition:
            self._note_stopped((topic, index))
            return ErrorCode.NONE
        if partition is not None:
            self._set_down.discard((topic, index))
            self._taken_for_lost.discard((topic, index))
        self._hosted.drop(topic, index)
        return ErrorCode.NONE

    # -- UpdateMetadata

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Know of topics and brokers what `request` says."""
        error = self._refused(request.controller_epoch, request.broker_epoch)
        if not error:
            before = self._host.image
            delta = delta_of_update(before, request)
            self.quotas.topics_deleted(delta.deleted)
            self._host.apply_metadata(delta.applied_to(before), delta)
        return UpdateMetadataResponse(error)


def _states(
    request: LeaderAndIsrRequest,
) -> Iterator[tuple[str, bytes, LeaderAndIsrPartitionState]]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_UUID, state


def _stopped(request: StopReplicaRequest) -> Iterator[tuple[str, StopReplicaPartitionState]]:
    """What the three forms of the request say."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, state
    delete = request.delete_partitions
    for old in request.topics:
        for index in old.partition_indexes:
            yield old.name, StopReplicaPartitionState(index, NO_LEADER_EPOCH, delete)
    for oldest in request.ungrouped_partitions:
        yield (
            oldest.topic_name,
            StopReplicaPartitionState(oldest.partition_index, NO_LEADER_EPOCH, delete),
        )


def _take_id(partition: Partition, topic_id: bytes) -> None:
    """Its topic's id, if it is the first that tells of one."""
    if partition.topic_id == ZERO_UUID != topic_id:
        partition.log.adopt_topic_id(topic_id)
        partition.topic_id = topic_id


def _differ(topic_id: bytes, known_id: bytes) -> bool:
    """Whether these are two topics; without an id it may be any."""
    return ZERO_UUID not in (topic_id, known_id) and topic_id != known_id


def image_of(state: LeaderAndIsrPartitionState) -> PartitionImage:
    """What LeaderAndIsr says of a partition."""
    return PartitionImage(
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        tuple(state.replicas),
        tuple(state.isr),
        (),
        tuple(state.adding_replicas),
        tuple(state.removing_replicas),
        state.leader_recovery_state == 1,
        state.controller_epoch,
    )
