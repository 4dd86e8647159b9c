"""Shortcut for a client that asks for the same offset again and again.

After each poll of 500 records Spark's Kafka source asks for the first and the last offset of the
partition, and waits for both.  That is forty ListOffsets requests per Fetch of 1 MB, and most of
the broker's work for it.  The requests of a connection then differ in their correlation id only.

So each connection remembers the bytes of a few requests, with a function that looks up the offset
and the bytes of the response.  The offset is looked up again each time, by the handler's own
function; the shortcut saves decoding the request and encoding the response.  If the look-up fails
(the topic was deleted, the leader changed), the handler answers, which alone decides about errors.
`tests/requests/shortcuts/test_repeated_list_offsets.py` compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.primitives import Frame
from kwire.log import LogError, TimestampOffset

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from kwire.requests.shortcuts.shortcut import Exchange

_REMEMBERED_MAX = 4
"""Requests remembered per connection: a consumer asks for a partition's first and last offset."""

_SIZE_BYTES_MAX = 1024
"""Size of the largest request remembered; topic names and client ids have up to 249 characters."""

_EPOCHS_SINCE = 4
_OFFSET = struct.Struct(">qqi")  # timestamp, offset, leader epoch
_PARTITION = struct.Struct(">ihqqi")  # partition index, error code, then an _OFFSET


class _RememberedRequest(NamedTuple):
    look_up: Callable[[], TimestampOffset]
    reply: Frame
    offset_at: int
    """Position of the `_OFFSET` in `reply`."""


class RepeatedListOffsets:
    """The requests of one connection for the offset of a single partition."""

    __slots__ = ("_remembered",)

    def __init__(self) -> None:
        self._remembered: dict[bytes, _RememberedRequest] = {}

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The response to `frame` if it repeats a remembered request, else None."""
        remembered = self._remembered.get(_key(frame))
        if remembered is None:
            return None
        try:
            offset = remembered.look_up()
        except LogError:
            return None
        reply = Frame()
        reply += remembered.reply
        reply[4:8] = frame[4:8]  # the correlation id, behind the size in both
        _OFFSET.pack_into(reply, remembered.offset_at, *offset)
        return reply

    def learn(
        self, exchange: Exchange[ListOffsetsRequest, ListOffsetsResponse], broker: Broker
    ) -> None:
        """Remember a request for the first or last offset of a single partition."""
        frame, version, reply = exchange.frame, exchange.version, exchange.reply
        request, response = exchange.request, exchange.response
        if (
            version < _EPOCHS_SINCE
            or len(frame) > _SIZE_BYTES_MAX
            or len(request.topics) != 1
            or len(request.topics[0].partitions) != 1
        ):
            return
        from kwire.requests.handlers.list_offsets import EARLIEST, LATEST, place_of

        wanted = request.topics[0].partitions[0]
        if wanted.timestamp not in (LATEST, EARLIEST):
            return
        answer = response.topics[0].partitions[0]
        encoded = _PARTITION.pack(
            answer.partition_index,
            answer.error_code,
            answer.timestamp,
            answer.offset,
            answer.leader_epoch,
        )
        partition = broker.hosted.get(request.topics[0].name, wanted.partition_index)
        # If the same bytes stand in the response twice, which of them to replace is unknown.
        if answer.error_code or partition is None or reply.count(encoded) != 1:
            return
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[_key(frame)] = _RememberedRequest(
            lambda: place_of(partition, wanted, request),
            reply,
            reply.index(encoded) + _PARTITION.size - _OFFSET.size,
        )


def _key(frame: memoryview) -> bytes:
    """The request without its correlation id."""
    data = bytes(frame)
    # API key and version (4 bytes), correlation id (4 bytes), the rest.
    return data[:4] + data[8:]
