"""Collects the facts about a running cluster, and returns the findings.

Only addresses must be known to go on: if no bootstrap server answers, nothing else can be checked.
A later check that the cluster refuses becomes a finding of the grade UNCHECKED.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kwire.client.checkup import brokers, clocks, groups, topics
from kwire.client.checkup.addresses import Addresses, Reach, address_findings
from kwire.client.checkup.clocks import NewestRecord
from kwire.client.checkup.descriptors import Descriptors, descriptor_findings, descriptors_of
from kwire.client.checkup.finding import CheckGrade, ClusterFinding, by_grade
from kwire.client.checkup.reaching import ClientNetwork, Greet, SystemNetwork, reach_all
from kwire.client.checkup.state import readiness_findings, state_findings
from kwire.client.checkup.times import newest_records, quorum_clock
from kwire.client.cluster import Cluster, ClusterNode, TopicPartition
from kwire.client.configs import (
    ConfigResource,
    ConfigResourceKind,
    Source,
    describe_configs,
    topic_settings,
)
from kwire.client.connection import BrokerConnection, Destination
from kwire.client.errors import BrokerRefused, ClientError
from kwire.client.groups import SHARE
from kwire.client.inspection.health import ClusterHealth, health_of
from kwire.client.inspection.many_groups import (
    known_end_offsets,
    listed_groups,
    positions_of,
)
from kwire.client.inspection.survey import Survey, survey
from kwire.client.metrics.endpoints import ScrapeTarget, endpoints_of
from kwire.client.metrics.scrape import BrokerScrape, ScrapeFailed, not_ready, scrape
from kwire.client.offsets import EARLIEST
from kwire.codecs.errors import ErrorCode

T = TypeVar("T")

OPEN_FILES, OPEN_FILES_MAX = "process_open_fds", "process_max_fds"
TOPICS_AT_ONCE: Final = 500
"""Topics in one DescribeConfigs: its response takes some kB for each."""


@dataclass(slots=True)
class Examination:
    """The findings about a cluster, the most serious ones first, and what was examined."""

    findings: list[ClusterFinding] = field(default_factory=list)
    cluster_id: str | None = None
    brokers: int = 0
    topics: int = 0
    is_complete: bool = False
    """Whether the cluster answered, so that all checks were tried."""


def examine(cluster: Cluster, network: ClientNetwork | None = None) -> Examination:
    """Check everything that a client can check of a running cluster.

    Nothing is changed.  Raises ClientError if the cluster refuses its metadata.
    """
    network = network or SystemNetwork()
    protocol = "PLAINTEXT" if cluster.security is None else cluster.security.protocol
    servers = reach_all(_servers(cluster), network, cluster.timeout_s)
    seen = Addresses(servers, protocol=protocol)
    if seen.first_answering is None:
        return Examination(by_grade(list(address_findings(seen))))
    cluster.retrying(lambda: cluster.refresh([]))
    nodes = dict(cluster.nodes)
    reached = reach_all(_advertised(cluster, nodes.values()), network, cluster.timeout_s)
    seen = Addresses(servers, dict(zip(nodes, reached, strict=True)), protocol)
    # A broker in another one's place has been found.  The next requests go to it nevertheless,
    # because a client that starts again would forget the cluster that is being examined.
    cluster.checks_brokers = False
    reports = survey(cluster)
    health = health_of(reports)
    denied = list(_without_denials(reports, health))
    examiner = _Examiner(cluster, nodes, reports, health, seen)
    found = [*address_findings(seen), *examiner.findings(), *denied]
    return Examination(by_grade(found), reports.cluster_id, len(nodes), health.topics, True)


def _servers(cluster: Cluster) -> Iterator[tuple[str, int, Greet]]:
    for host, port in cluster.bootstrap:
        yield host, port, _greeting(cluster, host, port, None)


def _advertised(cluster: Cluster, nodes: Iterable[ClusterNode]) -> Iterator[tuple[str, int, Greet]]:
    for node in nodes:
        destination = None
        if cluster.cluster_id is not None:
            destination = Destination(cluster.cluster_id, node.node_id)
        yield node.host, node.port, _greeting(cluster, node.host, node.port, destination)


def _greeting(cluster: Cluster, host: str, port: int, destination: Destination | None) -> Greet:
    """Return a function that connects as a Kafka client, logs in, and disconnects."""

    def greet() -> None:
        BrokerConnection(
            host,
            port,
            client_id=cluster.client_id,
            timeout_s=cluster.timeout_s,
            security=cluster.security,
            destination=destination,
        ).close()

    return greet


def _without_denials(reports: Survey, health: ClusterHealth) -> Iterator[ClusterFinding]:
    """Yield what could not be checked because this user may not describe the cluster, and remove it
    from the problems of the cluster."""
    remedy = (
        "kwire acls add --allow USER --operation describe --cluster, or another --command-config"
    )
    for broker in health.brokers:
        report = reports.reports.get(broker.broker)
        if report is not None and _is_denial(report.trouble):
            broker.trouble = None
            yield ClusterFinding(
                CheckGrade.UNCHECKED,
                "broker-state",
                f"broker {broker.broker}",
                f"its disks and its replicas' ends: {report.trouble}",
                remedy,
            )
    if _is_denial(reports.quorum):
        health.quorum_trouble, health.controller_id = None, reports.controller_id
        yield ClusterFinding(
            CheckGrade.UNCHECKED, "quorum", "controllers", str(reports.quorum), remedy
        )


def _is_denial(error: object) -> bool:
    return isinstance(error, BrokerRefused) and error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class _Examiner:
    """The checks of a cluster that has answered."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: Mapping[int, ClusterNode],
        reports: Survey,
        health: ClusterHealth,
        seen: Addresses,
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._survey = reports
        self._health = health
        self._seen = seen
        self._unchecked: list[ClusterFinding] = []
        self._of_endpoints: list[ClusterFinding] = []
        self._usable = [
            broker_id
            for broker_id, reach in seen.brokers.items()
            if reach.connects and reach.kafka_error is None
        ]

    def findings(self) -> Iterator[ClusterFinding]:
        """Yield the findings about the state, the settings, clocks and limits."""
        unreachable = frozenset(self._nodes) - frozenset(self._usable)
        yield from state_findings(self._health, unreachable)
        settings = self._broker_facts()
        names = frozenset(place.topic for place in self._survey.partitions)
        yield from brokers.broker_findings(settings, len(self._nodes), names)
        facts = self._tried("topics", "topics", self._topic_facts, list[topics.TopicFacts]())
        yield from topics.topic_findings(facts, self._cluster_facts(settings))
        committed = self._tried(
            "groups", "groups", self._committed_offsets, list[groups.GroupOffset]()
        )
        yield from groups.group_findings(committed)
        scrapes = self._scrapes()
        yield from self._of_endpoints
        yield from self._clock_findings(scrapes)
        yield from self._descriptor_findings(scrapes)
        yield from self._unchecked

    def _tried(self, check: str, about: str, ask: Callable[[], T], otherwise: T) -> T:
        """Return what `ask` returns; if the cluster refuses, the check is noted as not made."""
        try:
            return ask()
        except ClientError as error:
            self._unchecked.append(ClusterFinding(CheckGrade.UNCHECKED, check, about, str(error)))
            return otherwise

    # -- settings

    def _broker_facts(self) -> list[brokers.BrokerFacts]:
        """Return the settings of the brokers that report them."""
        found = []
        for broker_id in self._usable:

            def ask(broker_id: int = broker_id) -> brokers.BrokerFacts:
                resource = ConfigResource(ConfigResourceKind.BROKER, str(broker_id))
                entries = describe_configs(self._cluster, resource, brokers.SETTINGS)
                return brokers.BrokerFacts(
                    broker_id,
                    {each.name: each.value for each in entries},
                    self._nodes[broker_id].rack,
                    frozenset(each.name for each in entries if _is_set(each.config_source)),
                )

            facts = self._tried("broker-settings", f"broker {broker_id}", ask, None)
            if facts is not None:
                found.append(facts)
        return found

    def _cluster_facts(self, settings: list[brokers.BrokerFacts]) -> topics.ClusterFacts:
        racks = {node.rack for node in self._nodes.values()}
        return topics.ClusterFacts(
            brokers=len(self._nodes),
            racks=0 if None in racks else len(racks),
            offsets_retention_ms=brokers.offsets_retention_ms(settings),
            request_bytes_max=brokers.request_bytes_max(settings),
        )

    def _topic_facts(self) -> list[topics.TopicFacts]:
        """Return the replicas and configs of all topics."""
        places: dict[str, list[TopicPartition]] = {}
        for place in self._survey.partitions:
            places.setdefault(place.topic, []).append(place)
        configs = self._topic_configs(list(places))
        return [
            self._facts_of(name, own, configs[name])
            for name, own in places.items()
            if name in configs  # It may have been deleted meanwhile.
        ]

    def _topic_configs(self, names: list[str]) -> dict[str, dict[str, str | None]]:
        found: dict[str, dict[str, str | None]] = {}
        for start in range(0, len(names), TOPICS_AT_ONCE):
            some = names[start : start + TOPICS_AT_ONCE]
            found |= topic_settings(self._cluster, some, topics.CONFIGS)
        return found

    def _facts_of(
        self, name: str, places: list[TopicPartition], configs: Mapping[str, str | None]
    ) -> topics.TopicFacts:
        replicas = [self._survey.partitions[place].replica_nodes for place in places]
        racks_min: int | None = None
        known = {node_id: node.rack for node_id, node in self._nodes.items() if node.rack}
        if all(each in known for ids in replicas for each in ids):
            racks_min = min(len({known[each] for each in ids}) for ids in replicas)
        return topics.TopicFacts(
            name,
            is_internal=self._cluster.topics[name].is_internal or name.startswith("__"),
            replication_factor=min(map(len, replicas)),
            racks_min=racks_min,
            configs=configs,
        )

    def _committed_offsets(self) -> list[groups.GroupOffset]:
        """Return the committed offsets of all groups in partitions that have a leader.

        Those of share groups are kept by the leaders, which move them when records are deleted.
        """
        listed = [each for each in listed_groups(self._cluster).groups if each.type != SHARE]
        positions = {
            name: found
            for name, found in positions_of(self._cluster, listed).items()
            if not isinstance(found, ClientError)
        }
        places = {place for found in positions.values() for place in found}
        # After the committed offsets, so that none of them seems to be beyond the end.
        ends = known_end_offsets(self._cluster, places)
        starts = known_end_offsets(self._cluster, places, timestamp=EARLIEST)
        return [
            groups.GroupOffset(name, place, each.offset, starts[place], ends[place])
            for name, found in positions.items()
            for place, each in found.items()
            if each.offset is not None and place in ends and place in starts
        ]

    # -- clocks and limits

    def _scrapes(self) -> dict[int, BrokerScrape]:
        """Return what the metrics endpoints of brokers answer, as far as there are any."""
        found = {}
        endpoints = self._tried(
            "metrics", "brokers", lambda: endpoints_of(self._cluster), dict[int, ScrapeTarget]()
        )
        for broker_id, endpoint in endpoints.items():
            if endpoint.url is None:
                continue
            try:
                names = (OPEN_FILES, OPEN_FILES_MAX, clocks.TIME)
                found[broker_id] = scrape(endpoint.url, names, self._cluster.timeout_s)
                reasons = not_ready(endpoint.url, self._cluster.timeout_s)
            except ScrapeFailed as error:
                self._of_endpoints.append(
                    ClusterFinding(
                        CheckGrade.RISK,
                        "metrics-endpoint",
                        f"broker {broker_id}",
                        f"its metrics endpoint does not answer: {error}",
                        f"curl {endpoint.url}/metrics",
                    )
                )
            else:
                self._of_endpoints += readiness_findings(broker_id, endpoint.url, reasons)
        return found

    def _clock_findings(self, scrapes: Mapping[int, BrokerScrape]) -> Iterator[ClusterFinding]:
        readings = [
            reading
            for broker_id, each in scrapes.items()
            if (reading := clocks.reading_of(f"broker {broker_id}", each)) is not None
        ]
        of_leader = self._tried(
            "clock",
            "controllers",
            lambda: quorum_clock(self._cluster, set(self._nodes), self._usable),
            None,
        )
        if of_leader is not None:
            readings = [each for each in readings if each.who != of_leader.who] + [of_leader]
        newest = self._tried(
            "future-timestamps",
            "topics",
            lambda: newest_records(self._cluster, self._survey.partitions, self._usable),
            list[NewestRecord](),
        )
        yield from clocks.clock_findings(readings, newest)
        yield from clocks.unknown_clocks(self._usable, readings)

    def _descriptor_findings(self, scrapes: Mapping[int, BrokerScrape]) -> Iterator[ClusterFinding]:
        replicas = {each.broker: each.replicas for each in self._health.brokers}
        for broker_id in self._usable:
            found = self._descriptors(self._seen.brokers[broker_id], scrapes.get(broker_id))
            yield from descriptor_findings(broker_id, found, replicas.get(broker_id, 0))

    @staticmethod
    def _descriptors(reach: Reach, scrape: BrokerScrape | None) -> Descriptors | None:
        """Return the open files from the metrics; without them, from /proc of this machine."""
        if scrape is not None:
            opened, limit = scrape.total(OPEN_FILES), scrape.total(OPEN_FILES_MAX)
            if opened is not None and limit is not None:
                return Descriptors(int(opened), int(limit))
        return descriptors_of(reach.port) if reach.is_local else None


def _is_set(source: int) -> bool:
    return source != Source.DEFAULT
