"""Replication: how far this broker's followers are behind, and what changed in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.server.metrics.changes import ClusterChanges
    from kwire.server.metrics.samples import Samples

FETCHERS: Final = "Replica"
"""Kafka's name of all fetchers of followers together."""


def collect(broker: Broker, changes: ClusterChanges, samples: Samples) -> None:
    """Give the lag of followers here, and the counts of elections and changes of ISRs."""
    lag_of = samples.series("kafka_server_fetcherlagmetrics_consumerlag")
    replication, lag_max, waiting, refused = broker.membership.replication, 0, 0, 0
    if replication is not None:
        for fetcher in replication.fetchers:
            name = f"ReplicaFetcherThread-{fetcher.number}-{fetcher.leader}"
            for topic, index, lag in fetcher.lags():
                lag_of[name, topic, str(index)] = lag
                lag_max = max(lag_max, lag)
        refused = replication.refused_isrs
        waiting = sum(
            partition.leading.deletions_awaited
            for partition in broker.hosted
            if partition.leading is not None
        )
    samples.set("kafka_server_replicafetchermanager_maxlag", lag_max, FETCHERS)
    purgatory = "kafka_server_delayedoperationpurgatory_"
    samples.set(f"{purgatory}numdelayedoperations", waiting, "DeleteRecords")
    samples.set(f"{purgatory}purgatorysize", waiting, "DeleteRecords")
    samples.set("kafka_server_replicamanager_isrshrinks_total", changes.isr_shrinks)
    samples.set("kafka_server_replicamanager_isrexpands_total", changes.isr_expands)
    samples.set("kafka_server_replicamanager_failedisrupdates_total", refused)
    samples.set("kwire_leader_elections_total", changes.elections)
    controller = "kafka_controller_"
    if broker.membership.forwarding is None:
        samples.set(
            f"{controller}controllerstats_uncleanleaderelections_total", changes.unclean_elections
        )
    samples.set(f"{controller}kafkacontroller_newactivecontrollerscount", changes.new_controllers)
