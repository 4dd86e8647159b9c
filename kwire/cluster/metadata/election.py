"""Elections of partition leaders, and the partition states that follow from them.

The elections of a cluster are those of Kafka's PartitionLeaderElectionAlgorithms.  Each returns the
next state of a partition (leader, in-sync replicas, epochs, recovery), or None if no replica can be
elected.  The first eligible replica is elected.  These functions know nothing about brokers:
`online` says which replicas are available, their log directories included.

The last functions decide for a broker that is its own controller when one of its disks fails or
works again, as Kafka's ReplicationControlManager does.  A partition whose log is offline has no
leader and no in-sync replicas, and its replica is in `offline`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import replace

from kwire.cluster.metadata.changes import AlterPartition, Decision
from kwire.cluster.metadata.image import NO_LEADER, ClusterImage, PartitionImage

Online = Callable[[int], bool]
"""Whether the replica on a broker is available: the broker is live, and its log is online."""


def is_new(state: PartitionImage) -> bool:
    """Whether the partition never had a leader: it has replicas, but no state yet."""
    return state.partition_epoch < 0


def unassigned_partition(replicas: tuple[int, ...]) -> PartitionImage:
    """A new partition with these replicas, before its first leader is elected."""
    return PartitionImage(NO_LEADER, -1, -1, replicas, ())


def target_replicas(state: PartitionImage) -> tuple[int, ...]:
    """The replicas after the partition's reassignment; all replicas if there is none."""
    return tuple([each for each in state.replicas if each not in state.removing])


def original_replicas(state: PartitionImage) -> tuple[int, ...]:
    """The replicas before the partition's reassignment; all replicas if there is none."""
    return tuple([each for each in state.replicas if each not in state.adding])


def next_state(
    state: PartitionImage, leader: int, isr: tuple[int, ...], *, recovering: bool | None = None
) -> PartitionImage:
    """Return the next state by a decision of the controller.

    It always begins a new leader epoch.
    """
    return replace(
        state,
        leader=leader,
        isr=isr,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        recovering=state.recovering if recovering is None else recovering,
    )


def first_state(state: PartitionImage, online: Online) -> PartitionImage | None:
    """The first state of a new partition: all online replicas are in sync, as the log is empty."""
    live = tuple(filter(online, state.replicas))
    return next_state(state, live[0], live, recovering=False) if live else None


def elected_offline(
    state: PartitionImage, online: Online, *, unclean: bool
) -> PartitionImage | None:
    """Return the state after an election: the first online in-sync replica leads.

    If there is none, `unclean` allows another online replica to lead; else returns None.  That
    leader is alone in the ISR, and recovering until it reports that it has recovered (KIP-704).
    """
    live = [each for each in state.replicas if online(each)]
    in_sync = [each for each in live if each in state.isr]
    if in_sync:
        return next_state(state, in_sync[0], tuple(filter(online, state.isr)))
    if unclean and live:
        return next_state(state, live[0], (live[0],), recovering=True)
    return None


def elected_preferred(state: PartitionImage, online: Online) -> PartitionImage | None:
    """The state with the preferred leader, the first replica, if it is in sync."""
    preferred = state.replicas[0]
    if online(preferred) and preferred in state.isr:
        return next_state(state, preferred, state.isr)
    return None


def elected_for_reassignment(
    state: PartitionImage, target: tuple[int, ...], online: Online
) -> PartitionImage | None:
    """Return the state with an in-sync replica of `target` as leader, or None."""
    for replica in target:
        if online(replica) and replica in state.isr:
            return next_state(state, replica, state.isr)
    return None


def elected_for_shutdown(
    state: PartitionImage, online: Online, shutting_down: Container[int]
) -> PartitionImage | None:
    """Return the state without brokers that shut down, which are still online.

    None if no other replica is in sync.
    """
    for replica in state.replicas:
        if online(replica) and replica in state.isr and replica not in shutting_down:
            isr = tuple([each for each in state.isr if each not in shutting_down])
            return next_state(state, replica, isr)
    return None


def without_replica(state: PartitionImage, replica: int) -> PartitionImage | None:
    """Return the state without a replica that is gone; None if nothing changes.

    The last in-sync replica stays in the ISR: only that one is known to have all committed records.
    """
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
    """Return decisions after which exactly the partitions in `offline` have no leader here.

    `offline` has (topic, partition index).  Partitions that already are as they should be need
    none.
    """
    return [
        _decision(topic, index, node_id, (topic, index) in offline)
        for topic, index in _partitions_to_change(image, node_id, offline)
    ]


def _partitions_to_change(
    image: ClusterImage, node_id: int, offline: Collection[tuple[str, int]]
) -> Iterator[tuple[str, int]]:
    """The partitions of `node_id` whose state does not match `offline`."""
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            is_offline = (topic.name, index) in offline
            if state_by_disk(state, node_id, offline=is_offline) is not state:
                yield topic.name, index


def _decision(name: str, index: int, node_id: int, offline: bool) -> Decision:
    """Return the decision that makes a partition's state match the state of its disk.

    `offline`: the log of the partition on `node_id` is in a failed log directory.
    """

    def decide(image: ClusterImage) -> AlterPartition | None:
        """Return the change; None if the state matches or the partition is gone."""
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
    """The state of a partition whose log on `node_id` is offline or online.

    Returns `state` itself if it is already right.
    """
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
    # A new leader, or none, begins a new leader epoch.
    elected = wanted.leader != state.leader
    return replace(
        wanted,
        leader_epoch=state.leader_epoch + elected,
        partition_epoch=state.partition_epoch + 1,
    )
