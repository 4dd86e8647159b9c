"""Metrics of partitions, their logs, and their replicas."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, counter, gauge

_OF_PARTITION: Final = "topic partition"


def _log(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.log:type=Log,name={name},topic=*,partition=* Value"
    return gauge(f"kafka_log_log_{name.lower()}", _OF_PARTITION, unit, text, source)


def _partition(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.cluster:type=Partition,name={name},topic=*,partition=* Value"
    return gauge(f"kafka_cluster_partition_{name.lower()}", _OF_PARTITION, unit, text, source)


def _replicas(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.server:type=ReplicaManager,name={name} Value"
    return gauge(f"kafka_server_replicamanager_{name.lower()}", "", unit, text, source)


def _isr(name: str, text: str) -> Metric:
    source = f"kafka.server:type=ReplicaManager,name={name}PerSec Count"
    return counter(f"kafka_server_replicamanager_{name.lower()}_total", "", "changes", text, source)


PARTITIONS: Final = (
    _log("Size", "bytes", "Size of the log's batches on the disk"),
    _log("NumLogSegments", "segments", "Segments of the log"),
    _log("LogStartOffset", "offset", "Offset of the first record that can be read"),
    _log("LogEndOffset", "offset", "Offset that the next record will get"),
    _log("RetentionSizeInPercent", "percent", "Size in percent of `retention.bytes`; 0 without it"),
    _partition("UnderReplicated", "", "1 if this broker leads it and a replica is not in sync"),
    _partition("UnderMinIsr", "", "1 if fewer replicas are in sync than `min.insync.replicas`"),
    _partition("AtMinIsr", "", "1 if exactly `min.insync.replicas` replicas are in sync"),
    _partition("InSyncReplicasCount", "replicas", "Replicas in sync; 0 if it is led elsewhere"),
    _partition("ReplicasCount", "replicas", "All replicas; 0 if it is led elsewhere"),
    _partition(
        "LastStableOffsetLag",
        "offsets",
        "Offsets from the last stable offset to the high watermark",
    ),
    gauge(
        "kwire_partition_open_transactions",
        _OF_PARTITION,
        "transactions",
        "Open transactions with records in the partition; missing without any",
    ),
    _replicas("PartitionCount", "partitions", "Partitions with a replica on this broker"),
    _replicas("LeaderCount", "partitions", "Partitions that this broker leads"),
    _replicas("OfflineReplicaCount", "replicas", "Replicas here whose log directory failed"),
    _replicas(
        "UnderReplicatedPartitions",
        "partitions",
        "Partitions led here of which a replica is not in sync",
    ),
    _replicas(
        "UnderMinIsrPartitionCount",
        "partitions",
        "Partitions led here with fewer replicas in sync than `min.insync.replicas`",
    ),
    _replicas(
        "AtMinIsrPartitionCount",
        "partitions",
        "Partitions led here with exactly `min.insync.replicas` replicas in sync",
    ),
    _replicas(
        "ReassigningPartitions", "partitions", "Partitions led here whose replicas are moving"
    ),
    _replicas(
        "ProducerIdCount", "producers", "Idempotent producers that logs know, once per partition"
    ),
    _replicas(
        "PartitionsWithLateTransactionsCount",
        "partitions",
        "Partitions with a transaction that is open five minutes longer than any may be",
    ),
    _isr("IsrShrinks", "How often a replica left the ISR of a partition that is led here"),
    _isr("IsrExpands", "How often a replica joined the ISR of a partition that is led here"),
    _isr("FailedIsrUpdates", "How often the controller refused a change of an ISR"),
    gauge(
        "kafka_server_fetcherlagmetrics_consumerlag",
        "clientId topic partition",
        "records",
        "Records that this follower has not fetched yet, at the leader's last response",
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=*,topic=*,partition=* Value",
    ),
    gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "clientId",
        "records",
        "The largest lag of a partition that this broker follows",
        "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica Value",
    ),
)
