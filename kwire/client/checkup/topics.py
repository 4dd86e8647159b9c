"""Findings about the replicas and configs of topics.  No I/O.

Only user topics can get notes about configs; the replication of internal topics matters as well,
because groups and transactions stop with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kwire.client.checkup.finding import CheckGrade, ClusterFinding, listed, named

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
RETENTION_MS: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
CLEANUP: Final = "cleanup.policy"
MAX_BYTES: Final = "max.message.bytes"
CONFIGS: Final = (MIN_ISR, UNCLEAN, RETENTION_MS, RETENTION_BYTES, CLEANUP, MAX_BYTES)
"""The configs that the checks need."""
COPIES_WANTED: Final = 3
"""Replicas to which a single in-sync copy is little."""
MS_PER_MINUTE: Final = 60_000
FOREVER: Final = -1


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic: how many replicas its partitions have, in which racks, and its configs."""

    name: str
    is_internal: bool = False
    replication_factor: int = 1
    """That of the partition with the fewest replicas."""
    racks_min: int | None = None
    """In how many racks the replicas of a partition are, at least; None if a rack is unknown."""
    configs: Mapping[str, str | None] = field(default_factory=dict)

    def number(self, config: str) -> int | None:
        """The value of a config with a number, or None if the broker did not report it."""
        value = self.configs.get(config)
        return None if value is None else int(value)

    def is_set(self, config: str) -> bool:
        return self.configs.get(config) == "true"


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What checks of topics need to know of the cluster."""

    brokers: int
    racks: int
    """How many racks there are; 0 if a broker has none."""
    offsets_retention_ms: int | None = None
    request_bytes_max: int | None = None
    """The smallest socket.request.max.bytes of the brokers."""


def topic_findings(topics: Sequence[TopicFacts], cluster: ClusterFacts) -> Iterator[ClusterFinding]:
    """Yield the findings about all topics.  A finding names all topics that have the problem."""
    yield from _few_copies(topics, cluster)
    yield from _min_isr(topics)
    yield from _one_rack(topics, cluster)
    unclean = [each.name for each in topics if each.is_set(UNCLEAN)]
    if unclean and cluster.brokers > 1:
        yield ClusterFinding(
            CheckGrade.RISK,
            "unclean-election",
            named(unclean, "topic"),
            f"{UNCLEAN}=true: a replica that is not in sync may become the leader, and"
            " acknowledged records are lost then",
            _alter(unclean, f"--set {UNCLEAN}=false"),
        )
    own = [each for each in topics if not each.is_internal]
    yield from _retention(own, cluster)
    yield from _sizes(own, cluster)


def _few_copies(topics: Sequence[TopicFacts], cluster: ClusterFacts) -> Iterator[ClusterFinding]:
    """Yield a finding about topics with one replica, where there could be more."""
    single = [each.name for each in topics if each.replication_factor == 1]
    if cluster.brokers > 1 and single:
        copies = min(COPIES_WANTED, cluster.brokers)
        internal = [each.name for each in topics if each.is_internal and each.name in single]
        stops = f"; groups and transactions need {', '.join(internal)}" if internal else ""
        yield ClusterFinding(
            CheckGrade.RISK,
            "one-replica",
            named(single, "topic"),
            "one replica in a cluster of several brokers: if its broker stops, the partition is"
            f" offline, and if its disk is lost, so are the records{stops}",
            f"kwire cluster reassign {listed(single)} -r {copies}",
        )


def _min_isr(topics: Sequence[TopicFacts]) -> Iterator[ClusterFinding]:
    """Yield findings about min.insync.replicas relative to the number of replicas.

    Brokers take the smaller of both numbers (Partition.effectiveMinIsr), so a min.insync.replicas
    above the number of replicas refuses nothing, but does not keep what it seems to promise.
    """
    more, all_, one = [], [], []
    for each in topics:
        min_isr, copies = each.number(MIN_ISR), each.replication_factor
        if min_isr is None:
            continue
        if min_isr > copies:
            more.append(each.name)
        elif min_isr == copies > 1:
            all_.append(each.name)
        elif min_isr == 1 and copies >= COPIES_WANTED and not each.is_internal:
            one.append(each.name)
    if more:
        yield ClusterFinding(
            CheckGrade.RISK,
            "min-isr-above-replicas",
            named(more, "topic"),
            f"{MIN_ISR} is larger than the number of replicas: acks=all waits for all replicas,"
            " which are fewer than the setting says",
            f"kwire cluster reassign {listed(more)} -r N, or {_alter(more, f'--set {MIN_ISR}=1')}",
        )
    if all_:
        yield ClusterFinding(
            CheckGrade.RISK,
            "min-isr-is-replicas",
            named(all_, "topic"),
            f"{MIN_ISR} is the number of replicas, so acks=all is refused as soon as one broker"
            " stops, also for a restart",
            f"{_alter(all_, f'--set {MIN_ISR}=N')}, with N one less",
        )
    if one:
        yield ClusterFinding(
            CheckGrade.NOTE,
            "min-isr-1",
            named(one, "topic"),
            f"{MIN_ISR}=1: acks=all is acknowledged even if the leader alone has the record, and"
            " it is lost with the leader's disk then",
            _alter(one, f"--set {MIN_ISR}=2"),
        )


def _one_rack(topics: Sequence[TopicFacts], cluster: ClusterFacts) -> Iterator[ClusterFinding]:
    together = [each.name for each in topics if each.replication_factor > 1 and each.racks_min == 1]
    if cluster.racks > 1 and together:
        yield ClusterFinding(
            CheckGrade.RISK,
            "one-rack",
            named(together, "topic"),
            f"all replicas of a partition are in one of the {cluster.racks} racks",
            "kwire cluster reassign --to ID,... spreads replicas over racks",
        )


def _retention(topics: Sequence[TopicFacts], cluster: ClusterFacts) -> Iterator[ClusterFinding]:
    """Yield notes about topics that grow without end, and about those that outlive the committed
    offsets of their groups."""
    endless, longer = [], []
    for each in topics:
        kept_ms, kept_bytes = each.number(RETENTION_MS), each.number(RETENTION_BYTES)
        if kept_ms is None or "delete" not in (each.configs.get(CLEANUP) or ""):
            continue
        if kept_ms == FOREVER and kept_bytes == FOREVER:
            endless.append(each.name)
        offsets_ms = cluster.offsets_retention_ms
        if offsets_ms is not None and (kept_ms == FOREVER or kept_ms > offsets_ms):
            longer.append(each.name)
    if endless:
        yield ClusterFinding(
            CheckGrade.NOTE,
            "endless-retention",
            named(endless, "topic"),
            "nothing is ever deleted, so the topic fills the disk some day",
            _alter(endless, f"--set {RETENTION_BYTES}=N"),
        )
    if longer:
        minutes = (cluster.offsets_retention_ms or 0) // MS_PER_MINUTE
        yield ClusterFinding(
            CheckGrade.NOTE,
            "offsets-expire-first",
            named(longer, "topic"),
            f"records are kept longer than the offsets of groups without members"
            f" (offsets.retention.minutes={minutes}): a group that is stopped for that long"
            " reads all of them again, or skips them, as auto.offset.reset says",
            "restart the brokers with a larger offsets.retention.minutes",
        )


def _sizes(topics: Sequence[TopicFacts], cluster: ClusterFacts) -> Iterator[ClusterFinding]:
    limit = cluster.request_bytes_max
    if limit is None:
        return
    larger = [each.name for each in topics if (each.number(MAX_BYTES) or 0) > limit]
    if larger:
        yield ClusterFinding(
            CheckGrade.RISK,
            "message-above-request",
            named(larger, "topic"),
            f"{MAX_BYTES} is larger than socket.request.max.bytes={limit}, so the broker closes the"
            " connection of a producer before it reads such a record",
            _alter(larger, f"--set {MAX_BYTES}={limit // 2}"),
        )


def _alter(names: Sequence[str], change: str) -> str:
    """The command that changes a config of a topic; with several topics, in a loop."""
    if len(names) == 1:
        return f"kwire topics alter {listed(names)} {change}"
    return f"for t in {listed(names)}; do kwire topics alter $t {change}; done"
