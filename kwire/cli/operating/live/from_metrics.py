"""The rows of `kwire top` that come from metrics endpoints.  No I/O.

The names of metrics are those of Prometheus's JMX exporter for Apache Kafka, so the endpoint of
Apache Kafka with that agent gives the same rows, but for `/slow`, which only kwire has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kwire.cli.operating.live.rows import TopClient, TopRequest, TopSlowest
from kwire.cli.operating.live.sample import TopSample

if TYPE_CHECKING:
    from kwire.client.metrics.scrape import BrokerScrape

BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"
REQUESTS: Final = "kafka_network_requestmetrics_requests_total"
ERRORS: Final = "kafka_network_requestmetrics_errors_total"
TIMES_MS: Final = "kafka_network_requestmetrics_totaltimems"
CONNECTIONS: Final = "kafka_server_socket_server_metrics_connection_count"
CPU_S: Final = "process_cpu_seconds_total"
MEMORY: Final = "process_resident_memory_bytes"
OPEN_FILES: Final = "process_open_fds"
NAMES: Final = frozenset(
    {BYTES_IN, BYTES_OUT, REQUESTS, ERRORS, TIMES_MS, CONNECTIONS, CPU_S, MEMORY, OPEN_FILES}
)
"""All metrics that are read."""
NO_ERROR: Final = "NONE"
"""The label `error` of responses without an error, which are counted as well."""
FETCH: Final = "Fetch"
FETCHES: Final = frozenset({"FetchConsumer", "FetchFollower"})
"""Apache Kafka counts each fetch twice: as Fetch, and as one of these."""
PHASES: Final = ("queue", "local", "remote", "throttle")
"""The fields of a request in `/slow` that say where its time went, in ns."""
NS_PER_MS: Final = 1e6
NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class TopicRates:
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class BrokerRates:
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    requests_per_s: float | None = None
    errors_per_s: float | None = None
    connections: int | None = None
    cpu_share: float | None = None
    memory_bytes: int | None = None
    open_files: int | None = None


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two scrapes of one broker."""

    broker: int
    old: BrokerScrape
    new: BrokerScrape

    def rates(self, name: str, label: str) -> dict[str, float]:
        """The rate of a counter by the value of a label; "" where it has no such label.

        A counter that is new began at 0 after the first scrape.  One that fell has no rate.
        """
        before, after = _sums(self.old, name, label), _sums(self.new, name, label)
        interval_s = self.new.at_s - self.old.at_s
        if interval_s <= 0:
            return {}
        differences = {key: value - before.get(key, 0.0) for key, value in after.items()}
        return {key: each / interval_s for key, each in differences.items() if each >= 0}


