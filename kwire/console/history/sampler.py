"""Asks a cluster for its rates, lag, sizes and latencies, and adds them to the history.

A sample costs the brokers some requests for each 2,000 partitions and each 200 groups.  The pause
after a sample is at least four times as long as the sample took, so that samples take a fifth of
the time at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.errors import ClientError
from kwire.client.inspection.many_groups import (
    PARTITIONS_AT_ONCE,
    GroupPositions,
    Listed,
    ListedGroups,
    known_end_offsets,
    listed_groups,
    positions_of,
    with_lag,
)
from kwire.client.inspection.survey import from_each, sizes_on
from kwire.client.metrics.scrape import MetricValue, ScrapeFailed, scrape_page
from kwire.codecs.messages.metadata import MetadataResponseTopic
from kwire.console.history.in_flight import TIMEOUT_S
from kwire.console.history.series import SampleHistory, SeriesKey

INTERVAL_S: Final = 5.0
SHARE_MAX: Final = 0.2
"""The most of the time that samples take."""
METADATA_INTERVAL_S: Final = 10.0
"""How old the metadata of all topics are when a sample begins."""
SIZES_INTERVAL_MS: Final = 60_000
"""How old the sizes become; a broker walks all of its logs for them."""

TOPIC_RATE: Final = "topic-rate"
"""Records per second that are written to a topic."""
TOPIC_SIZE: Final = "topic-size"
"""Bytes of all replicas of a topic."""
CLUSTER_RATE: Final = "cluster-rate"
"""Records per second that are written to all topics."""
CLUSTER_SIZE: Final = "cluster-size"
BROKER_SIZE: Final = "broker-size"
"""Bytes of all replicas on a broker."""
GROUP_LAG: Final = "group-lag"
"""Records that a group has not read yet, of all of its topics or of one (`part`)."""
GROUP_RATE: Final = "group-rate"
"""Records per second that a group commits."""
REQUEST_RATE: Final = "request-rate"
"""Requests per second, by API, of all endpoints."""
ERROR_RATE: Final = "error-rate"
"""Error codes in responses per second, by API, of all endpoints."""
REQUEST_TIME: Final = "request-time"
"""The time of requests in ms, by API and quantile: the highest of all endpoints."""

REQUESTS_TOTAL: Final = "kafka_network_requestmetrics_requests_total"
ERRORS_TOTAL: Final = "kafka_network_requestmetrics_errors_total"
NO_ERROR: Final = "NONE"
"""The label `error` of responses without an error, which are counted as well."""
REQUEST_TIME_MS: Final = "kafka_network_requestmetrics_totaltimems"
SCRAPED: Final = (REQUESTS_TOTAL, ERRORS_TOTAL, REQUEST_TIME_MS)
PARTS_OF_FETCH: Final = ("FetchConsumer", "FetchFollower")
"""Names of requests that are counted as Fetch, too."""
QUANTILES: Final = ("0.5", "0.99")


class TopicNow(NamedTuple):
    """The last sample of a topic; None stands for what is unknown."""

    records_per_s: float | None
    size_bytes: int | None
    lags: Mapping[str, int | None]
    """The lag of each group that has an offset in the topic."""


class GroupNow(NamedTuple):
    """The last sample of a group."""

    listed: Listed
    lag: int | None
    records_per_s: float | None
    lags: Mapping[str, int | None]
    """The lag by topic."""


@dataclass(frozen=True, slots=True)
class LatestSample:
    """The last sample, for lists that would be slow if they asked the cluster."""

    time_ms: int
    topics: Mapping[str, TopicNow]
    groups: Mapping[str, GroupNow]


@dataclass(slots=True)
class _CountersBefore:
    """Counters of the sample before: rates are their differences."""

    time_ms: int = 0
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    committed: Mapping[str, GroupPositions] = field(default_factory=dict)
    requests: Mapping[SeriesKey, float] = field(default_factory=dict)
    """Requests and errors, by the series of their rate."""


class HistorySampler:
    """Samples one cluster.  Only one thread at a time may call `sample`."""

    def __init__(
        self,
        connect: Callable[[], Cluster],
        history: SampleHistory,
        now_ms: Callable[[], int],
        metrics_urls: Callable[[], Sequence[str]] = tuple,
        wait_for_pages: Callable[[], None] = lambda: None,
    ) -> None:
        """`connect` returns a new cluster, which belongs to the sampler.

        `metrics_urls` returns the endpoints of brokers that are known now, which have request
        times.  `wait_for_pages` is called before each step of a sample, and returns when the step
        may begin.
        """
        self.history = history
        self.latest: LatestSample | None = None
        self.trouble: str | None = None
        """Why the last sample failed, or None."""
        self.metrics_trouble: str | None = None
        """Why the last scrape failed, or None."""
        self._metrics_urls = metrics_urls
        self._connect = connect
        self._now_ms = now_ms
        self._wait_for_pages = wait_for_pages
        self._waited_ms = 0
        self._cluster: Cluster | None = None
        self._before = _CountersBefore()
        self._sizes_ms: int | None = None
        self._sizes: dict[int, dict[TopicPartition, int]] = {}

    def sample(self, topics: Mapping[str, MetadataResponseTopic]) -> None:
        """Take one sample of the topics with these metadata, by name.

        A failure is kept in `trouble`, and the next sample starts anew.
        """
        try:
            self._sample(topics)
            self.trouble = None
        except ClientError as error:
            self.trouble = str(error)
            self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = None

    @property
    def pause_s(self) -> float:
        """How long to wait before the next sample."""
        return max(INTERVAL_S, self._took_s * (1 / SHARE_MAX - 1))

    _took_s = 0.0

    def _sample(self, topics: Mapping[str, MetadataResponseTopic]) -> None:
        start_ms, self._waited_ms = self._now_ms(), 0
        cluster = self._connected(topics)
        self._let_pages_pass()
        groups = listed_groups(cluster)
        found = positions_of(cluster, groups.groups)
        positions = {name: each for name, each in found.items() if isinstance(each, dict)}
        ends = self._end_offsets(cluster)
        time_ms = self._now_ms()
        sizes_are_old = self._sizes_ms is None or time_ms - self._sizes_ms >= SIZES_INTERVAL_MS
        if sizes_are_old:
            self._let_pages_pass()
            self._measure_sizes(cluster)
            self._sizes_ms = time_ms
        self._let_pages_pass()
        lags = {name: with_lag(each, ends) for name, each in positions.items()}
        self.latest = self._summed(time_ms, cluster, groups, lags, ends)
        requests, values = self._scrape(time_ms)
        values |= _series_of(self.latest)
        values[SeriesKey(CLUSTER_RATE)] = _sum(
            each.records_per_s for each in self.latest.topics.values()
        )
        if sizes_are_old:
            values |= self._series_of_sizes(self.latest)
        self.history.add(time_ms, values)
        self._before = _CountersBefore(time_ms, ends, positions, requests)
        self._took_s = (self._now_ms() - start_ms - self._waited_ms) / 1000

    def _connected(self, topics: Mapping[str, MetadataResponseTopic]) -> Cluster:
        """The cluster, with these metadata of topics."""
        if self._cluster is None:
            self._cluster = self._connect()
        self._cluster.topics = dict(topics)
        return self._cluster

    def _let_pages_pass(self) -> None:
        """Wait for the pages that are being made; the wait is no part of what a sample takes."""
        start_ms = self._now_ms()
        self._wait_for_pages()
        self._waited_ms += self._now_ms() - start_ms

    def _end_offsets(self, cluster: Cluster) -> dict[TopicPartition, int]:
        """The end offsets of all partitions, in steps between which pages are made."""
        found: dict[TopicPartition, int] = {}
        partitions = _partitions(cluster.topics)
        while some := list(islice(partitions, PARTITIONS_AT_ONCE)):
            self._let_pages_pass()
            found |= known_end_offsets(cluster, some)
        return found

    def _measure_sizes(self, cluster: Cluster) -> None:
        """Asks all brokers for the sizes of their replicas; those that fail keep the old ones."""
        for node_id, result in from_each(cluster, lambda _, broker: sizes_on(broker)).items():
            if not isinstance(result, ClientError):
                self._sizes[node_id] = result.size_bytes
        self._sizes = {node: each for node, each in self._sizes.items() if node in cluster.nodes}

    def _summed(
        self,
        time_ms: int,
        cluster: Cluster,
        groups: ListedGroups,
        lags: Mapping[str, GroupPositions],
        ends: Mapping[TopicPartition, int],
    ) -> LatestSample:
        """The sample by topic and by group."""
        seconds = (time_ms - self._before.time_ms) / 1000 if self._before.time_ms else None
        rates = _rates_by_topic(self._before.ends, ends, seconds)
        sizes: dict[str, int] = {}
        for of_broker in self._sizes.values():
            for place, size_bytes in of_broker.items():
                sizes[place.topic] = sizes.get(place.topic, 0) + size_bytes
        by_topic: dict[str, dict[str, int | None]] = {}
        by_group: dict[str, GroupNow] = {}
        for listed in groups.groups:
            own = lags.get(listed.group_id, {})
            topic_lags = _lags_by_topic(own)
            for topic, lag in topic_lags.items():
                by_topic.setdefault(topic, {})[listed.group_id] = lag
            known = [lag for lag in topic_lags.values() if lag is not None]
            rate = _progress(self._before.committed.get(listed.group_id), own, seconds)
            by_group[listed.group_id] = GroupNow(
                listed, sum(known) if known else None, rate, topic_lags
            )
        topics = {
            name: TopicNow(rates.get(name), sizes.get(name), by_topic.get(name, {}))
            for name in cluster.topics
        }
        return LatestSample(time_ms, topics, by_group)

    def _series_of_sizes(self, latest: LatestSample) -> dict[SeriesKey, float | None]:
        by_broker = {node_id: sum(each.values()) for node_id, each in self._sizes.items()}
        values: dict[SeriesKey, float | None] = {
            SeriesKey(TOPIC_SIZE, name): each.size_bytes for name, each in latest.topics.items()
        }
        values |= {SeriesKey(BROKER_SIZE, str(node)): size for node, size in by_broker.items()}
        values[SeriesKey(CLUSTER_SIZE)] = sum(by_broker.values())
        return values

    def _scrape(self, time_ms: int) -> tuple[dict[SeriesKey, float], dict[SeriesKey, float | None]]:
        """The counts of requests and of errors, and the values of the request series."""
        counts: list[MetricValue] = []
        errors: list[MetricValue] = []
        times: list[MetricValue] = []
        self.metrics_trouble = None
        for url in self._metrics_urls():
            try:
                scraped = scrape_page(url, SCRAPED, TIMEOUT_S)
            except ScrapeFailed as error:
                self.metrics_trouble = str(error)
                continue
            counts += scraped.of(REQUESTS_TOTAL)
            errors += scraped.of(ERRORS_TOTAL)
            times += scraped.of(REQUEST_TIME_MS)
        requests: dict[SeriesKey, float] = {}
        failed = [
            MetricValue(each.labels, 0.0 if each.labels.get("error") == NO_ERROR else each.value)
            for each in errors
        ]
        for kind, counted in ((REQUEST_RATE, counts), (ERROR_RATE, failed)):
            for api, _, value in _by_request(counted):
                key = SeriesKey(kind, api)
                requests[key] = requests.get(key, 0.0) + value
        values: dict[SeriesKey, float | None] = {}
        for api, quantile, value in _by_request(times):
            if quantile in QUANTILES:
                key = SeriesKey(REQUEST_TIME, api, quantile)
                values[key] = max(values.get(key) or 0.0, value)
        if self._before.time_ms:
            seconds = (time_ms - self._before.time_ms) / 1000
            # A counter that is new began at 0 after the last scrape, if there was one.
            unseen = 0.0 if self._before.requests else None
            for key, count in requests.items():
                before = self._before.requests.get(key, unseen)
                if before is not None and count >= before and seconds > 0:
                    values[key] = (count - before) / seconds
        return requests, values


def _by_request(values: Iterable[MetricValue]) -> Iterator[tuple[str, str, float]]:
    """The API, the quantile (empty without one) and the value of each that counts.

    NaN stands for an API without requests lately.
    """
    for each in values:
        api = each.labels.get("request", "")
        if not math.isnan(each.value) and api not in PARTS_OF_FETCH:
            yield api, each.labels.get("quantile", ""), each.value


def _partitions(topics: Mapping[str, MetadataResponseTopic]) -> Iterator[TopicPartition]:
    for name, topic in topics.items():
        for each in topic.partitions:
            yield TopicPartition(name, each.partition_index)


def _rates_by_topic(
    before: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], seconds: float | None
) -> dict[str, float]:
    """Records per second by topic, of the partitions that both samples have.

    A topic that was deleted and created again has smaller offsets, and gets no rate.
    """
    if not seconds:
        return {}
    written: dict[str, int] = {}
    for partition, end in ends.items():
        if partition in before:
            added = end - before[partition]
            written[partition.topic] = written.get(partition.topic, 0) + added
    return {topic: count / seconds for topic, count in written.items() if count >= 0}


def _progress(
    before: GroupPositions | None, now: GroupPositions, seconds: float | None
) -> float | None:
    """Records per second by which a group went on; None if it went back."""
    if before is None or not seconds:
        return None
    done = 0
    for partition, position in now.items():
        earlier = before.get(partition)
        if earlier is not None and earlier.offset is not None and position.offset is not None:
            done += position.offset - earlier.offset
    return done / seconds if done >= 0 else None


def _lags_by_topic(positions: GroupPositions) -> dict[str, int | None]:
    """The lag by topic; None where it is unknown for all partitions."""
    found: dict[str, int | None] = {}
    for partition, position in positions.items():
        before = found.setdefault(partition.topic, None)
        if position.lag is not None:
            found[partition.topic] = (before or 0) + position.lag
    return found


def _series_of(latest: LatestSample) -> dict[SeriesKey, float | None]:
    values: dict[SeriesKey, float | None] = {
        SeriesKey(TOPIC_RATE, name): each.records_per_s for name, each in latest.topics.items()
    }
    for name, group in latest.groups.items():
        values[SeriesKey(GROUP_LAG, name)] = group.lag
        values[SeriesKey(GROUP_RATE, name)] = group.records_per_s
        if len(group.lags) > 1:  # the lag of a group with one topic is that of the topic
            values |= {SeriesKey(GROUP_LAG, name, topic): lag for topic, lag in group.lags.items()}
    return values


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
