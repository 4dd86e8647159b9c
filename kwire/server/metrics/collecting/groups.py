"""Groups of all kinds that this broker coordinates: states, members, epochs, offsets and lag."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from kwire.broker.broker import Broker
    from kwire.groups.group import Group
    from kwire.groups.machine import GroupMachine
    from kwire.groups.offsets import Offsets
    from kwire.server.metrics.counted import CoordinatorCounts
    from kwire.server.metrics.ends import EndOffsets
    from kwire.server.metrics.samples import Samples

CLASSIC: Final = "classic"
STREAMS: Final = "streams"
_ASSIGNED: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
STATES: Final[dict[str, tuple[str, ...]]] = {
    CLASSIC: ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    "consumer": _ASSIGNED,
    "share": ("Empty", "Stable", "Dead"),
    STREAMS: (*_ASSIGNED, "NotReady"),
}
"""The states of each kind of groups, by the names that Kafka's metrics have.  DEAD groups are
deleted at once, so there is never one."""

PARTITION_STATES: Final = ("loading", "active", "failed")
"""The states of a partition that a coordinator leads, by the names that Kafka's metrics have."""


GIVEN: Final = (
    "kafka_coordinator_group_",
    "kafka_server_group_coordinator_metrics_",
    "kafka_consumergroup_",
    "kwire_group_",
    "kwire_streams_group_",
)
"""How the names of the metrics begin that `collect` gives."""

VALUES_PER_STEP: Final = 1000
"""Offsets, or groups, after which other work may go on; they take 2 ms."""


def collect(
    broker: Broker, ends: EndOffsets, counts_since_start: CoordinatorCounts, samples: Samples
) -> Iterator[None]:
    """Give the metrics of all groups in partitions of `__consumer_offsets` that are led here.

    Yields after each step.
    """
    coordinator = broker.coordinators.groups_if_any
    states = {kind: dict.fromkeys(names, 0) for kind, names in STATES.items()}
    partition_states: Counter[str] = Counter()
    offsets = 0
    if coordinator is not None:
        partition_states.update(shard.state.value for shard in coordinator.runtime.shards.values())
        for shard in list(coordinator.runtime.active()):
            yield from _groups(shard.machine, states, counts_since_start, samples)
            offsets += yield from _offsets(shard.machine.offsets, ends, samples)
    coordination = "kafka_server_group_coordinator_metrics_"
    for kind, counts in states.items():
        samples.set(f"{coordination}group_count", sum(counts.values()), kind)
        for state, count in counts.items():
            samples.set(f"{coordination}{kind}_group_count", count, state)
    for state in PARTITION_STATES:
        samples.set(f"{coordination}num_partitions", partition_states[state], state)
    samples.set(f"{coordination}offset_count", offsets)
    _counts(counts_since_start, samples)
    classic = states[CLASSIC]
    manager = "kafka_coordinator_group_groupmetadatamanager_"
    samples.set(f"{manager}numoffsets", offsets)
    samples.set(f"{manager}numgroups", sum(classic.values()))
    for state in STATES[CLASSIC]:
        samples.set(f"{manager}numgroups{state.lower()}", classic[state])


def _counts(counts: CoordinatorCounts, samples: Samples) -> None:
    coordination = "kafka_server_group_coordinator_metrics_"
    samples.set(f"{coordination}offset_commit_count", counts.commits)
    samples.set(f"{coordination}offset_deletion_count", counts.deletions)
    samples.set(f"{coordination}offset_expiration_count", counts.expirations)
    samples.set(f"{coordination}group_completed_rebalance_count", counts.completed)
    for kind in ("consumer", "share", STREAMS):
        samples.set(f"{coordination}{kind}_group_rebalance_count", counts.rebalances[kind])


def _groups(
    machine: GroupMachine,
    states: dict[str, dict[str, int]],
    since_start: CoordinatorCounts,
    samples: Samples,
) -> Iterator[None]:
    """Count the groups of one partition, and give the metrics of each; yields after each step."""
    members_of = samples.series("kafka_consumergroup_members")
    epoch_of, state_of = samples.series("kwire_group_epoch"), samples.series("kwire_group_state")
    tasks_of = samples.series("kwire_streams_group_tasks")
    rebalanced_of = samples.series("kwire_group_last_rebalance_timestamp_seconds")
    for number, group in enumerate(list(machine.groups.values()), 1):
        group_id, kind, state = group.group_id, group.type_name, group.state_name
        states[kind][state] = states[kind].get(state, 0) + 1
        members = _members(group)
        members_of[group_id,] = len(members)
        epoch_of[group_id, kind] = _epoch(group)
        state_of[group_id, kind, state] = 1
        last = since_start.last_rebalances.get(group_id)
        if last is not None:
            rebalanced_of[group_id, kind] = last.at_ms / 1000
        if kind == STREAMS:
            for role in ("active", "standby", "warmup"):
                tasks_of[group_id, role] = _tasks(members.values(), role)
        if number % VALUES_PER_STEP == 0:
            yield
    yield


def _members(group: Group) -> dict[str, Any]:
    members: dict[str, Any] = group.members  # type: ignore[attr-defined]  # every kind has them
    return members


def _epoch(group: Group) -> int:
    """The generation of a classic group, the epoch of any other; each rebalance raises it."""
    name = "generation_id" if group.type_name == CLASSIC else "epoch"
    epoch: int = getattr(group, name)
    return epoch


def _tasks(members: Iterable[Any], role: str) -> int:
    """The number of tasks that the members of a streams group have in this role."""
    return sum(len(these) for each in members for these in getattr(each.assigned, role).values())


def _offsets(offsets: Offsets, ends: EndOffsets, samples: Samples) -> Generator[None, None, int]:
    """Give each committed offset and its lag; yields after each step, returns how many there are.

    The lag is missing while the end of the partition is not known here.
    """
    offset_of = samples.series("kafka_consumergroup_current_offset")
    lag_of = samples.series("kafka_consumergroup_lag")
    count = step = 0
    for group_id, topics in list(offsets.by_group.items()):
        for topic, partitions in topics.items():
            count += len(partitions)
            for index, committed in partitions.items():
                labels = group_id, topic, str(index)
                offset_of[labels] = committed.offset
                end = ends.of(topic, index)
                if end is not None:
                    lag_of[labels] = max(0, end - committed.offset)
        if count - step >= VALUES_PER_STEP:
            step = count
            yield
    return count
