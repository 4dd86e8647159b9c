"""Produce (key 0): v3-13.

Behaviour
- The broker checks each partition's batch, writes the assigned offsets into it in place and
  appends it.  Partitions fail one by one: each has its own error code, message and record errors.
- With acks=1 the response follows the append.  With acks=-1 it waits until every in-sync replica
  has the batch.  With acks=0 there is no response: an error closes the connection, because the
  client has no other way to learn of it.  If `flush.messages` is set, acks=1 and acks=-1 also wait
  for the disk (kwire.storage.partitions.flushing).
- Any other value of acks gives INVALID_REQUIRED_ACKS for every partition that exists.
- Produce does not create topics; clients use Metadata for that.
- Clients may not write to internal topics, only coordinators may: INVALID_TOPIC_EXCEPTION.  The
  client id of Kafka's own tools is exempt.
- If a topic names a partition twice, the broker writes and answers the last entry only.
- The response leaves out a topic without partitions.
- A transactional batch is written only to a partition that is part of its producer's transaction
  (kwire.coordinators.runtime.verification).  A request with transactional batches but without a
  transactional id fails as a whole with TRANSACTIONAL_ID_AUTHORIZATION_FAILED; one with batches of
  several producers fails with INVALID_PRODUCER_ID_MAPPING.
- Null records give INVALID_RECORD.  Apache Kafka fails internally and never answers them.

Version notes: zstd from v7; record errors and messages from v8; flexible from v9; leaders of moved
partitions from v10; TRANSACTION_ABORTABLE from v11; from v12 a write adds its partition to the
transaction; topics by id instead of name from v13.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.batch_layout import (
    CODEC_MASK,
    CODEC_MAX,
    FLAGS_POS,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POS,
)
from kwire.codecs.batches import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.coordinators.runtime import transactional_produce
from kwire.coordinators.runtime.verification import VerificationResult
from kwire.log import LogError, Verification, single_batch
from kwire.requests.context import CloseConnection, Context
from kwire.requests.guards.base import Access, Proceed, Response, reshaped
from kwire.requests.route import Right, Route
from kwire.requests.uncommitted import UncommittedResponse, Wait
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE, ZSTD_SINCE

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.primitives import Records

ADMIN_CLIENT_ID = "__admin_client"

PARTITIONS_AT_ONCE = 256
"""Partitions that a request writes before other tasks run: about 4 ms, at a measured 15 us each."""

BYTES_AT_ONCE = 4 << 20
"""Bytes of batches that a request writes before other tasks run: about 3 ms.  A batch is not
divided; message.max.bytes limits it."""

ROUTE = Route(
    ApiKey.PRODUCE, 3, 13, Right(AclOperation.WRITE, ResourceType.TOPIC), advertised_from=0
)
"""Kafka advertises Produce from 0 although it serves from 3: librdkafka takes a higher minimum for
a broker without the old message formats and drops features (KAFKA-18659)."""


def handle(
    broker: Broker, request: ProduceRequest, context: Context
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the batches, and return the response, an awaitable of it, or None (acks=0)."""
    try:
        if not transactional_produce.has_transactional(request):
            return _produce(broker, request, context)
        verdict = transactional_produce.verify_request(
            broker.node, broker.coordinators, request, context.api_version
        )
    except LogError as error:
        return _refuse(request, error)
    if isinstance(verdict, VerificationResult):
        return _produce(broker, request, context, verdict)
    # Only here must the request wait before it writes: the coordinator is on another broker, or
    # there are so many partitions that others have their turn meanwhile.
    return _produce_once_verified(broker, request, context, verdict)


async def _produce_once_verified(
    broker: Broker,
    request: ProduceRequest,
    context: Context,
    verdict: Awaitable[VerificationResult],
) -> ProduceResponse | None:
    """Append the batches when the transaction coordinator has answered; return the response."""
    try:
        verified = await verdict
    except LogError as error:
        return _refuse(request, error)
    response = _produce(broker, request, context, verified)
    return await response if isinstance(response, Awaitable) else response


