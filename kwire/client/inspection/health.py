"""The health of a cluster, computed from what its brokers reported, without I/O.

The terms are those of kafka-topics --describe.  A partition is offline if it has no leader.  It is
under-replicated if fewer replicas are in sync than it should have; those that a reassignment adds
do not count yet.  It is under its min ISR if fewer replicas are in sync than acks=all requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kwire.client.cluster import ClusterNode, TopicPartition
from kwire.client.errors import ClientError
from kwire.client.inspection.quorum import ControllerQuorum
from kwire.client.inspection.survey import BrokerReport, Survey
from kwire.client.reassignments import Reassignment
from kwire.codecs.messages.metadata import MetadataResponsePartition
from kwire.codecs.volumes import Fullness, Volume

NOBODY = -1


@dataclass(slots=True)
class Lag:
    """A follower that is behind its leader by some records, and whether it is in sync."""

    partition: TopicPartition
    broker: int
    records: int
    in_sync: bool


@dataclass(slots=True)
class BrokerHealth:
    """The state of one broker, and what it leads and stores."""

    broker: int
    address: str | None
    """None if the broker is not registered, although partitions have replicas on it."""
    rack: str | None
    leaders: int = 0
    preferred: int = 0
    """The number of partitions whose first replica, the preferred leader, is on this broker."""
    preferred_led_by_others: int = 0
    replicas: int = 0
    size_bytes: int | None = None
    lag_records: int | None = None
    """The number of records by which the replicas on this broker are behind, in total."""
    failed_dirs: list[str] = field(default_factory=list)
    volumes: Sequence[Volume] = ()
    """The disks of the directories that work."""
    trouble: str | None = None

    @property
    def full_dirs(self) -> list[str]:
        """The log directories on full disks, where appends are refused."""
        return self._dirs(Fullness.FULL)

    @property
    def nearly_full_dirs(self) -> list[str]:
        return self._dirs(Fullness.NEARLY_FULL)

    def _dirs(self, fullness: Fullness) -> list[str]:
        return [each.log_dir for each in self.volumes if each.fullness is fullness]


@dataclass(slots=True)
class ClusterHealth:
    """The health of a cluster at one moment."""

    cluster_id: str | None
    controller_id: int
    """The leader of the quorum if there is one, which need not be a broker."""
    topics: int
    partitions: int
    brokers: list[BrokerHealth]
    offline: list[TopicPartition]
    under_min_isr: list[TopicPartition]
    under_replicated: list[TopicPartition]
    not_preferred: list[TopicPartition]
    """Partitions not led by their preferred leader, although that one is in sync."""
    reassignments: list[Reassignment] | None
    """The reassignments in progress, or None if the controller did not report them."""
    lags: list[Lag]
    features: dict[str, int] = field(default_factory=dict)
    """The levels of the features that are in force."""
    quorum: ControllerQuorum | None = None
    quorum_trouble: str | None = None
    """Why the brokers could not describe the quorum, if they tried."""

    @property
    def warnings(self) -> list[str]:
        """Problems that may come soon, as short texts."""
        return [
            f"broker {each.broker}: the disk of {path} is nearly full"
            for each in self.brokers
            for path in each.nearly_full_dirs
        ]

    @property
    def ailments(self) -> list[str]:
        """The problems of the cluster as short texts; empty if all is well.

        A reassignment in progress, a leader other than the preferred one, and a follower that is a
        little behind are no problems.
        """
        found = []
        if self.quorum_trouble:
            found.append(f"the quorum of controllers: {self.quorum_trouble}")
        elif self.controller_id == NOBODY:
            found.append("no controller")
        found += [
            f"controller {voter.member_id} does not follow the quorum's leader"
            for voter in (self.quorum.silent_voters if self.quorum else ())
        ]
        for each in self.brokers:
            if each.address is None:
                found.append(f"broker {each.broker} is absent")
            elif each.trouble:
                found.append(f"broker {each.broker}: {each.trouble}")
            found += [f"broker {each.broker} has lost {failed}" for failed in each.failed_dirs]
            found += [
                f"broker {each.broker}: the disk of {path} is full" for path in each.full_dirs
            ]
        for places, what in (
            (self.offline, "offline"),
            (self.under_min_isr, "under min.insync.replicas"),
            (self.under_replicated, "under-replicated"),
        ):
            if places:
                found.append(f"{len(places)} of {self.partitions} partitions {what}")
        return found


def health_of(survey: Survey) -> ClusterHealth:
    """The health of a cluster from a survey of its brokers."""
    states = survey.partitions
    moving = {each.partition: each for each in survey.reassignments or ()}
    lags = _lags(survey)
    quorum = survey.quorum
    return ClusterHealth(
        survey.cluster_id,
        _controller_id(survey),
        topics=len({place.topic for place in states}),
        partitions=len(states),
        brokers=_brokers(survey, lags),
        offline=[place for place, state in states.items() if state.leader_id < 0],
        under_min_isr=[
            place
            for place, state in states.items()
            if len(state.isr_nodes) < _acks_needed(state, survey.min_isr.get(place.topic, 1))
        ],
        under_replicated=[
            place
            for place, state in states.items()
            if len(state.isr_nodes) < _replicas_due(state, moving.get(place))
        ],
        not_preferred=[place for place, state in states.items() if _could_be_led_better(state)],
        reassignments=survey.reassignments,
        lags=[lag for lag in lags if lag.records > 0],
        features=survey.features,
        quorum=quorum if isinstance(quorum, ControllerQuorum) else None,
        quorum_trouble=str(quorum) if isinstance(quorum, ClientError) else None,
    )


def _controller_id(survey: Survey) -> int:
    """Return the id of the controller, or NOBODY if that is unknown.

    Brokers beside a quorum of controllers name any broker as controller, to which clients can send
    requests for the controller.  Only the quorum says which one that is.
    """
    quorum = survey.quorum
    if quorum is not None:
        return quorum.leader_id if isinstance(quorum, ControllerQuorum) else NOBODY
    return survey.controller_id if survey.controller_id in survey.nodes else NOBODY


def _acks_needed(state: MetadataResponsePartition, min_isr: int) -> int:
    """The in-sync replicas that acks=all needs: all replicas, if there are fewer than min ISR."""
    return min(min_isr, len(state.replica_nodes))


def _replicas_due(state: MetadataResponsePartition, moving: Reassignment | None) -> int:
    adding = () if moving is None else moving.adding
    return len([each for each in state.replica_nodes if each not in adding])


def _could_be_led_better(state: MetadataResponsePartition) -> bool:
    preferred = state.replica_nodes[0] if state.replica_nodes else NOBODY
    return state.leader_id != preferred and preferred in state.isr_nodes


def _brokers(survey: Survey, lags: Iterable[Lag]) -> list[BrokerHealth]:
    """Return the health of each broker, sorted by id.  Brokers that only occur as replicas are not
    in the cluster now and have no address."""
    found = {
        node_id: _broker(node, survey.reports.get(node_id))
        for node_id, node in survey.nodes.items()
    }
    for state in survey.partitions.values():
        for each in state.replica_nodes:
            found.setdefault(each, BrokerHealth(each, None, None)).replicas += 1
        if state.leader_id in found:
            found[state.leader_id].leaders += 1
        if state.replica_nodes:
            first = found[state.replica_nodes[0]]
            first.preferred += 1
            first.preferred_led_by_others += state.leader_id != first.broker
    for lag in lags:
        broker = found[lag.broker]
        broker.lag_records = (broker.lag_records or 0) + lag.records
    return [found[node_id] for node_id in sorted(found)]


def _broker(node: ClusterNode, report: BrokerReport | None) -> BrokerHealth:
    """Return the health of a broker from its own report only; the counts of replicas are added
    later.  `report` is None if the survey has none of it."""
    health = BrokerHealth(node.node_id, f"{node.host}:{node.port}", node.rack)
    if report is None:
        return health
    if report.trouble is not None:
        health.trouble = str(report.trouble)
    if report.sizes is not None:
        health.size_bytes = sum(report.sizes.size_bytes.values())
        health.failed_dirs = report.sizes.failed_dirs
        health.volumes = report.sizes.volumes
    return health


def _lags(survey: Survey) -> list[Lag]:
    """The lag of each follower, if it and its leader reported their log end offsets."""
    found = []
    for place, state in survey.partitions.items():
        leader = survey.reports.get(state.leader_id)
        end = None if leader is None else leader.end_offsets.get(place)
        for broker in state.replica_nodes:
            own = survey.reports[broker].end_offsets if broker in survey.reports else {}
            if end is None or broker == state.leader_id or place not in own:
                continue
            # The follower may have been asked later than the leader, and be ahead of its report.
            behind = max(0, end - own[place])
            found.append(Lag(place, broker, behind, broker in state.isr_nodes))
    return found
