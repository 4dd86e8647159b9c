"""The metrics that mean the same for kwire and Apache Kafka, and how each one is compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Final

from kwire.conformance.metrics.load import PREFIX
from kwire.conformance.metrics.scrape import Keep, Labels, keep_all


class Measure(Enum):
    """What is compared of a metric."""

    GROWTH = "growth under the load"
    VALUE = "value after the load"


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric: summed over all labels except `by`, of the series that `keep` takes.

    `metric` is the name of its samples.  A series that a broker does not have counts as 0.
    """

    metric: str
    measure: Measure
    by: tuple[str, ...] = ()
    keep: Keep = keep_all


def of_load(labels: Labels) -> bool:
    """Keep the topics of the load: others are internal, and brokers write to them in their own
    way."""
    return labels.get("topic", "").startswith(f"{PREFIX}-")


NOT_SENT_BY_CLIENTS_ALONE: Final = frozenset(
    {
        "AddPartitionsToTxn",
        "AllocateProducerIds",
        "AlterPartition",
        "ApiVersions",
        "AssignReplicasToDirs",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "ControllerRegistration",
        "DeleteShareGroupState",
        "DescribeTransactions",
        "FetchFollower",
        "FetchSnapshot",
        "FindCoordinator",
        "InitializeShareGroupState",
        "OffsetForLeaderEpoch",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "Vote",
        "WriteShareGroupState",
        "WriteTxnMarkers",
    }
)
"""Requests that brokers send each other too, or that the load repeats until a broker is ready."""


def of_clients(labels: Labels) -> bool:
    """Keep the requests that only clients send."""
    return labels["request"] not in NOT_SENT_BY_CLIENTS_ALONE


def of_clients_version(labels: Labels) -> bool:
    """Keep the requests that only clients send, by version."""
    return of_clients(labels) and "version" in labels


def on_plaintext(labels: Labels) -> bool:
    """Keep the listener of clients."""
    return labels.get("listener") == "PLAINTEXT"


def _growth(names: Iterable[str], *by: str, keep: Keep = keep_all) -> Iterator[Compared]:
    for name in names:
        yield Compared(name, Measure.GROWTH, by, keep)


def _values(names: Iterable[str], *by: str, keep: Keep = keep_all) -> Iterator[Compared]:
    for name in names:
        yield Compared(name, Measure.VALUE, by, keep)


def _named(prefix: str, words: str, suffix: str = "") -> Iterator[str]:
    for word in words.split():
        yield f"{prefix}_{word}{suffix}"


_TOPIC_METRICS: Final = "kafka_server_brokertopicmetrics"
_REQUEST_METRICS: Final = "kafka_network_requestmetrics"
_GROUPS: Final = "kafka_server_group_coordinator_metrics"

COMPARED: Final = (
    *_growth(
        _named(
            _TOPIC_METRICS,
            "messagesin bytesin bytesout totalproducerequests totalfetchrequests"
            " failedproducerequests failedfetchrequests bytesrejected",
            "_total",
        ),
        "topic",
        keep=of_load,
    ),
    *_growth(
        _named(
            _TOPIC_METRICS,
            "nokeycompactedtopicrecords invalidmessagecrcrecords",
            "_total",
        )
    ),
    *_growth([f"{_REQUEST_METRICS}_requests_total"], "request", "version", keep=of_clients_version),
    *_growth([f"{_REQUEST_METRICS}_errors_total"], "request", "error", keep=of_clients),
    *_growth([f"{_REQUEST_METRICS}_totaltimems_count"], "request", keep=of_clients),
    *_values(
        _named("kafka_log_log", "logendoffset logstartoffset numlogsegments size"),
        "topic",
        "partition",
        keep=of_load,
    ),
    *_values(
        _named(
            "kafka_cluster_partition",
            "insyncreplicascount replicascount underreplicated underminisr atminisr"
            " laststableoffsetlag",
        ),
        "topic",
        "partition",
        keep=of_load,
    ),
    *_values(
        _named(
            "kafka_server_replicamanager",
            "leadercount partitioncount underreplicatedpartitions underminisrpartitioncount"
            " atminisrpartitioncount offlinereplicacount reassigningpartitions",
        )
    ),
    *_values(
        _named(
            "kafka_controller_kafkacontroller",
            "activecontrollercount activebrokercount fencedbrokercount globaltopiccount"
            " globalpartitioncount offlinepartitionscount preferredreplicaimbalancecount",
        )
    ),
    *_values([f"{_GROUPS}_group_count"], "protocol"),
    *_values(
        _named(_GROUPS, "classic consumer share streams", "_group_count"),
        "state",
    ),
    *_values(_named(_GROUPS, "offset_count")),
    *_growth(_named(_GROUPS, "offset_commit_count group_completed_rebalance_count")),
    *_growth(
        ["kafka_server_sharegroupmetrics_recordacknowledgements_total"],
        "ackType",
    ),
    *_values(
        ["kafka_server_delayedoperationpurgatory_numdelayedoperations"],
        "delayedOperation",
        keep=lambda labels: labels.get("delayedOperation") in ("Fetch", "Produce"),
    ),
    *_values(
        _named(
            "kafka_server_fetchsessioncache",
            "numincrementalfetchsessions numincrementalfetchpartitionscached",
        )
    ),
    *_values(
        _named("kafka_server_socket_server_metrics", "connection_count"),
        keep=on_plaintext,
    ),
    *_growth(
        _named("kafka_server_socket_server_metrics", "connection_creation_total"),
        keep=on_plaintext,
    ),
)
"""Every comparison of one broker with another one under the same load."""

ONE_BROKER_ONLY: Final = frozenset(
    {
        "kafka_server_brokertopicmetrics_totalfetchrequests_total",
        "kafka_server_socket_server_metrics_connection_count",
        "kafka_server_socket_server_metrics_connection_creation_total",
        "kafka_server_fetchsessioncache_numincrementalfetchsessions",
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "kafka_server_delayedoperationpurgatory_numdelayedoperations",
    }
)
"""Metrics that followers and brokers change too, so that they are compared for one broker alone."""


def rows_for(brokers: int) -> list[Compared]:
    """Return the comparisons for clusters of this many brokers."""
    if brokers == 1:
        return list(COMPARED)
    return [
        replace(row, keep=partial(_not_of_followers, row.keep))
        for row in COMPARED
        if row.metric not in ONE_BROKER_ONLY
    ]


def _not_of_followers(keep: Keep, labels: Labels) -> bool:
    """Keep what `keep` takes, but no fetches of clients and followers together."""
    return labels.get("request") != "Fetch" and keep(labels)
