"""Reads scrapes in tests as Prometheus does: from their text."""

from __future__ import annotations

from collections.abc import Collection

from prometheus_client.parser import text_string_to_metric_families

from kwire.broker.broker import Broker
from kwire.server.metrics.declared import METRICS
from kwire.server.metrics.health import Health
from kwire.server.metrics.meters import Meters
from kwire.server.metrics.samples import Samples
from kwire.server.metrics.scrape import Scraper


def scraper_of(broker: Broker) -> Scraper:
    """What scrapes a broker whose connections are not measured."""
    return Scraper(broker, Meters(), Health())


def given(scraper: Scraper, wanted: Collection[str] | None = None) -> Samples:
    """What a scrape of all metrics, or of those that are wanted, gives, read in one piece."""
    samples = Samples(wanted)
    for _ in scraper.steps(samples):
        pass
    return samples


def names_given(scraper: Scraper) -> frozenset[str]:
    """The metrics of a scrape; asserts that each of them is also given if it alone is wanted."""
    names = given(scraper).names()
    for name in names:
        alone = given(scraper, {name})
        assert alone.names() == {name}
        text = b"".join(alone.text(open_metrics=False)).decode()
        assert {line.split()[2] for line in text.splitlines() if line.startswith("#")} == {name}
    return names


def scrape(scraper: Scraper) -> Scraped:
    return Scraped(given(scraper))


class Scraped:
    """The values of a scrape, by metric and the values of its labels in the declared order.

    A quantile comes last.  Samples of the count and the sum of a summary have their labels as they
    are in the text.
    """

    def __init__(self, samples: Samples) -> None:
        text = b"".join(samples.text(open_metrics=False)).decode()
        self._values: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                declared = METRICS.get(sample.name)
                names = (*sample.labels,) if declared is None else declared.labels
                names += ("quantile",) if "quantile" in sample.labels else ()
                labels = tuple(sample.labels.get(name, "") for name in names)
                self._values.setdefault(sample.name, {})[labels] = sample.value

    def of(self, name: str, *labels: str) -> float:
        """The value of one sample."""
        return self._values[name][labels]

    def all_of(self, name: str) -> dict[tuple[str, ...], float]:
        """All samples of a metric, by their labels; empty if the scrape does not have it."""
        return self._values.get(name, {})

    @property
    def names(self) -> set[str]:
        return set(self._values)
