"""Writes pushed metrics to a topic, where any consumer of Kafka can read them.

A push becomes one record, in the form in which the OpenTelemetry collector reads metrics from Kafka
(`otlp_proto`): the key is the client instance id, the value is the decompressed payload, and
headers describe the client.  The record is written after the client has its response, as plug-ins
of Apache Kafka export metrics: the client does not learn whether the write succeeded.

The topic is created at the first push of a subscribed client; without a subscription it does not
exist.  It has one partition.  Brokers that do not lead it send their pushes to its leader.

Limits: a push has at most telemetry.max.bytes.  While the topic cannot be written, at most
WAITING_BYTES_MAX of pushes wait; newer pushes are dropped, with an error in the log.  The topic
keeps KEPT_BYTES_MAX, for the time of the broker's log.retention settings.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.metadata.topic_names import TELEMETRY_TOPIC
from kwire.cluster.peers.error import PeerError
from kwire.codecs.batch_builder import build
from kwire.codecs.compression import Compression
from kwire.codecs.errors import ErrorCode, as_error_code
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.codecs.record import Record
from kwire.codecs.uuids import uuid_text
from kwire.log import LogError

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership

log = logging.getLogger("kwire.telemetry")

WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most bytes of pushes that wait.  That is eight of the largest pushes, or about a thousand of
the usual 5 to 10 kB: what 16,000 clients push in twenty seconds at the default interval."""

BATCH_BYTES_MAX: Final = 512 * 1024
"""The most bytes of one batch before compression; a larger push gets a batch of its own."""

RETRY_AFTER_S: Final = 1.0
PRODUCE_TIMEOUT_MS: Final = 10_000
_BY_NAME: Final = 12
"""The last version of Produce with topic names; later ones have topic ids."""


def pushed(
    instance_id: bytes,
    attributes: Mapping[str, str | None],
    principal: str,
    payload: bytes,
    now_ms: int,
    *,
    terminating: bool,
) -> Record:
    """Return the record of a push."""
    values = {**attributes, "principal": principal, "terminating": str(terminating).lower()}
    values.pop("client_instance_id", None)  # it is the key
    headers = [(name, None if text is None else text.encode()) for name, text in values.items()]
    return Record(0, now_ms, uuid_text(instance_id).encode(), payload, headers)


class TelemetryTopic:
    """A queue of pushes, and the task that writes them to the topic, one batch after the other.

    After a retriable error the batch is written again; after any other error it is dropped.
    """

    def __init__(self, node: Node, membership: ClusterMembership) -> None:
        """Begin without waiting metrics; `run` writes them to the topic."""
        self._node = node
        self._membership = membership
        self._waiting: deque[Record] = deque()
        self.waiting_bytes = 0
        self._arrived = trio.Event()
        self.dropped = 0
        """The number of pushes that were dropped since the last write."""

    def keep(self, record: Record) -> None:
        """Queue a record for the topic; drop it if too many bytes wait."""
        size_bytes = len(record.value or b"")
        if self.waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            self.dropped += 1
            if self.dropped == 1:
                log.error(
                    "Too many pushed metrics wait for topic %s. Dropping new pushes.",
                    TELEMETRY_TOPIC,
                )
            return
        self._waiting.append(record)
        self.waiting_bytes += size_bytes
        self._arrived.set()

    async def run(self) -> None:
        """Write queued records until cancelled."""
        while True:
            await self._arrived.wait()
            batch = self._next()
            while (error := await self._write(batch)).retriable:
                log.info(
                    "Cannot write client metrics to topic %s yet: %s.", TELEMETRY_TOPIC, error.name
                )
                await trio.sleep(RETRY_AFTER_S)
            if error != ErrorCode.NONE:
                log.error(
                    "Cannot write client metrics to topic %s: %s. Dropping %d pushes.",
                    TELEMETRY_TOPIC,
                    error.name,
                    len(batch),
                )
            self._written(len(batch))

    def _next(self) -> list[Record]:
        """Return the next records to write, up to `BATCH_BYTES_MAX`, but at least one.

        They stay in the queue until `_written`, so a failed write can be repeated.
        """
        size_bytes = 0
        batch: list[Record] = []
        for record in self._waiting:
            size_bytes += len(record.value or b"")
            if batch and size_bytes > BATCH_BYTES_MAX:
                break
            batch.append(record)
        return batch

    def _written(self, count: int) -> None:
        """Remove the first `count` records, and log how many pushes were dropped meanwhile."""
        for _ in range(count):
            self.waiting_bytes -= len(self._waiting.popleft().value or b"")
        if not self._waiting:
            self._arrived = trio.Event()
        if self.dropped:
            log.error("%d pushes of client metrics were dropped.", self.dropped)
            self.dropped = 0

    async def _write(self, records: list[Record]) -> ErrorCode:
        """Write the records to the topic, here or at its leader; return the error or NONE.

        The topic is created first if it does not exist.
        """
        node = self._node
        topic = node.image.topics.get(TELEMETRY_TOPIC)
        if topic is None:
            await create_internal_topic(self._membership, TELEMETRY_TOPIC)
            topic = node.image.topics.get(TELEMETRY_TOPIC)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        batch = build(records, compression=Compression.ZSTD)
        leader = topic.partitions[0].leader
        if leader != node.node_id and node.peers is not None:
            return await self._send(leader, batch)
        try:
            node.hosted.led(TELEMETRY_TOPIC, 0).append(batch, now_ms=node.now_ms())
        except LogError as error:
            return error.error
        return ErrorCode.NONE

    async def _send(self, leader: int, batch: bytearray) -> ErrorCode:
        """Send the batch to the leader by a Produce request; return the error or NONE.

        NETWORK_EXCEPTION if the leader cannot be reached.
        """
        from kwire.cluster.peers.peers import Role  # imported here as most brokers are alone

        assert self._node.peers is not None
        data = TopicProduceData(
            name=TELEMETRY_TOPIC, partition_data=[PartitionProduceData(0, bytes(batch))]
        )
        request = ProduceRequest(acks=1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
        peer = self._node.peers.peer(leader, Role.TELEMETRY)
        try:
            reply = await peer.call(request, version_max=_BY_NAME)
        except PeerError as error:
            log.debug("Cannot send client metrics to broker %d: %s", leader, error)
            return ErrorCode.NETWORK_EXCEPTION
        return as_error_code(reply.responses[0].partition_responses[0].error_code)
