"""Shortcut for a transactional producer that writes to the same partitions again and again.

It is to requests with several partitions what `kwire.requests.shortcuts.produce` is to those with
one.  The request has one topic, and in front of each batch the same bytes as last time:

    key, version | correlation id | piece, batch size, batch | piece, batch size, batch | ... | tail

The first piece has the client id, transactional id, acks, timeout, topic and the first index; each
other piece has the end of one partition and the index of the next.

Some batches may have been appended when a later one is refused.  The handler then answers the whole
request, whose batches get back the headers with which the client has sent them.  The log recognises
those that it has, for all of them are of a producer with sequence numbers (KIP-98), and the
handler's answer has their offsets.  So this shortcut takes no other batches.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kwire.codecs.batch_layout import (
    FLAGS_POS,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POS,
    PRODUCER,
    PRODUCER_POS,
    TRANSACTIONAL_FLAG,
)
from kwire.codecs.primitives import Frame
from kwire.coordinators.runtime.verification import ProducerIdentity, add_together_at_once
from kwire.log import LogError
from kwire.requests.shortcuts.produce import (
    HEAD_START,
    NO_TAGS,
    OFFSETS_V5,
    batch_region,
    offsets_position,
    varint_size,
)

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.produce import ProduceRequest, ProduceResponse
    from kwire.requests.shortcuts.shortcut import Exchange
    from kwire.storage.partitions.partition import Partition

PARTITIONS_MAX = 256
"""Partitions of a request that this shortcut answers.  The handler lets other tasks run while it
writes to more (PARTITIONS_AT_ONCE of kwire.requests.handlers.produce)."""
BYTES_MAX = 4 << 20
"""Size of a request that this shortcut answers.  The handler lets other tasks run while it writes
more (BYTES_AT_ONCE)."""

_ALL_REPLICAS = -1
_INDEX = Struct(">i")


class _Place(NamedTuple):
    """What stands in front of one batch of the request, and where its answer stands."""

    piece: bytes
    partition: Partition
    offsets_at: int
    """Where in the response base offset, log append time and log start offset stand."""


class RepeatedTransactionalProduce:
    """The last Produce request of one connection to several partitions of one topic."""

    __slots__ = ("_acks", "_kind", "_places", "_topic", "_transactional_id", "reply")

    def __init__(
        self,
        exchange: Exchange[ProduceRequest, ProduceResponse],
        places: list[_Place],
    ) -> None:
        self._kind = bytes(exchange.frame[:4])
        self._acks = exchange.request.acks
        self._transactional_id = exchange.request.transactional_id or ""
        self._topic = places[0].partition.topic
        self._places = places
        self.reply = exchange.reply
        """The response, whose offsets are replaced in each copy."""

    @property
    def version(self) -> int:
        """The version of the request."""
        return int.from_bytes(self._kind[2:])

    @property
    def count(self) -> int:
        """The number of partitions in the request and in its response."""
        return len(self._places)

    def answer(self, frame: memoryview, broker: Broker) -> Frame | None:
        """The response to `frame` if only its batches differ from the last request's, else None."""
        if frame[:4] != self._kind or len(frame) > BYTES_MAX:
            return None
        batches = _batches(frame, self._places)
        if batches is None:
            return None
        producer_id, epoch, _ = PRODUCER.unpack_from(batches[0], PRODUCER_POS)
        if producer_id < 0:
            return None
        to_add: list[tuple[Partition, int]] = []
        for batch, (_, partition, _) in zip(batches, self._places, strict=True):
            of_batch = PRODUCER.unpack_from(batch, PRODUCER_POS)
            # The last two conditions are the cases in which a response has to wait.
            if (
                batch[MAGIC_POS] != MAGIC
                or not batch[FLAGS_POS] & TRANSACTIONAL_FLAG
                or of_batch[0] != producer_id
                or of_batch[1] != epoch
                or (partition.leading is not None and self._acks == _ALL_REPLICAS)
                or partition.log.flushes_by_messages
            ):
                return None
            if not partition.log.producers.has_ongoing_txn(producer_id, epoch):
                to_add.append((partition, of_batch[2]))
        headers = [bytes(batch[:HEADER_SIZE]) for batch in batches]
        try:
            producer = ProducerIdentity(self._transactional_id, producer_id, epoch)
            return self._append(frame, batches, broker, producer, to_add)
        except LogError:
            for batch, header in zip(batches, headers, strict=True):
                batch[:HEADER_SIZE] = header  # the log writes offsets into it
            return None

    def _append(
        self,
        frame: memoryview,
        batches: list[memoryview],
        broker: Broker,
        producer: ProducerIdentity,
        to_add: list[tuple[Partition, int]],
    ) -> Frame | None:
        """Add partitions to the transaction, append the batches, and return the response.

        None if the handler has to ask the coordinator.  Raises LogError if a log refuses its batch.
        """
        proofs = {}
        if to_add:
            added = add_together_at_once(
                broker.node, broker.coordinators, producer, self._topic, to_add
            )
            if added is None:
                return None
            proofs = added
        reply = Frame()
        reply += self.reply
        reply[4:8] = frame[4:8]  # the correlation id, behind the size
        now_ms, acks = broker.now_ms(), self._acks
        for batch, (_, partition, offsets_at) in zip(batches, self._places, strict=True):
            # `append` also checks leadership: it raises if the partition was deleted or moved.
            result = partition.append(
                batch,
                now_ms=now_ms,
                required_acks=acks,
                verification=proofs.get(partition.index),
            )
            # result: first offset, last offset, log append time, log start offset
            OFFSETS_V5.pack_into(reply, offsets_at, result[0], result[2], result[3])
        return reply


