"""The declaration of one metric."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

KWIRE: Final = "kwire"
"""The source of a metric that Apache Kafka does not have."""
KAFKA_EXPORTER: Final = "kafka_exporter"
"""The source of a metric that Kafka's MBeans lack, and that kafka_exporter gives by this name."""


class Kind(Enum):
    """The type of a metric, by the word of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `name` is the name in a scrape; that of a counter ends in `_total`.  `labels` are the names of
    its labels.  `unit` is empty for a number without one.  `help` is one sentence without a full
    stop.  `source` is Kafka's MBean and attribute, or `KWIRE`, or `KAFKA_EXPORTER`.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str
    source: str

    def __post_init__(self) -> None:
        """Raise ValueError for a name that a scrape of this kind could not have."""
        if (self.kind is Kind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"the name of a counter, and of no other, ends in _total: {self.name}")


def counter(name: str, labels: str, unit: str, text: str, source: str = KWIRE) -> Metric:
    """A number that only grows while the broker runs; `labels` are words."""
    return Metric(name, Kind.COUNTER, unit, tuple(labels.split()), text, source)


def gauge(name: str, labels: str, unit: str, text: str, source: str = KWIRE) -> Metric:
    """A number that may fall; `labels` are words."""
    return Metric(name, Kind.GAUGE, unit, tuple(labels.split()), text, source)


def summary(name: str, labels: str, unit: str, text: str, source: str = KWIRE) -> Metric:
    """Quantiles, a count and a sum; `labels` are words, and `quantile` is not among them."""
    return Metric(name, Kind.SUMMARY, unit, tuple(labels.split()), text, source)
