"""WriteTxnMarkers (key 27): v1-2.

Behaviour
- Writes transaction markers into partitions that this broker leads.  Transaction coordinators send
  it, and administrators for transactions that hang (KIP-664).  The response waits until the markers
  are committed.
- Each partition has its own error: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
  INVALID_PRODUCER_EPOCH for a producer that is fenced there, TRANSACTION_COORDINATOR_FENCED for a
  fenced coordinator.  A partition of `__consumer_offsets` that is still being loaded gives
  NOT_LEADER_OR_FOLLOWER.
- A marker that is not committed within `request.timeout.ms` gives REQUEST_TIMED_OUT: it is in the
  log, but the coordinator has to send it again.
- Invalid markers (no producer id or epoch, a transaction version of -1) give UNKNOWN_SERVER_ERROR.
  The markers of one producer share an entry of the response; a marker without partitions has none.
- A partition that stands twice in a marker gets one marker.  (Apache Kafka never answers such a
  request.)

Version notes: the coordinator's transaction version from v2; with 2 a marker of the epoch in which
the transaction is open is late (KIP-1228).
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

import trio

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.requests.context import Context
from kwire.requests.guards.base import Access, Proceed, Response
from kwire.requests.route import Right, Route
from kwire.storage.partitions.txn_marker import MarkerWriter, TxnMarker

NONE_GIVEN = -1

ROUTE = Route(
    ApiKey.WRITE_TXN_MARKERS, 1, 2, Right(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
)


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: Context
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Write the transaction markers, and return one error code per partition."""
    work = _Markers(broker)
    for marker in request.markers:
        work.write(marker)
    return work.response() if work.waiting == 0 else work.wait()


class _Markers:
    """The markers of one request, and the errors of their partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._results: dict[int, dict[str, dict[int, ErrorCode]]] = {}
        """By producer id, topic name and partition index."""
        self._settled: trio.Event | None = None
        self.waiting = 0

    def write(self, requested: WritableTxnMarker) -> None:
        """Write one marker into each of its partitions, and note the errors.

        A partition whose marker is not committed in time keeps REQUEST_TIMED_OUT, which it has from
        the start.
        """
        marker = TxnMarker(
            requested.producer_id,
            requested.producer_epoch,
            requested.coordinator_epoch,
            requested.transaction_result,
            requested.transaction_version,
        )
        places = {
            (topic.name, i): None for topic in requested.topics for i in topic.partition_indexes
        }
        if not places:
            return
        answers = self._results.setdefault(marker.producer_id, {})
        settle = partial(self._settle, answers)
        writer = MarkerWriter(
            self._broker.hosted,
            lambda: self._broker.coordinators.groups,
            marker,
            settle,
            self._broker.now_ms(),
        )
        self.waiting += len(places)
        for topic, index in places:
            answers.setdefault(topic, {})[index] = ErrorCode.REQUEST_TIMED_OUT
        for topic, index in places:
            error = self._refusal(marker, topic, index) or writer.write(topic, index)
            if error is not None:
                settle(topic, index, error)

    def _refusal(self, marker: TxnMarker, topic: str, index: int) -> ErrorCode:
        """Return the error of an invalid marker, NONE if it may be written to the partition.

        A marker without a producer is invalid everywhere.  Other fields are checked only for a
        hosted partition: for any other the writer has the error.
        """
        if NONE_GIVEN in (marker.producer_id, marker.producer_epoch):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if self._broker.hosted.get(topic, index) is None:
            return ErrorCode.NONE
        if marker.transaction_version == NONE_GIVEN:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if marker.producer_id >= 0 and marker.producer_epoch < 0:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    def _settle(
        self, answers: dict[str, dict[int, ErrorCode]], topic: str, index: int, error: ErrorCode
    ) -> None:
        """Note the result of one partition; after the last one, end the wait of the response."""
        answers[topic][index] = error
        self.waiting -= 1
        if self.waiting == 0 and self._settled is not None:
            self._settled.set()

    async def wait(self) -> WriteTxnMarkersResponse:
        """Wait up to `request.timeout.ms` for the results, and return the response."""
        if self.waiting:
            self._settled = trio.Event()
            with trio.move_on_after(self._broker.config.request_timeout_ms / 1000):
                await self._settled.wait()
        return self.response()

    def response(self) -> WriteTxnMarkersResponse:
        """Return the error code of each partition, grouped by producer id and topic."""
        return WriteTxnMarkersResponse(
            [
                WritableTxnMarkerResult(
                    producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            topic,
                            [
                                WritableTxnMarkerPartitionResult(index, error)
                                for index, error in answers.items()
                            ],
                        )
                        for topic, answers in topics.items()
                    ],
                )
                for producer_id, topics in self._results.items()
            ]
        )


# -- rights


def guard(access: Access, request: WriteTxnMarkersRequest, proceed: Proceed) -> Response:
    """Require ALTER or CLUSTER_ACTION on the cluster.

    Administrators have ALTER, and end transactions that hang (KIP-664); brokers have
    CLUSTER_ACTION.
    """
    if access.on_cluster(AclOperation.ALTER, quiet=True) or access.on_cluster(
        AclOperation.CLUSTER_ACTION
    ):
        return proceed(request)
    return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _refused(request: WriteTxnMarkersRequest, error: ErrorCode) -> WriteTxnMarkersResponse:
    """Return the response in which each partition of each marker has `error`."""
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
