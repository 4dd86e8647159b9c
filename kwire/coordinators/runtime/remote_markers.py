"""Sends transaction markers to partition leaders on other brokers, by WriteTxnMarkers.

Markers for one broker are collected: one request holds many transactions, and a broker gets one
request at a time.  Each marker's result goes to its sender, which retries
(kwire.coordinators.runtime.markers); a request without response is NETWORK_EXCEPTION.  Markers of a
coordinator that has resigned are dropped: the next coordinator sends them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

import trio

from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.gathering import RequestBatcher
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode, as_error_code
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.storage.partitions.txn_marker import Settle, TxnMarker

log = logging.getLogger("kwire.coordinators.remote_markers")

PARTITIONS_MAX = 256
"""Partitions in one request.  The other broker writes them without a pause, at 30 us each
(measured)."""

GRACE_MS = 5_000
"""Time to wait beyond `request.timeout.ms`, for which the other broker waits for its followers.
Its response says which markers are written; after a timeout here that is unknown."""


class RemoteMarker(NamedTuple):
    """A marker for one partition."""

    marker: TxnMarker
    topic: str
    partition: int
    settle: Settle
    is_wanted: Callable[[], bool]
    """Whether the sender is still the coordinator."""


class RemoteMarkers:
    """See the module."""

    def __init__(self, peers: Peers, nursery: trio.Nursery, request_timeout_ms: int) -> None:
        """`request_timeout_ms` is how long the other broker waits for its followers."""
        self._peers = peers
        self._timeout_ms = request_timeout_ms + GRACE_MS
        self._gathering: RequestBatcher[RemoteMarker] = RequestBatcher(
            nursery,
            # Different markers of one producer id never share a request: its response has one
            # result for the producer id and partition.
            lambda item: (item.marker.producer_id, item.marker),
            self._send,
            items_max=PARTITIONS_MAX,
        )

    def send(self, broker_id: int, item: RemoteMarker) -> None:
        """Let that broker write a marker; `item.settle` gets the result."""
        self._gathering.add(broker_id, item)

    async def _send(self, broker_id: int, items: list[RemoteMarker]) -> None:
        """Sends the markers that are still wanted, and passes on the result of each.

        A marker without a result, or of a failed request, gets an error after which it is sent
        again.
        """
        items = [item for item in items if item.is_wanted()]
        if not items:
            return
        peer = self._peers.peer(broker_id, Role.TXN_MARKERS)
        try:
            response = await peer.call(_request(items), timeout_ms=self._timeout_ms)
        except PeerError as error:
            log.info(
                "Cannot send %d transaction markers to broker %d: %s. They are sent again.",
                len(items),
                broker_id,
                error,
            )
            errors = {}
            missing = ErrorCode.NETWORK_EXCEPTION
        else:
            errors = _errors(response)
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
        for item in items:
            key = item.marker.producer_id, item.topic, item.partition
            item.settle(item.topic, item.partition, errors.get(key, missing))


def _request(items: Iterable[RemoteMarker]) -> WriteTxnMarkersRequest:
    """Return the request; all partitions of one transaction share an entry."""
    partitions: dict[TxnMarker, dict[str, list[int]]] = {}
    for item in items:
        partitions.setdefault(item.marker, {}).setdefault(item.topic, []).append(item.partition)
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                topics=[WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for marker, topics in partitions.items()
        ]
    )


def _errors(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], ErrorCode]:
    """Return the error of each marker, by (producer id, topic, partition)."""
    return {
        (result.producer_id, topic.name, partition.partition_index): as_error_code(
            partition.error_code
        )
        for result in response.markers
        for topic in result.topics
        for partition in topic.partitions
    }
