"""Metrics of requests and of the records that they carry."""

from __future__ import annotations

from typing import Final

from kwire.server.metrics.metric import Metric, counter, summary

_TOPIC: Final = "kafka.server:type=BrokerTopicMetrics,name={}PerSec,topic=* Count"
_REQUEST: Final = "kafka.network:type=RequestMetrics,name={},request=*"


def _of_topic(name: str, unit: str, text: str) -> Metric:
    """A counter of one topic; without the label it counts all topics."""
    metric = f"kafka_server_brokertopicmetrics_{name.lower()}_total"
    return counter(metric, "topic", unit, text, _TOPIC.format(name))


def _of_request(name: str, text: str) -> Metric:
    metric = f"kafka_network_requestmetrics_{name.lower()}"
    return summary(metric, "request", "ms", text, _REQUEST.format(name))


REQUESTS: Final = (
    _of_topic("MessagesIn", "records", "Records that producers wrote"),
    _of_topic("BytesIn", "bytes", "Bytes that producers wrote"),
    _of_topic("BytesOut", "bytes", "Bytes that consumers read"),
    _of_topic("TotalProduceRequests", "requests", "Produce requests with partitions of the topic"),
    _of_topic("TotalFetchRequests", "requests", "Fetch requests with partitions of the topic"),
    _of_topic("FailedProduceRequests", "requests", "Produce requests that the log refused"),
    _of_topic("FailedFetchRequests", "requests", "Fetch requests that got an error"),
    counter(
        "kafka_network_requestmetrics_requests_total",
        "request version",
        "requests",
        "Requests by API key and version",
        "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*,version=* Count",
    ),
    counter(
        "kafka_network_requestmetrics_errors_total",
        "request error",
        "responses",
        "Responses by API key and error code, NONE included",
        "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=* Count",
    ),
    _of_request("TotalTimeMs", "Time from the arrival of a request to the end of its response"),
)
