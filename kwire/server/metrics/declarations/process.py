"""Metrics of the broker's process, its loop and its disks."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, counter, gauge, summary

_CLIENT: Final = "the client libraries of Prometheus"
_DIRECTORY: Final = "logDirectory"


def _logs(name: str, labels: str, unit: str, text: str) -> Metric:
    source = f"kafka.log:type=LogManager,name={name} Value"
    return gauge(f"kafka_log_logmanager_{name.lower()}", labels, unit, text, source)


def _disk(name: str, unit: str, text: str) -> Metric:
    source = f"kafka.server:type=KafkaServer,name=linux-disk-{name} Value"
    metric = f"kafka_server_kafkaserver_linux_disk_{name.replace('-', '_')}"
    return gauge(metric, "", unit, text, source)


PROCESS: Final = (
    gauge(
        "kwire_info",
        "version python node_id cluster_id",
        "",
        "1; the labels say what runs",
    ),
    gauge(
        "kafka_server_kafkaserver_brokerstate",
        "",
        "",
        "1 while the broker starts, 3 while it serves clients, 6 while it stops",
        "kafka.server:type=KafkaServer,name=BrokerState Value",
    ),
    gauge("process_resident_memory_bytes", "", "bytes", "Resident memory", _CLIENT),
    gauge("process_virtual_memory_bytes", "", "bytes", "Virtual memory", _CLIENT),
    summary("kwire_loop_late_seconds", "", "seconds", "How late the loop ran a task that was due"),
    counter("kwire_loop_stalls_total", "", "stalls", "How often that was more than 100 ms"),
    counter("kwire_loop_stalled_seconds_total", "", "seconds", "Time of all stalls"),
    gauge("kwire_loop_longest_stall_seconds", "", "seconds", "Longest stall since the start"),
    summary("kwire_disk_append_seconds", "", "seconds", "Time of a write to a file of a log"),
    summary("kwire_disk_read_seconds", "", "seconds", "Time of a read of a file of a log"),
    summary(
        "kafka_log_logflushstats_logflushrateandtimems",
        "",
        "ms",
        "Time of an fsync of a file of a log",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    counter("process_cpu_seconds_total", "", "seconds", "CPU time of the broker", _CLIENT),
    gauge("process_start_time_seconds", "", "seconds", "Start, in seconds since 1970", _CLIENT),
    gauge("process_open_fds", "", "descriptors", "Open file descriptors", _CLIENT),
    gauge("process_max_fds", "", "descriptors", "Limit on open file descriptors", _CLIENT),
    gauge(
        "kwire_time_seconds",
        "",
        "seconds",
        "The broker's clock, in seconds since 1970, with which it stamps records",
    ),
    gauge("kwire_threads", "", "threads", "Threads of the process"),
    counter(
        "kwire_gc_collections_total",
        "generation",
        "collections",
        "Rounds of Python's garbage collector",
    ),
    _disk("read-bytes", "bytes", "Bytes that the process read from disks"),
    _disk("write-bytes", "bytes", "Bytes that the process wrote to disks"),
    _disk("cancelled-write-bytes", "bytes", "Bytes of files that were deleted before the write"),
    _disk("rchar", "bytes", "Bytes that the process read, also from memory and sockets"),
    _disk("wchar", "bytes", "Bytes that the process wrote, also to memory and sockets"),
    _disk("syscr", "calls", "Calls that read"),
    _disk("syscw", "calls", "Calls that write"),
    _logs("OfflineLogDirectoryCount", "", "directories", "Log directories that failed"),
    _logs("LogDirectoryOffline", _DIRECTORY, "", "1 if the log directory failed"),
    _logs(
        "CordonedLogDirectoryCount", "", "directories", "Log directories that get no new partitions"
    ),
    _logs("LogDirectoryCordoned", _DIRECTORY, "", "1 if the log directory gets no new partitions"),
    gauge("kwire_log_directory_total_bytes", _DIRECTORY, "bytes", "Size of a log directory's disk"),
    gauge(
        "kwire_log_directory_usable_bytes",
        _DIRECTORY,
        "bytes",
        "Room that is left on a log directory's disk",
    ),
    gauge(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        _DIRECTORY,
        "partitions",
        "Compacted logs that the cleaner gave up on, because a batch is corrupt",
        "kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count,logDirectory=* Value",
    ),
)
