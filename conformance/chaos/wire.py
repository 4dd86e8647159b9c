"""The requests that a round itself sends to the broker, with this project's own codecs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kwire.codecs.batches import (
    BatchHeader,
    ControlType,
    Record,
    build,
    check_crc,
    iter_batches,
    read_marker,
    records,
)
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codecs.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.messages.txn_offset_commit import TxnOffsetCommitRequest
from kwire.codecs.primitives import Message
from kwire.conformance.wire.broker import GROUP, RemoteBroker
from kwire.conformance.wire.peer import Address, ClientConnection, Reply, Silent

EARLIEST, LATEST = -2, -1
FETCH_BYTES_MAX = 1 << 20
REPLY_TIMEOUT_S = 15.0
"""Longer than any pause; a broker that takes longer counts as SILENT."""
BY_NAME_MAX = {
    ProduceRequest: 12,
    FetchRequest: 12,
    FindCoordinatorRequest: 3,
    OffsetCommitRequest: 9,
    OffsetFetchRequest: 7,
    TxnOffsetCommitRequest: 5,
}
"""The newest versions that name a topic instead of its id, or one group instead of several."""


MARKERS = {ControlType.COMMIT: "commit", ControlType.ABORT: "abort"}


class LogRecord(NamedTuple):
    """A record in the log.

    `kind` is "plain", "transactional", or for control records "commit", "abort" or "control".
    `epoch` is the producer's, and `sequence` is that of the first record of its batch.
    """

    offset: int
    kind: str
    producer_id: int
    key: bytes | None
    value: bytes
    epoch: int = -1
    sequence: int = -1


def _kind(header: BatchHeader, record: Record) -> str:
    """Return the kind of a record: plain, transactional, commit, abort or other control."""
    if header.is_control:
        marker = read_marker(record)
        return MARKERS[marker.kind] if marker is not None else "control"
    return "transactional" if header.is_transactional else "plain"


class Refused(RuntimeError):
    """No response, or an error code; the message is its name, or SILENT or CLOSED."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


def check(error_code: int) -> None:
    """Raise Refused for every error code but NONE."""
    if error_code != ErrorCode.NONE:
        raise Refused(ErrorCode(error_code).name)


def topic_names(reply: MetadataResponse) -> list[str]:
    """Return the topics that a broker reports without an error."""
    return [topic.name or "" for topic in reply.topics if topic.error_code == ErrorCode.NONE]


