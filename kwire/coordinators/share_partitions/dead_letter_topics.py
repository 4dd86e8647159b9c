"""The dead-letter topics of share groups: their settings, their creation, and their partitions.

A partition may be led here or by another broker.  Both are written to as a producer with acks=all
does, and read as a consumer does.  This broker writes with its own rights, as Apache Kafka's does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import trio

from kwire.cluster.decisions.topic_creation import NewTopic, creations
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.peers.error import PeerError
from kwire.cluster.peers.peers import Peers, Role
from kwire.cluster.stores.contract import StoreError
from kwire.codecs.errors import ErrorCode, as_error_code
from kwire.codecs.messages import fetch, produce
from kwire.coordinators.runtime.promise import Promise
from kwire.coordinators.share.dead_letters import DeadLetterTopicState
from kwire.log import LogError
from kwire.settings.resources import ConfigResourceType
from kwire.storage.partitions.partition import Partition

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.cluster.membership.contract import ClusterMembership

READ_BYTES = 1 << 20
"""Bytes to read at once."""
REPLICATION_TIMEOUT_MS = 30_000
"""How long a leader waits until all in-sync replicas have a batch, as on Apache Kafka."""
GRACE_MS = 5_000
"""Time to wait beyond that for another broker's response."""
METADATA_TIMEOUT_MS = 5_000
"""How long a new topic may take to appear in this broker's metadata."""

CONFIGS: dict[str, str | None] = {
    "errors.deadletterqueue.group.enable": "true",
    "message.timestamp.type": "CreateTime",
}
"""The configs of a topic that the broker creates, as on Apache Kafka."""


class DeadLetterPartition(Protocol):
    """A partition of a dead-letter topic."""

    async def append(self, batch: bytearray) -> ErrorCode:
        """Append a batch; NONE once all in-sync replicas have it."""

    async def read(self, offset: int) -> bytes:
        """Return committed batches from `offset` on, or from the log start offset if it is higher.

        Returns nothing at the end of the log.  Raises LogError.
        """


class DeadLetterTopics:
    """See the module."""

    def __init__(self, node: Node, membership: ClusterMembership) -> None:
        self._node = node
        self._membership = membership

    def state(self, topic: str) -> DeadLetterTopicState:
        """Return what decides whether share groups may write to the topic."""
        config, image = self._node.config, self._node.image
        configs = image.configs_of(ConfigResourceType.TOPIC, topic)
        return DeadLetterTopicState(
            topic in image.topics,
            configs.get("errors.deadletterqueue.group.enable", "").lower() == "true",
            config.errors_deadletterqueue_topic_name_prefix,
            config.errors_deadletterqueue_auto_create_topics_enable,
        )

    def size_bytes_max(self, topic: str) -> int:
        """Return `max.message.bytes` of the topic."""
        return self._node.log_config(topic).max_message_bytes

    async def create(self, topic: str) -> None:
        """Create the topic with the broker's defaults, unless it exists.

        Raises Refusal if that is not possible, StoreError if it may be possible later.
        """
        wanted = NewTopic(topic, configs=dict(CONFIGS))
        refusal = None
        if self._membership.is_controller:
            [outcome] = outcomes = creations(self._node.settings, [wanted])
            await self._membership.commit(outcomes)
            refusal = outcome.refusal
        else:
            for message in (await self._membership.ask_for_topics([wanted])).values():
                refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message or "")
        # Another broker may have created it at the same time.
        if (
            not await self._membership.wait_until(
                lambda image: topic in image.topics, METADATA_TIMEOUT_MS
            )
            or topic not in self._node.image.topics
        ):
            raise refusal or StoreError("the new topic is not in the metadata yet")

    def partition(self, topic: str, source_partition: int) -> DeadLetterPartition | None:
        """Return where the dead letters of a source partition go; None while it has no leader.

        It is the partition of the same number, modulo the number of partitions.
        """
        found = self._node.image.topics.get(topic)
        if found is None:
            return None
        index = source_partition % len(found.partitions)
        leader = found.partitions[index].leader
        peers = self._node.peers
        if peers is None or leader == self._node.node_id:
            hosted = self._node.hosted.get(topic, index)
            return None if hosted is None else LocalPartition(hosted, self._node)
        return None if leader < 0 else RemotePartition(peers, leader, topic, found.id, index)


