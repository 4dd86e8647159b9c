"""Asks a metrics endpoint over HTTP, and reads what it answers."""

from __future__ import annotations

import email.utils
import http.client
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than a broker with 100,000 partitions answers."""
METRICS_PATH: Final = "/metrics"

_LABEL: Final = r'[a-zA-Z_]\w*="[^"\\]*"'
_LABELS: Final = re.compile(r'([a-zA-Z_]\w*)="([^"\\]*)"', re.ASCII).findall
_USUAL_LINE: Final = re.compile(
    rf"[^{{ ]+(?:\{{((?:{_LABEL}(?:,{_LABEL})*,?)?)\}})? ([-+.\deE]+|NaN|[-+]Inf)", re.ASCII
).fullmatch
"""A line without a backslash in a label, without a time, and without other spaces."""


class ScrapeFailed(Exception):
    """An endpoint cannot be reached, or does not answer as one."""


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """The body of a response, when it arrived, and the time of the server."""

    body: bytes
    at_s: float
    """Of time.monotonic()."""
    middle_s: float
    """Our time in the middle of the request, in seconds since 1970."""
    server_ahead_s: float | None
    """The header Date minus `middle_s`; it has whole seconds.  None without the header."""
    taken_s: float


@dataclass(frozen=True, slots=True)
class MetricValue:
    """One value of a metric."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class BrokerScrape:
    """The values of some metrics at one moment, by name."""

    at_s: float
    values: Mapping[str, list[MetricValue]] = field(default_factory=dict)
    server_ahead_s: float | None = None
    taken_s: float = 0.0
    middle_s: float = 0.0
    """Our time in the middle of the request, in seconds since 1970."""

    def of(self, name: str, **labels: str) -> Iterator[MetricValue]:
        """The samples of a metric that have these labels, whatever other labels they have."""
        for sample in self.values.get(name, ()):
            if all(sample.labels.get(key) == value for key, value in labels.items()):
                yield sample

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of such samples, or None if there is none."""
        found = [sample.value for sample in self.of(name, **labels)]
        return sum(found) if found else None


def get(url: str, path: str, timeout_s: float, *, allowed: Collection[int] = ()) -> EndpointAnswer:
    """The answer of an endpoint to GET, with the status 200 or one of `allowed`.

    Raises ScrapeFailed.

    No proxy of the environment is used: the endpoint is one of the brokers' machines.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ScrapeFailed(f"{url} is not like http://HOST:PORT")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname, parts.port, timeout=timeout_s)
    except ValueError as error:  # The port is no number.
        raise ScrapeFailed(f"{url} is not like http://HOST:PORT") from error
    try:
        start_s, start = time.time(), time.monotonic()
        connection.request("GET", parts.path.rstrip("/") + path, headers={"Connection": "close"})
        response = connection.getresponse()
        taken_s = time.monotonic() - start
        body = response.read(BODY_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise ScrapeFailed(f"{url}{path}: {reason.lower()}") from error
    finally:
        connection.close()
    if response.status not in (HTTPStatus.OK, *allowed):
        raise ScrapeFailed(f"{url}{path}: {response.status} {response.reason}")
    middle_s = start_s + taken_s / 2
    ahead_s = _ahead_s(response.getheader("Date"), middle_s)
    return EndpointAnswer(body, time.monotonic(), middle_s, ahead_s, taken_s)


def _ahead_s(date: str | None, now_s: float) -> float | None:
    """The time of a header Date minus `now_s`; it is the middle of the second that it names."""
    try:
        moment = None if date is None else email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None
    return None if moment is None else moment.timestamp() + 0.5 - now_s


def scrape(url: str, names: Collection[str], timeout_s: float) -> BrokerScrape:
    """The values of the metrics `names` of an endpoint.  Raises ScrapeFailed.

    The endpoint is asked for these only.  One that does not know the parameter `name[]` gives all.
    """
    return _scraped(url, METRICS_PATH, names, timeout_s)


def scrape_page(url: str, names: Collection[str], timeout_s: float) -> BrokerScrape:
    """As `scrape`, from the URL of the metrics themselves, such as that of a JMX exporter.

    A URL without a path means `/metrics`.
    """
    return _scraped(url, "" if urlsplit(url).path.strip("/") else METRICS_PATH, names, timeout_s)


def _scraped(url: str, path: str, names: Collection[str], timeout_s: float) -> BrokerScrape:
    query = urlencode([("name[]", name) for name in sorted(names)])
    answer = get(url, f"{path}?{query}", timeout_s)
    try:
        values = parse(answer.body.decode(), names)
    except (ValueError, KeyError, IndexError) as error:  # as prometheus_client's parser raises
        raise ScrapeFailed(f"{url}{path} is not Prometheus' text: {error}") from error
    return BrokerScrape(answer.at_s, values, answer.server_ahead_s, answer.taken_s, answer.middle_s)


def parse(text: str, names: Collection[str]) -> dict[str, list[MetricValue]]:
    """The values of the metrics `names` in Prometheus' text format.  Raises ValueError.

    An endpoint has several lines for each partition, and the usual ones are read here, because
    prometheus_client takes four times as long for them.
    """
    values: dict[str, list[MetricValue]] = {}
    unusual: list[str] = []
    for line in text.split("\n"):
        name = _name_of(line)
        if name not in names:
            continue
        usual = _USUAL_LINE(line)
        if usual is None:
            unusual.append(line)
        else:
            found = MetricValue(dict(_LABELS(usual[1] or "")), float(usual[2]))
            values.setdefault(name, []).append(found)
    if unusual:
        from prometheus_client.parser import text_string_to_metric_families

        for family in text_string_to_metric_families("\n".join([*unusual, ""])):
            for sample in family.samples:
                found = MetricValue(sample.labels, float(sample.value))
                values.setdefault(sample.name, []).append(found)
    return values


def _name_of(line: str) -> str:
    """The name of the metric in a line; that of a comment is no name of a metric."""
    return line.partition("{")[0].partition(" ")[0]


def not_ready(url: str, timeout_s: float) -> list[str]:
    """Why a broker of kwire is not ready for clients, as its endpoint `/readyz` says; empty if it
    is.  Raises ScrapeFailed, also if the endpoint is not kwire's."""
    answer = get(url, "/readyz", timeout_s, allowed=(HTTPStatus.SERVICE_UNAVAILABLE,))
    try:
        reasons = json.loads(answer.body)["reasons"]
    except (ValueError, KeyError, TypeError) as error:
        raise ScrapeFailed(f"{url}/readyz has no reasons") from error
    return [str(each) for each in reasons]


def slow(url: str, timeout_s: float) -> dict[str, Any]:
    """The slowest requests and the busiest clients of a broker, and why its groups rebalanced last,
    as its endpoint `/slow` has them.

    Raises ScrapeFailed.
    """
    answer = get(url, "/slow", timeout_s)
    try:
        found = json.loads(answer.body)
    except ValueError as error:
        raise ScrapeFailed(f"{url}/slow is not JSON") from error
    if not isinstance(found, dict):
        raise ScrapeFailed(f"{url}/slow is not a JSON object")
    return found
