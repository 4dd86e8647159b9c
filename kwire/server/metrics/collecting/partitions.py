"""Partitions: their logs, their replicas, and what waits in them.

One walk over all partitions gives all of it.  It takes 6 us for each of them, and goes in steps,
between which the loop may do other work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.broker.broker import Broker
    from kwire.log import Log
    from kwire.server.metrics.samples import Samples
    from kwire.storage.partitions.partition import FetchWaiter, Partition

GIVEN: Final = (
    "kafka_log_log_",
    "kafka_cluster_partition_",
    "kafka_server_replicamanager_",
    "kafka_server_delayedoperationpurgatory_",
    "kwire_partition_",
)
"""How the names of the metrics begin that `collect` gives."""

PARTITIONS_PER_STEP: Final = 500
"""They take 3 ms."""

LATE_AFTER_MS: Final = 300_000
"""How long after `transaction.max.timeout.ms` an open transaction counts as late, as in Kafka."""


class _Totals:
    """The sums over all partitions."""

    def __init__(self) -> None:
        self.partitions = self.led = self.offline = 0
        self.under_replicated = self.under_min_isr = self.at_min_isr = 0
        self.producers = self.late = self.waiting_commits = 0
        self.consumers: set[FetchWaiter] = set()
        self.followers: set[FetchWaiter] = set()
        self.watched = 0

    def note_waiters(self, partition: Partition) -> None:
        """Add the requests that wait in a partition."""
        self.waiting_commits += partition.commits_awaited
        if partition.fetch_waiters:
            self.consumers |= partition.fetch_waiters
            self.watched += len(partition.fetch_waiters)
        if partition.replica_waiters:
            self.followers |= partition.replica_waiters
            self.watched += len(partition.replica_waiters)


def collect(broker: Broker, samples: Samples) -> Iterator[None]:
    """Give the metrics of each partition, and the sums over them; yields after each step."""
    totals = _Totals()
    yield from _partitions(broker, samples, totals)
    for session in broker.fetch_sessions.parked:
        totals.consumers |= session.parked
        totals.watched += session.watched * len(session.parked)
    manager = "kafka_server_replicamanager_"
    samples.set(f"{manager}partitioncount", totals.partitions)
    samples.set(f"{manager}leadercount", totals.led)
    samples.set(f"{manager}offlinereplicacount", totals.offline + len(broker.hosted.absent))
    samples.set(f"{manager}underreplicatedpartitions", totals.under_replicated)
    samples.set(f"{manager}underminisrpartitioncount", totals.under_min_isr)
    samples.set(f"{manager}atminisrpartitioncount", totals.at_min_isr)
    samples.set(f"{manager}produceridcount", totals.producers)
    samples.set(f"{manager}partitionswithlatetransactionscount", totals.late)
    fetches = len(totals.consumers | totals.followers)
    for kind, operations, watched in (
        ("Produce", totals.waiting_commits, totals.waiting_commits),
        ("Fetch", fetches, totals.watched),
    ):
        purgatory = "kafka_server_delayedoperationpurgatory_"
        samples.set(f"{purgatory}numdelayedoperations", operations, kind)
        samples.set(f"{purgatory}purgatorysize", watched, kind)


def _partitions(broker: Broker, samples: Samples, totals: _Totals) -> Iterator[None]:
    """Give the metrics of each partition, and add them to `totals`; yields after each step."""
    log_series, replica_series = _LogSeries(samples), _ReplicaSeries(samples)
    open_transactions = samples.series("kwire_partition_open_transactions")
    late_before_ms = broker.now_ms() - broker.config.transaction_max_timeout_ms - LATE_AFTER_MS
    hosted = broker.hosted
    for number, partition in enumerate(hosted, 1):
        if hosted.get(partition.topic, partition.index) is not partition:
            continue  # it was deleted between two steps
        labels, log = (partition.topic, str(partition.index)), partition.log
        totals.partitions += 1
        if log.offline:
            totals.offline += 1
        else:
            log_series.add(labels, log)
        replica_series.add(labels, partition, totals)
        totals.producers += len(log.producers.entries)
        if log.producers.ongoing:
            open_transactions[labels] = len(log.producers.ongoing)
            totals.late += _has_late_transaction(log, late_before_ms)
        totals.note_waiters(partition)
        if number % PARTITIONS_PER_STEP == 0:
            yield


class _LogSeries:
    """The series of logs."""

    def __init__(self, samples: Samples) -> None:
        self._size = samples.series("kafka_log_log_size")
        self._segments = samples.series("kafka_log_log_numlogsegments")
        self._start = samples.series("kafka_log_log_logstartoffset")
        self._end = samples.series("kafka_log_log_logendoffset")
        self._of_retention = samples.series("kafka_log_log_retentionsizeinpercent")

    def add(self, labels: tuple[str, str], log: Log) -> None:
        segments = log.segments
        size_bytes = self._size[labels] = segments.size_bytes
        self._segments[labels] = len(segments)
        self._start[labels] = log.log_start_offset
        self._end[labels] = log.log_end_offset
        limit_bytes = log.config.retention_bytes
        self._of_retention[labels] = size_bytes * 100 // limit_bytes if limit_bytes > 0 else 0


class _ReplicaSeries:
    """The series of partitions' replicas.  On a follower all but the lag are 0, as in Kafka."""

    def __init__(self, samples: Samples) -> None:
        cluster = "kafka_cluster_partition_"
        self._under_replicated = samples.series(f"{cluster}underreplicated")
        self._under_min = samples.series(f"{cluster}underminisr")
        self._at_min = samples.series(f"{cluster}atminisr")
        self._in_sync = samples.series(f"{cluster}insyncreplicascount")
        self._replicas = samples.series(f"{cluster}replicascount")
        self._lag = samples.series(f"{cluster}laststableoffsetlag")

    def add(self, labels: tuple[str, str], partition: Partition, totals: _Totals) -> None:
        in_sync = replicas = wanted = 0
        if partition.leader == partition.node_id:
            totals.led += 1
            in_sync, replicas = len(partition.isr), len(partition.replicas)
            # All replicas are always enough: see Partition.is_under_min_isr.
            wanted = min(partition.log.config.min_insync_replicas, replicas)
        under_replicated, under_min = in_sync < replicas, in_sync < wanted
        at_min = in_sync == wanted and replicas > 0
        totals.under_replicated += under_replicated
        totals.under_min_isr += under_min
        totals.at_min_isr += at_min
        self._under_replicated[labels] = int(under_replicated)
        self._under_min[labels] = int(under_min)
        self._at_min[labels] = int(at_min)
        self._in_sync[labels] = in_sync
        self._replicas[labels] = replicas
        self._lag[labels] = partition.high_watermark - partition.last_stable_offset


def _has_late_transaction(log: Log, late_before_ms: int) -> bool:
    entries = (log.producers.entries.get(each) for each in log.producers.ongoing.values())
    return any(entry is not None and entry.last_timestamp < late_before_ms for entry in entries)
