"""Placement: the brokers that get the replicas of new partitions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from itertools import count as count_from

from kwire.cluster.metadata.image import BrokerImage, PartitionImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode


def new_partition(replicas: Sequence[int]) -> PartitionImage:
    """The state of a new partition: the first replica leads, and all are in sync."""
    return PartitionImage(
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        replicas=tuple(replicas),
        isr=tuple(replicas),
    )


def place_partitions(
    brokers: Mapping[int, BrokerImage],
    count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first: int = 0,
) -> list[PartitionImage]:
    """Return the states of `count` new partitions, spread over the brokers.

    The replicas are those of `assign_replicas`.  `brokers` are those that can get new replicas.
    Raises Refusal if there are not enough of them.
    """
    if not brokers:
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    assigned = assign_replicas(
        brokers, count, replication_factor, start=start, shift=shift, first=first
    )
    return [new_partition(replicas) for replicas in assigned]


def place_more_partitions(
    brokers: Mapping[int, BrokerImage], count: int, partitions: Sequence[PartitionImage]
) -> list[PartitionImage]:
    """Return the states of `count` more partitions of an existing topic.

    Their leaders continue the topic's round over the brokers.  Raises Refusal if there are not
    enough brokers.
    """
    replicas = partitions[0].replicas
    start = next(
        (index for index, broker_id in enumerate(sorted(brokers)) if broker_id >= replicas[0]), 0
    )
    return place_partitions(
        brokers, count, len(replicas), start=start, shift=start, first=len(partitions)
    )


def assign_replicas(
    brokers: Mapping[int, BrokerImage],
    count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first: int = 0,
) -> list[list[int]]:
    """Return the replicas of `count` partitions from index `first` on, as Kafka places them.

    The leaders go round the brokers from the one at `start`, so that small topics do not all have
    the same leader.  The second replica is `shift` brokers behind the leader's neighbour, and one
    more in each round, so that all others share the load of a broker that fails.  If brokers have
    racks, no rack gets a second replica before all racks have one.  There must be at least as many
    brokers as replicas.
    """
    ring = _alternating_racks(brokers.values())
    racks = {broker.rack for broker in brokers.values()}
    step = len(racks) if racks != {None} else 1  # from rack to rack, or from broker to broker
    size = len(ring)
    assigned = []
    for index in range(first, first + count):
        if index > 0 and index % size == 0:
            shift += 1
        preferred = _from(ring, (index + start) % size, shift * step)
        assigned.append(_spread(preferred, brokers, len(racks), replication_factor))
    return assigned


def _from(ring: Sequence[int], leader: int, shift: int) -> Iterator[int]:
    """The leader, then all other brokers in an endless round that starts after `shift` of them."""
    yield ring[leader]
    size = len(ring)
    for turn in count_from(shift):
        yield ring[(leader + 1 + turn % (size - 1)) % size]


def _spread(
    preferred: Iterator[int],
    brokers: Mapping[int, BrokerImage],
    racks_count: int,
    replication_factor: int,
) -> list[int]:
    """Return the first brokers of `preferred`, in different racks as far as possible."""
    chosen: list[int] = []
    racks: set[str | None] = set()
    while len(chosen) < replication_factor:
        broker_id = next(preferred)
        rack = brokers[broker_id].rack
        if broker_id not in chosen and (rack not in racks or len(racks) == racks_count):
            chosen.append(broker_id)
            racks.add(rack)
    return chosen


def _alternating_racks(brokers: Iterable[BrokerImage]) -> list[int]:
    """Return all broker ids, ordered so that neighbours are in different racks if possible.

    If only some brokers have racks, those without share one.  (Apache Kafka refuses to place then.)
    """
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.id)):
        racks.setdefault(broker.rack or "", []).append(broker.id)
    rounds = zip_longest(*racks.values())
    return [broker_id for broker_id in chain.from_iterable(rounds) if broker_id is not None]


def check_manual_assignment(
    replicas: Sequence[int], brokers: Container[int], cordoned: Container[int], size: int = 0
) -> None:
    """Raise Refusal for an invalid assignment; `size` is the replication factor, 0 for any.

    `brokers` are registered, and those in `cordoned` get no new replicas.
    """

    def refusal(reason: str) -> Refusal:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)

    if not replicas:
        raise refusal("The manual partition assignment includes an empty replica list.")
    for broker_id in sorted(set(replicas)):
        if broker_id not in brokers:
            raise refusal(
                f"The manual partition assignment includes broker {broker_id}, but no such broker "
                "is registered."
            )
        if broker_id in cordoned:
            raise refusal(
                f"The manual partition assignment includes broker {broker_id}, but all its log "
                "directories are cordoned."
            )
        if replicas.count(broker_id) > 1:
            raise refusal(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
    if size and len(replicas) != size:
        raise refusal(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            f"replica(s), but this is not consistent with previous partitions, which have {size} "
            "replica(s)."
        )
