"""The broker's process and its disks, and what the broker keeps in memory for clients."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import kwire
from kwire.server.metrics.health import Phase

if TYPE_CHECKING:
    from prometheus_client.process_collector import ProcessCollector

    from kwire.broker.broker import Broker
    from kwire.log import LogManager
    from kwire.server.metrics.samples import Samples

_IO: Final = Path("/proc/self/io")
_TASKS: Final = Path("/proc/self/task")


BROKER_STATES: Final = {Phase.STARTING: 1, Phase.SERVING: 3, Phase.STOPPING: 6}
"""Kafka's numbers of the states of a broker: STARTING, RUNNING, PENDING_CONTROLLED_SHUTDOWN."""


def collect(broker: Broker, phase: Phase, samples: Samples) -> None:
    """Give the metrics of the process, of the log directories, and of caches of sessions."""
    samples.set("kafka_server_kafkaserver_brokerstate", BROKER_STATES[phase])
    _process(broker, samples)
    _directories(broker.logs, samples)
    sessions = broker.fetch_sessions
    cache_name = "kafka_server_fetchsessioncache_"
    samples.set(f"{cache_name}numincrementalfetchsessions", len(sessions))
    samples.set(f"{cache_name}numincrementalfetchpartitionscached", sessions.partitions)
    samples.set(f"{cache_name}incrementalfetchsessionevictions_total", sessions.evictions)
    telemetry = broker.telemetry_if_any
    instances = 0 if telemetry is None else telemetry.instance_count
    samples.set("kafka_server_client_metrics_instance_count", instances)


@cache
def _standard() -> ProcessCollector:
    """Prometheus's collector of memory, CPU time and descriptors; it gives nothing on macOS."""
    from prometheus_client.process_collector import ProcessCollector

    return ProcessCollector(registry=None)


def _process(broker: Broker, samples: Samples) -> None:
    for family in _standard().collect():
        for sample in family.samples:
            samples.set(sample.name, sample.value)
    if _IO.exists():
        io = dict(line.split(": ") for line in _IO.read_text().splitlines())
        for name, value in io.items():
            samples.set(f"kafka_server_kafkaserver_linux_disk_{name}", int(value))
        samples.set("kwire_threads", sum(1 for _ in _TASKS.iterdir()))
    samples.set("kwire_time_seconds", broker.now_ms() / 1000)
    for generation, each in enumerate(gc.get_stats()):
        samples.set("kwire_gc_collections_total", each["collections"], str(generation))
    python = ".".join(map(str, sys.version_info[:3]))
    node_id, cluster_id = str(broker.node_id), broker.image.cluster_id
    samples.set("kwire_info", 1, kwire.__version__, python, node_id, cluster_id)


def _directories(logs: LogManager, samples: Samples) -> None:
    """Give whether each log directory works, and the room on its disk.

    A statvfs is done on the loop, because appends write to the same disk there, too.
    """
    manager, dirs = "kafka_log_logmanager_", logs.dirs
    cordoned = [each for each in dirs.online_dirs if dirs.is_cordoned(each)]
    samples.set(f"{manager}offlinelogdirectorycount", len(dirs.offline_dirs))
    samples.set(f"{manager}cordonedlogdirectorycount", len(cordoned))
    for path in dirs.offline_dirs:
        samples.set(f"{manager}logdirectoryoffline", 1, str(path))
    uncleanable = Counter(logs.uncleanable_dirs())
    for directory in list(dirs.online_dirs):
        name = str(directory.path)
        samples.set(f"{manager}logdirectoryoffline", 0, name)
        samples.set(f"{manager}logdirectorycordoned", int(directory in cordoned), name)
        samples.set(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            uncleanable[directory.path],
            name,
        )
        try:
            total_bytes, usable_bytes = directory.disk_usage()
        except OSError:
            continue  # the next read or write of a log finds out what is wrong with the disk
        samples.set("kwire_log_directory_total_bytes", total_bytes, name)
        samples.set("kwire_log_directory_usable_bytes", usable_bytes, name)
