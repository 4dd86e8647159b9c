"""Latencies and counts out of metrics endpoints.

`kwire serve --metrics` has them, and Kafka's JMX exporter with the rules of its example.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S: Final = 5.0
LINE_BYTES_MAX: Final = 10_000
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""More is not read: 100,000 partitions have half as much."""


class ScrapeError(Exception):
    """An endpoint cannot be read; the message says why."""


class ScrapedValue(NamedTuple):
    """One line of an endpoint: a metric, its labels and its value."""

    name: str
    labels: dict[str, str]
    value: float


def scraped(url: str, names: Iterable[str], *, timeout_s: float = TIMEOUT_S) -> list[ScrapedValue]:
    """The values of the metrics `names` at an endpoint.  Raises ScrapeError.

    All other lines are skipped before they are parsed, because an endpoint may have one for each
    partition of a cluster.
    """
    wanted = tuple(name.encode() for name in names)
    lines = [line for line in _lines(url, timeout_s) if line.startswith(wanted)]
    from prometheus_client.parser import text_string_to_metric_families

    try:
        text = b"".join(lines).decode()
        return [
            ScrapedValue(sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    except (ValueError, KeyError, IndexError) as problem:
        raise ScrapeError(f"{url}: not the text format of metrics: {problem}") from problem


def _lines(url: str, timeout_s: float) -> Iterator[bytes]:
    """The lines of a response, without those that are too long.  Raises ScrapeError."""
    split = urlsplit(url)
    if split.scheme not in ("http", "https") or split.hostname is None:
        raise ScrapeError(f"{url!r} is not a URL such as http://127.0.0.1:9404/metrics")
    kind = http.client.HTTPSConnection if split.scheme == "https" else http.client.HTTPConnection
    connection = kind(split.hostname, split.port, timeout=timeout_s)
    size_bytes = 0
    try:
        connection.request("GET", split.path or "/metrics", headers={"Accept": "text/plain"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise ScrapeError(f"{url}: {response.status} {response.reason}")
        while size_bytes < BODY_BYTES_MAX and (line := response.readline(LINE_BYTES_MAX)):
            size_bytes += len(line)
            if line.endswith(b"\n"):
                yield line
    except (OSError, http.client.HTTPException) as problem:
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        raise ScrapeError(f"{url}: {reason}") from problem
    finally:
        connection.close()
