"""Metrics that clients pushed (KIP-714), as a kwire broker stores them in a topic.

kwire.broker.telemetry.topic writes them.  OTLP is decoded by opentelemetry-proto, the typed library
of OpenTelemetry.  It and protobuf are in the extra `telemetry`, because few users need them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import ConfigResource, ConfigResourceKind, describe_configs
from kwire.client.errors import Misuse, check
from kwire.client.fetcher import ConsumedRecord
from kwire.codecs.messages.list_config_resources import ListConfigResourcesRequest

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

TOPIC = "__client_telemetry"
PARTITION = TopicPartition(TOPIC, 0)


class NotOtlp(ValueError):
    """A payload that is not OTLP; the message has its size."""


class PushedMetrics(NamedTuple):
    """One push: its time, its client and its payload."""

    time_ms: int
    instance_id: str
    attributes: Mapping[str, str]
    """The attributes that subscriptions match, and `principal` and `terminating`."""
    payload: bytes

    @property
    def client_id(self) -> str:
        return self.attributes.get("client_id", "")

    @property
    def software(self) -> str:
        names = ("client_software_name", "client_software_version")
        return " ".join(self.attributes.get(name, "") for name in names)

    @property
    def address(self) -> str:
        names = ("client_source_address", "client_source_port")
        return ":".join(self.attributes.get(name, "") for name in names)

    @property
    def is_last(self) -> bool:
        """Whether the client announced this push as its last one."""
        return self.attributes.get("terminating") == "true"


def pushed(record: ConsumedRecord) -> PushedMetrics:
    """The push in a record of the topic.  It does not raise, even if another program wrote it."""
    headers = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    return PushedMetrics(
        record.timestamp_ms,
        (record.key or b"").decode(errors="replace"),
        headers,
        record.value or b"",
    )


class DataPoint(NamedTuple):
    """One value of one metric."""

    name: str
    labels: Mapping[str, str]
    value: float | int | None
    """The value, or the mean of a histogram.  None if there is no value; Java clients send NaN."""
    is_difference: bool
    """Whether the value counts from the last push, not from the start of the client."""


def data_points(payload: bytes) -> list[DataPoint]:
    """The data points of a push, sorted by the names of metrics.

    Raises NotOtlp, and Misuse if opentelemetry-proto is not installed.
    """
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
    except ModuleNotFoundError:
        from kwire.client.extras import how_to_install

        command = how_to_install("telemetry")
        raise Misuse(f"decoding metrics needs opentelemetry-proto: {command}") from None
    try:
        data = MetricsData.FromString(payload)
    except DecodeError:
        raise NotOtlp(f"a push of {len(payload)} bytes is not OTLP") from None
    metrics = [
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    points = [point for metric in metrics for point in _points(metric)]
    return sorted(points, key=lambda point: (point.name, sorted(point.labels.items())))


def _points(metric: Metric) -> Iterable[DataPoint]:
    """Yield the data points of a metric.  A histogram is reduced to its mean; a kind that is not
    supported yields one point without a value."""
    name = metric.name
    kind = metric.WhichOneof("data")
    if kind == "gauge":
        for point in metric.gauge.data_points:
            yield DataPoint(name, _labels(point.attributes), _number(point), False)
    elif kind == "sum":
        is_difference = metric.sum.aggregation_temporality == _DELTA
        for point in metric.sum.data_points:
            yield DataPoint(name, _labels(point.attributes), _number(point), is_difference)
    elif kind == "histogram":
        is_difference = metric.histogram.aggregation_temporality == _DELTA
        for histogram in metric.histogram.data_points:
            mean = histogram.sum / histogram.count if histogram.count else None
            yield DataPoint(name, _labels(histogram.attributes), mean, is_difference)
    elif kind is not None:
        yield DataPoint(name, {}, None, False)


_DELTA = 1
"""The number of AGGREGATION_TEMPORALITY_DELTA in OTLP."""


def _number(point: NumberDataPoint) -> float | int | None:
    """Return the value of a data point; None if it has none or is NaN."""
    kind = point.WhichOneof("value")
    if kind == "as_int":
        return point.as_int
    return None if kind is None or math.isnan(point.as_double) else point.as_double


def _labels(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {attribute.key: _text(attribute.value) for attribute in attributes}


def _text(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    return "" if kind is None else str(getattr(value, kind))


def subscriptions(cluster: Cluster) -> dict[str, dict[str, str | None]]:
    """The configs of all client metrics subscriptions, by name.  Raises BrokerRefused."""

    def ask() -> list[str]:
        """Return the names of all client metrics subscriptions."""
        request = ListConfigResourcesRequest([ConfigResourceKind.CLIENT_METRICS])
        reply = cluster.any().call(request)
        check(reply.error_code, "list client metrics subscriptions")
        return [resource.resource_name for resource in reply.config_resources]

    return {
        name: {
            config.name: config.value
            for config in describe_configs(
                cluster, ConfigResource(ConfigResourceKind.CLIENT_METRICS, name)
            )
        }
        for name in sorted(cluster.retrying(ask))
    }
