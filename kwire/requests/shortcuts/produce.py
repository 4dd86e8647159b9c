"""Shortcut for a producer that writes to one partition again and again.

The Produce requests of a connection often differ in their batch only: client id, acks, timeout,
topic and partition are those of the request before.  To decode these fields, look up the partition
and encode the response is most of the cost of a small request beside its append.  So each
connection remembers the bytes of its last request to a single partition:

    key, version | correlation id | head: client id ... partition index | batch size | batch | tail

If the next request has the same key, version, head and tail, its batch is appended to the same
partition, and the response is a copy of the last one with other offsets.  Any other request goes to
the handler: one with another head, a batch that the log refuses, or a partition whose response
would have to wait for replicas or the disk.  The first batch of a transaction adds the partition to
it, if the version allows that and the coordinator can do it at once; otherwise the handler asks.
A transactional producer may also repeat requests to several partitions: see
`kwire.requests.shortcuts.transactional_produce`.
The shortcut returns successful responses only; the handler alone decides about errors.
`tests/requests/shortcuts/test_repeated_produce.py` compares the two.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kwire.codecs.batch_layout import (
    FLAGS_POS,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POS,
    PRODUCER,
    PRODUCER_POS,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.batches import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import Frame
from kwire.log import LogError
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE, ZSTD_SINCE

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
    from kwire.log import Verification
    from kwire.requests.shortcuts.shortcut import Exchange
    from kwire.requests.shortcuts.transactional_produce import RepeatedTransactionalProduce
    from kwire.storage.partitions.partition import Partition

_ZSTD = int(Compression.ZSTD)  # 4: no other codec has this bit
HEAD_START = 8  # after api key, version and correlation id
_FLEXIBLE_SINCE = 9
_LOG_START_SINCE = 5

NO_TAGS = b"\0\0\0"  # no tagged fields: in the partition, the topic and the request
_SIZE = struct.Struct(">i")
_SUCCESS = struct.Struct(">ihq")  # partition index, no error, base offset
_OFFSETS_V3 = struct.Struct(">qq")  # base offset, log append time
OFFSETS_V5 = struct.Struct(">qqq")  # and log start offset


class RepeatedProduce:
    """The last Produce request of one connection, to a single partition.

    `_kind` is the request's api key and version, `_head` its bytes from the client id to the
    partition index, `_size_at` the position of the batch size.  `_reply` is its response, whose
    offsets stand at `_offsets_at`.  `_refused_bits` are flags of a batch for the handler to refuse.
    `_transactional_id` is None outside of transactions; `_adds` says that a write adds its
    partition to the transaction.  `_several` is the last request to several partitions instead.
    """

    __slots__ = (
        "_acks",
        "_adds",
        "_flexible",
        "_head",
        "_kind",
        "_offsets",
        "_offsets_at",
        "_partition",
        "_refused_bits",
        "_reply",
        "_seen",
        "_several",
        "_size_at",
        "_transactional_id",
    )

    def __init__(self) -> None:
        """Remember no request: the first `answer` finds nothing to repeat."""
        # The head of the last request, in pieces if it has several partitions; `learn` remembers a
        # head that comes twice.
        self._seen: bytes | list[bytes] = b""
        self._several: RepeatedTransactionalProduce | None = None
        self._kind = self._head = b""
        self._size_at = HEAD_START
        self._flexible = False
        self._acks = 1
        self._refused_bits = 0
        self._transactional_id: str | None = None
        self._adds = False
        self._partition: Partition | None = None
        self._reply = Frame()
        self._offsets = _OFFSETS_V3
        self._offsets_at = 0

    @property
    def remembered(self) -> tuple[int, int, int] | None:
        """Version of the remembered request, and size and partitions of its response; else None."""
        if self._several is not None:
            return self._several.version, len(self._several.reply), self._several.count
        return (int.from_bytes(self._kind[2:]), len(self._reply), 1) if self._kind else None

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The response to `frame` if only its batch differs from the last request's, else None."""
        size_at = self._size_at
        if frame[:4] != self._kind or frame[HEAD_START:size_at] != self._head:
            several = self._several
            return None if several is None else several.answer(frame, broker)
        batch = _batch(frame, size_at, self._flexible)
        partition = self._partition
        # The last two conditions are the cases in which a response has to wait: for followers
        # (acks=-1 on a partition that has some) or for the disk (`flush.messages`).
        if (
            batch is None
            or partition is None
            or (partition.leading is not None and self._acks == -1)
            or partition.log.flushes_by_messages
        ):
            return None
        flags = batch[FLAGS_POS]
        if flags & self._refused_bits:  # zstd from a version that does not know it
            return None
        # `append` also checks leadership: it raises if the partition was deleted or moved since.
        try:
            proof = self._proof(batch, partition, broker) if flags & TRANSACTIONAL_FLAG else None
            result = partition.append(
                batch, now_ms=broker.now_ms(), required_acks=self._acks, verification=proof
            )
        except LogError:
            return None
        reply = Frame()
        reply += self._reply
        reply[4:8] = frame[4:8]  # the correlation id, behind the size
        # result: first offset, last offset, log append time, log start offset
        if self._offsets is OFFSETS_V5:
            OFFSETS_V5.pack_into(reply, self._offsets_at, result[0], result[2], result[3])
        else:
            _OFFSETS_V3.pack_into(reply, self._offsets_at, result[0], result[2])
        return reply

    def _proof(
        self, batch: memoryview, partition: Partition, broker: Broker
    ) -> Verification | None:
        """The proof that a transactional batch is part of its transaction, None if it needs none.

        Raises LogError if the handler has to ask the transaction coordinator.
        """
        transactional_id = self._transactional_id
        producer_id, epoch, sequence = PRODUCER.unpack_from(batch, PRODUCER_POS)
        if transactional_id is None:
            raise LogError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if partition.log.producers.has_ongoing_txn(producer_id, epoch):
            return None
        proof = None
        if self._adds and batch[MAGIC_POS] == MAGIC:
            # Not at the start of a broker, which may never see a transaction.
            from kwire.coordinators.runtime.verification import ProducerIdentity, add_at_once

            producer = ProducerIdentity(transactional_id, producer_id, epoch)
            proof = add_at_once(broker.node, broker.coordinators, producer, partition, sequence)
        if proof is None:
            raise LogError(ErrorCode.INVALID_TXN_STATE)
        return proof

    def learn(self, exchange: Exchange[ProduceRequest, ProduceResponse], broker: Broker) -> None:
        """Remember the request of `exchange` if the request before had the same head."""
        frame, version, reply = exchange.frame, exchange.version, exchange.reply
        request, response = exchange.request, exchange.response
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            if request.transactional_id is not None and _adds_partitions(version):
                self._learn_several(exchange, broker)
            return
        topic = request.topic_data[0]
        data, answer = topic.partition_data[0], response.responses[0].partition_responses[0]
        if answer.error_code or not isinstance(data.records, memoryview):
            return
        size_at = _size_position(frame, len(data.records), version >= _FLEXIBLE_SINCE)
        # A producer of many partitions changes its head with each request: learning costs more
        # than it saves until a head comes twice in a row.
        head = bytes(frame[HEAD_START:size_at])
        if head != self._seen:
            self._seen = head
            return
        offsets_at = offsets_position(reply, data.index, answer.base_offset)
        name = _name(topic, version, broker)
        if name is None or offsets_at is None:
            return
        self._kind, self._head, self._size_at = bytes(frame[:4]), head, size_at
        self._flexible = version >= _FLEXIBLE_SINCE
        self._acks = request.acks
        self._transactional_id = request.transactional_id
        self._adds = request.transactional_id is not None and _adds_partitions(version)
        self._refused_bits = 0 if version >= ZSTD_SINCE else _ZSTD
        # The object stays valid after a deletion: it refuses appends from then on.
        self._partition = broker.hosted.get(name, data.index)
        self._reply = reply
        self._offsets = OFFSETS_V5 if version >= _LOG_START_SINCE else _OFFSETS_V3
        self._offsets_at = offsets_at
        self._several = None

    def _learn_several(
        self, exchange: Exchange[ProduceRequest, ProduceResponse], broker: Broker
    ) -> None:
        """Remember a request to several partitions if the request before had the same pieces."""
        # Not at the start of a broker, which may never see a transaction.
        from kwire.requests.shortcuts import transactional_produce

        pieces = transactional_produce.pieces_of(exchange)
        if pieces is None:
            return
        if pieces != self._seen:
            self._seen = pieces
            return
        name = _name(exchange.request.topic_data[0], exchange.version, broker)
        if name is not None:
            hosted = broker.hosted.by_topic.get(name, {})
            self._several = transactional_produce.remember(exchange, pieces, hosted)
            self._kind = b""