def _produce(
    broker: Broker,
    request: ProduceRequest,
    context: Context,
    verdict: VerificationResult | None = None,
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the batches; `verdict` is about the transactional ones, None if there are none."""
    acks = request.acks
    if not -1 <= acks <= 1:
        return _refuse_acks(broker, request, context.api_version)
    work = _ProduceWork(broker, request, context, verdict)
    topics = [topic for topic in request.topic_data if topic.partition_data]
    if _is_large(topics):
        return _produce_in_turns(work, topics, request)
    # The usual request is appended here without a task switch, so it needs no coroutine.
    return _answer(work, ProduceResponse([work.write(topic) for topic in topics]), request)


async def _produce_in_turns(
    work: _ProduceWork, topics: list[TopicProduceData], request: ProduceRequest
) -> ProduceResponse | None:
    """Append the batches of a large request, and let other tasks run in between.

    Returns the response, or None with acks=0.
    """
    response = ProduceResponse([await work.write_in_turns(topic) for topic in topics])
    answer = _answer(work, response, request)
    return await answer if isinstance(answer, Awaitable) else answer


def _answer(
    work: _ProduceWork, response: ProduceResponse, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    """The response to a request whose batches are appended: now, later, or never (acks=0)."""
    if request.acks == 0:
        if work.failed:
            _close(response)
        return None
    if work.uncommitted is not None:
        work.uncommitted.response = response
        return work.uncommitted
    return response


class _ProduceWork:
    """Appends the batches of one request and collects the responses of its partitions.

    `failed` says whether any partition has an error.  `uncommitted` holds the responses that have
    to wait for replication or the disk; it is None if there are none.
    """

    __slots__ = (
        "_broker",
        "_client_id",
        "_guarded",
        "_now_ms",
        "_request",
        "_verdict",
        "_version",
        "failed",
        "uncommitted",
    )

    def __init__(
        self,
        broker: Broker,
        request: ProduceRequest,
        context: Context,
        verdict: VerificationResult | None,
    ) -> None:
        """Prepare the append; `verdict` is None if the request has no transactional batch."""
        self._broker = broker
        self._request = request
        self._verdict = verdict
        self._version = context.api_version
        self._client_id = context.client_id
        self._now_ms = broker.now_ms()
        self._guarded = False
        self.failed = False
        self.uncommitted: UncommittedResponse | None = None

    def write(self, topic: TopicProduceData) -> TopicProduceResponse:
        """Append the batches of one topic."""
        hosted, name = self._hosted(topic)
        responses = [self._write(hosted, name, data) for data in _last_of_each_index(topic)]
        return TopicProduceResponse(topic.name, topic.topic_id, responses)

    async def write_in_turns(self, topic: TopicProduceData) -> TopicProduceResponse:
        """Append the batches of one topic; other tasks run after each `PARTITIONS_AT_ONCE`, and
        after `BYTES_AT_ONCE`."""
        hosted, name = self._hosted(topic)
        responses = []
        left = BYTES_AT_ONCE
        for number, data in enumerate(_last_of_each_index(topic), 1):
            responses.append(self._write(hosted, name, data))
            left -= _size_bytes(data)
            if number % PARTITIONS_AT_ONCE == 0 or left <= 0:
                left = BYTES_AT_ONCE
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        return TopicProduceResponse(topic.name, topic.topic_id, responses)

    def _hosted(self, topic: TopicProduceData) -> tuple[Mapping[int, Partition], str | None]:
        """Return the hosted partitions of a topic by index, and its name (None if unknown)."""
        name = _name(self._broker, topic, self._version)
        # `_write` raises the error, so that an absent partition gets its own error instead.
        self._guarded = name in INTERNAL_TOPICS and self._client_id != ADMIN_CLIENT_ID
        return (self._broker.hosted.by_topic.get(name, {}) if name is not None else {}), name

    def _write(
        self, hosted: Mapping[int, Partition], name: str | None, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        """Append the batch of one partition, and return its response.

        With acks=-1 the response may be held back: see `_wait_if_needed`.
        """
        # The order of these checks decides which of several errors the client sees: Kafka's order.
        try:
            partition = hosted.get(data.index)
            if partition is None:
                raise _absent(self._broker, name, data.index)
            proof = None if self._verdict is None else self._proof(self._verdict, partition)
            if self._guarded:
                raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            records = data.records
            if not isinstance(records, memoryview):  # null records
                raise LogError(ErrorCode.INVALID_RECORD)
            if self._version < ZSTD_SINCE:
                _check_codec(records)
            # `records` is a view of the request's frame, and the log writes its offsets into it.
            result = partition.append(
                records,
                now_ms=self._now_ms,
                required_acks=self._request.acks,
                verification=proof,
            )
        except LogError as error:
            self.failed = True
            return _failure(data, error)
        response = PartitionProduceResponse(
            data.index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset
        )
        # Below the high watermark the batch is on all in-sync replicas and, if `flush.messages` is
        # set, on the disk: a leader without followers moves the high watermark in `append`.
        if result.last_offset >= partition.high_watermark:
            self._wait_if_needed(partition, result.last_offset + 1, response)
        return response

    def _wait_if_needed(
        self, partition: Partition, offset: int, response: PartitionProduceResponse
    ) -> None:
        """Hold `response` back for replication (acks=-1) or for the disk (`flush.messages`)."""
        if self._request.acks == -1:
            self._wait(partition.when_replicated, offset, response)
        elif partition.is_flushing:
            self._wait(partition.when_flushed, offset, response)

    def _wait(self, wait: Wait, offset: int, response: PartitionProduceResponse) -> None:
        """Hold `response` back until `wait` reports the records before `offset`."""
        if self.uncommitted is None:
            self.uncommitted = UncommittedResponse(
                self._request.timeout_ms, self._broker.hosted.expired
            )
        self.uncommitted.add(wait, offset, response)

    @staticmethod
    def _proof(verdict: VerificationResult, partition: Partition) -> Verification | None:
        """The transaction coordinator's permission to write there; LogError if it refused."""
        proofs, refusals = verdict
        topic_partition = partition.topic, partition.index
        if refusals:
            refused = refusals.get(topic_partition)
            if refused is not None:
                raise transactional_produce.refusal(refused)
        return proofs.get(topic_partition)


def _is_large(topics: list[TopicProduceData]) -> bool:
    """Whether other tasks must run before all batches of these topics are appended."""
    count = sum(len(topic.partition_data) for topic in topics)
    return count > PARTITIONS_AT_ONCE or (
        count > 1
        and sum(_size_bytes(data) for topic in topics for data in topic.partition_data)
        > BYTES_AT_ONCE
    )


def _size_bytes(data: PartitionProduceData) -> int:
    """The size of the batch of one partition."""
    return len(data.records) if isinstance(data.records, memoryview) else 0


def _last_of_each_index(topic: TopicProduceData) -> Collection[PartitionProduceData]:
    """The topic's partitions; of several entries for one index only the last."""
    partitions = topic.partition_data
    if len(partitions) == 1:  # by far the most requests: build no dict
        return partitions
    return {data.index: data for data in partitions}.values()


def _check_codec(records: memoryview) -> None:
    """Raise LogError if a version before 7 sends zstd, which clients of that age cannot read.

    A batch that is too short or of an older format passes: the log refuses it with its own error.
    """
    if len(records) < HEADER_SIZE or records[MAGIC_POS] != MAGIC:
        return
    codec = records[FLAGS_POS] & CODEC_MASK
    if codec > CODEC_MAX:  # Kafka looks up the codec by its number and fails with an exception
        raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if codec == Compression.ZSTD:
        raise LogError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _failure(data: PartitionProduceData, error: LogError) -> PartitionProduceResponse:
    """Return the response of a partition whose batch is refused."""
    return PartitionProduceResponse(
        index=data.index,
        error_code=error.error,
        base_offset=-1,
        log_start_offset=error.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors
        ],
        error_message=error.message,
    )


