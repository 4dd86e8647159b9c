"""Share groups: what their coordinator stores of each partition, and the records in flight."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kwire.coordinators.share.batches import NO_OFFSET, DeliveryState
from kwire.coordinators.share.partition import AcknowledgeType
from kwire.server.metrics.collecting.groups import PARTITION_STATES

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.coordinators.share_partitions.manager import ShareManager
    from kwire.server.metrics.counted import CoordinatorCounts
    from kwire.server.metrics.ends import EndOffsets
    from kwire.server.metrics.samples import Samples


TYPES: Final = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
"""The types of acknowledgements that Kafka's metrics have."""


def collect(broker: Broker, ends: EndOffsets, counts: CoordinatorCounts, samples: Samples) -> None:
    """Give the metrics of share groups, of both coordinators and of leaders."""
    _stored(broker, ends, samples)
    for kind in TYPES:
        samples.set(
            "kafka_server_sharegroupmetrics_recordacknowledgements_total",
            counts.acknowledgements[kind],
            kind.name.capitalize(),
        )
    shares = broker.shares_if_any
    waiting = watched = sessions = places = written = given_up = 0
    if shares is not None:
        _in_flight(broker, shares, samples)
        waiters = [led.waiters for led in shares.led]
        waiting, watched = len(set().union(*waiters)), sum(map(len, waiters))
        sessions, places = len(shares.sessions), shares.sessions.partitions
        written, given_up = shares.dead_letters.written, shares.dead_letters.given_up
    purgatory = "kafka_server_delayedoperationpurgatory_"
    samples.set(f"{purgatory}numdelayedoperations", waiting, "ShareFetch")
    samples.set(f"{purgatory}purgatorysize", watched, "ShareFetch")
    samples.set("kwire_dead_letters_total", written)
    samples.set("kwire_dead_letters_given_up_total", given_up)
    samples.set("kafka_server_sharesessioncache_sharesessionscount", sessions)
    samples.set("kafka_server_sharesessioncache_sharepartitionscount", places)


def _stored(broker: Broker, ends: EndOffsets, samples: Samples) -> None:
    """Give the start offset and the lag of each share partition whose state is stored here."""
    coordinator = broker.coordinators.share_if_any
    shards = () if coordinator is None else coordinator.runtime.shards.values()
    led = Counter(shard.state.value for shard in shards)
    for name in PARTITION_STATES:
        samples.set("kafka_server_share_coordinator_metrics_num_partitions", led[name], name)
    if coordinator is None:
        return
    start_of = samples.series("kwire_share_partition_start_offset")
    lag_of = samples.series("kwire_share_partition_lag")
    for shard in coordinator.runtime.active():
        for key, state in shard.machine.states():
            topic = broker.metadata.topic_name(key.topic_id)
            if topic is None or state.start_offset == NO_OFFSET:
                continue
            labels = key.group_id, topic, str(key.partition)
            start_of[labels] = state.start_offset
            end = ends.of(topic, key.partition)
            if end is not None:
                done = max(0, state.delivery_complete_count)
                lag_of[labels] = max(0, end - state.start_offset - done)


def _in_flight(broker: Broker, shares: ShareManager, samples: Samples) -> None:
    """Give the records in flight of each share partition that is open here, by their state."""
    records_of = samples.series("kwire_share_partition_records")
    deliveries_of = samples.series("kwire_share_partition_deliveries_max")
    for led in shares.led:
        labels = led.key.group_id, led.partition.topic, str(led.partition.index)
        counts = dict.fromkeys(DeliveryState, 0)
        deliveries = 0
        for run in led.records.runs:
            counts[run.delivery.state] += len(run)
            deliveries = max(deliveries, run.delivery.times)
        for state, count in counts.items():
            records_of[*labels, state.name.lower()] = count
        deliveries_of[labels] = deliveries
