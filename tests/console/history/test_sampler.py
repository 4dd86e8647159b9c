"""Samples of a cluster, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.groups import commit_offsets
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.codecs.messages.metadata import MetadataResponseTopic
from kwire.console.cluster.topics import known_topics
from kwire.console.history.sampler import (
    ERROR_RATE,
    GROUP_LAG,
    GROUP_RATE,
    REQUEST_RATE,
    REQUEST_TIME,
    TOPIC_RATE,
    TOPIC_SIZE,
    HistorySampler,
)
from kwire.console.history.series import SampleHistory, SeriesKey
from kwire.testing import BrokerProcess
from tests.console.history.endpoint import served


class Clock:
    """A time that the test sets, in ms."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def texts() -> list[str]:
    """The text of the endpoint, which a test may replace."""
    return [""]


@pytest.fixture
def endpoint(texts: list[str]) -> Iterator[str]:
    with served(lambda: texts[0]) as url:
        yield url


def topics_of(broker: BrokerProcess) -> Mapping[str, MetadataResponseTopic]:
    """The metadata of all topics now."""
    with Cluster(broker.bootstrap, timeout_s=60) as cluster:
        return known_topics(cluster).metadata


def write(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer(cluster)
    for _ in range(count):
        producer.send(topic, None, b"value", partition=0)
    producer.flush()


def test_rates_lag_and_sizes_follow_from_two_samples(
    shared_broker: BrokerProcess, unique: str
) -> None:
    clock, history = Clock(), SampleHistory()
    sampler = HistorySampler(lambda: Cluster(shared_broker.bootstrap, timeout_s=60), history, clock)
    with Cluster(shared_broker.bootstrap, timeout_s=60) as cluster:
        create_topic(cluster, unique, partitions=2)
        write(cluster, unique, 10)
        commit_offsets(cluster, unique, {TopicPartition(unique, 0): 4})
        sampler.sample(topics_of(shared_broker))
        clock.now_ms += 5000
        write(cluster, unique, 20)
        commit_offsets(cluster, unique, {TopicPartition(unique, 0): 9})
        sampler.sample(topics_of(shared_broker))
    sampler.close()
    assert sampler.trouble is None
    assert [point.value for point in history.points(SeriesKey(TOPIC_RATE, unique))] == [None, 4.0]
    assert [point.value for point in history.points(SeriesKey(GROUP_LAG, unique))] == [6.0, 21.0]
    assert [point.value for point in history.points(SeriesKey(GROUP_RATE, unique))] == [None, 1.0]
    latest = sampler.latest
    assert latest is not None
    assert latest.topics[unique].lags == {unique: 21}
    assert (latest.groups[unique].lag, latest.groups[unique].records_per_s) == (21, 1.0)
    size = history.points(SeriesKey(TOPIC_SIZE, unique))[0].value
    assert size is not None
    assert size > 0


def test_sampler_tells_its_trouble_and_goes_on_when_the_cluster_answers(
    shared_broker: BrokerProcess,
) -> None:
    addresses = iter(["127.0.0.1:1", shared_broker.bootstrap])
    sampler = HistorySampler(
        lambda: Cluster(next(addresses), timeout_s=60), SampleHistory(), Clock()
    )
    troubles = []
    for _ in range(2):
        sampler.sample(topics_of(shared_broker))
        troubles.append((sampler.trouble or "", sampler.latest is None))
    sampler.close()
    [(first, was_empty), second] = troubles
    assert "127.0.0.1:1" in first
    assert was_empty
    assert second == ("", False)


METRICS = """\
# HELP kafka_network_requestmetrics_requests_total Requests
# TYPE kafka_network_requestmetrics_requests_total counter
kafka_network_requestmetrics_requests_total{request="Fetch",version="17"} %d
kafka_network_requestmetrics_requests_total{request="Fetch",version="4"} 5
kafka_network_requestmetrics_requests_total{request="FetchConsumer",version="17"} 95
# TYPE kafka_network_requestmetrics_errors_total counter
kafka_network_requestmetrics_errors_total{request="Fetch",error="NONE"} 100
kafka_network_requestmetrics_errors_total{request="Fetch",error="NOT_LEADER_OR_FOLLOWER"} %d
# TYPE kafka_network_requestmetrics_totaltimems gauge
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 12.5
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.98"} 11
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} NaN
kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 105
kafka_log_log_size{topic="a",partition="0"} 77
"""


def test_request_rates_and_times_come_from_metrics_endpoints(
    shared_broker: BrokerProcess, endpoint: str, texts: list[str]
) -> None:
    clock, history = Clock(), SampleHistory()
    sampler = HistorySampler(
        lambda: Cluster(shared_broker.bootstrap, timeout_s=60), history, clock, lambda: [endpoint]
    )
    for count in (100, 150):
        texts[0] = METRICS % (count, count // 50)
        sampler.sample(topics_of(shared_broker))
        clock.now_ms += 5000
    sampler.close()
    assert sampler.metrics_trouble is None
    assert history.last(SeriesKey(REQUEST_RATE, "Fetch")) == 10.0
    assert history.last(SeriesKey(ERROR_RATE, "Fetch")) == 0.2
    assert history.last(SeriesKey(REQUEST_TIME, "Fetch", "0.99")) == 12.5
    assert history.keys(REQUEST_RATE) == [SeriesKey(REQUEST_RATE, "Fetch")]
    assert history.keys(REQUEST_TIME) == [SeriesKey(REQUEST_TIME, "Fetch", "0.99")]


def test_pause_grows_with_the_time_that_a_sample_takes(shared_broker: BrokerProcess) -> None:
    times = iter(range(0, 10_000_000, 2_000))  # two seconds for each look at the clock
    sampler = HistorySampler(
        lambda: Cluster(shared_broker.bootstrap, timeout_s=60), SampleHistory(), lambda: next(times)
    )
    assert sampler.pause_s == 5.0
    sampler.sample(topics_of(shared_broker))
    sampler.close()
    assert sampler.pause_s >= 4 * 2.0


def test_sample_waits_for_pages_before_each_step_and_the_wait_makes_no_longer_pause(
    shared_broker: BrokerProcess,
) -> None:
    clock, waits = Clock(), []

    def wait() -> None:
        waits.append(clock.now_ms)
        clock.now_ms += 60_000

    sampler = HistorySampler(
        lambda: Cluster(shared_broker.bootstrap, timeout_s=60),
        SampleHistory(),
        clock,
        wait_for_pages=wait,
    )
    sampler.sample(topics_of(shared_broker))
    sampler.close()
    assert len(waits) >= 3
    assert sampler.trouble is None
    assert sampler.pause_s == 5.0