def _name(broker: Broker, topic: TopicProduceData, version: int) -> str | None:
    """The topic's name, or None if the broker does not know its id."""
    return topic.name if version < TOPIC_IDS_SINCE else broker.metadata.topic_name(topic.topic_id)


def _absent(broker: Broker, name: str | None, index: int) -> LogError:
    """Return the error for a partition that this broker does not host."""
    return LogError(
        ErrorCode.UNKNOWN_TOPIC_ID if name is None else broker.hosted.absent_error(name, index)
    )


def _refuse(request: ProduceRequest, error: LogError) -> ProduceResponse | None:
    """Return a response with the same error for every partition, whether or not it exists."""
    response = ProduceResponse(
        [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [_failure(data, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == 0:
        _close(response)
    return response


def _refuse_acks(broker: Broker, request: ProduceRequest, version: int) -> ProduceResponse:
    """The response to a value of acks that does not exist.

    Absent partitions and malformed records keep their own errors, as in Apache Kafka.
    """
    acks_error = LogError(ErrorCode.INVALID_REQUIRED_ACKS)
    topic_responses = []
    for topic in request.topic_data:
        name = _name(broker, topic, version)
        hosted = broker.hosted.by_topic.get(name, {}) if name is not None else {}
        partition_responses = [
            _failure(
                data,
                (_records_error(data.records, version) or acks_error)
                if data.index in hosted
                else _absent(broker, name, data.index),
            )
            for data in topic.partition_data
        ]
        if partition_responses:
            topic_responses.append(
                TopicProduceResponse(topic.name, topic.topic_id, partition_responses)
            )
    return ProduceResponse(topic_responses)


def _records_error(records: Records | None, version: int) -> LogError | None:
    """The error of records that are not exactly one batch with a codec of this version, or None."""
    if not isinstance(records, memoryview):
        return LogError(ErrorCode.INVALID_RECORD)
    try:
        single_batch(records)
        if version < ZSTD_SINCE:
            _check_codec(records)
    except LogError as error:
        return error
    return None


def _close(response: ProduceResponse) -> NoReturn:
    """Raise CloseConnection for an acks=0 request that failed: its client gets no response."""
    failures = ", ".join(
        f"{topic.name}-{partition.index}: {ErrorCode(partition.error_code).name}"
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    )
    raise CloseConnection(f"produce with acks=0 failed ({failures})")


# -- rights


def guard(access: Access, request: ProduceRequest, proceed: Proceed) -> Response:
    """Let the handler append to topics that the sender may write to; refuse the others.

    A transactional request needs WRITE on the transactional id too, or is refused as a whole.
    """
    if not _may_be_transactional(access, request):
        refused = [
            _refused(topic, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            for topic in request.topic_data
        ]
        return _closing(request, None, refused) or ProduceResponse(refused)
    allowed, denied = access.split(
        AclOperation.WRITE, ResourceType.TOPIC, request.topic_data, _names(access), nameless=True
    )
    if not denied:
        return proceed(request)
    refused = [_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in denied]
    # A copy: a shortcut must not learn from a request that lacks what its bytes contain.
    rest = replace(request, topic_data=allowed)

    def merge(response: ProduceResponse) -> ProduceResponse:
        response.responses = [*refused, *response.responses]
        return response

    reply = proceed(rest)
    return _closing(request, reply, refused) if request.acks == 0 else reshaped(reply, merge)


def _may_be_transactional(access: Access, request: ProduceRequest) -> bool:
    """Return whether the sender may use the transactional id; True if no batch needs it."""
    try:
        if not transactional_produce.has_transactional(request):
            return True
    except LogError:
        return True  # the handler refuses it
    name = request.transactional_id
    return name is not None and access.may(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def _names(access: Access) -> Callable[[TopicProduceData], str]:
    """Return a function that finds the name of a requested topic; empty for an unknown id."""
    if access.version < TOPIC_IDS_SINCE:
        return lambda topic: topic.name
    return lambda topic: access.broker.metadata.topic_name(topic.topic_id) or ""


def _refused(topic: TopicProduceData, error: ErrorCode) -> TopicProduceResponse:
    """Return the response of a topic in which each partition has `error`."""
    return TopicProduceResponse(
        topic.name,
        topic.topic_id,
        [
            PartitionProduceResponse(data.index, error, -1, log_start_offset=-1)
            for data in topic.partition_data
        ],
    )


def _closing(
    request: ProduceRequest, reply: Response, refused: list[TopicProduceResponse]
) -> Response:
    """Close the connection of an acks=0 request once its allowed part is written.

    The client can see the error in no other way.  Returns None for another value of acks.  Raises
    CloseConnection, or returns an awaitable that does.
    """
    if request.acks != 0:
        return None
    topics = ", ".join(f"{topic.name or topic.topic_id.hex()}" for topic in refused)
    problem = CloseConnection(f"produce with acks=0 is not authorized on {topics}")
    if isinstance(reply, Awaitable):
        return _close_after(reply, problem)
    raise problem


async def _close_after(reply: Awaitable[Any], problem: CloseConnection) -> None:
    await reply
    raise problem
