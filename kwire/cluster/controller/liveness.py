"""Brokers that registered, left or restarted, and log directories that failed.

A broker that is gone leads nothing, and leaves every ISR in which it is not the last replica.  A
broker that has registered again (with a larger epoch) was gone too: the changes that follow from
its departure are committed before it counts as live and learns what it leads
(`start_brokers`).  The same holds for a broker that comes back while those changes are still being
committed.

A change that was decided before a broker left may be committed after.  `remove_departed_members`
then removes the broker once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import partial

from kwire.cluster.controller import deletion
from kwire.cluster.controller.effects import ControllerEffects
from kwire.cluster.controller.elections import leader_elections
from kwire.cluster.controller.propagation import BrokerRequestBatch
from kwire.cluster.controller.reassignment import resumption_decision
from kwire.cluster.controller.state import (
    ControllerState,
    TopicPartition,
    needs_no_leader,
    partition_of,
)
from kwire.cluster.metadata.changes import AlterPartition, Decision
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.election import (
    elected_offline,
    is_new,
    target_replicas,
    without_replica,
)
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrResponse


def brokers_changed(state: ControllerState, delta: ClusterDelta) -> ControllerEffects:
    """Handle brokers that registered, left, restarted, or changed their registration."""
    effects = ControllerEffects()
    arrived: dict[int, int] = {}
    modified = False
    for broker_id, broker in sorted(delta.brokers.items()):
        epoch = state.members.get(broker_id)
        if epoch is not None and (broker is None or broker.epoch != epoch):
            effects.add(_broker_gone(state, broker_id))
        if broker is not None and broker.epoch == epoch:  # only its endpoints or rack changed
            modified = True
        elif broker is not None:
            arrived[broker_id] = broker.epoch
    # `then`: a broker becomes a member after the changes that follow from its departure.
    if arrived:
        effects.add(ControllerEffects(then=partial(start_brokers, state, arrived)))
    if modified:  # UpdateMetadata carries the addresses of all live brokers
        batch = BrokerRequestBatch(state)
        batch.add_update_metadata(())
        effects.requests += batch.requests()
    return effects


def _broker_gone(state: ControllerState, broker_id: int) -> ControllerEffects:
    """Forget a live broker, halt deletions that need it, and remove its replicas from the ISRs."""
    del state.members[broker_id]
    state.shutting_down.discard(broker_id)
    state.offline.pop(broker_id, None)
    topic_partitions = sorted(state.hosted.get(broker_id, ()))
    deletion.replicas_failed(state, broker_id, topic_partitions)
    return _replicas_gone(state, broker_id, topic_partitions)


def remove_absent_brokers(state: ControllerState) -> ControllerEffects:
    """Remove the replicas of brokers that are not live, for a new controller.

    The former controller may have ended before it did this.
    """
    effects = ControllerEffects()
    for broker_id in sorted(state.hosted.keys() - state.members.keys()):
        effects.add(_replicas_gone(state, broker_id, sorted(state.hosted[broker_id])))
    return effects


def _replicas_gone(
    state: ControllerState, broker_id: int, topic_partitions: list[TopicPartition]
) -> ControllerEffects:
    """Elects leaders and shrinks ISRs after replicas on a broker have become unreachable.

    Partitions that need no change are only sent to all brokers, which report the replicas as
    offline.
    """
    concerned: list[TopicPartition] = []
    others: list[TopicPartition] = []
    for topic_partition in topic_partitions:
        partition = state.partition(topic_partition)
        if partition is None or is_new(partition):
            continue
        state.update_leaderless(topic_partition, partition)
        if needs_no_leader(state.image, topic_partition, partition):
            continue
        is_concerned = broker_id in partition.isr or partition.leader == broker_id
        (concerned if is_concerned else others).append(topic_partition)

    def show() -> ControllerEffects:
        batch = BrokerRequestBatch(state)
        batch.add_update_metadata(others)
        return ControllerEffects(requests=batch.requests())

    if not concerned:
        return show()
    decisions = [
        partial(_remove_replica, state, broker_id, topic_partition) for topic_partition in concerned
    ]
    return ControllerEffects(decisions=list(decisions), then=show if others else None)


def remove_departed_members(
    state: ControllerState, topic_partition: TopicPartition, now: PartitionImage
) -> list[Decision]:
    """Return decisions that remove brokers which are no longer members from an ISR.

    Such a broker may be a member again when a decision is committed; it can then be elected anew.
    """
    gone = [each for each in now.isr if each not in state.members]
    if not gone or (now.leader == NO_LEADER and len(now.isr) == 1):
        return []
    return [
        *(partial(_remove_replica, state, each, topic_partition) for each in gone),
        *leader_elections(state, [topic_partition]),
    ]


def _remove_replica(
    state: ControllerState, broker_id: int, topic_partition: TopicPartition, image: ClusterImage
) -> AlterPartition | None:
    """Return the change that removes a broker as leader and from the ISR of a partition."""
    partition = partition_of(image, topic_partition)
    if (
        partition is None
        or broker_id not in partition.replicas
        or needs_no_leader(image, topic_partition, partition)
    ):
        return None
    online = state.online(topic_partition)
    after = None
    if partition.leader == broker_id or not state.reachable(topic_partition)(partition.leader):
        after = elected_offline(
            partition,
            lambda each: each != broker_id and online(each),
            unclean=state.allows_unclean_election(topic_partition[0]),
        )
    return state.alteration(image, topic_partition, after or without_replica(partition, broker_id))


def start_brokers(state: ControllerState, arrived: Mapping[int, int]) -> ControllerEffects:
    """Make brokers members and send them what they host, if they still have the epochs given.

    `arrived` maps broker ids to epochs.
    """
    present = {
        broker_id: epoch
        for broker_id, epoch in arrived.items()
        if broker_id not in state.members
        and (broker := state.image.brokers.get(broker_id)) is not None
        and broker.epoch == epoch
    }
    if not present:
        return ControllerEffects()
    others = list(state.members)
    state.members |= present
    # The new members get the whole metadata first, then what they host.  The other members get only
    # the partitions of the new ones, and the list of live brokers.
    whole, theirs = BrokerRequestBatch(state), BrokerRequestBatch(state)
    whole.add_update_metadata(
        (
            topic_partition
            for topic in state.image.topics
            for topic_partition in state.partitions_of(topic)
        ),
        present,
    )
    theirs.add_update_metadata((), others)
    hosted: dict[TopicPartition, None] = {}
    for broker_id in present:
        for topic_partition in state.hosted.get(broker_id, ()):
            partition = state.partition(topic_partition)
            assert partition is not None, "the index follows the image"
            hosted[topic_partition] = None
            state.update_leaderless(topic_partition, partition)
            if not is_new(partition):
                theirs.add_leader_and_isr([broker_id], topic_partition)
                theirs.add_update_metadata([topic_partition], others)
    effects = ControllerEffects(requests=[*whole.requests(), *theirs.requests()])
    effects.add(_resume_waiting(state, hosted.keys(), present.keys()))
    return effects


def _resume_waiting(
    state: ControllerState, topic_partitions: Set[TopicPartition], brokers: Set[int]
) -> ControllerEffects:
    """Resumes what waited for replicas of these partitions on these brokers.

    Those are elections, reassignments to these brokers, and deletions of topics.
    """
    effects = ControllerEffects(
        decisions=leader_elections(state, topic_partitions & state.leaderless)
    )
    effects.decisions += [
        resumption_decision(state, topic_partition)
        for topic_partition in sorted(topic_partitions & state.reassigned)
        if (partition := state.partition(topic_partition)) is not None
        and not brokers.isdisjoint(target_replicas(partition))
    ]
    deleting = sorted(
        {topic_partition[0] for topic_partition in topic_partitions} & state.deletions.keys()
    )
    effects.add(deletion.resume(state, deleting, anew=True))
    return effects


# -- disks


def log_dirs_failed(state: ControllerState, broker_ids: Iterable[int]) -> ControllerEffects:
    """Send LeaderAndIsr for all replicas of brokers that reported failed log directories.

    The response names the replicas that are offline: `leader_and_isr_answered`.
    """
    batch = BrokerRequestBatch(state)
    for broker_id in broker_ids:
        for topic_partition in state.hosted.get(broker_id, ()):
            partition = state.partition(topic_partition)
            if partition is not None and not is_new(partition):
                batch.add_leader_and_isr([broker_id], topic_partition)
                batch.add_update_metadata([topic_partition])
    return ControllerEffects(requests=batch.requests())


def leader_and_isr_answered(
    state: ControllerState, broker_id: int, response: LeaderAndIsrResponse
) -> ControllerEffects:
    """Record which replicas are in failed log directories, and remove them from leadership and ISR.

    A replica without an error is online again: kwire's brokers recover from a full disk.  (Apache
    Kafka's brokers must restart for that.)
    """
    if response.error_code:
        return ControllerEffects()
    before = state.offline.get(broker_id, set())
    now = set(before)
    for topic in response.topics:
        name = state.image.names_by_id.get(topic.topic_id)
        for each in topic.partition_errors if name is not None else ():
            topic_partition = (name or "", each.partition_index)
            if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                now.add(topic_partition)
            elif each.error_code == ErrorCode.NONE:
                now.discard(topic_partition)
    if now:
        state.offline[broker_id] = now
    else:
        state.offline.pop(broker_id, None)
    effects = (
        _replicas_back(state, broker_id, before - now) if before - now else ControllerEffects()
    )
    failed = sorted(now - before)
    if not failed:
        return effects
    batch = BrokerRequestBatch(state)
    for topic_partition in failed:
        if not state.is_deleting(topic_partition[0]):
            batch.add_stop_replica([broker_id], topic_partition, delete=False)
    deletion.replicas_failed(state, broker_id, failed)
    effects.requests += batch.requests()
    effects.add(_replicas_gone(state, broker_id, failed))
    return effects


def _replicas_back(
    state: ControllerState, broker_id: int, topic_partitions: Set[TopicPartition]
) -> ControllerEffects:
    """Resume replicas whose log directory works again.

    They get LeaderAndIsr once more: a StopReplica of this controller may have reached the broker
    after it answered that they are online.
    """
    batch = BrokerRequestBatch(state)
    for topic_partition in sorted(topic_partitions):
        partition = state.partition(topic_partition)
        if partition is not None and not is_new(partition):
            batch.add_leader_and_isr([broker_id], topic_partition)
            batch.add_update_metadata([topic_partition])
    effects = ControllerEffects(requests=batch.requests())
    effects.add(_resume_waiting(state, topic_partitions, {broker_id}))
    return effects
