"""ReplicaFetchers: the fetchers of this broker, up to `num.replica.fetchers` per leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kwire.cluster.peers.peers import Role
from kwire.cluster.replication.fetcher import ReplicaFetcher
from kwire.groups.java import string_hash

if TYPE_CHECKING:
    from kwire.cluster.replication.context import ReplicationContext
    from kwire.storage.partitions.partition import Partition
    from kwire.storage.partitions.replication_quota import ReplicationQuota


class ReplicaFetchers:
    """Starts a fetcher for the first partition of a leader, and ends it after the last one."""

    def __init__(
        self, host: ReplicationContext, nursery: trio.Nursery, quota: ReplicationQuota
    ) -> None:
        """`nursery` runs the fetchers; `quota` limits them together."""
        self._host = host
        self._quota = quota
        self._nursery = nursery
        self._fetchers: dict[tuple[int, int], tuple[ReplicaFetcher, trio.CancelScope]] = {}
        self._by_partition: dict[tuple[str, int], tuple[int, int]] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch `partition` from its leader; its previous fetcher, if any, stops fetching it."""
        self.forget(partition.topic, partition.index)
        place = partition.leader, self._number_of(partition.topic, partition.index)
        fetcher = self._fetcher(*place)
        self._by_partition[partition.topic, partition.index] = place
        fetcher.add(partition)

    def forget(self, topic: str, index: int) -> None:
        """Stop fetching a partition."""
        place = self._by_partition.pop((topic, index), None)
        if place is not None:
            self._fetchers[place][0].remove(topic, index)

    @property
    def running(self) -> list[ReplicaFetcher]:
        return [fetcher for fetcher, _ in self._fetchers.values()]

    def end_idle(self) -> None:
        """End the fetchers that have no partition left; called after each controller request."""
        for place in [place for place, (fetcher, _) in self._fetchers.items() if not len(fetcher)]:
            _, scope = self._fetchers.pop(place)
            scope.cancel()
            self._host.release_peer(place[0], Role.FETCHER, place[1])

    def rearrange(self) -> None:
        """Move partitions to other fetchers after `num.replica.fetchers` has changed."""
        for topic, index in list(self._by_partition):
            partition = self._host.hosted.by_topic[topic][index]
            place = partition.leader, self._number_of(topic, index)
            if self._by_partition[topic, index] != place:
                self.follow(partition)
        self.end_idle()

    def _number_of(self, topic: str, index: int) -> int:
        """The number of the fetcher for this partition, by Apache Kafka's formula."""
        mixed = _as_int32(31 * string_hash(topic) + index)
        return (0 if mixed == -(2**31) else abs(mixed)) % self._host.config.num_replica_fetchers

    def _fetcher(self, leader: int, number: int) -> ReplicaFetcher:
        """Return the fetcher `number` of a leader; starts it if it does not run."""
        fetcher_and_scope = self._fetchers.get((leader, number))
        if fetcher_and_scope is None:
            fetcher = ReplicaFetcher(self._host, leader, number, self._quota)
            scope = trio.CancelScope()
            fetcher_and_scope = self._fetchers[leader, number] = fetcher, scope
            self._nursery.start_soon(_run_within, fetcher, scope)
        return fetcher_and_scope[0]


async def _run_within(fetcher: ReplicaFetcher, scope: trio.CancelScope) -> None:
    with scope:
        await fetcher.run()


def _as_int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31
