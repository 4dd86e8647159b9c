"""A sample: everything that `kwire top` knows of a cluster at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kwire.client.inspection.progress import ClusterProgress
    from kwire.client.metrics.scrape import BrokerScrape


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """What the metrics endpoint of one broker said, or why it said nothing."""

    scrape: BrokerScrape | None = None
    slow: Mapping[str, Any] = field(default_factory=dict)
    """Its slowest requests and busiest clients, as `/slow` has them."""
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class TopSample:
    """The progress of a cluster, and the metrics of its brokers."""

    progress: ClusterProgress
    metrics: Mapping[int, BrokerMetrics] = field(default_factory=dict)
    time_s: float = 0.0
    """When it was taken, in seconds since 1970; intervals come from `progress.at_s`."""
