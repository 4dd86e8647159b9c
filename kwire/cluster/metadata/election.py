"""Who leads a partition, and what that makes of it.

The elections of a cluster are those of Kafka's PartitionLeaderElectionAlgorithms, each with what
follows for the replicas in sync, the epochs and the recovery state: the next state of a partition,
or None where nobody can be elected.  Among those who can it is the first of the replicas.  They
know nothing of brokers: `online` says which replicas are there, their disk included.

Last is what a broker that is its own controller decides when one of its disks fails, or is back.  A
partition whose log is offline has no leader, and nobody in sync; its replica is named as offline.
(Kafka's ReplicationControlManager.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import replace

from kwire.cluster.metadata.changes import AlterPartition, Decision
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage

Online = Callable[[int], bool]
"""Whether the replica on a broker can be reached: the broker lives, and has its log."""


def is_new(state: PartitionImage) -> bool:
    """Whether nobody ever led it: it is assigned, and has no state yet."""
    return state.partition_epoch < 0


def unassigned_partition(replicas: tuple[int, ...]) -> PartitionImage:
    """A partition that is assigned to replicas and has no state yet."""
    return PartitionImage(NO_LEADER, -1, -1, replicas, ())


def target_replicas(state: PartitionImage) -> tuple[int, ...]:
    """The replicas that it will have when it is reassigned, those it has where it is not."""
    return tuple([each for each in state.replicas if each not in state.removing])


def original_replicas(state: PartitionImage) -> tuple[int, ...]:
    """The replicas that it had before it was reassigned, those it has where it is not."""
    return tuple([each for each in state.replicas if each not in state.adding])


def next_state(
    state: PartitionImage, leader: int, isr: tuple[int, ...], *, recovering: bool | None = None
) -> PartitionImage:
    """The state that follows by a decision of the controller: a new leader epoch, always."""
    return replace(
        state,
        leader=leader,
        isr=isr,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        recovering=state.recovering if recovering is None else recovering,
    )


def first_state(state: PartitionImage, online: Online) -> PartitionImage | None:
    """Of a partition that has none: whoever is online is in sync, for nothing was written."""
    live = tuple(filter(online, state.replicas))
    return next_state(state, live[0], live, recovering=False) if live else None


def elected_offline(
    state: PartitionImage, online: Online, *, unclean: bool
) -> PartitionImage | None:
    """Its leader is gone.  `unclean`: one that is not in sync may lead, if none that is can.

    Such a leader is alone in sync, and recovering until it has said that it is in order (KIP-704).
    """
    live = [each for each in state.replicas if online(each)]
    in_sync = [each for each in live if each in state.isr]
    if in_sync:
        return next_state(state, in_sync[0], tuple(filter(online, state.isr)))
    if unclean and live:
        return next_state(state, live[0], (live[0],), recovering=True)
    return None


def elected_preferred(state: PartitionImage, online: Online) -> PartitionImage | None:
    """The first of the replicas leads, if it is in sync."""
    preferred = state.replicas[0]
    if online(preferred) and preferred in state.isr:
        return next_state(state, preferred, state.isr)
    return None


def elected_for_reassignment(
    state: PartitionImage, target: tuple[int, ...], online: Online
) -> PartitionImage | None:
    """One of the replicas that are to stay leads, if one is in sync."""
    for replica in target:
        if online(replica) and replica in state.isr:
            return next_state(state, replica, state.isr)
    return None


def elected_for_shutdown(
    state: PartitionImage, online: Online, shutting_down: Container[int]
) -> PartitionImage | None:
    """Leader and ISR without the brokers that are shutting down, which are online still."""
    for replica in state.replicas:
        if online(replica) and replica in state.isr and replica not in shutting_down:
            isr = tuple([each for each in state.isr if each not in shutting_down])
            return next_state(state, replica, isr)
    return None


def without_replica(state: PartitionImage, replica: int) -> PartitionImage | None:
    """A replica that is gone is not in sync, except as the last one, who alone knows it all."""
    if replica not in state.isr:
        return None
    left = tuple([each for each in state.isr if each != replica]) or state.isr
    leader = NO_LEADER if replica == state.leader else state.leader
    if leader == state.leader and left == state.isr:
        return None
    return next_state(state, leader, left)


def offline_decisions(
    image: ClusterImage, node_id: int, offline: Collection[tuple[str, int]]
) -> list[Decision]:
    """Decisions by which just the partitions `offline` of `node_id`'s have no leader.

    They are (topic, partition).  There is one for each that is not as it should be in `image`.
    """
    return [
        _decision(topic, index, node_id, (topic, index) in offline)
        for topic, index in _misjudged(image, node_id, offline)
    ]


def _misjudged(
    image: ClusterImage, node_id: int, offline: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            is_offline = (topic.name, index) in offline
            if state_by_disk(state, node_id, offline=is_offline) is not state:
                yield topic.name, index


def _decision(name: str, index: int, node_id: int, offline: bool) -> Decision:
    def decide(image: ClusterImage) -> AlterPartition | None:
        topic = image.topics.get(name)
        if topic is None or index >= len(topic.partitions):
            return None
        state = topic.partitions[index]
        wanted = state_by_disk(state, node_id, offline=offline)
        if wanted is state:
            return None
        return AlterPartition(name, topic.id, index, state.partition_epoch, wanted)

    return decide


def state_by_disk(state: PartitionImage, node_id: int, *, offline: bool) -> PartitionImage:
    """What a partition is when its log on `node_id` is offline, or is not; `state` if it is so."""
    if node_id not in state.replicas:
        return state
    if not offline and state.leader != NO_LEADER and node_id not in state.offline:
        return state
    if not offline:
        wanted = replace(state, leader=node_id, isr=(node_id,), offline=())
    else:
        wanted = replace(state, leader=NO_LEADER, isr=(), offline=(node_id,))
    if wanted == state:
        return state
    elected = wanted.leader != state.leader
    return replace(
        wanted,
        leader_epoch=state.leader_epoch + elected,
        partition_epoch=state.partition_epoch + 1,
    )
