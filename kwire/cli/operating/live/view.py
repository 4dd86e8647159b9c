"""Computes what `kwire top` shows from two samples.  No I/O.

Rates are differences divided by the time between the samples.  A counter that is smaller in the
second sample began again, because its broker was restarted or its topic was created again: then
there is no rate until the next sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kwire.cli.operating.live.from_metrics import (
    BrokerRates,
    TopicRates,
    broker_rates,
    client_rows,
    request_rows,
    slow_rows,
    topic_rates,
)
from kwire.cli.operating.live.rows import TopBroker, TopGroup, TopTopic, TopTotals, TopView
from kwire.cli.operating.live.sample import TopSample
from kwire.client.metrics.rebalances import last_rebalances

if TYPE_CHECKING:
    from kwire.client.cluster import TopicPartition
    from kwire.client.errors import ClientError
    from kwire.client.inspection.progress import ClusterProgress, GroupProgress

NOBODY = -1


def view_of(before: TopSample, after: TopSample) -> TopView:
    """What is shown of the time between two samples of the same cluster."""
    old, new = before.progress, after.progress
    interval_s = new.at_s - old.at_s
    appended = _appended(old.end_offsets, new.end_offsets)
    lags = {name: group.lags for name, group in new.groups.items()}
    rates = topic_rates(before, after)
    brokers = list(_brokers(before, after, appended, interval_s))
    topics = list(_topics(old, new, appended, lags, rates, interval_s))
    groups = list(_groups(old, new, lags, after, interval_s))
    known = [each for each in after.metrics.values() if each.scrape is not None]
    return TopView(
        cluster=new.cluster_id,
        controller=new.controller_id if new.controller_id != NOBODY else None,
        time_s=after.time_s,
        interval_s=interval_s,
        totals=_totals(new, brokers, topics, groups),
        brokers=brokers,
        topics=topics,
        groups=groups,
        requests=request_rows(before, after),
        slow=slow_rows(after),
        clients=client_rows(after),
        offline=[str(place) for place, state in new.partitions.items() if state.leader_id < 0],
        with_metrics=len(known),
        metrics_trouble={
            broker_id: each.trouble
            for broker_id, each in sorted(after.metrics.items())
            if each.trouble is not None
        },
    )


def _appended(
    before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The records that were appended to each partition which both samples have."""
    return {
        place: end - before[place]
        for place, end in after.items()
        if place in before and end >= before[place]
    }


def _per_s(count: float | None, interval_s: float) -> float | None:
    return None if count is None or interval_s <= 0 else count / interval_s


