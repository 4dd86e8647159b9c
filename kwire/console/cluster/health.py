"""What is not well in a cluster, why, and what to do; brokers and replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import Misuse
from kwire.client.inspection.health import BrokerHealth, ClusterHealth, health_of
from kwire.client.inspection.survey import Survey, survey
from kwire.codecs.messages.metadata import MetadataResponsePartition

SERIOUS: Final = "serious"
WARNING: Final = "warning"
NOTE: Final = "note"


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """Something that is not well."""

    severity: str
    """SERIOUS if clients fail or records are in danger, WARNING if that may come, else NOTE."""
    what: str
    why: str
    remedy: str
    words: Sequence[str] = ()
    """The words of a `kwire` command that mends it or shows more."""
    partitions: Sequence[TopicPartition] = ()


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A partition with its replicas, and why replicas are missing."""

    partition: TopicPartition
    leader_id: int
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    problems: Sequence[str]
    """`offline`, `under min ISR`, `under-replicated`, `not the preferred leader`."""
    reasons: Sequence[str]
    """For each replica that is not in sync, why."""
    lags: Mapping[int, int]
    """The records by which each follower is behind."""
    adding: Sequence[int] = ()
    removing: Sequence[int] = ()

    @property
    def missing(self) -> Sequence[int]:
        """The replicas that are not in sync."""
        return [each for each in self.replicas if each not in self.in_sync]


@dataclass(frozen=True, slots=True)
class HealthPage:
    """The health of a cluster, and the partitions with problems."""

    health: ClusterHealth
    findings: Sequence[HealthFinding]
    replicas: Sequence[ReplicaRow]
    """The partitions with problems, the worst first."""

    @property
    def is_well(self) -> bool:
        return not any(each.severity == SERIOUS for each in self.findings)


@dataclass(frozen=True, slots=True)
class HeldReplica:
    """A replica on one broker."""

    partition: TopicPartition
    is_leader: bool
    is_in_sync: bool
    size_bytes: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class BrokerPage:
    """One broker and its replicas."""

    health: BrokerHealth
    is_controller: bool
    replicas: Sequence[HeldReplica]
    features: Mapping[str, int]


def cluster_health(cluster: Cluster) -> HealthPage:
    """The health of the cluster now; asks each broker.  Raises ClientError if none answers."""
    return _health_page(survey(cluster))


def brokers_health(cluster: Cluster) -> HealthPage:
    """As `cluster_health`, without the partitions that lack in-sync replicas for acks=all."""
    return _health_page(survey(cluster, with_settings=False))


def _health_page(surveyed: Survey) -> HealthPage:
    health = health_of(surveyed)
    replicas = list(problem_rows(surveyed, health))
    return HealthPage(health, findings_of(health, replicas), replicas)


def broker_page(cluster: Cluster, node_id: int) -> BrokerPage:
    """One broker with its replicas.  Raises ClientError, Misuse for an unknown broker."""
    surveyed = survey(cluster, with_settings=False)
    health = health_of(surveyed)
    broker = next((each for each in health.brokers if each.broker == node_id), None)
    if broker is None:
        raise Misuse(f"the cluster has no broker {node_id}")
    report = surveyed.reports.get(node_id)
    sizes = {} if report is None or report.sizes is None else report.sizes.size_bytes
    lags = {lag.partition: lag.records for lag in health.lags if lag.broker == node_id}
    held = [
        HeldReplica(
            place,
            state.leader_id == node_id,
            node_id in state.isr_nodes,
            sizes.get(place),
            0 if state.leader_id == node_id else lags.get(place, 0),
        )
        for place, state in surveyed.partitions.items()
        if node_id in state.replica_nodes
    ]
    features = {} if report is None else report.features
    return BrokerPage(broker, health.controller_id == node_id, held, features)


def _not_preferred(health: ClusterHealth) -> list[TopicPartition]:
    """The partitions that another replica leads; one without a leader is not among them."""
    offline = set(health.offline)
    return [each for each in health.not_preferred if each not in offline]