class Link:
    """A client that sends one request after the other, and reconnects when needed.

    All methods raise Refused. `patience_s` is the timeout of later responses, in seconds.
    """

    def __init__(self, address: Address) -> None:
        self.patience_s = REPLY_TIMEOUT_S
        self._broker = RemoteBroker(address)
        self._peer: ClientConnection | None = None

    def close(self) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()

    def forget(self) -> None:
        """Forget which broker is responsible for what; a single broker always is."""

    def ask(self, request: Message) -> Any:  # noqa: ANN401 - any response
        """Return the response to a request."""
        assert request.API_KEY is not None
        try:
            if not self._broker.served:
                self._broker.read_versions_and_ids()
            if self._peer is None or not self._peer.usable:
                self._peer = ClientConnection(self._broker.address)
        except (OSError, RuntimeError) as error:
            raise Refused("CLOSED") from error
        newest = BY_NAME_MAX.get(type(request), request.MAX_VERSION)
        version = min(self._broker.version_of(request), newest)
        self._peer.send(request.API_KEY, version, request.encode(version))
        outcome = self._peer.receive(self.patience_s)
        if isinstance(outcome, Reply):
            return outcome.message
        raise Refused("SILENT" if isinstance(outcome, Silent) else "CLOSED")

    # Topics and producer ids

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        """Create a topic with the default replication factor; raise Refused after an error."""
        settings = [CreatableTopicConfig(key, value) for key, value in configs.items()]
        topic = CreatableTopic(name, partitions, -1, [], settings)
        reply = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        check(reply.topics[0].error_code)

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return topic_names(self.ask(MetadataRequest(topics=None)))

    def init_producer_id(self) -> int:
        """Return a new producer id."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        reply = self.ask(request)
        check(reply.error_code)
        producer_id: int = reply.producer_id
        return producer_id

    # Records

    def produce(
        self, topic: str, partition: int, value: bytes, now_ms: int, key: bytes | None = None
    ) -> int:
        """Write one record with acks=all, without retries; return its offset."""
        batch = bytes(build([Record(0, now_ms, key, value, [])]))
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch)])
        reply = self.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]))
        [answer] = reply.responses[0].partition_responses
        check(answer.error_code)
        offset: int = answer.base_offset
        return offset

    def offsets(
        self, topic: str, partitions: Sequence[int], timestamp: int, *, stable: bool = False
    ) -> dict[int, int]:
        """Return the EARLIEST or LATEST offset by partition; with `stable`, LATEST is the last
        stable offset."""
        wanted = [ListOffsetsPartition(index, -1, timestamp) for index in partitions]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(stable), topics=[ListOffsetsTopic(topic, wanted)]
        )
        answers = self.ask(request).topics[0].partitions
        for answer in answers:
            check(answer.error_code)
        return {answer.partition_index: answer.offset for answer in answers}

    def read(
        self, topic: str, partition: int, start: int, end: int
    ) -> Iterator[tuple[int, bytes | None]]:
        """Yield (offset, value) of each record from `start` to `end`; the value of a control record
        is None."""
        for record in self.entries(topic, partition, start, end):
            data = record.kind in ("plain", "transactional")
            yield record.offset, record.value if data else None

    def entries(self, topic: str, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """Yield each record from `start` to `end`, as READ_UNCOMMITTED returns it.

        This checks every batch's CRC. It ends early if the broker returns no complete batch, which
        shows as a hole.
        """
        position, before = start, -1
        while before < position < end:
            before = position
            data = self._fetch(topic, partition, position)
            for at, header in iter_batches(data):
                check_crc(data, at, header)
                for record in records(data, at):
                    if position <= record.offset < end:
                        kind, value = _kind(header, record), record.value or b""
                        producer = header.producer_epoch, header.base_sequence
                        yield LogRecord(
                            record.offset, kind, header.producer_id, record.key, value, *producer
                        )
                position = header.last_offset + 1

    def _fetch(self, topic: str, partition: int, offset: int) -> bytes:
        """Return the record batches from this offset on; raise Refused after an error."""
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=FETCH_BYTES_MAX,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        reply = self.ask(request)
        check(reply.error_code)
        [answer] = reply.responses[0].partitions
        check(answer.error_code)
        return bytes(answer.records or b"")

    # Groups

    def find_coordinator(self, key: str, key_type: int = GROUP) -> None:
        """Find the coordinator of a key; the first such request creates the internal topic."""
        reply = self.ask(FindCoordinatorRequest(key=key, key_type=key_type))
        check(reply.error_code)

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Commit offsets of a group that has no members."""
        wanted = [OffsetCommitRequestPartition(index, offset) for index, offset in offsets.items()]
        topics = [OffsetCommitRequestTopic(name=topic, partitions=wanted)]
        reply = self.ask(OffsetCommitRequest(group_id=group, topics=topics))
        for answer in reply.topics[0].partitions:
            check(answer.error_code)

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Return the group's committed offsets by partition; partitions without one are missing.

        Only stable ones: a committed transaction may still change the others after its producer has
        got the response (KIP-447).
        """
        wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))
        reply = self.ask(OffsetFetchRequest(group_id=group, topics=[wanted], require_stable=True))
        check(reply.error_code)
        answers = [answer for topic_data in reply.topics for answer in topic_data.partitions]
        for answer in answers:
            check(answer.error_code)
        return {a.partition_index: a.committed_offset for a in answers if a.committed_offset >= 0}