def _sums(scrape: BrokerScrape, name: str, label: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for sample in scrape.of(name):
        key = sample.labels.get(label, "")
        sums[key] = sums.get(key, 0.0) + sample.value
    return sums


def _pairs(before: TopSample, after: TopSample) -> Iterator[_Pair]:
    """Yield the scrapes of each broker that has both."""
    for broker_id, metrics in after.metrics.items():
        earlier = before.metrics.get(broker_id)
        if earlier is not None and earlier.scrape is not None and metrics.scrape is not None:
            yield _Pair(broker_id, earlier.scrape, metrics.scrape)


def _total(rates: Mapping[str, float]) -> float | None:
    """The rate of all topics together: the counter without a label, or else their sum."""
    if not rates:
        return None
    return rates[""] if "" in rates else sum(rates.values())


def topic_rates(before: TopSample, after: TopSample) -> dict[str, TopicRates]:
    """The byte rates of topics, of all brokers together."""
    bytes_in: dict[str, float] = {}
    bytes_out: dict[str, float] = {}
    for pair in _pairs(before, after):
        for name, sums in ((BYTES_IN, bytes_in), (BYTES_OUT, bytes_out)):
            for topic, rate in pair.rates(name, "topic").items():
                sums[topic] = sums.get(topic, 0.0) + rate
    return {
        topic: TopicRates(bytes_in.get(topic), bytes_out.get(topic))
        for topic in bytes_in.keys() | bytes_out.keys()
        if topic
    }


def broker_rates(before: TopSample, after: TopSample) -> dict[int, BrokerRates]:
    """What the metrics of each broker say about it."""
    return {
        pair.broker: BrokerRates(
            _total(pair.rates(BYTES_IN, "topic")),
            _total(pair.rates(BYTES_OUT, "topic")),
            _all_requests(pair.rates(REQUESTS, "request")),
            _errors(pair),
            _whole(pair.new.total(CONNECTIONS)),
            _total(pair.rates(CPU_S, "")),
            _whole(pair.new.total(MEMORY)),
            _whole(pair.new.total(OPEN_FILES)),
        )
        for pair in _pairs(before, after)
    }


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def _all_requests(rates: Mapping[str, float]) -> float | None:
    """The rate of all requests, each fetch counted once."""
    if not rates:
        return None
    return sum(rate for name, rate in rates.items() if name not in _twice(rates))


def _twice(names: Iterable[str]) -> set[str]:
    """The name that counts again what other names count."""
    return {FETCH} if FETCHES.intersection(names) else set()


def _errors(pair: _Pair) -> float | None:
    """The rate of error codes in responses, or None if the endpoint does not count them."""
    rates = pair.rates(ERRORS, "error")
    return sum(rate for code, rate in rates.items() if code != NO_ERROR) if rates else None


def request_rows(before: TopSample, after: TopSample) -> list[TopRequest]:
    """The requests of all brokers with metrics, by API key."""
    per_s: dict[str, float] = {}
    errors: dict[str, float] = {}
    times: dict[str, dict[float, float]] = {}
    for pair in _pairs(before, after):
        for api, rate in pair.rates(REQUESTS, "request").items():
            per_s[api] = per_s.get(api, 0.0) + rate
        for api, rate in _error_rates(pair).items():
            errors[api] = errors.get(api, 0.0) + rate
        for api, quantile, value in _quantiles(pair.new):
            slowest = times.setdefault(api, {})
            slowest[quantile] = max(slowest.get(quantile, 0.0), value)
    _move_errors_of_fetches(errors, per_s)
    rows = []
    for api, rate in per_s.items():
        own = times.get(api, {})
        if api not in _twice(per_s):
            rows.append(
                TopRequest(
                    api, rate, errors.get(api, 0.0), own.get(0.5), own.get(0.99), own.get(0.999)
                )
            )
    return rows


def _move_errors_of_fetches(errors: dict[str, float], names: Iterable[str]) -> None:
    """Give the errors of fetches, which count for all of them together, to those of consumers.

    If there are none, they are those of followers.
    """
    parts = sorted(FETCHES.intersection(names))
    if parts and FETCH in errors:
        errors[parts[0]] = errors.get(parts[0], 0.0) + errors.pop(FETCH)


def _error_rates(pair: _Pair) -> dict[str, float]:
    """The rate of errors of each API key."""
    interval_s = pair.new.at_s - pair.old.at_s
    before, after = _failures(pair.old), _failures(pair.new)
    return {
        api: (count - before.get(api, 0.0)) / interval_s
        for api, count in after.items()
        if interval_s > 0 and count >= before.get(api, 0.0)
    }


def _failures(scrape: BrokerScrape) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample in scrape.of(ERRORS):
        if sample.labels.get("error") != NO_ERROR:
            api = sample.labels.get("request", "")
            found[api] = found.get(api, 0.0) + sample.value
    return found


def _quantiles(scrape: BrokerScrape) -> Iterator[tuple[str, float, float]]:
    """Yield (API, quantile, ms)."""
    for sample in scrape.of(TIMES_MS):
        quantile = sample.labels.get("quantile")
        if quantile is not None:
            yield sample.labels.get("request", ""), float(quantile), sample.value


# -- /slow


def slow_rows(after: TopSample) -> list[TopSlowest]:
    """The slowest requests of all brokers, the slowest first.

    They are compared without the time that their client wanted them to wait.
    """
    rows = [
        TopSlowest(
            broker_id,
            _ms(each, "total"),
            _ms(each, "blamed"),
            _text(each, "name"),
            _whole(_number(each, "version")),
            _text(each, "client_id"),
            _text(each, "principal"),
            _text(each, "client_host"),
            max(0.0, after.time_s - _number(each, "at_ms") / 1000),
            {phase: _ms(each, phase) for phase in PHASES},
        )
        for broker_id, each, _ in _entries(after, "requests")
    ]
    return sorted(rows, key=lambda row: -row.blamed_ms)


def client_rows(after: TopSample) -> list[TopClient]:
    """The busiest clients of all brokers, those first that take most of a broker's time."""
    rows = [
        TopClient(
            broker_id,
            _text(each, "client_id"),
            _text(each, "principal"),
            _text(each, "client_host"),
            _number(each, "requests") / window_s,
            _number(each, "bytes_in") / window_s,
            _number(each, "bytes_out") / window_s,
            _number(each, "busy_ns") / NS_PER_S / window_s,
            _ms(each, "throttle_ns") / window_s,
        )
        for broker_id, each, window_s in _entries(after, "clients")
        if window_s > 0
    ]
    return sorted(rows, key=lambda row: -row.busy_share)


def _entries(after: TopSample, field: str) -> Iterator[tuple[int, Mapping[str, Any], float]]:
    """Yield (broker, entry, seconds that the entries are about)."""
    for broker_id, metrics in sorted(after.metrics.items()):
        for each in metrics.slow.get(field, ()):
            yield broker_id, each, _number(metrics.slow, "window_s")


def _number(entry: Mapping[str, Any], field: str) -> float:
    """A number of an entry; 0 if an older broker does not have it."""
    value = entry.get(field)
    return float(value) if isinstance(value, int | float) else 0.0


def _ms(entry: Mapping[str, Any], field: str) -> float:
    """A time of an entry, which is in ns, in ms."""
    return _number(entry, field) / NS_PER_MS


def _text(entry: Mapping[str, Any], field: str) -> str:
    value = entry.get(field)
    return "" if value is None else str(value)