class LocalPartition:
    """A partition that this broker hosts."""

    def __init__(self, partition: Partition, node: Node) -> None:
        self._partition = partition
        self._node = node

    async def append(self, batch: bytearray) -> ErrorCode:
        try:
            self._partition.log.check_online()
            result = self._partition.append(batch, now_ms=self._node.now_ms(), required_acks=-1)
        except LogError as error:
            return error.error
        return await self._replicated(result.last_offset + 1)

    async def read(self, offset: int) -> bytes:
        """See DeadLetterPartition.read.

        Reads to the end of the log, and waits until that is committed: an earlier attempt may have
        appended records that are not replicated yet.
        """
        partition = self._partition
        partition.check_leads()
        partition.log.check_online()
        end = partition.log_end_offset
        error = await self._replicated(end)
        if error is not ErrorCode.NONE:
            raise LogError(error)
        offset = max(offset, partition.log_start_offset)
        if offset >= end:
            return b""
        region = partition.read(offset, READ_BYTES, max_offset=end, min_one_batch=True)
        return b"" if region is None else region.read()

    async def _replicated(self, offset: int) -> ErrorCode:
        """Wait until everything before `offset` is committed; return NONE or the error."""
        promise = Promise[ErrorCode]()
        self._partition.when_replicated(offset, promise.resolve)
        with trio.move_on_after(REPLICATION_TIMEOUT_MS / 1000):
            return await promise.wait()
        return ErrorCode.REQUEST_TIMED_OUT


class RemotePartition:
    """A partition that another broker leads.

    A request of an earlier connection, which was lost, may still wait in the socket of that broker.
    The broker reads it at the latest together with the first request of the new connection, so
    before a request that is sent after the response to that one.
    """

    def __init__(self, peers: Peers, leader: int, topic: str, topic_id: bytes, index: int) -> None:
        self._peer = peers.peer(leader, Role.DEAD_LETTERS)
        self._topic, self._topic_id, self._index = topic, topic_id, index

    async def append(self, batch: bytearray) -> ErrorCode:
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=REPLICATION_TIMEOUT_MS,
            topic_data=[
                produce.TopicProduceData(
                    name=self._topic,
                    topic_id=self._topic_id,
                    partition_data=[
                        produce.PartitionProduceData(index=self._index, records=memoryview(batch))
                    ],
                )
            ],
        )
        try:
            response = await self._peer.call(request, timeout_ms=REPLICATION_TIMEOUT_MS + GRACE_MS)
        except PeerError:
            return ErrorCode.NETWORK_EXCEPTION
        errors = [
            as_error_code(partition.error_code)
            for topic in response.responses
            for partition in topic.partition_responses
        ]
        return errors[0] if errors else ErrorCode.UNKNOWN_SERVER_ERROR

    async def read(self, offset: int) -> bytes:
        """See DeadLetterPartition.read."""
        partition = await self._fetch(offset)
        if (
            partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            and partition.log_start_offset > offset
        ):
            partition = await self._fetch(partition.log_start_offset)
        if partition.error_code:
            raise LogError(as_error_code(partition.error_code))
        records = partition.records
        if records is None:
            return b""
        assert isinstance(records, bytes | bytearray | memoryview), "it came over a connection"
        return bytes(records)

    async def _fetch(self, offset: int) -> fetch.PartitionData:
        """Fetch once, without waiting.  Raises LogError if there is no answer."""
        request = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_BYTES,
            topics=[
                fetch.FetchTopic(
                    topic=self._topic,
                    topic_id=self._topic_id,
                    partitions=[
                        fetch.FetchPartition(
                            partition=self._index,
                            fetch_offset=offset,
                            partition_max_bytes=READ_BYTES,
                        )
                    ],
                )
            ],
        )
        try:
            response = await self._peer.call(request)
        except PeerError as error:
            raise LogError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        if response.error_code or not response.responses:
            raise LogError(as_error_code(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
        found: fetch.PartitionData = response.responses[0].partitions[0]
        return found
