"""What is not well in a cluster, why, and what to do; brokers and replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kwire.client.checkup.finding import CheckGrade
from kwire.client.checkup.state import state_findings
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
    """Why replicas are not in sync, for a finding about partitions; else empty."""
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
        """As `kwire cluster status` tells it."""
        return not self.health.ailments


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

SEVERITIES: Final[Mapping[CheckGrade, str]] = {
    CheckGrade.BROKEN: SERIOUS,
    CheckGrade.RISK: WARNING,
    CheckGrade.NOTE: NOTE,
}
REASONS_MAX: Final = 3
STATUS: Final = ("cluster", "status")
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "quorum": STATUS,
    "no-controller": STATUS,
    "silent-voter": STATUS,
    "silent-broker": ("ping",),
    "offline": ("cluster", "elect", "--all", "--unclean"),
    "under-min-isr": STATUS,
    "under-replicated": (*STATUS, "--watch"),
    "not-preferred": ("cluster", "elect", "--all"),
}
"""The words of the `kwire` command that mends a finding or shows more, by the name of the check."""


def findings_of(health: ClusterHealth, replicas: Sequence[ReplicaRow]) -> list[HealthFinding]:
    """What `kwire doctor` finds about the state of the cluster, with reasons; the serious findings
    first.  `replicas` are the partitions with problems."""
    by_place = {row.partition: row for row in replicas}
    found = []
    for each in state_findings(health, frozenset()):
        places = places_of(health, each.check)
        found.append(
            HealthFinding(
                SEVERITIES[each.grade],
                f"{each.about[:1].upper()}{each.about[1:]}: {each.says}",
                _why(by_place, places),
                each.remedy or "",
                COMMANDS.get(each.check, ()),
                places,
            )
        )
    if health.reassignments:
        found.append(
            HealthFinding(
                NOTE,
                f"{len(health.reassignments)} partitions are being moved",
                "",
                "Wait until it is done, or cancel it.",
                ("cluster", "reassign", "--list"),
                [each.partition for each in health.reassignments],
            )
        )
    order = (SERIOUS, WARNING, NOTE)
    return sorted(found, key=lambda each: order.index(each.severity))


def places_of(health: ClusterHealth, check: str) -> Sequence[TopicPartition]:
    """The partitions that a finding of this check is about."""
    offline, under_min = set(health.offline), set(health.under_min_isr)
    match check:
        case "offline":
            return health.offline
        case "under-min-isr":
            return [each for each in health.under_min_isr if each not in offline]
        case "under-replicated":
            return [each for each in health.under_replicated if each not in offline | under_min]
        case "not-preferred":
            return _not_preferred(health)
    return ()


def _why(by_place: Mapping[TopicPartition, ReplicaRow], places: Iterable[TopicPartition]) -> str:
    """The reasons of these partitions without repetitions, the most frequent first."""
    counts: dict[str, int] = {}
    for place in places:
        for reason in by_place[place].reasons if place in by_place else ():
            counts[reason] = counts.get(reason, 0) + 1
    return "; ".join(sorted(counts, key=lambda each: -counts[each])[:REASONS_MAX])
