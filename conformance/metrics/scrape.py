"""A scrape: the values of metrics by name and labels, as Prometheus reads them."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

Labels = Mapping[str, str]
Keep = Callable[[Labels], bool]
"""Whether a comparison takes the series with these labels."""

TIMEOUT_S: Final = 300.0
"""A scrape of Apache Kafka takes a second, and on a busy machine a minute."""
CONTROLLERS: Final = "kafka_controller_"


def keep_all(labels: Labels) -> bool:
    """Keep every series."""
    del labels
    return True


class Scrape:
    """The samples of one broker, or of all nodes of a cluster together."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Read scrapes in Prometheus's text format.  Raises ValueError for other text."""
        self._samples: dict[str, list[tuple[Labels, float]]] = {}
        self.types: dict[str, str] = {}
        """The types of metrics by name; a counter's name is without `_total`."""
        for text in texts:
            for family in text_string_to_metric_families(text):
                self.types[family.name] = family.type
                for sample in family.samples:
                    values = self._samples.setdefault(sample.name, [])
                    values.append((sample.labels, float(sample.value)))

    def names(self) -> set[str]:
        """The names of all samples; those of counters end in `_total`."""
        return set(self._samples)

    def series(self, name: str) -> Iterator[tuple[Labels, float]]:
        """Yield the labels and values of a metric, in the order of the scrape."""
        yield from self._samples.get(name, ())

    def sums(
        self, name: str, by: Iterable[str], keep: Keep = keep_all
    ) -> dict[tuple[str, ...], float]:
        """Return the sums of a metric over all labels except `by`, by the values of those."""
        sums: dict[tuple[str, ...], float] = {}
        labels_of_key = tuple(by)
        for labels, value in self.series(name):
            if keep(labels):
                key = tuple(labels.get(label, "") for label in labels_of_key)
                sums[key] = sums.get(key, 0.0) + value
        return sums

    def matching(self, name: str, matchers: Iterable[Matcher]) -> list[tuple[Labels, float]]:
        """Return the series of a metric that satisfy all `matchers`, as a selector of PromQL."""
        chosen = list(matchers)
        return [
            (labels, value)
            for labels, value in self.series(name)
            if all(matcher.matches(labels) for matcher in chosen)
        ]


class Matcher:
    """One condition of a selector, such as `topic=~"orders|payments"`."""

    def __init__(self, label: str, operator: str, value: str) -> None:
        """`operator` is one of `=`, `!=`, `=~`, `!~`."""
        self.label = label
        self.operator = operator
        self.value = value

    def matches(self, labels: Labels) -> bool:
        """Whether the labels satisfy this condition; a missing label counts as empty."""
        value = labels.get(self.label, "")
        if "~" in self.operator:
            satisfied = re.fullmatch(self.value, value) is not None
        else:
            satisfied = value == self.value
        return satisfied != self.operator.startswith("!")


def read(urls: Iterable[str], controllers: Iterable[str] = ()) -> Scrape:
    """Scrape brokers, and what only controllers have of controllers.  Raises OSError."""
    texts = [_text(url) for url in urls]
    return Scrape([*texts, *(_of_controllers(_text(url)) for url in controllers)])


def _of_controllers(text: str) -> str:
    """Return the lines of a controller's metrics; a controller counts its own requests, too."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if line.startswith(CONTROLLERS))


def _text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
        text: str = response.read().decode()
    return text
