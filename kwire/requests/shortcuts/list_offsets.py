"""The quick way for a client that asks for the same offset again and again.

Spark's Kafka source asks where the partition begins and where it ends after each poll of 500
records, and waits for both: forty ListOffsets for a Fetch of 1 MB, and most of what a broker does
for it.  The requests of a connection then differ in their correlation id alone.  So it remembers
some of them as bytes, with whom they are about and the reply.  What is told is looked up anew each
time, by the same function as ever; decoding the request and writing the reply is what is saved.
Whatever cannot be told (the topic is gone, the leader another) goes the thorough way, which alone
decides on errors.  `tests/requests/shortcuts/test_repeated_list_offsets.py` holds the two against
each other.
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
"""Requests a connection: a consumer of one partition asks for its beginning and its end."""

_SIZE_BYTES_MAX = 1024
"""Of a request that is remembered; a topic's name and a client's id have 249 characters."""

_EPOCHS_SINCE = 4
_FOUND = struct.Struct(">qqi")  # timestamp, offset, leader epoch
_ANSWER = struct.Struct(">ihqqi")  # and before them partition index and error code


class _Remembered(NamedTuple):
    look_up: Callable[[], TimestampOffset]
    reply: Frame
    found_at: int


class RepeatedListOffsets:
    """One connection's memory of what it asked of single partitions."""

    __slots__ = ("_remembered",)

    def __init__(self) -> None:
        self._remembered: dict[bytes, _Remembered] = {}

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The reply to `frame` if it is an earlier request again, else None."""
        remembered = self._remembered.get(_key(frame))
        if remembered is None:
            return None
        try:
            found = remembered.look_up()
        except LogError:
            return None
        reply = Frame()
        reply += remembered.reply
        reply[4:8] = frame[4:8]
        _FOUND.pack_into(reply, remembered.found_at, *found)
        return reply

    def learn(
        self, exchange: Exchange[ListOffsetsRequest, ListOffsetsResponse], broker: Broker
    ) -> None:
        """Remember a request that went the thorough way, if it is about one place."""
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

        asked = request.topics[0].partitions[0]
        if asked.timestamp not in (LATEST, EARLIEST):
            return
        told = response.topics[0].partitions[0]
        answer = _ANSWER.pack(
            told.partition_index, told.error_code, told.timestamp, told.offset, told.leader_epoch
        )
        partition = broker.hosted.get(request.topics[0].name, asked.partition_index)
        if told.error_code or partition is None or reply.count(answer) != 1:
            return
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        self._remembered[_key(frame)] = _Remembered(
            lambda: place_of(partition, asked, request),
            reply,
            reply.index(answer) + _ANSWER.size - _FOUND.size,
        )


def _key(frame: memoryview) -> bytes:
    """The request without its correlation id."""
    data = bytes(frame)
    return data[:4] + data[8:]