def _name(topic: TopicProduceData, version: int, broker: Broker) -> str | None:
    """The topic's name, or None if the broker does not know its id."""
    return topic.name if version < TOPIC_IDS_SINCE else broker.metadata.topic_name(topic.topic_id)


def _adds_partitions(version: int) -> bool:
    """Whether a transactional request of this version adds its partitions to the transaction."""
    from kwire.coordinators.runtime.transactional_produce import ABORTABLE_SINCE

    return version > ABORTABLE_SINCE


def _size_position(frame: memoryview, batch_size_bytes: int, flexible: bool) -> int:
    """Position of the batch size in a request whose only batch is its last field."""
    if not flexible:
        # The size is an int32.
        return len(frame) - batch_size_bytes - 4
    return len(frame) - len(NO_TAGS) - batch_size_bytes - varint_size(batch_size_bytes)


def _batch(frame: memoryview, size_at: int, flexible: bool) -> memoryview | None:
    """The batch whose size stands at `size_at`; None if it does not end the request as expected."""
    if not flexible:
        batch = frame[size_at + 4 :]
        if len(batch) < HEADER_SIZE or _SIZE.unpack_from(frame, size_at)[0] != len(batch):
            return None
        return batch
    start, end = batch_region(frame, size_at)
    if end - start < HEADER_SIZE or frame[end:] != NO_TAGS:
        return None
    return frame[start:end]


def batch_region(frame: memoryview, size_at: int) -> tuple[int, int]:
    """Start and end of the batch whose size stands at `size_at`, in a flexible version.

    The end may lie behind the frame's.  Raises IndexError if the size does.
    """
    # The size plus one is an unsigned varint of at most 5 bytes.
    size, shift, position = 0, 0, size_at
    while shift < 35:
        byte = frame[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return position, position + size - 1


def offsets_position(reply: Frame, index: int, base_offset: int) -> int | None:
    """Where in a response the base offset of a partition stands, followed by its other offsets.

    It is found by its value.  None if the same bytes stand there twice, so that it is unknown which
    of them are the offset.
    """
    success = _SUCCESS.pack(index, 0, base_offset)
    # `_SUCCESS` ends with the base offset, an int64.
    return reply.index(success) + _SUCCESS.size - 8 if reply.count(success) == 1 else None


def varint_size(size_bytes: int) -> int:
    """The bytes that the size of a batch takes in a flexible version."""
    # The size plus one is a varint, with 7 bits in each byte.
    return ((size_bytes + 1).bit_length() + 6) // 7