def pieces_of(exchange: Exchange[ProduceRequest, ProduceResponse]) -> list[bytes] | None:
    """The bytes in front of each batch of a request in a flexible version.

    None if this shortcut is not for it: it has several topics, one partition or too many, null
    records or tagged fields, or names a partition twice.
    """
    frame, topics = exchange.frame, exchange.request.topic_data
    if len(topics) != 1 or not 1 < len(topics[0].partition_data) <= PARTITIONS_MAX:
        return None
    partitions = topics[0].partition_data
    if len({data.index for data in partitions}) != len(partitions):
        return None
    # From the end of the request to its start: the place of each batch follows from its size.
    pieces: list[bytes] = []
    end = len(frame) - len(NO_TAGS)
    for data in reversed(partitions):
        if not isinstance(data.records, memoryview):
            return None
        size_bytes = len(data.records)
        size_at = end - size_bytes - varint_size(size_bytes)
        first = data is partitions[0]
        # A partition begins with its index, and the one before it ends with its tagged fields.
        start = HEAD_START if first else size_at - _INDEX.size - 1
        piece = bytes(frame[start:size_at]) if start >= HEAD_START else b""
        if not piece.endswith(_INDEX.pack(data.index)) or not (first or piece[0] == 0):
            return None
        pieces.append(piece)
        end = start
    pieces.reverse()
    return pieces


def remember(
    exchange: Exchange[ProduceRequest, ProduceResponse],
    pieces: list[bytes],
    hosted: dict[int, Partition],
) -> RepeatedTransactionalProduce | None:
    """The shortcut for requests like that of `exchange`; None if not all of it succeeded.

    `pieces` are those of `pieces_of`, and `hosted` the partitions of its topic on this broker.
    """
    reply, places = exchange.reply, []
    answers = exchange.response.responses[0].partition_responses
    for piece, answer in zip(pieces, answers, strict=True):
        partition = hosted.get(answer.index)
        offsets_at = offsets_position(reply, answer.index, answer.base_offset)
        if answer.error_code or partition is None or offsets_at is None:
            return None
        places.append(_Place(piece, partition, offsets_at))
    return RepeatedTransactionalProduce(exchange, places)


def _batches(frame: memoryview, places: list[_Place]) -> list[memoryview] | None:
    """The batches of a request; None if it has other bytes between them than `places`."""
    batches = []
    position, length = HEAD_START, len(frame)
    for place in places:
        piece = place.piece
        end = position + len(piece)
        if frame[position:end] != piece or end + HEADER_SIZE > length:
            return None
        position, end = batch_region(frame, end)
        if end - position < HEADER_SIZE or end > length:
            return None
        batches.append(frame[position:end])
        position = end
    return batches if frame[position:] == NO_TAGS else None
