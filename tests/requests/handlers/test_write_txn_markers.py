"""WriteTxnMarkers: how long it waits for the followers."""

from __future__ import annotations

from collections.abc import Callable

import trio
import trio.testing

from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.requests.handlers.node import Node


async def test_marker_that_is_not_committed_in_time_gives_request_timed_out(
    make_node: Callable[..., Node], autojump_clock: trio.testing.MockClock
) -> None:
    """The other partition's marker is committed, and its answer says so."""
    node = make_node({"request.timeout.ms": "7000"})
    node.create("t", 2)
    for index in range(2):
        node.append("t", index, producer=(7, 3, 0), transactional=True)
    node.lag("t", 1)
    topics = [WritableTxnMarkerTopic("t", [1, 0])]
    request = WriteTxnMarkersRequest([WritableTxnMarker(7, 3, True, topics, 5, 1)])
    reply, waited_s = await node.wait_for(request, 2)
    assert waited_s == 7
    [marker] = reply.markers
    [topic] = marker.topics
    assert [(told.partition_index, told.error_code) for told in topic.partitions] == [
        (1, ErrorCode.REQUEST_TIMED_OUT),
        (0, ErrorCode.NONE),
    ]
