"""Metrics of partitions, their logs, and their replicas."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, gauge

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


PARTITIONS: Final = (
    _log("Size", "bytes", "Size of the log's batches on the disk"),
    _log("NumLogSegments", "segments", "Segments of the log"),
    _log("LogStartOffset", "offset", "Offset of the first record that can be read"),
    _log("LogEndOffset", "offset", "Offset that the next record will get"),
    _partition("UnderReplicated", "", "1 if this broker leads it and a replica is not in sync"),
    _partition("UnderMinIsr", "", "1 if fewer replicas are in sync than min.insync.replicas"),
    _partition("AtMinIsr", "", "1 if exactly min.insync.replicas replicas are in sync"),
    _partition("InSyncReplicasCount", "replicas", "Replicas in sync; 0 if it is led elsewhere"),
    _partition("ReplicasCount", "replicas", "All replicas; 0 if it is led elsewhere"),
    _partition(
        "LastStableOffsetLag",
        "records",
        "Records between the last stable offset and the high watermark",
    ),
    _replicas("LeaderCount", "partitions", "Partitions that this broker leads"),
    _replicas("PartitionCount", "partitions", "Partitions with a replica on this broker"),
    _replicas("OfflineReplicaCount", "replicas", "Replicas here whose log directory failed"),
    _replicas(
        "UnderReplicatedPartitions",
        "partitions",
        "Partitions led here of which a replica is not in sync",
    ),
    _replicas(
        "UnderMinIsrPartitionCount",
        "partitions",
        "Partitions led here with fewer replicas in sync than min.insync.replicas",
    ),
    _replicas(
        "AtMinIsrPartitionCount",
        "partitions",
        "Partitions led here with exactly min.insync.replicas replicas in sync",
    ),
    _replicas(
        "ReassigningPartitions", "partitions", "Partitions led here whose replicas are moving"
    ),
)
