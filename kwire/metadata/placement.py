"""Which brokers a new partition's replicas go to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from kwire.codecs.errors import ErrorCode
from kwire.metadata.image import BrokerImage, PartitionImage
from kwire.metadata.refusal import Refusal


def new_partition(replicas: Sequence[int]) -> PartitionImage:
    """A partition that has just been made: the first replica leads, all are in sync."""
    return PartitionImage(
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        replicas=tuple(replicas),
        isr=tuple(replicas),
    )


def place(
    brokers: Mapping[int, BrokerImage], count: int, replication_factor: int, first: int
) -> list[PartitionImage]:
    """Spread `count` partitions over the brokers, each one's replicas over the racks.

    `first` is where the round starts; without a varying one the leaders of all small topics would
    be on the same broker.  Raises Refusal if there are not enough brokers.
    """
    if replication_factor > len(brokers):
        raise Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    ring = _alternating_racks(brokers.values())
    size = len(ring)
    partitions = []
    for index in range(count):
        start = first + index
        shift = start // size  # followers differ from round to round, so load spreads on a failure
        leader = start % size
        followers = [
            (leader + 1 + (shift + step) % (size - 1)) % size
            for step in range(replication_factor - 1)
        ]
        partitions.append(new_partition([ring[at] for at in (leader, *followers)]))
    return partitions


def _alternating_racks(brokers: Iterable[BrokerImage]) -> list[int]:
    """All broker ids, neighbours in different racks as far as that goes."""
    racks: dict[str | None, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack, []).append(broker.id)
    rounds = zip_longest(*racks.values())
    return [broker_id for broker_id in chain.from_iterable(rounds) if broker_id is not None]


def check_manual(replicas: Sequence[int], brokers: Mapping[int, BrokerImage], size: int) -> None:
    """Refuse a manual assignment that cannot be; `size` is the replication factor, 0 for any."""

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
