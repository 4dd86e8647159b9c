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


def _of_request(name: str, unit: str, text: str) -> Metric:
    metric = f"kafka_network_requestmetrics_{name.lower()}"
    return summary(metric, "request", unit, text, _REQUEST.format(name))


def _refused(name: str, unit: str, text: str) -> Metric:
    source = _TOPIC.format(name).replace(",topic=*", "")
    return counter(f"kafka_server_brokertopicmetrics_{name.lower()}_total", "", unit, text, source)


REQUESTS: Final = (
    _of_topic("MessagesIn", "records", "Records that producers wrote"),
    _of_topic("BytesIn", "bytes", "Bytes that producers wrote"),
    _of_topic("BytesOut", "bytes", "Bytes that consumers read"),
    _of_topic("BytesRejected", "bytes", "Bytes of batches above `max.message.bytes`"),
    _of_topic("ReplicationBytesIn", "bytes", "Bytes that this broker copied from leaders"),
    _of_topic("ReplicationBytesOut", "bytes", "Bytes that followers read from this broker"),
    _of_topic("TotalProduceRequests", "appends", "Appends of producers, also refused ones"),
    _of_topic("TotalFetchRequests", "reads", "Reads of consumers and followers"),
    _of_topic("FailedProduceRequests", "appends", "Appends that the log refused"),
    _of_topic("FailedFetchRequests", "reads", "Reads that got an error"),
    _of_topic("ProduceMessageConversions", "records", "Records that were compressed again"),
    _refused("InvalidMessageCrcRecords", "batches", "Batches of producers with a wrong CRC"),
    _refused("NoKeyCompactedTopicRecords", "records", "Records without key for compacted topics"),
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
        "Error codes in responses, NONE included; each partition counts",
        "kafka.network:type=RequestMetrics,name=ErrorsPerSec,request=*,error=* Count",
    ),
    _of_request("RequestBytes", "bytes", "Sizes of requests"),
    _of_request("TotalTimeMs", "ms", "Time from the arrival of a request to the response's end"),
    _of_request("RequestQueueTimeMs", "ms", "Time behind earlier requests of the same client"),
    _of_request("LocalTimeMs", "ms", "Time that the broker worked on a request"),
    _of_request("RemoteTimeMs", "ms", "Time that a request waited for others or for the disk"),
    _of_request("ThrottleTimeMs", "ms", "Throttle time of a request"),
    _of_request("ResponseQueueTimeMs", "ms", "Time that a response waited behind earlier ones"),
    _of_request("ResponseSendTimeMs", "ms", "Time until the system had taken a whole response"),
    counter(
        "kwire_shortcut_requests_total",
        "request",
        "requests",
        "Requests that a shortcut answered, without decoding all of them",
    ),
    counter("kwire_response_bytes_total", "request", "bytes", "Bytes of responses"),
)
