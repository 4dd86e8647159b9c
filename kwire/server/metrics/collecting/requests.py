"""Requests, records, connections, the loop and the disk: what `Meters` has counted."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kwire.codecs.errors import as_error_code
from kwire.server.metrics.distribution import QUANTILES, merged_window, quantiles_of
from kwire.server.metrics.meters import FETCH_CONSUMER, FETCH_FOLLOWER, timed_requests, window_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.server.metrics.distribution import Distribution
    from kwire.server.metrics.meters import (
        ListenerMeter,
        Meters,
        PoolMeter,
        RequestMeter,
    )
    from kwire.server.metrics.samples import Samples

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

FETCH: Final = "Fetch"
"""Fetches of consumers and followers together, which Kafka's metrics have besides each of both."""

PARTS_OF_FETCH: Final = (FETCH_CONSUMER, FETCH_FOLLOWER)
"""Their errors count under FETCH only, as in Apache Kafka."""

TIMES: Final = {
    "queue": "requestqueuetimems",
    "local": "localtimems",
    "remote": "remotetimems",
    "throttle": "throttletimems",
    "response_queue": "responsequeuetimems",
    "response_send": "responsesendtimems",
    "total": "totaltimems",
}
"""The times of a RequestMeter, and how Kafka's metrics call them."""

TOPIC_COUNTS: Final = {
    "messages_in": "messagesin",
    "bytes_in": "bytesin",
    "bytes_out": "bytesout",
    "bytes_rejected": "bytesrejected",
    "replication_bytes_in": "replicationbytesin",
    "replication_bytes_out": "replicationbytesout",
    "produce_requests": "totalproducerequests",
    "fetch_requests": "totalfetchrequests",
    "failed_produce_requests": "failedproducerequests",
    "failed_fetch_requests": "failedfetchrequests",
    "produce_conversions": "producemessageconversions",
}
"""The counts of a TopicMeter, and how Kafka's metrics call them."""

LISTENER_COUNTS: Final = {
    "opened": "connection_creation",
    "closed": "connection_close",
    "logins": "successful_authentication",
    "failed_logins": "failed_authentication",
    "renewals": "successful_reauthentication",
    "bytes_in": "incoming_byte",
    "bytes_out": "outgoing_byte",
    "requests": "request",
}
"""The counts of a ListenerMeter, and how Kafka's metrics call them."""

NO_LIMIT_BYTES: Final = 2**63 - 1
"""What Kafka's pool has available without `queued.max.request.bytes`."""

TOPICS_PER_STEP: Final = 1000
"""They take 3 ms."""

ONLY_LOOP: Final = "0"
"""The number of Kafka's network processor: kwire has one loop."""


def collect(meters: Meters, samples: Samples) -> Iterator[None]:
    """Give what the meters have; yields after each name of requests.  `meters.fold` comes first."""
    for name, meter in list(meters.requests.items()):
        _request([meter], name, samples)
        yield
    fetches = [meters.requests[name] for name in PARTS_OF_FETCH if name in meters.requests]
    if fetches:
        _request(fetches, FETCH, samples)
    yield from _topics(meters, samples)
    refused = "kafka_server_brokertopicmetrics_"
    samples.set(f"{refused}invalidmessagecrcrecords_total", meters.corrupt_batches)
    samples.set(f"{refused}nokeycompactedtopicrecords_total", meters.records_without_key)
    for listener, connections in meters.listeners.items():
        _listener(connections, listener, samples)
    if meters.pool is not None:
        _pool(meters.pool, samples)
    _loop_and_disk(meters, samples)


def _pool(pool: PoolMeter, samples: Samples) -> None:
    limit_bytes = pool.limit_bytes if pool.limit_bytes > 0 else NO_LIMIT_BYTES
    samples.set("kafka_network_socketserver_memorypoolused", pool.used_bytes)
    samples.set(
        "kafka_network_socketserver_memorypoolavailable", max(0, limit_bytes - pool.used_bytes)
    )


