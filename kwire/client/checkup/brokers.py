"""Findings about the settings of brokers.  No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kwire.client.checkup.finding import CheckGrade, ClusterFinding, brokers_text
from kwire.client.checkup.topics import MS_PER_MINUTE

AUTO_CREATE: Final = "auto.create.topics.enable"
DEFAULT_COPIES: Final = "default.replication.factor"
OFFSETS_MINUTES: Final = "offsets.retention.minutes"
REQUEST_BYTES: Final = "socket.request.max.bytes"
UNCLEAN: Final = "unclean.leader.election.enable"
INTERNAL_COPIES: Final = {
    "offsets.topic.replication.factor": ("__consumer_offsets", "consumer groups"),
    "transaction.state.log.replication.factor": ("__transaction_state", "transactions"),
    "share.coordinator.state.topic.replication.factor": ("__share_group_state", "share groups"),
}
"""Settings for internal topics that do not exist yet: the topic, and what needs it."""
ALIKE: Final = (
    "message.max.bytes",
    AUTO_CREATE,
    DEFAULT_COPIES,
    "min.insync.replicas",
    UNCLEAN,
    "num.partitions",
    "log.retention.ms",
    "log.retention.minutes",
    "log.retention.hours",
    "log.retention.bytes",
    OFFSETS_MINUTES,
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
    "transactional.id.expiration.ms",
    "group.consumer.session.timeout.ms",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
    REQUEST_BYTES,
)
"""Settings that should be the same on all brokers: clients talk to all of them."""
SETTINGS: Final = (*ALIKE, *INTERNAL_COPIES)
"""The settings that the checks need."""
OFFSETS_MINUTES_MIN: Final = 24 * 60
"""Less than a day: a group that stops over night loses its offsets."""


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """The settings of one broker, and its rack."""

    broker_id: int
    settings: Mapping[str, str | None] = field(default_factory=dict)
    rack: str | None = None
    explicit: frozenset[str] = frozenset()
    """The settings that somebody has set; the others have the broker's defaults."""

    def number(self, name: str) -> int | None:
        """The value of a setting with a number, or None if the broker did not report it."""
        value = self.settings.get(name)
        return None if value is None else int(value)


def offsets_retention_ms(brokers: list[BrokerFacts]) -> int | None:
    """The shortest offsets.retention.minutes of the brokers, in ms; None if unknown."""
    found = [n for each in brokers if (n := each.number(OFFSETS_MINUTES)) is not None]
    return min(found) * MS_PER_MINUTE if found else None


def request_bytes_max(brokers: list[BrokerFacts]) -> int | None:
    """The smallest socket.request.max.bytes of the brokers, or None if unknown."""
    found = [n for each in brokers if (n := each.number(REQUEST_BYTES)) is not None]
    return min(found) if found else None


def broker_findings(
    brokers: list[BrokerFacts], count: int, topics: frozenset[str]
) -> Iterator[ClusterFinding]:
    """Yield the findings about the settings of brokers that reported them.

    `count` is the number of brokers in the cluster, and `topics` are the names of all topics.
    """
    yield from _different(brokers)
    yield from _internal(brokers, count, topics)
    yield from _racks(brokers)
    created = _with(brokers, AUTO_CREATE, "true")
    if created:
        yield ClusterFinding(
            CheckGrade.NOTE,
            "auto-create",
            created,
            f"{AUTO_CREATE}=true: a misspelt topic name creates a topic instead of an error",
            f"restart with --set {AUTO_CREATE}=false, when the topics exist",
        )
    single = _with(brokers, DEFAULT_COPIES, "1")
    if count > 1 and single:
        yield ClusterFinding(
            CheckGrade.RISK,
            "default-one-replica",
            single,
            f"{DEFAULT_COPIES}=1: a topic that is created without a number of replicas has one,"
            " although there are several brokers",
            f"restart with --set {DEFAULT_COPIES}={min(3, count)}",
        )
    for each in brokers:
        minutes = each.number(OFFSETS_MINUTES)
        if minutes is not None and minutes < OFFSETS_MINUTES_MIN:
            yield ClusterFinding(
                CheckGrade.RISK,
                "short-offsets",
                f"broker {each.broker_id}",
                f"{OFFSETS_MINUTES}={minutes}: a group without members loses its committed offsets"
                f" after {minutes} minutes",
                f"restart with --set {OFFSETS_MINUTES}=10080",
            )


def _with(brokers: list[BrokerFacts], name: str, value: str) -> str:
    """The brokers that have a value of a setting, as text; empty if there is none."""
    return brokers_text([each.broker_id for each in brokers if each.settings.get(name) == value])


def _different(brokers: list[BrokerFacts]) -> Iterator[ClusterFinding]:
    """Yield a finding for each setting that should be alike and is not."""
    for name in ALIKE:
        by_value: dict[str, list[int]] = {}
        for each in brokers:
            value = each.settings.get(name)
            if value is not None:
                by_value.setdefault(value, []).append(each.broker_id)
        if len(by_value) > 1:
            texts = "; ".join(f"{value} on {brokers_text(ids)}" for value, ids in by_value.items())
            yield ClusterFinding(
                CheckGrade.RISK,
                "different-settings",
                brokers_text([each.broker_id for each in brokers]),
                f"{name} is {texts}: what a client may do changes with the broker that leads",
                f"restart the brokers with one value of {name}",
            )


def _internal(
    brokers: list[BrokerFacts], count: int, topics: frozenset[str]
) -> Iterator[ClusterFinding]:
    """Yield findings about internal topics that cannot be created with so few brokers."""
    there = "there is 1 broker" if count == 1 else f"there are {count} brokers"
    for name, (topic, users) in INTERNAL_COPIES.items():
        copies = max((n for each in brokers if (n := each.number(name)) is not None), default=0)
        if topic in topics or copies <= count:
            continue
        # kwire lowers its default to the number of brokers, and Apache Kafka does not.
        is_set = any(name in each.explicit for each in brokers)
        says = f"{topic} cannot be created, so {users} do not work"
        yield ClusterFinding(
            CheckGrade.BROKEN if is_set else CheckGrade.NOTE,
            "internal-replicas",
            "cluster",
            f"{name}={copies}, and {there}:"
            f" {says if is_set else f'unless the broker is kwire, {says}'}",
            f"restart with --set {name}={min(3, count)}, or start more brokers",
        )


def _racks(brokers: list[BrokerFacts]) -> Iterator[ClusterFinding]:
    without = [each.broker_id for each in brokers if not each.rack]
    if without and len(without) < len(brokers):
        yield ClusterFinding(
            CheckGrade.NOTE,
            "rack-missing",
            brokers_text(without),
            "no broker.rack, although other brokers have one: replicas are not spread over racks",
            "restart with --set broker.rack=NAME",
        )
