"""What `kwire top` computes from two samples."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.cli.operating.live.rows import TopGroup, TopTopic, TopView
from kwire.cli.operating.live.sample import BrokerMetrics
from kwire.cli.operating.live.screen_texts import OFFLINE_NAMED_MAX, problems_of
from kwire.cli.operating.live.view import view_of
from kwire.client.cluster import TopicPartition
from tests.cli.operating.live.samples import A0, A1, B0, group, metrics, sample


def topic(view: TopView, name: str) -> TopTopic:
    return next(each for each in view.topics if each.topic == name)


def only_group(view: TopView) -> TopGroup:
    (found,) = view.groups
    return found


def test_rates_are_differences_over_the_time_between_the_samples() -> None:
    view = view_of(sample(10, {A0: 100, A1: 0, B0: 7}), sample(12, {A0: 130, A1: 10, B0: 7}))
    assert (topic(view, "a").records_in_per_s, topic(view, "b").records_in_per_s) == (20.0, 0.0)
    assert [each.records_in_per_s for each in view.brokers] == [15.0, 5.0]
    assert (view.totals.records_in_per_s, view.interval_s) == (20.0, 2.0)


def test_topic_that_was_created_again_or_is_new_has_no_rate() -> None:
    view = view_of(sample(0, {A0: 100, A1: 100}), sample(1, {A0: 3, A1: 3, B0: 5}))
    assert topic(view, "a").records_in_per_s is None
    assert topic(view, "b").records_in_per_s is None


def test_size_counts_all_replicas_and_growth_may_be_negative() -> None:
    view = view_of(
        sample(0, {A0: 0}, sizes={A0: 100, B0: 50}), sample(2, {A0: 0}, sizes={A0: 60, B0: 90})
    )
    assert (topic(view, "a").size_bytes, topic(view, "b").size_bytes) == (120, 180)
    assert topic(view, "a").growth_bytes_per_s == -40.0
    assert view.totals.size_bytes == 300


def test_lag_is_the_distance_from_committed_offsets_to_the_ends() -> None:
    view = view_of(
        sample(0, {A0: 100, A1: 50, B0: 9}, group("g", {A0: 90, A1: 50})),
        sample(1, {A0: 110, A1: 90, B0: 9}, group("g", {A0: 95, A1: 60})),
    )
    row = only_group(view)
    assert (row.lag, row.worst, row.worst_lag) == (45, "a-1", 30)
    assert (row.read_per_s, row.lag_per_s, row.seconds_left) == (15.0, 35.0, None)
    assert (topic(view, "a").lag, topic(view, "a").groups) == (45, 1)
    assert (topic(view, "b").lag, topic(view, "b").groups) == (None, 0)
    assert view.totals.lag == 45


def test_group_that_catches_up_has_the_seconds_that_are_left() -> None:
    view = view_of(
        sample(0, {A0: 100}, group("g", {A0: 0})), sample(1, {A0: 100}, group("g", {A0: 20}))
    )
    row = only_group(view)
    assert (row.lag, row.lag_per_s, row.seconds_left) == (80, -20.0, 4.0)


def test_group_without_committed_offsets_has_no_lag() -> None:
    row = only_group(
        view_of(sample(0, {A0: 1}, group("g", {})), sample(1, {A0: 1}, group("g", {})))
    )
    assert (row.lag, row.read_per_s, row.worst) == (None, None, None)


def test_group_that_has_read_everything_is_behind_in_no_partition() -> None:
    """An offset may be committed after the end was asked for."""
    row = only_group(view_of(sample(0, {}), sample(1, {A0: 1}, group("g", {A0: 3}))))
    assert (row.lag, row.worst, row.worst_lag) == (0, None, None)


def test_lag_of_a_share_group_is_its_coordinators_where_it_knows_it() -> None:
    share = group("g", {A0: 0, A1: 0}, kind="share", lags={A0: 3})
    row = only_group(view_of(sample(0, {}), sample(1, {A0: 10, A1: 10}, share)))
    assert row.lag == 3 + 10


def test_reset_of_a_group_to_earlier_offsets_counts_as_no_movement() -> None:
    row = only_group(
        view_of(
            sample(0, {A0: 9, A1: 9}, group("g", {A0: 9, A1: 2})),
            sample(1, {A0: 9, A1: 9}, group("g", {A0: 0, A1: 5})),
        )
    )
    assert row.read_per_s == 3.0


def test_partitions_without_leader_or_with_few_in_sync_replicas_are_counted() -> None:
    after = sample(1, {}, leaders={A0: -1})
    after.progress.partitions[B0].isr_nodes = [1]
    totals = view_of(sample(0, {}), after).totals
    assert (totals.offline, totals.under_replicated, totals.partitions) == (1, 1, 3)


def test_broker_that_has_replicas_and_is_away_has_a_row() -> None:
    after = sample(1, {})
    del after.progress.nodes[2], after.progress.sizes[2]
    one, two = view_of(sample(0, {}), after).brokers
    assert (one.trouble, one.is_controller) == (None, True)
    assert (two.trouble, two.address, two.size_bytes) == ("absent", "-", None)


# -- with metrics

FIRST = """\
kafka_server_brokertopicmetrics_bytesin_total 100
kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 100
kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 10
kafka_network_requestmetrics_errors_total{request="Produce",error="NONE"} 10
process_cpu_seconds_total 1.0
"""
SECOND = """\
kafka_server_brokertopicmetrics_bytesin_total 300
kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 250
kafka_server_brokertopicmetrics_bytesin_total{topic="b"} 50
kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 20
kafka_network_requestmetrics_requests_total{request="Produce",version="10"} 2
kafka_network_requestmetrics_requests_total{request="FetchConsumer",version="17"} 4
kafka_network_requestmetrics_requests_total{request="Fetch",version="17"} 4
kafka_network_requestmetrics_errors_total{request="Produce",error="NONE"} 18
kafka_network_requestmetrics_errors_total{request="Produce",error="NOT_LEADER"} 4
kafka_network_requestmetrics_errors_total{request="Fetch",error="OFFSET_OUT_OF_RANGE"} 1
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.50"} 1.5
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 7
process_cpu_seconds_total 2.0
process_resident_memory_bytes 5000
process_open_fds 12
"""


def with_metrics(*brokers: int) -> TopView:
    return view_of(
        sample(0, {}, metrics={each: metrics(100.0, FIRST) for each in brokers}),
        sample(2, {}, metrics={each: metrics(102.0, SECOND) for each in brokers}),
    )


def test_metrics_give_byte_rates_of_brokers_and_topics() -> None:
    view = with_metrics(1, 2)
    assert [each.bytes_in_per_s for each in view.brokers] == [100.0, 100.0]
    assert topic(view, "a").bytes_in_per_s == 150.0
    assert topic(view, "b").bytes_in_per_s == 50.0
    assert view.totals.bytes_in_per_s == 200.0
    assert (view.with_metrics, view.totals.bytes_out_per_s) == (2, None)


def test_metrics_give_requests_by_api_with_each_fetch_counted_once() -> None:
    view = with_metrics(1)
    produce, fetch = sorted(view.requests, key=lambda row: -row.per_s)
    assert (produce.api, produce.per_s, produce.errors_per_s) == ("Produce", 6.0, 2.0)
    assert (produce.p50_ms, produce.p99_ms, produce.p999_ms) == (1.5, 7.0, None)
    assert (fetch.api, fetch.per_s, fetch.errors_per_s) == ("FetchConsumer", 2.0, 0.5)
    assert (view.brokers[0].requests_per_s, view.brokers[0].errors_per_s) == (8.0, 2.5)
    assert view.brokers[1].requests_per_s is None


def test_metrics_give_what_the_process_uses() -> None:
    row = with_metrics(1).brokers[0]
    assert (row.cpu_share, row.memory_bytes, row.open_files) == (0.5, 5000, 12)


def test_latency_of_a_cluster_is_that_of_the_slowest_broker() -> None:
    slower = SECOND.replace('quantile="0.99"} 7', 'quantile="0.99"} 70')
    view = view_of(
        sample(0, {}, metrics={1: metrics(0, FIRST), 2: metrics(0, FIRST)}),
        sample(2, {}, metrics={1: metrics(2, slower), 2: metrics(2, SECOND)}),
    )
    assert {each.p99_ms for each in view.requests if each.api == "Produce"} == {70.0}


def test_counter_that_fell_has_no_rate() -> None:
    """The broker was restarted."""
    view = view_of(
        sample(0, {}, metrics={1: metrics(0, SECOND)}),
        sample(2, {}, metrics={1: metrics(2, FIRST)}),
    )
    assert topic(view, "a").bytes_in_per_s is None
    assert view.brokers[0].bytes_in_per_s is None


def test_endpoint_that_fails_is_named_with_its_reason() -> None:
    view = view_of(sample(0, {}), sample(1, {}, metrics={1: BrokerMetrics(trouble="refused")}))
    assert (view.with_metrics, view.metrics_trouble) == (0, {1: "refused"})


REQUEST = {
    "at_ms": 1000_500, "name": "Produce", "version": 9, "client_id": "c", "principal": "User:a",
    "client_host": "10.0.0.1", "queue": 1e6, "local": 19e6, "remote": 0, "throttle": 0,
    "total": 20e6, "blamed": 20e6,
}  # fmt: skip
CLIENT = {
    "client_id": "c", "principal": "User:a", "client_host": "h", "requests": 50, "bytes_in": 100,
    "bytes_out": 0, "busy_ns": 1e9, "throttle_ns": 2e9,
}  # fmt: skip


def with_slow(*answers: dict[str, Any]) -> TopView:
    """What is shown if brokers 1, 2, ... give these answers to /slow."""
    found = {number: metrics(1, "", each) for number, each in enumerate(answers, 1)}
    return view_of(sample(0, {}), sample(1, {}, metrics=found))


def test_slowest_requests_of_all_brokers_are_sorted_without_the_waits_that_clients_want() -> None:
    fetch = {**REQUEST, "name": "FetchConsumer", "total": 500e6, "blamed": 1e6, "client_id": None}
    view = with_slow({"requests": [REQUEST]}, {"requests": [fetch]})
    first, second = view.slow
    assert (first.broker, first.blamed_ms, first.api, first.client) == (1, 20.0, "Produce", "c")
    assert first.seconds_ago == pytest.approx(0.5)
    assert first.phases_ms == {"queue": 1.0, "local": 19.0, "remote": 0.0, "throttle": 0.0}
    assert (second.broker, second.total_ms, second.client) == (2, 500.0, "")


def test_busiest_clients_of_all_brokers_have_rates_over_the_window() -> None:
    busier = {**CLIENT, "busy_ns": 5e9, "client_id": "d"}
    view = with_slow({"window_s": 10, "clients": [CLIENT]}, {"window_s": 10, "clients": [busier]})
    first, second = view.clients
    assert (first.client, first.broker, first.busy_share) == ("d", 2, 0.5)
    assert (second.requests_per_s, second.bytes_in_per_s) == (5.0, 10.0)
    assert (second.busy_share, second.throttled_ms_per_s) == (0.1, 200.0)


def test_clients_of_a_broker_that_has_just_started_have_no_rates() -> None:
    assert with_slow({"window_s": 0, "clients": [CLIENT]}).clients == []


def test_group_has_its_latest_rebalance_of_all_brokers() -> None:
    found = {
        number: metrics(1, "", {"rebalances": [{"group_id": "g", "reason": why, "at_ms": at_ms}]})
        for number, (why, at_ms) in enumerate(
            [("member a joins", 998_000), ("member a leaves", 999_000)], 1
        )
    }
    view = view_of(sample(0, {}), sample(1, {}, group("g", {}), group("h", {}), metrics=found))
    rows = {row.group: (row.rebalance_reason, row.rebalanced_s_ago) for row in view.groups}
    assert rows == {"g": ("member a leaves", 2.0), "h": (None, None)}


def test_partitions_without_a_leader_are_named_in_the_problems_up_to_a_limit() -> None:
    view = view_of(sample(0, {}), sample(1, {}, leaders={A1: -1}))
    assert view.offline == ["a-1"]
    assert problems_of(view) == ["1 partition offline: a-1"]
    many = {TopicPartition("c", number): -1 for number in range(OFFLINE_NAMED_MAX + 1)}
    view = view_of(sample(0, {}), sample(1, {}, leaders=many))
    assert problems_of(view) == ["6 partitions offline: c-0, c-1, c-2, c-3, c-4, ..."]
