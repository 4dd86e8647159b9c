"""Decoding of the telemetry pushes that a broker kept."""

from __future__ import annotations

import math

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
)

from kwire.client.fetcher import ConsumedRecord
from kwire.client.telemetry import DataPoint, NotOtlp, data_points, pushed


def payload(*metrics: Metric) -> bytes:
    scopes = [ScopeMetrics(metrics=[metric]) for metric in metrics]
    return MetricsData(resource_metrics=[ResourceMetrics(scope_metrics=scopes)]).SerializeToString()


def label(name: str, text: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=text))


def test_data_points_returns_each_kind_of_metric() -> None:
    whole, part = NumberDataPoint(as_int=3), NumberDataPoint(as_double=0.5)
    delta, total = AGGREGATION_TEMPORALITY_DELTA, AGGREGATION_TEMPORALITY_CUMULATIVE
    four = HistogramDataPoint(count=4, sum=10.0)
    found = data_points(
        payload(
            Metric(name="b", sum=Sum(data_points=[whole], aggregation_temporality=delta)),
            Metric(name="a", gauge=Gauge(data_points=[part])),
            Metric(name="c", sum=Sum(data_points=[whole], aggregation_temporality=total)),
            Metric(
                name="d",
                histogram=Histogram(
                    data_points=[four, HistogramDataPoint()], aggregation_temporality=delta
                ),
            ),
            Metric(name="e", summary=Summary()),
            Metric(name="f"),
        )
    )
    assert found == [
        DataPoint("a", {}, 0.5, False),
        DataPoint("b", {}, 3, True),
        DataPoint("c", {}, 3, False),
        DataPoint("d", {}, 2.5, True),
        DataPoint("d", {}, None, True),
        DataPoint("e", {}, None, False),
    ]


def test_data_points_with_different_labels_are_separate() -> None:
    points = [
        NumberDataPoint(as_int=number, attributes=[label("node.id", str(number))])
        for number in (2, 1)
    ]
    found = data_points(payload(Metric(name="m", gauge=Gauge(data_points=points))))
    assert [(each.labels, each.value) for each in found] == [
        ({"node.id": "1"}, 1),
        ({"node.id": "2"}, 2),
    ]


def test_data_point_without_a_value_is_none() -> None:
    points = [NumberDataPoint(as_double=math.nan), NumberDataPoint()]
    found = data_points(payload(Metric(name="m", gauge=Gauge(data_points=points))))
    assert [each.value for each in found] == [None, None]


def test_data_points_refuses_a_payload_that_is_not_otlp() -> None:
    with pytest.raises(NotOtlp, match="a push of 3 bytes is not OTLP"):
        data_points(b"\xff\xff\xff")


def test_pushed_accepts_a_record_of_any_producer() -> None:
    bare = ConsumedRecord("t", 0, 0, 5, "CreateTime", None, None, [("client_id", None)])
    push = pushed(bare)
    assert (push.instance_id, push.client_id, push.payload) == ("", "", b"")
    assert not push.is_last