# -- the partitions with problems


def problem_rows(surveyed: Survey, health: ClusterHealth) -> Iterator[ReplicaRow]:
    """The partitions with problems: offline ones, then those under min ISR, and so on."""
    kinds = {
        "offline": health.offline,
        "under min ISR": health.under_min_isr,
        "under-replicated": health.under_replicated,
        "not the preferred leader": _not_preferred(health),
    }
    problems: dict[TopicPartition, list[str]] = {}
    for problem, places in kinds.items():
        for place in places:
            problems.setdefault(place, []).append(problem)
    moving = {each.partition: each for each in health.reassignments or ()}
    for place in moving:
        problems.setdefault(place, []).append("being moved")
    lags: dict[TopicPartition, dict[int, int]] = {}
    for lag in health.lags:
        lags.setdefault(lag.partition, {})[lag.broker] = lag.records
    brokers = {each.broker: each for each in health.brokers}
    for place, found in problems.items():
        if place not in surveyed.partitions:
            continue  # It was deleted while the brokers were asked.
        state, own = surveyed.partitions[place], lags.get(place, {})
        move = moving.get(place)
        yield ReplicaRow(
            place,
            state.leader_id,
            state.leader_epoch,
            list(state.replica_nodes),
            [each for each in state.isr_nodes if each not in state.offline_replicas],
            found,
            list(_reasons(state, brokers, own)),
            own,
            () if move is None else move.adding,
            () if move is None else move.removing,
        )


def _reasons(
    state: MetadataResponsePartition,
    brokers: Mapping[int, BrokerHealth],
    lags: Mapping[int, int],
) -> Iterator[str]:
    """Why replicas are not in sync, as far as the brokers' reports tell."""
    for node_id in state.replica_nodes:
        if node_id in state.isr_nodes and node_id not in state.offline_replicas:
            continue
        broker = brokers.get(node_id)
        if broker is None or broker.address is None:
            yield f"broker {node_id} is absent"
        elif broker.trouble:
            yield f"broker {node_id}: {broker.trouble}"
        elif broker.failed_dirs:
            yield f"broker {node_id} has lost the log directory {', '.join(broker.failed_dirs)}"
        elif broker.full_dirs:
            yield f"the disk of broker {node_id} is full"
        elif node_id in lags:
            yield f"broker {node_id} is {lags[node_id]:,} records behind"
        else:
            yield f"broker {node_id} has not caught up yet"


# -- findings


def findings_of(health: ClusterHealth, replicas: Sequence[ReplicaRow]) -> list[HealthFinding]:
    """All findings, the serious ones first.  `replicas` are the partitions with problems."""
    found = [*_of_controller(health), *_of_brokers(health), *_of_partitions(health, replicas)]
    order = (SERIOUS, WARNING, NOTE)
    return sorted(found, key=lambda each: order.index(each.severity))


def _of_controller(health: ClusterHealth) -> Iterator[HealthFinding]:
    status = ("cluster", "status")
    if health.quorum_trouble:
        yield HealthFinding(
            SERIOUS,
            "The quorum of controllers does not answer",
            health.quorum_trouble,
            "Without it topics, configs and leaders cannot change. Look at the controllers' logs,"
            " and whether more than half of them run.",
            status,
        )
    elif health.controller_id < 0:
        yield HealthFinding(
            SERIOUS,
            "The cluster has no controller",
            "No broker names one.",
            "Without it topics, configs and leaders cannot change. Look at the brokers' logs.",
            status,
        )
    for voter in health.quorum.silent_voters if health.quorum else ():
        yield HealthFinding(
            WARNING,
            f"Controller {voter.member_id} does not follow the quorum's leader",
            "It has not caught up for more than 10 seconds.",
            "Start it, or look at its log. The quorum stands as long as more than half follow.",
            status,
        )


