"""Markers on their way to the leaders of partitions on other brokers, by WriteTxnMarkers.

A broker is sent the markers of many transactions at once, one request after the other.  What comes
of a marker is told to its sender, which goes on trying (kwire.coordinators.runtime.markers): a
request that was not answered is NETWORK_EXCEPTION.  What belongs to a coordinator that has resigned
meanwhile is left to the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

import trio

from kwire.client.errors import as_error_code
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.gathering import RequestBatcher
from kwire.cluster.peers.peers import Peers, Role
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.storage.partitions.txn_marker import Settle, TxnMarker

log = logging.getLogger("kwire.coordinators.remote_markers")

PARTITIONS_MAX = 256
"""In one request: the other side writes them in one go, at 30 us measured for each."""

GRACE_MS = 5_000
"""How much longer than the other side waits for its followers (`request.timeout.ms`) it is waited
for: its answer says which markers are written, a lost connection nothing."""


class RemoteMarker(NamedTuple):
    """A marker for one partition."""

    marker: TxnMarker
    topic: str
    partition: int
    settle: Settle
    is_wanted: Callable[[], bool]
    """Whether its coordinator is one still."""


class RemoteMarkers:
    """See the module."""

    def __init__(self, peers: Peers, nursery: trio.Nursery, request_timeout_ms: int) -> None:
        self._peers = peers
        self._timeout_ms = request_timeout_ms + GRACE_MS
        self._gathering: RequestBatcher[RemoteMarker] = RequestBatcher(
            nursery,
            lambda item: (item.marker.producer_id, item.marker),
            self._send,
            items_max=PARTITIONS_MAX,
        )

    def send(self, broker_id: int, item: RemoteMarker) -> None:
        """Have that broker write a marker; `item.settle` is told what came of it."""
        self._gathering.add(broker_id, item)

    async def _send(self, broker_id: int, items: list[RemoteMarker]) -> None:
        items = [item for item in items if item.is_wanted()]
        if not items:
            return
        peer = self._peers.peer(broker_id, Role.TXN_MARKERS)
        try:
            response = await peer.call(_request(items), timeout_ms=self._timeout_ms)
        except PeerError as problem:
            log.info("%d markers are not written: %s", len(items), problem)
            errors = {}
            missing = ErrorCode.NETWORK_EXCEPTION
        else:
            errors = _errors(response)
            missing = ErrorCode.UNKNOWN_SERVER_ERROR
        for item in items:
            place = item.marker.producer_id, item.topic, item.partition
            item.settle(item.topic, item.partition, errors.get(place, missing))


def _request(items: Iterable[RemoteMarker]) -> WriteTxnMarkersRequest:
    wanted: dict[TxnMarker, dict[str, list[int]]] = {}
    for item in items:
        wanted.setdefault(item.marker, {}).setdefault(item.topic, []).append(item.partition)
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
            for marker, topics in wanted.items()
        ]
    )


def _errors(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], ErrorCode]:
    """By producer, topic and partition."""
    return {
        (result.producer_id, topic.name, told.partition_index): as_error_code(told.error_code)
        for result in response.markers
        for topic in result.topics
        for told in topic.partitions
    }