def _sum(numbers: Iterable[float | None]) -> float | None:
    """The sum of what is known; None if nothing is."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def _whole_sum(numbers: Iterable[int | None]) -> int | None:
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


# -- groups


def _groups(
    old: ClusterProgress,
    new: ClusterProgress,
    lags: Mapping[str, Mapping[TopicPartition, int]],
    after: TopSample,
    interval_s: float,
) -> Iterator[TopGroup]:
    """Yield the row of each group; its last rebalance is in the metrics of `after`."""
    rebalances = last_rebalances(each.slow for each in after.metrics.values())
    for name, group in new.groups.items():
        own = lags[name]
        total = sum(own.values()) if own else None
        read = change = None
        if (earlier := old.groups.get(name)) is not None:
            read = _per_s(_moved(earlier, group), interval_s)
            if total is not None and earlier.lags:
                change = _per_s(total - sum(earlier.lags.values()), interval_s)
        worst = max(own, key=lambda place: own[place], default=None)
        if worst is not None and not own[worst]:
            worst = None
        rebalance = rebalances.get(name)
        yield TopGroup(
            name,
            group.type,
            group.state,
            group.members,
            total,
            read,
            change,
            _seconds_left(total, change),
            None if worst is None else str(worst),
            None if worst is None else own[worst],
            group.coordinator_id,
            None if rebalance is None else max(0.0, after.time_s - rebalance.at_ms / 1000),
            None if rebalance is None else rebalance.reason,
        )


def _moved(before: GroupProgress, after: GroupProgress) -> int | None:
    """How many records the offsets of a group have moved forward; None if they are in no common
    partition.  A reset to earlier offsets counts as no movement."""
    moved = [
        max(0, position.offset - earlier.offset)
        for place, position in after.positions.items()
        if (earlier := before.positions.get(place)) is not None
        and position.offset is not None
        and earlier.offset is not None
    ]
    return sum(moved) if moved else None


def _seconds_left(lag: int | None, change_per_s: float | None) -> float | None:
    if lag is None or change_per_s is None or change_per_s >= 0:
        return None
    return lag / -change_per_s


# -- topics


def _topics(
    old: ClusterProgress,
    new: ClusterProgress,
    appended: Mapping[TopicPartition, int],
    lags: Mapping[str, Mapping[TopicPartition, int]],
    rates: Mapping[str, TopicRates],
    interval_s: float,
) -> Iterator[TopTopic]:
    """Yield the row of each topic."""
    partitions: dict[str, int] = {}
    for place in new.partitions:
        partitions[place.topic] = partitions.get(place.topic, 0) + 1
    records = _by_topic(appended)
    sizes, old_sizes = _sizes(new), _sizes(old)
    lag_of, readers = _readers(lags)
    for name, count in partitions.items():
        size, old_size = sizes.get(name), old_sizes.get(name)
        growth = None if size is None or old_size is None else size - old_size
        rate = rates.get(name, TopicRates())
        yield TopTopic(
            name,
            count,
            _per_s(records.get(name), interval_s),
            rate.bytes_in_per_s,
            rate.bytes_out_per_s,
            size,
            _per_s(growth, interval_s),
            lag_of.get(name),
            readers.get(name, 0),
        )


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for place, number in numbers.items():
        sums[place.topic] = sums.get(place.topic, 0) + number
    return sums


def _sizes(progress: ClusterProgress) -> dict[str, int]:
    """The bytes of all replicas of each topic."""
    sizes: dict[str, int] = {}
    for broker in progress.sizes.values():
        for place, size in broker.size_bytes.items():
            sizes[place.topic] = sizes.get(place.topic, 0) + size
    return sizes


def _readers(
    lags: Mapping[str, Mapping[TopicPartition, int]],
) -> tuple[dict[str, int], dict[str, int]]:
    """The lag of all groups in each topic, and the number of groups that read it."""
    lag_of: dict[str, int] = {}
    readers: dict[str, int] = {}
    for own in lags.values():
        by_topic = _by_topic(own)
        for topic, lag in by_topic.items():
            lag_of[topic] = lag_of.get(topic, 0) + lag
            readers[topic] = readers.get(topic, 0) + 1
    return lag_of, readers


# -- brokers


def _brokers(
    before: TopSample,
    after: TopSample,
    appended: Mapping[TopicPartition, int],
    interval_s: float,
) -> Iterator[TopBroker]:
    """Yield the row of each broker, and of each one that has replicas and is away."""
    new = after.progress
    leaders: dict[int, int] = {}
    records: dict[int, int] = {}
    for place, state in new.partitions.items():
        leaders[state.leader_id] = leaders.get(state.leader_id, 0) + 1
        if place in appended:
            records[state.leader_id] = records.get(state.leader_id, 0) + appended[place]
    absent = {each for state in new.partitions.values() for each in state.replica_nodes}
    rates = broker_rates(before, after)
    for broker_id in sorted(absent | new.nodes.keys()):
        node = new.nodes.get(broker_id)
        sizes = new.sizes.get(broker_id)
        trouble = new.troubles.get(broker_id)
        rate = rates.get(broker_id, BrokerRates())
        volumes = () if sizes is None else sizes.volumes
        usable = [each.usable_bytes for each in volumes if each.usable_bytes >= 0]
        yield TopBroker(
            broker_id,
            "-" if node is None else f"{node.host}:{node.port}",
            broker_id == new.controller_id,
            leaders.get(broker_id, 0),
            None if sizes is None else sum(sizes.size_bytes.values()),
            min(usable, default=None),
            _per_s(records.get(broker_id, 0 if broker_id in new.nodes else None), interval_s),
            rate.bytes_in_per_s,
            rate.bytes_out_per_s,
            rate.requests_per_s,
            rate.errors_per_s,
            rate.connections,
            rate.cpu_share,
            rate.memory_bytes,
            rate.open_files,
            _trouble(trouble, is_absent=node is None),
        )


def _trouble(error: ClientError | None, *, is_absent: bool) -> str | None:
    if is_absent:
        return "absent"
    return None if error is None else str(error)


def _totals(
    new: ClusterProgress,
    brokers: list[TopBroker],
    topics: list[TopTopic],
    groups: list[TopGroup],
) -> TopTotals:
    """Return the sums of the rows, and the number of partitions that are not well."""
    states = new.partitions.values()
    return TopTotals(
        topics=len(topics),
        partitions=len(states),
        offline=sum(state.leader_id < 0 for state in states),
        under_replicated=sum(len(state.isr_nodes) < len(state.replica_nodes) for state in states),
        records_in_per_s=_sum(each.records_in_per_s for each in topics),
        bytes_in_per_s=_sum(each.bytes_in_per_s for each in brokers),
        bytes_out_per_s=_sum(each.bytes_out_per_s for each in brokers),
        requests_per_s=_sum(each.requests_per_s for each in brokers),
        errors_per_s=_sum(each.errors_per_s for each in brokers),
        size_bytes=_whole_sum(each.size_bytes for each in brokers),
        lag=sum(each.lag or 0 for each in groups),
    )
