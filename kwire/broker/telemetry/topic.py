"""Where pushed metrics are kept: a topic, so that whoever reads Kafka can read them.

A push is a record, in the form in which OpenTelemetry's own collector reads metrics from Kafka
(`otlp_proto`): key is the client instance id, value the decompressed payload, headers say whose it
is.  It is written behind the client's back, as Apache Kafka's plug-ins export: a client is not told
what became of its push.

The topic is made at the first push that an administrator has asked for; without a subscription
there is none.  It has one partition, which one broker leads; others send theirs there.

Limits: one push is at most telemetry.max.bytes.  What waits to be written (the topic is made, its
leader is away) is at most WAITING_BYTES_MAX, newer pushes are dropped then, and the log says so.
The topic keeps KEPT_BYTES_MAX of the latest, and as long as the broker's log.retention says.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from kwire.client.errors import as_error_code
from kwire.cluster.membership.committing import create_internal_topic
from kwire.cluster.metadata.topic_names import TELEMETRY_TOPIC
from kwire.cluster.peers.error import PeerError
from kwire.codecs.batch_builder import build
from kwire.codecs.compression import Compression
from kwire.codecs.errors import ErrorCode
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
"""Eight of the largest pushes, or some thousand of a usual client's 5 to 10 kB: what 16,000 clients
push in twenty seconds at the default interval."""

BATCH_BYTES_MAX: Final = 512 * 1024
"""Before compression; a push that is larger has a batch of its own."""

RETRY_AFTER_S: Final = 1.0
PRODUCE_TIMEOUT_MS: Final = 10_000
_BY_NAME: Final = 12
"""The last version of Produce that names topics; later ones have their ids."""


def pushed(
    instance_id: bytes,
    attributes: Mapping[str, str | None],
    principal: str,
    payload: bytes,
    now_ms: int,
    *,
    terminating: bool,
) -> Record:
    """A push as it is kept."""
    told = {**attributes, "principal": principal, "terminating": str(terminating).lower()}
    told.pop("client_instance_id", None)  # it is the key
    headers = [(name, None if text is None else text.encode()) for name, text in told.items()]
    return Record(0, now_ms, uuid_text(instance_id).encode(), payload, headers)


class TelemetryTopic:
    """Writes what it is given to the topic, one batch after the other, by a task of its own.

    What passes is tried again; what the topic refuses for good is let go of.
    """

    def __init__(self, node: Node, membership: ClusterMembership) -> None:
        self._node = node
        self._membership = membership
        self._waiting: deque[Record] = deque()
        self.waiting_bytes = 0
        self._arrived = trio.Event()
        self.dropped = 0
        """Pushes for which there was no room, since the last that was written."""

    def keep(self, record: Record) -> None:
        size_bytes = len(record.value or b"")
        if self.waiting_bytes + size_bytes > WAITING_BYTES_MAX:
            self.dropped += 1
            if self.dropped == 1:
                log.error("pushed metrics are dropped: %s takes no more", TELEMETRY_TOPIC)
            return
        self._waiting.append(record)
        self.waiting_bytes += size_bytes
        self._arrived.set()

    async def run(self) -> None:
        """Write what comes until this is cancelled."""
        while True:
            await self._arrived.wait()
            batch = self._next()
            while (error := await self._write(batch)).retriable:
                log.info("metrics cannot be written to %s yet: %s", TELEMETRY_TOPIC, error.name)
                await trio.sleep(RETRY_AFTER_S)
            if error != ErrorCode.NONE:
                log.error("metrics are not written to %s: %s", TELEMETRY_TOPIC, error.name)
            self._written(len(batch))

    def _next(self) -> list[Record]:
        size_bytes = 0
        batch: list[Record] = []
        for record in self._waiting:
            size_bytes += len(record.value or b"")
            if batch and size_bytes > BATCH_BYTES_MAX:
                break
            batch.append(record)
        return batch

    def _written(self, count: int) -> None:
        for _ in range(count):
            self.waiting_bytes -= len(self._waiting.popleft().value or b"")
        if not self._waiting:
            self._arrived = trio.Event()
        if self.dropped:
            log.error("%d pushes of metrics were dropped", self.dropped)
            self.dropped = 0

    async def _write(self, records: list[Record]) -> ErrorCode:
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
        except LogError as problem:
            return problem.error
        return ErrorCode.NONE

    async def _send(self, leader: int, batch: bytearray) -> ErrorCode:
        from kwire.cluster.peers.peers import Role  # most brokers are alone

        assert self._node.peers is not None
        data = TopicProduceData(
            name=TELEMETRY_TOPIC, partition_data=[PartitionProduceData(0, bytes(batch))]
        )
        request = ProduceRequest(acks=1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
        peer = self._node.peers.peer(leader, Role.TELEMETRY)
        try:
            reply = await peer.call(request, version_max=_BY_NAME)
        except PeerError as problem:
            log.debug("%s", problem)
            return ErrorCode.NETWORK_EXCEPTION
        return as_error_code(reply.responses[0].partition_responses[0].error_code)
