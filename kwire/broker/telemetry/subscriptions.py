"""What administrators ask of which clients, as Apache Kafka's ClientMetricsManager adds it up.

A subscription is a CLIENT_METRICS resource: prefixes of metrics' names, an interval, and patterns
that say which clients are meant.  All that match a client count together: the union of what they
ask for, at the shortest interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kwire.codecs.crc32c import crc32c
from kwire.codecs.uuids import uuid_text
from kwire.coordinators.contract.pattern import Pattern
from kwire.groups.java import HashTable, string_hash, uuid_hash
from kwire.requests.context import Context
from kwire.settings.client_metrics_settings import ClientMetricsSettings, match_patterns

ALL_METRICS = "*"
INTERVAL_MS_DEFAULT = 300_000
"""Of who is asked for nothing, and the longest that anybody waits: no subscription makes it longer,
whatever its interval."""


class Subscription(NamedTuple):
    """One resource's configs, ready to be asked."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Pattern]
    """By the client's attribute; without any, everybody is meant."""

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Subscription:
        """Raises ConfigError for configs that could not have been set here."""
        settings = ClientMetricsSettings(configs)
        return cls(
            tuple(settings.metrics), settings.interval_ms, dict(match_patterns(settings.match))
        )

    def means(self, attributes: Mapping[str, str | None]) -> bool:
        for name, pattern in self.patterns.items():
            value = attributes[name]
            if value is None or not pattern.matches(value):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Asked:
    """What one client is asked for, and the id by which it says so when it pushes."""

    metrics: tuple[str, ...]
    interval_ms: int
    subscription_id: int


class Subscriptions:
    """All subscriptions of the cluster; `version` grows with each change."""

    def __init__(self) -> None:
        self._by_name: dict[str, Subscription] = {}
        self.version = 0

    def set(self, name: str, subscription: Subscription | None) -> None:
        """None: it is gone."""
        if subscription is None:
            if self._by_name.pop(name, None) is None:
                return
        else:
            self._by_name[name] = subscription
        self.version += 1

    def asked_of(self, instance_id: bytes, attributes: Mapping[str, str | None]) -> Asked:
        metrics = HashTable(string_hash)
        interval_ms = INTERVAL_MS_DEFAULT
        for name in HashTable(string_hash, self._by_name):
            subscription = self._by_name[name]
            if subscription.means(attributes):
                for metric in HashTable.of_collection(string_hash, subscription.metrics):
                    metrics.add(metric)
                interval_ms = min(interval_ms, subscription.interval_ms)
        told = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics)
        return Asked(told, interval_ms, subscription_id(told, interval_ms, instance_id))


def subscription_id(metrics: Sequence[str], interval_ms: int, instance_id: bytes) -> int:
    """The CRC-32C of what is asked, as Java prints a set of it, XORed with the instance's hash.

    So it is the same on all brokers, and on Apache Kafka: the order is that of Java's HashSet.
    """
    text = f"[{', '.join(metrics)}]{interval_ms}"
    value = crc32c(text.encode()) ^ uuid_hash(instance_id)
    return value - (1 << 32) if value & 0x80000000 else value


def attributes_of(instance_id: bytes, context: Context) -> dict[str, str | None]:
    """What `match` may ask about the client of a request."""
    return {
        "client_id": context.client_id,
        "client_instance_id": uuid_text(instance_id),
        "client_software_name": context.client_software_name,
        "client_software_version": context.client_software_version,
        "client_source_address": context.client_host,
        "client_source_port": context.client_port,
    }
