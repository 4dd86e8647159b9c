"""The client metrics subscriptions of the cluster, and what they ask of one client.

A subscription is a CLIENT_METRICS resource: prefixes of metric names, an interval, and patterns
that select clients.  A client gets the union of all subscriptions that select it, at the shortest
interval, as Apache Kafka's ClientMetricsManager computes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kwire.codecs.crc32c import crc32c
from kwire.codecs.uuids import uuid_text
from kwire.coordinators.contract.pattern import RegexPattern
from kwire.groups.java import HashTable, string_hash, uuid_hash
from kwire.requests.context import Context
from kwire.settings.client_metrics_settings import ClientMetricsSettings, match_patterns

ALL_METRICS = "*"
INTERVAL_MS_DEFAULT = 300_000
"""The interval of a client without a subscription.  It is also the longest interval of all clients,
whatever the subscriptions say."""


class Subscription(NamedTuple):
    """The parsed configs of one CLIENT_METRICS resource."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, RegexPattern]
    """The patterns by the client's attribute; without patterns all clients are selected."""

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Subscription:
        """Parse configs.  Raises ConfigError if kwire would not accept them."""
        settings = ClientMetricsSettings(configs)
        return cls(
            tuple(settings.metrics), settings.interval_ms, dict(match_patterns(settings.match))
        )

    def selects(self, attributes: Mapping[str, str | None]) -> bool:
        """Return whether all of the client's attributes match the patterns."""
        for name, pattern in self.patterns.items():
            value = attributes[name]
            if value is None or not pattern.matches(value):
                return False
        return True


@dataclass(frozen=True, slots=True)
class AssignedSubscription:
    """The metrics that one client is asked for, and the id that it sends with each push."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


class Subscriptions:
    """All subscriptions of the cluster; `version` grows with each change."""

    def __init__(self) -> None:
        self._by_name: dict[str, Subscription] = {}
        self.version = 0

    def set(self, name: str, subscription: Subscription | None) -> None:
        """Set a subscription; None removes it."""
        if subscription is None:
            if self._by_name.pop(name, None) is None:
                return
        else:
            self._by_name[name] = subscription
        self.version += 1

    def asked_of(
        self, instance_id: bytes, attributes: Mapping[str, str | None]
    ) -> AssignedSubscription:
        """Return the union of all subscriptions that select a client with these attributes."""
        metrics = HashTable(string_hash)
        interval_ms = INTERVAL_MS_DEFAULT
        for name in HashTable(string_hash, self._by_name):
            subscription = self._by_name[name]
            if subscription.selects(attributes):
                for metric in HashTable.of_collection(string_hash, subscription.metrics):
                    metrics.add(metric)
                interval_ms = min(interval_ms, subscription.interval_ms)
        names = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics)
        return AssignedSubscription(
            names, interval_ms, subscription_id(names, interval_ms, instance_id)
        )


def subscription_id(metrics: Sequence[str], interval_ms: int, instance_id: bytes) -> int:
    """Return the CRC-32C of the metrics as Java prints a set of them, XORed with the instance id's
    hash.

    The metrics are in the order of Java's HashSet, so the id is the same on all brokers and on
    Apache Kafka.
    """
    text = f"[{', '.join(metrics)}]{interval_ms}"
    value = crc32c(text.encode()) ^ uuid_hash(instance_id)
    # as an int32, like in Java
    return value - (1 << 32) if value & 0x80000000 else value


def attributes_of(instance_id: bytes, context: Context) -> dict[str, str | None]:
    """Return the attributes of a request's client that the config `match` can select by."""
    return {
        "client_id": context.client_id,
        "client_instance_id": uuid_text(instance_id),
        "client_software_name": context.client_software_name,
        "client_software_version": context.client_software_version,
        "client_source_address": context.client_host,
        "client_source_port": context.client_port,
    }
