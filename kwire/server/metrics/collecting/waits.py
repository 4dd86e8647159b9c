"""What clients wait for: records and replicas in vain, and coordinators that load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.metrics.samples import Samples


def collect(broker: Broker, samples: Samples) -> None:
    """Give the requests that expired, and the loads of each coordinator that is in use."""
    expired = broker.hosted.expired
    fetches = "kafka_server_delayedfetchmetrics_expires_total"
    samples.set(fetches, expired.consumer_fetches, "consumer")
    samples.set(fetches, expired.follower_fetches, "follower")
    samples.set("kafka_server_delayedsharefetchmetrics_expires_total", expired.share_fetches)
    samples.set("kafka_server_delayedproducemetrics_expires_total", expired.produces)
    coordinators = broker.coordinators
    for name, coordinator in (
        ("group", coordinators.groups_if_any),
        ("transaction", coordinators.transactions_if_any),
        ("share", coordinators.share_if_any),
    ):
        if coordinator is not None:
            loads = coordinator.runtime.loads
            samples.set("kwire_coordinator_loads_total", loads.count, name)
            samples.set("kwire_coordinator_load_seconds_total", loads.total_s, name)
            samples.set("kwire_coordinator_load_longest_seconds", loads.longest_s, name)
