"""Produce (key 0): v3-13.

Behaviour
- Each partition's batch is checked, stamped with its offsets in place and appended; partitions
  fail one by one, with their own error code, message and record errors.
- acks=1 answers after the append, acks=-1 once every in-sync replica has it, acks=0 never: an
  error then closes the connection, since the client has no other way to learn of it.  Where
  `flush.messages` asks for it, acks=1 and -1 wait for the disk as well
  (kwire.storage.partitions.flushing).
- Any other acks is INVALID_REQUIRED_ACKS for every partition that is there.
- Topics are not created by Produce; clients ask for that with Metadata.
- Internal topics take records from their coordinators, not from clients: INVALID_TOPIC_EXCEPTION,
  but for the client id that Kafka's own tools use.
- A partition named twice in a topic is written and answered once, with what was named last.
- A topic without partitions is left out of the reply.
- A transactional batch is written only to a partition that is part of its producer's transaction
  (kwire.coordinators.runtime.verification); one without a transactional id fails the whole
  request with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, batches of several producers with
  INVALID_PRODUCER_ID_MAPPING.
- Null records, on which Kafka never answers (it fails inside), are INVALID_RECORD here.

Version notes: zstd from v7; record errors and messages from v8; flexible from v9; leaders of moved
partitions from v10; TRANSACTION_ABORTABLE from v11; partitions become part of the transaction by
being written to from v12; topics by id instead of name from v13.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import trio

from kwire.cluster.metadata.topic_names import INTERNAL_TOPICS
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
from kwire.coordinators.runtime.verification import Verdict
from kwire.log import AppendResult, LogError, Verification, single_batch
from kwire.requests.context import CloseConnection, Context
from kwire.storage.partitions.partition import Partition
from kwire.storage.partitions.produce_versions import TOPIC_IDS_SINCE, ZSTD_SINCE

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.primitives import Records

ADMIN_CLIENT_ID = "__admin_client"

PARTITIONS_AT_ONCE = 256
"""Written before it is the turn of others: 4 ms of work, at 15 us measured for each."""

Wait: TypeAlias = Callable[[int, Callable[[ErrorCode], None]], None]
"""Calls back once what is before an offset is where it must be, or will never be."""


def handle(
    broker: Broker, request: ProduceRequest, context: Context
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    try:
        if not transactional_produce.has_transactional(request):
            return _produce(broker, request, context)
        verdict = transactional_produce.verdict(
            broker.node, broker.coordinators, request, context.api_version
        )
    except LogError as error:
        return _refuse(request, error)
    if isinstance(verdict, Verdict):
        return _produce(broker, request, context, verdict)
    return _produce_once_verified(broker, request, context, verdict)


async def _produce_once_verified(
    broker: Broker, request: ProduceRequest, context: Context, verdict: Awaitable[Verdict]
) -> ProduceResponse | None:
    response = _produce(broker, request, context, await verdict)
    return await response if isinstance(response, Awaitable) else response


def _produce(
    broker: Broker, request: ProduceRequest, context: Context, verdict: Verdict | None = None
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """`verdict` is that on the transactional batches, where there are some."""
    acks = request.acks
    if not -1 <= acks <= 1:
        return _refuse_acks(broker, request, context.api_version)
    work = _Produce(broker, request, context, verdict)
    topics = [topic for topic in request.topic_data if topic.partition_data]
    if sum(len(topic.partition_data) for topic in topics) > PARTITIONS_AT_ONCE:
        return _produce_in_turns(work, topics, request)
    return _answer(work, ProduceResponse([work.write(topic) for topic in topics]), request)


async def _produce_in_turns(
    work: _Produce, topics: list[TopicProduceData], request: ProduceRequest
) -> ProduceResponse | None:
    response = ProduceResponse([await work.write_in_turns(topic) for topic in topics])
    answer = _answer(work, response, request)
    return await answer if isinstance(answer, Awaitable) else answer


def _answer(
    work: _Produce, response: ProduceResponse, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    """What is told of a request that has gone through all its partitions, and when."""
    if request.acks == 0:
        if work.failed:
            _close(response)
        return None
    if work.uncommitted is not None:
        return work.uncommitted.answered(response, request.timeout_ms)
    return response


class _Produce:
    """One request's way through the partitions."""

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
        self, broker: Broker, request: ProduceRequest, context: Context, verdict: Verdict | None
    ) -> None:
        self._broker = broker
        self._request = request
        self._verdict = verdict
        self._version = context.api_version
        self._client_id = context.client_id
        self._now_ms = broker.now_ms()
        self._guarded = False
        self.failed = False
        self.uncommitted: _Uncommitted | None = None

    def write(self, topic: TopicProduceData) -> TopicProduceResponse:
        """Append what the request has for one topic."""
        hosted, name = self._hosted(topic)
        answers = [self._write(hosted, name, data) for data in _last_named(topic)]
        return TopicProduceResponse(topic.name, topic.topic_id, answers)

    async def write_in_turns(self, topic: TopicProduceData) -> TopicProduceResponse:
        """As `write`, in turn with everybody else."""
        hosted, name = self._hosted(topic)
        answers = []
        for number, data in enumerate(_last_named(topic), 1):
            answers.append(self._write(hosted, name, data))
            if number % PARTITIONS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        return TopicProduceResponse(topic.name, topic.topic_id, answers)

    def _hosted(self, topic: TopicProduceData) -> tuple[Mapping[int, Partition], str | None]:
        """The partitions of a topic that are here, and its name if the topic is known."""
        name = _name(self._broker, topic, self._version)
        self._guarded = name in INTERNAL_TOPICS and self._client_id != ADMIN_CLIENT_ID
        return (self._broker.hosted.by_topic.get(name, {}) if name is not None else {}), name

    def _write(
        self, hosted: Mapping[int, Partition], name: str | None, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        try:
            partition = hosted.get(data.index)
            if partition is None:
                raise _absent(self._broker, name, data.index)
            proof = None if self._verdict is None else self._proof(partition)
            if self._guarded:
                raise LogError(ErrorCode.INVALID_TOPIC_EXCEPTION)
            result = self._append(partition, data, proof)
        except LogError as error:
            self.failed = True
            return _failure(data, error)
        answer = PartitionProduceResponse(
            data.index, 0, result.first_offset, result.log_append_time_ms, result.log_start_offset
        )
        if result.last_offset >= partition.high_watermark:
            self._note_uncommitted(partition, result.last_offset + 1, answer)
        return answer

    def _note_uncommitted(
        self, partition: Partition, offset: int, answer: PartitionProduceResponse
    ) -> None:
        """What must come true before the answer is: replication for acks=-1, `flush.messages`."""
        if self._request.acks == -1:
            self._wait(partition.when_replicated, offset, answer)
        elif partition.is_flushing:
            self._wait(partition.when_flushed, offset, answer)

    def _wait(self, wait: Wait, offset: int, answer: PartitionProduceResponse) -> None:
        if self.uncommitted is None:
            self.uncommitted = _Uncommitted()
        self.uncommitted.add(wait, offset, answer)

    def _proof(self, partition: Partition) -> Verification | None:
        """What the transaction coordinator has given to write there; LogError if it refused."""
        assert self._verdict is not None
        place = partition.topic, partition.index
        refused = self._verdict.refused.get(place)
        if refused is not None:
            raise transactional_produce.refusal(refused)
        return self._verdict.proofs.get(place)

    def _append(
        self, partition: Partition, data: PartitionProduceData, proof: Verification | None
    ) -> AppendResult:
        records = data.records
        if not isinstance(records, memoryview):
            raise LogError(ErrorCode.INVALID_RECORD)
        if self._version < ZSTD_SINCE:
            _check_codec(records)
        return partition.append(
            records,
            now_ms=self._now_ms,
            required_acks=self._request.acks,
            verification=proof,
        )


def _last_named(topic: TopicProduceData) -> Collection[PartitionProduceData]:
    """A topic's partitions, each once."""
    partitions = topic.partition_data
    if len(partitions) == 1:
        return partitions
    return {data.index: data for data in partitions}.values()


def _check_codec(records: memoryview) -> None:
    """Versions before 7 know no zstd.  What is too short or of an older format the log refuses."""
    if len(records) < HEADER_SIZE or records[MAGIC_POS] != MAGIC:
        return
    codec = records[FLAGS_POS] & CODEC_MASK
    if codec > CODEC_MAX:  # what it is not, Kafka fails to name
        raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if codec == Compression.ZSTD:
        raise LogError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _failure(data: PartitionProduceData, error: LogError) -> PartitionProduceResponse:
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
    """A topic's name; None for an id that is not known."""
    return topic.name if version < TOPIC_IDS_SINCE else broker.metadata.topic_name(topic.topic_id)


def _absent(broker: Broker, name: str | None, index: int) -> LogError:
    """What a partition is told that is not here."""
    return LogError(
        ErrorCode.UNKNOWN_TOPIC_ID if name is None else broker.hosted.absent_error(name, index)
    )


def _refuse(request: ProduceRequest, error: LogError) -> ProduceResponse | None:
    """The same error for every partition, there or not."""
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
    refused = LogError(ErrorCode.INVALID_REQUIRED_ACKS)
    responses = []
    for topic in request.topic_data:
        name = _name(broker, topic, version)
        hosted = broker.hosted.by_topic.get(name, {}) if name is not None else {}
        answers = [
            _failure(
                data,
                (_wrong_set(data.records, version) or refused)
                if data.index in hosted
                else _absent(broker, name, data.index),
            )
            for data in topic.partition_data
        ]
        if answers:
            responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    return ProduceResponse(responses)


def _wrong_set(records: Records | None, version: int) -> LogError | None:
    """What cannot be written whatever else is wrong: no batch, a second one, an unknown codec."""
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
    """End an acks=0 connection on which something failed: that is all its client can see."""
    failures = ", ".join(
        f"{topic.name}-{answer.index}: {ErrorCode(answer.error_code).name}"
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code
    )
    raise CloseConnection(f"produce with acks=0 failed ({failures})")


class _Uncommitted:
    """Answers that may not leave before what was appended is where it must be.

    Each waits from when its batch is appended: the partition may be led by another broker before
    the request has its turn again, and have other records at the same offsets.
    """

    __slots__ = ("_done", "_waiting")

    def __init__(self) -> None:
        self._waiting = 0
        self._done: trio.Event | None = None

    def add(self, wait: Wait, offset: int, answer: PartitionProduceResponse) -> None:
        """`wait` says when `answer` may leave; REQUEST_TIMED_OUT until then."""
        self._waiting += 1
        answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        wait(offset, partial(self._settle, answer))

    def _settle(self, answer: PartitionProduceResponse, error: ErrorCode) -> None:
        answer.error_code = error
        self._waiting -= 1
        if self._waiting == 0 and self._done is not None:
            self._done.set()

    async def answered(self, response: ProduceResponse, timeout_ms: int) -> ProduceResponse:
        """Park until all may leave, or it has been too long."""
        with trio.move_on_after(max(timeout_ms, 0) / 1000):
            if self._waiting:
                self._done = trio.Event()
                await self._done.wait()
        return response