def _request(meters: Sequence[RequestMeter], name: str, samples: Samples) -> None:
    """Give the requests of some meters together, under one name."""
    metrics = "kafka_network_requestmetrics_"
    versions, errors = Counter[int](), Counter[int]()
    for meter in meters:
        versions.update(meter.versions)
        errors.update(meter.errors)
    for version, count in versions.items():
        samples.set(f"{metrics}requests_total", count, name, str(version))
    for error, count in errors.items() if name not in PARTS_OF_FETCH else ():
        samples.set(f"{metrics}errors_total", count, name, as_error_code(error).name)
    samples.set("kwire_shortcut_requests_total", sum(each.shortcuts for each in meters), name)
    samples.set("kwire_response_bytes_total", sum(each.response_bytes for each in meters), name)
    sizes = [each.request_bytes for each in meters]
    count = sum(versions.values())
    samples.summary(
        f"{metrics}requestbytes",
        _by_point(quantiles_of(merged_window(sizes)), 1),
        count,
        sum(each.sum for each in sizes),
        name,
    )
    timed = timed_requests(meters)
    for attribute, metric in TIMES.items():
        total_ns = sum(getattr(each, attribute).sum for each in meters)
        window, zeros = window_of(meters, attribute, timed)
        quantiles = _by_point(quantiles_of(window, QUANTILES, zeros), NS_PER_MS)
        samples.summary(f"{metrics}{metric}", quantiles, count, total_ns / NS_PER_MS, name)


def _topics(meters: Meters, samples: Samples) -> Iterator[None]:
    """Give the counts of each topic, and of all together; yields after each step."""
    series = [
        (samples.series(f"kafka_server_brokertopicmetrics_{metric}_total"), attrgetter(attribute))
        for attribute, metric in TOPIC_COUNTS.items()
    ]
    topics = list(meters.topics.items())
    sums = [count_of(meters.gone) for _, count_of in series]
    for start in range(0, len(topics), TOPICS_PER_STEP):
        step = topics[start : start + TOPICS_PER_STEP]
        for number, (values, count_of) in enumerate(series):
            for topic, counts in step:
                value = values[topic,] = count_of(counts)
                sums[number] += value
        yield
    for (values, _), total in zip(series, sums, strict=True):
        values["",] = total


def _listener(meter: ListenerMeter, name: str, samples: Samples) -> None:
    metrics = "kafka_server_socket_server_metrics_"
    samples.set(f"{metrics}connection_count", meter.open, name, ONLY_LOOP)
    for attribute, metric in LISTENER_COUNTS.items():
        samples.set(f"{metrics}{metric}_total", getattr(meter, attribute), name, ONLY_LOOP)
    samples.set("kwire_refused_connections_total", meter.refused, name)


def _loop_and_disk(meters: Meters, samples: Samples) -> None:
    disk, loop = meters.disk, meters.loop
    _summary(samples, "kafka_log_logflushstats_logflushrateandtimems", disk.flush, NS_PER_MS)
    _summary(samples, "kwire_disk_append_seconds", disk.append, NS_PER_S)
    _summary(samples, "kwire_disk_read_seconds", disk.read, NS_PER_S)
    _summary(samples, "kwire_loop_late_seconds", loop.late, NS_PER_S)
    samples.set("kwire_loop_stalls_total", loop.stalls)
    samples.set("kwire_loop_stalled_seconds_total", loop.stalled / NS_PER_S)
    samples.set("kwire_loop_longest_stall_seconds", loop.longest / NS_PER_S)


def _summary(samples: Samples, name: str, values: Distribution, unit: int) -> None:
    """Give a distribution whose values are divided by `unit`."""
    quantiles = _by_point(values.quantiles(), unit)
    samples.summary(name, quantiles, values.count, values.sum / unit)


def _by_point(quantiles: Sequence[float], unit: int) -> dict[float, float]:
    """The quantiles by their points, divided by `unit`."""
    return {point: value / unit for point, value in zip(QUANTILES, quantiles, strict=True)}
