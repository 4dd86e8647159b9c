"""The quick way for what a producer says again and again.

A connection's Produce requests differ in their batch and little else: client id, acks, timeout,
topic and partition are those of the request before.  Decoding them anew, looking the partition up
and writing the reply field by field is most of what a small request costs beside its append.  So a
connection remembers the last request to one partition as bytes:

    key, version | correlation id | head: client id ... partition index | batch size | batch | tail

When the next one has the same key, version, head and tail, its batch goes straight to that
partition, and the reply is a copy of the last one's with other offsets.  Whatever is not plainly
that (another head, the first batch of a transaction, one that is refused, a partition that would
have to wait for replicas) goes the thorough way, which alone decides how it is answered: this one
only ever succeeds.
`tests/requests/shortcuts/test_repeated_produce.py` holds the two against each other.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kwire.codecs.batch_layout import (
    FLAGS_POS,
    HEADER_SIZE,
    PRODUCER,
    PRODUCER_POS,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.batches import Compression
from kwire.codecs.primitives import Frame
from kwire.log import LogError
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE, ZSTD_SINCE

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.produce import ProduceRequest, ProduceResponse
    from kwire.requests.shortcuts.shortcut import Exchange
    from kwire.storage.partitions.partition import Partition

_ZSTD = int(Compression.ZSTD)  # of the codecs the only one with this bit
_HEAD_START = 8  # behind api key, version and correlation id
_FLEXIBLE_SINCE = 9
_LOG_START_SINCE = 5

_NO_TAGS = b"\0\0\0"  # in the partition, the topic and the request
_SIZE = struct.Struct(">i")
_SUCCESS = struct.Struct(">ihq")  # partition index, no error, base offset
_OFFSETS_V3 = struct.Struct(">qq")  # base offset, log append time
_OFFSETS_V5 = struct.Struct(">qqq")  # and log start offset


class RepeatedProduce:
    """One connection's memory of its last Produce request to a single partition."""

    __slots__ = (
        "_acks",
        "_flexible",
        "_head",
        "_in_transactions",
        "_kind",
        "_offsets",
        "_offsets_at",
        "_partition",
        "_refused_bits",
        "_reply",
        "_seen",
        "_size_at",
    )

    def __init__(self) -> None:
        self._seen = b""  # the head of the last request: one that comes twice is worth learning
        self._kind = self._head = b""
        self._size_at = _HEAD_START
        self._flexible = False
        self._acks = 1
        self._refused_bits = 0
        self._in_transactions = False
        self._partition: Partition | None = None
        self._reply = Frame()
        self._offsets = _OFFSETS_V3
        self._offsets_at = 0

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The reply to `frame` if it is the last request again with another batch, else None."""
        size_at = self._size_at
        if frame[:4] != self._kind or frame[_HEAD_START:size_at] != self._head:
            return None
        batch = _batch(frame, size_at, self._flexible)
        partition = self._partition
        if (
            batch is None
            or partition is None
            or (partition.leading is not None and self._acks == -1)
            or partition.log.flushes_by_messages
        ):
            return None
        flags = batch[FLAGS_POS]
        if flags & self._refused_bits:
            return None
        if flags & TRANSACTIONAL_FLAG and not (
            self._in_transactions and _goes_on(batch, partition)
        ):
            return None
        try:
            result = partition.append(batch, now_ms=broker.now_ms(), required_acks=self._acks)
        except LogError:
            return None
        reply = Frame()
        reply += self._reply
        reply[4:8] = frame[4:8]
        if self._offsets is _OFFSETS_V5:
            _OFFSETS_V5.pack_into(reply, self._offsets_at, result[0], result[2], result[3])
        else:
            _OFFSETS_V3.pack_into(reply, self._offsets_at, result[0], result[2])
        return reply

    def learn(self, exchange: Exchange[ProduceRequest, ProduceResponse], broker: Broker) -> None:
        """Remember a request that went the thorough way, the second time it comes."""
        frame, version, reply = exchange.frame, exchange.version, exchange.reply
        request, response = exchange.request, exchange.response
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return
        topic = request.topic_data[0]
        data, answer = topic.partition_data[0], response.responses[0].partition_responses[0]
        if answer.error_code or not isinstance(data.records, memoryview):
            return
        size_at = _size_position(frame, len(data.records), version >= _FLEXIBLE_SINCE)
        head = bytes(frame[_HEAD_START:size_at])
        if head != self._seen:
            self._seen = head
            return
        success = _SUCCESS.pack(data.index, 0, answer.base_offset)
        name = (
            topic.name if version < TOPIC_IDS_SINCE else broker.metadata.topic_name(topic.topic_id)
        )
        if name is None or reply.count(success) != 1:
            return
        self._kind, self._head, self._size_at = bytes(frame[:4]), head, size_at
        self._flexible = version >= _FLEXIBLE_SINCE
        self._acks = request.acks
        self._in_transactions = request.transactional_id is not None
        self._refused_bits = 0 if version >= ZSTD_SINCE else _ZSTD
        self._partition = broker.hosted.get(name, data.index)
        self._reply = reply
        self._offsets = _OFFSETS_V5 if version >= _LOG_START_SINCE else _OFFSETS_V3
        self._offsets_at = reply.index(success) + _SUCCESS.size - 8


def _goes_on(batch: memoryview, partition: Partition) -> bool:
    """Whether the transaction of a batch is open there: its coordinator need not be asked."""
    producer_id, epoch, _ = PRODUCER.unpack_from(batch, PRODUCER_POS)
    return partition.log.producers.has_ongoing_txn(producer_id, epoch)


def _size_position(frame: memoryview, batch_size_bytes: int, flexible: bool) -> int:
    """Where the size of a request's only batch stands, which is the last thing in it."""
    if not flexible:
        return len(frame) - batch_size_bytes - 4
    varint_size = ((batch_size_bytes + 1).bit_length() + 6) // 7
    return len(frame) - len(_NO_TAGS) - batch_size_bytes - varint_size


def _batch(frame: memoryview, size_at: int, flexible: bool) -> memoryview | None:
    """The batch whose size stands at `size_at`, if the request ends with it and nothing is odd."""
    if not flexible:
        batch = frame[size_at + 4 :]
        if len(batch) < HEADER_SIZE or _SIZE.unpack_from(frame, size_at)[0] != len(batch):
            return None
        return batch
    size, shift, position = 0, 0, size_at
    while shift < 35:
        byte = frame[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    end = position + size - 1
    if size <= HEADER_SIZE or frame[end:] != _NO_TAGS:
        return None
    return frame[position:end]