def _of_brokers(health: ClusterHealth) -> Iterator[HealthFinding]:
    for broker in health.brokers:
        name = f"Broker {broker.broker}"
        if broker.address is None:
            yield HealthFinding(
                SERIOUS,
                f"{name} is absent",
                f"{broker.replicas} partitions have a replica on it, and it is not registered.",
                "Start it. If it will not come back, move its replicas to others.",
                ("cluster", "reassign", "--off", str(broker.broker)),
            )
        elif broker.trouble:
            yield HealthFinding(
                SERIOUS,
                f"{name} does not answer",
                broker.trouble,
                "Look at its log, and whether this machine reaches the address that it advertises.",
                ("ping",),
            )
        for path in broker.failed_dirs:
            yield HealthFinding(
                SERIOUS,
                f"{name} has lost the log directory {path}",
                "The disk gave an error, and the broker has taken the directory offline.",
                "Mend or replace the disk, then restart the broker.",
            )
        for path in broker.full_dirs:
            yield HealthFinding(
                SERIOUS,
                f"{name}: the disk of {path} is full",
                "Appends are refused.",
                "Free space, lower retention.ms or retention.bytes of large topics, or move"
                " replicas away.",
                ("cluster", "reassign", "--off", str(broker.broker)),
            )
        for path in broker.nearly_full_dirs:
            yield HealthFinding(
                WARNING,
                f"{name}: the disk of {path} is nearly full",
                "Appends are refused when it is full.",
                "Lower retention.ms or retention.bytes of large topics, or move replicas away.",
            )


def _of_partitions(
    health: ClusterHealth, replicas: Sequence[ReplicaRow]
) -> Iterator[HealthFinding]:
    by_place = {row.partition: row for row in replicas}

    def why(places: Iterable[TopicPartition]) -> str:
        """The reasons of these partitions without repetitions, the most frequent first."""
        counts: dict[str, int] = {}
        for place in places:
            for reason in by_place[place].reasons if place in by_place else ():
                counts[reason] = counts.get(reason, 0) + 1
        reasons = sorted(counts, key=lambda each: -counts[each])[:REASONS_MAX]
        return "; ".join(reasons) or "The brokers give no reason."

    if health.offline:
        yield HealthFinding(
            SERIOUS,
            f"{len(health.offline)} of {health.partitions} partitions have no leader",
            why(health.offline),
            "Nobody can write to or read from them. Start a broker that was in sync. If none comes"
            " back, elect a replica that was not in sync, and lose records.",
            ("cluster", "elect", "--all", "--unclean"),
            health.offline,
        )
    if health.under_min_isr:
        yield HealthFinding(
            SERIOUS,
            f"{len(health.under_min_isr)} of {health.partitions} partitions have fewer in-sync"
            " replicas than min.insync.replicas",
            why(health.under_min_isr),
            "Producers with acks=all get NOT_ENOUGH_REPLICAS. Bring the missing brokers back.",
            ("cluster", "status"),
            health.under_min_isr,
        )
    if health.under_replicated:
        yield HealthFinding(
            SERIOUS,
            f"{len(health.under_replicated)} of {health.partitions} partitions are"
            " under-replicated",
            why(health.under_replicated),
            "The next failure may take them offline. Bring the missing brokers back, or wait until"
            " the followers have caught up.",
            ("cluster", "status", "--watch"),
            health.under_replicated,
        )
    if not_preferred := _not_preferred(health):
        yield HealthFinding(
            NOTE,
            f"{len(not_preferred)} partitions are not led by their preferred leader",
            "Leaders moved when brokers stopped, and the load may be uneven.",
            "Elect the preferred leaders; a broker also does so by itself"
            " (auto.leader.rebalance.enable).",
            ("cluster", "elect", "--all"),
            not_preferred,
        )
    if health.reassignments:
        yield HealthFinding(
            NOTE,
            f"{len(health.reassignments)} partitions are being moved",
            "A reassignment is in progress.",
            "Wait until it is done, or cancel it.",
            ("cluster", "reassign", "--list"),
            [each.partition for each in health.reassignments],
        )


REASONS_MAX: Final = 3
