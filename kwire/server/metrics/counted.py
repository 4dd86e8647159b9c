"""Counts what coordinators and share partitions do; a measured broker has these classes.

They take the place of the plain classes where coordinators make their objects, so a broker without
metrics counts nothing.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.errors import ErrorCode
from kwire.coordinators.runtime.runtime import CoordinatorRuntime, Shard
from kwire.coordinators.share.partition import AcknowledgedBatch, AcknowledgeType
from kwire.coordinators.share_partitions.led import Done, LedPartition
from kwire.groups.assigned.records import GroupEpoch
from kwire.groups.classic.records import GroupMetadata
from kwire.groups.classic.state import ClassicState
from kwire.groups.effects import Rebalance
from kwire.groups.machine import GroupMachine
from kwire.groups.offset_record import OffsetCommit
from kwire.groups.records import SHARE_GROUP, STREAMS_GROUP
from kwire.groups.timers import RetentionTimer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.broker.broker import Broker
    from kwire.coordinators.contract.driver import AnyEffects
    from kwire.coordinators.runtime.groups import GroupCoordinator
    from kwire.coordinators.share_partitions.manager import ShareManager
    from kwire.storage.partitions.partition import Partition


GROUPS_KEPT_MAX: Final = 500
"""Groups whose last rebalance is kept; a reader of `/slow` gets all of them."""


class CoordinatorCounts:
    """The counts since this broker started.

    commits          committed offsets; each partition counts
    deletions        offsets that OffsetDelete, or the end of their group or topic, deleted
    expirations      offsets that expired
    completed        rebalances of classic groups that ended with an assignment
    rebalances       new epochs of consumer, share and streams groups, by the kind
    acknowledgements records that members of share groups acknowledged, by the type

    `last_rebalances` has the last rebalance of each of the GROUPS_KEPT_MAX groups that rebalanced
    last, by group, in the order in which they began.
    """

    def __init__(self, broker: Broker) -> None:
        """Count from now on; the broker has no coordinator yet."""
        self.commits = self.deletions = self.expirations = self.completed = 0
        self.rebalances: Counter[str] = Counter()
        self.acknowledgements: Counter[AcknowledgeType] = Counter()
        self.last_rebalances: dict[str, Rebalance] = {}
        broker.coordinators.on_groups = self._count_groups
        broker.on_shares = self._count_shares

    def rebalanced(self, rebalance: Rebalance) -> None:
        """Keep the begin of a rebalance, as the last one of its group."""
        kept = self.last_rebalances
        kept.pop(rebalance.group_id, None)
        kept[rebalance.group_id] = rebalance
        if len(kept) > GROUPS_KEPT_MAX:
            del kept[next(iter(kept))]

    def _count_groups(self, coordinator: GroupCoordinator) -> None:
        coordinator.runtime.new_shard = partial(CountingShard, self)

    def _count_shares(self, shares: ShareManager) -> None:
        shares.new_led = partial(CountingLed, self)


class CountingShard(Shard[GroupMachine]):
    """A shard of the group coordinator that counts what is appended; a load appends nothing."""

    def __init__(
        self,
        counts: CoordinatorCounts,
        partition: Partition,
        machine: GroupMachine,
        runtime: CoordinatorRuntime[GroupMachine],
    ) -> None:
        super().__init__(partition, machine, runtime)
        self._counts = counts
        machine.on_rebalance = counts.rebalanced

    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        completed = sum(map(self._completes, effects.records))
        error = super().append(effects, proof)
        if error is ErrorCode.NONE:
            self._counts.completed += completed
            expires = any(isinstance(timer, RetentionTimer) for _, timer, _ in effects.timers)
            for record in effects.records:
                self._count(record, expires=expires)
        return error

    def _completes(self, record: object) -> bool:
        """Whether a record, which is not applied yet, has the assignment of a rebalance."""
        if not isinstance(record, GroupMetadata) or record.value is None:
            return False
        group: Any = self.machine.groups.get(record.key.group)
        return group is not None and group.state is ClassicState.COMPLETING_REBALANCE

    def _count(self, record: object, *, expires: bool) -> None:
        counts = self._counts
        if isinstance(record, OffsetCommit):
            if record.value is not None:
                counts.commits += 1
            elif expires:
                counts.expirations += 1
            else:
                counts.deletions += 1
        elif isinstance(record, GroupEpoch) and record.value is not None:
            counts.rebalances[_kind_of(record.TYPE)] += 1


def _kind_of(record_type: int) -> str:
    if record_type in STREAMS_GROUP:
        return "streams"
    return "share" if record_type in SHARE_GROUP else "consumer"


class CountingLed(LedPartition):
    """A share partition that counts the acknowledgements of its members."""

    def __init__(self, counts: CoordinatorCounts, *arguments: Any) -> None:  # noqa: ANN401 - LedPartition's
        super().__init__(*arguments)
        self._counts = counts

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgedBatch], done: Done) -> None:
        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for batch in batches:
                    self._count(batch)
            done(error)

        super().acknowledge(member_id, batches, written)

    def _count(self, batch: AcknowledgedBatch) -> None:
        """Count a batch: it has one type for each record, or one for all."""
        types = [AcknowledgeType(each) for each in batch.types]
        if len(types) == 1:
            self._counts.acknowledgements[types[0]] += batch.last - batch.first + 1
        else:
            self._counts.acknowledgements.update(types)
