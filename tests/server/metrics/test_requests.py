"""What meters have counted, as metrics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kwire.broker.broker import Broker
from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import ProduceResponse
from kwire.server.metrics.collecting import requests
from kwire.server.metrics.meters import FETCH_CONSUMER, FETCH_FOLLOWER, Meters
from kwire.server.metrics.samples import Samples
from tests.server.metrics.measured_broker import measured_broker
from tests.server.metrics.scraping import Scraped
from tests.server.network.test_connection import TOPIC, connected, produce

METRICS = "kafka_network_requestmetrics_"
MS = 1_000_000


def collected(meters: Meters) -> Scraped:
    samples = Samples()
    for _ in requests.collect(meters, samples):
        pass
    return Scraped(samples)


def test_requests_are_counted_by_version_and_errors_by_name() -> None:
    meters = Meters()
    produce = meters.request("Produce")
    produce.versions.update({9: 3, 13: 1})
    produce.errors.update({0: 4, int(ErrorCode.NOT_LEADER_OR_FOLLOWER): 2})
    produce.shortcuts, produce.response_bytes = 2, 500
    found = collected(meters)
    assert found.all_of(f"{METRICS}requests_total") == {("Produce", "9"): 3, ("Produce", "13"): 1}
    assert found.all_of(f"{METRICS}errors_total") == {
        ("Produce", "NONE"): 4,
        ("Produce", "NOT_LEADER_OR_FOLLOWER"): 2,
    }
    assert found.of("kwire_shortcut_requests_total", "Produce") == 2
    assert found.of("kwire_response_bytes_total", "Produce") == 500


def test_times_are_in_ms_and_count_all_requests() -> None:
    meters = Meters()
    produce = meters.request("Produce")
    produce.versions[9] = 10  # of which two are timed
    for total_ns in (2 * MS, 4 * MS):
        produce.local.observe(MS)
        produce.total.observe(total_ns)
    found = collected(meters)
    quantiles = found.all_of(f"{METRICS}totaltimems")
    assert quantiles["Produce", "0.5"] == pytest.approx(2, rel=0.07)
    assert quantiles["Produce", "0.999"] == pytest.approx(4, rel=0.07)
    assert found.of(f"{METRICS}totaltimems_count", "Produce") == 10
    assert found.of(f"{METRICS}totaltimems_sum", "Produce") == 6
    assert found.all_of(f"{METRICS}throttletimems")["Produce", "0.99"] == 0


def test_fetches_of_consumers_and_followers_are_given_together_too() -> None:
    meters = Meters()
    for name, version, count in ((FETCH_CONSUMER, 17, 3), (FETCH_FOLLOWER, 17, 2)):
        meters.request(name).versions[version] = count
        meters.request(name).request_bytes.observe(20)
        meters.request(name).errors[ErrorCode.OFFSET_OUT_OF_RANGE] = count
    found = collected(meters)
    assert found.all_of(f"{METRICS}requests_total") == {
        ("FetchConsumer", "17"): 3,
        ("FetchFollower", "17"): 2,
        ("Fetch", "17"): 5,
    }
    assert found.all_of(f"{METRICS}errors_total") == {("Fetch", "OFFSET_OUT_OF_RANGE"): 5}
    assert found.of(f"{METRICS}requestbytes_sum", "Fetch") == 40


def test_topics_are_given_each_and_together_also_those_that_are_gone() -> None:
    meters = Meters()
    for name, count in (("t", 5), ("u", 7)):
        meters.topic(name).messages_in = count
    meters.fold()  # the broker hosts none of them any more
    meters.topic("t").messages_in = 5
    found = collected(meters)
    values = found.all_of("kafka_server_brokertopicmetrics_messagesin_total")
    assert values == {("",): 17, ("t",): 5}


def test_listener_gives_its_connections_and_logins() -> None:
    meters = Meters()
    listener = meters.listener("SASL")
    listener.opened, listener.closed, listener.refused = 5, 2, 1
    listener.logins, listener.failed_logins = 4, 3
    found = collected(meters)
    metrics = "kafka_server_socket_server_metrics_"
    assert found.of(f"{metrics}connection_count", "SASL", "0") == 3
    assert found.of(f"{metrics}connection_creation_total", "SASL", "0") == 5
    assert found.of(f"{metrics}successful_authentication_total", "SASL", "0") == 4
    assert found.of(f"{metrics}failed_authentication_total", "SASL", "0") == 3
    assert found.of("kwire_refused_connections_total", "SASL") == 1


def test_disk_and_loop_are_in_the_units_of_their_names() -> None:
    meters = Meters()
    meters.disk.flush.observe(5 * MS)
    meters.disk.append.observe(2 * MS)
    meters.loop.woke(0, 250 * MS)
    found = collected(meters)
    assert found.of("kafka_log_logflushstats_logflushrateandtimems_sum") == 5
    assert found.of("kwire_disk_append_seconds_sum") == 0.002
    assert found.of("kwire_loop_stalls_total") == 1
    assert found.of("kwire_loop_stalled_seconds_total") == 0.25
    assert found.of("kwire_loop_longest_stall_seconds") == 0.25


async def test_refused_batches_and_records_are_counted_by_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with measured_broker(tmp_path, monkeypatch) as measured:
        client = await connected(measured.broker)
        request = produce()
        batch = build([Record(0, Broker.now_ms(), b"k", b"v")])
        batch[-1] ^= 1
        request.topic_data[0].partition_data[0].records = bytes(batch)
        await client.ask(request, 9, ProduceResponse)
        log = measured.broker.hosted.led(TOPIC, 0).log
        log.update_config(replace(log.config, cleanup_policy=frozenset({"compact"})))
        batch = build(
            [Record(at, Broker.now_ms(), key, b"v") for at, key in enumerate((None, b"k", None))]
        )
        request.topic_data[0].partition_data[0].records = bytes(batch)
        await client.ask(request, 9, ProduceResponse)
        found = collected(measured.metrics.meters)
        topics = "kafka_server_brokertopicmetrics_"
        assert found.of(f"{topics}invalidmessagecrcrecords_total") == 1
        assert found.of(f"{topics}nokeycompactedtopicrecords_total") == 2


async def test_memory_pool_gives_what_is_used_and_what_is_left_of_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = "kafka_network_socketserver_memorypool"
    settings = {"queued.max.request.bytes": "1000", "socket.request.max.bytes": "1000"}
    async with measured_broker(tmp_path, monkeypatch, settings) as measured:
        assert measured.meters.pool is not None
        measured.meters.pool.used_bytes += 300
        found = collected(measured.meters)
        assert (found.of(f"{pool}used"), found.of(f"{pool}available")) == (300, 700)
        measured.meters.pool.used_bytes += 900  # a request larger than what was left
        assert collected(measured.meters).of(f"{pool}available") == 0
        measured.meters.pool.used_bytes = 0
