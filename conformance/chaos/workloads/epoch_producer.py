"""A transactional producer with transaction version 2 (KIP-890), which librdkafka lacks so far.

Produce (v12) and TxnOffsetCommit (v5) add partitions to the transaction by themselves. Each EndTxn
(v5) bumps the producer epoch; a producer without a response repeats it with the epoch before.

The producer is impatient on purpose: now and then it gives up a request before the response can
arrive, and repeats it on another connection. Some of these requests are sent once more during the
next transaction, as if the network had delayed them.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kwire.codecs.batches import Record, build
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.end_txn import EndTxnRequest
from kwire.codecs.messages.init_producer_id import InitProducerIdRequest
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codecs.primitives import Message
from kwire.conformance.chaos.plan import stream_of
from kwire.conformance.chaos.wire import Link, Refused
from kwire.conformance.chaos.workloads.transactions import CALL_S, timeout_ms
from kwire.conformance.chaos.workloads.workload import WorkloadStage

PATIENCE_S = (0.0001, 0.01, 2.0, 2.0, 2.0, 2.0)
"""Timeouts of a response, one at random; the first two are too short for a response."""
PAUSE_S = 0.02
"""Seconds between two attempts."""
STRAYS = 0.3
"""The share of answers in a transaction after which a request of the last one arrives again."""
STRAY_S = 0.05
"""Timeout of such a request, whose response is ignored."""
BROKER_TIMEOUT_MS = 10_000

DONE = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the same request may be sent again."""
ABORTABLE = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Errors that lose the transaction; the response to EndTxn shows if the producer is fenced."""
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED})

Target = tuple[str, int]
"""Topic and partition."""
Errors = Callable[[Any], Iterable[int]]
"""A function that handles a response and returns its error codes."""


class EpochProducer:
    """A producer with the interface of librdkafka's, see `TransactionalProducer`.

    `produce` collects records, and `flush` sends a batch to each partition. All requests raise
    KafkaException: retriable if no response came in time, fatal if the producer is fenced.
    """

    def __init__(self, stage: WorkloadStage, transactional_id: str, name: str) -> None:
        """Open two connections: one for requests, one for those that are given up and repeated."""
        self._recorder = stage.recorder
        self._name = name
        self._id = transactional_id
        self._timeout_ms = timeout_ms(stage.plan)
        self._rng = stream_of(stage.plan.seed, name)
        self._link, self._detour = Link(stage.address), Link(stage.address)
        self._detour.patience_s = STRAY_S
        self._unanswered: list[Message] = []
        self._strays: list[Message] = []  # requests without a response in the last transaction
        self._producer_id, self._epoch = -1, -1
        self._sequences: Counter[Target] = Counter()
        self._unsent: dict[Target, list[bytes]] = defaultdict(list)
        self._batches: dict[Target, bytes] = {}  # numbered, perhaps sent, not acknowledged
        self._known = False  # whether the coordinator may know of the transaction

    def close(self) -> None:
        self._link.close()
        self._detour.close()

    def init_transactions(self, timeout: float = CALL_S) -> None:
        request = InitProducerIdRequest(self._id, self._timeout_ms)
        reply = self._persist(timeout, lambda: request, lambda reply: [reply.error_code])
        self._begin_epoch(reply.producer_id, reply.producer_epoch)

    def begin_transaction(self) -> None:
        self._unsent.clear()
        self._batches.clear()
        self._known = False

    def produce(
        self, topic: str, value: bytes, key: bytes | None = None, partition: int = -1
    ) -> None:
        """Keep a record until the next flush; its partition must be given, and no key."""
        assert key is None
        self._unsent[topic, partition].append(value)

    def flush(self, timeout: float = CALL_S) -> int:
        """Send all batches until each one is acknowledged; return 0, as librdkafka does."""
        for target, values in self._unsent.items():
            assert target not in self._batches, "the last batch must be acknowledged first"
            self._batches[target] = self._batch(target, values)
        self._unsent.clear()
        if self._batches:
            self._known = True
            self._persist(timeout, self._produce_request, self._check_produced)
        return 0

    def commit_offset(self, group: str, topic: str, offset: int, timeout: float = CALL_S) -> None:
        """Commit an offset of a group without members, for the topic's first partition."""
        wanted = [TxnOffsetCommitRequestPartition(0, offset)]
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, partitions=wanted)],
        )
        self._known = True
        self._persist(
            timeout,
            lambda: request,
            lambda reply: [partition.error_code for partition in reply.topics[0].partitions],
        )

    def commit_transaction(self, timeout: float = CALL_S) -> None:
        self.flush(timeout)
        self._end(timeout, commit=True)

    def abort_transaction(self, timeout: float = CALL_S) -> None:
        self._end(timeout, commit=False)

    def _end(self, timeout: float, *, commit: bool) -> None:
        """End the transaction and take the next epoch.

        Nothing is sent if the coordinator cannot know of the transaction.
        """
        if not self._known:
            return
        request = EndTxnRequest(self._id, self._producer_id, self._epoch, commit)
        reply = self._persist(timeout, lambda: request, lambda reply: [reply.error_code])
        self._begin_epoch(reply.producer_id, reply.producer_epoch)

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        """Take the id and epoch that the broker returned, and begin its sequence numbers at 0.

        An epoch that is not newer is recorded as a fatal error, which the checks report.
        """
        if (producer_id, epoch) <= (self._producer_id, self._epoch):
            self._recorder.note(self._name, "client_fatal", error=f"epoch {epoch} is not newer")
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences.clear()
        self._known = False
        self._strays, self._unanswered = self._unanswered, []

    # Batches

    def _batch(self, target: Target, values: list[bytes]) -> bytes:
        """Return a transactional batch of these values with the next sequence numbers."""
        now_ms = time.time_ns() // 1_000_000
        sequence = self._sequences[target]
        self._sequences[target] += len(values)
        return bytes(
            build(
                [Record(offset, now_ms, None, value, []) for offset, value in enumerate(values)],
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )

    def _produce_request(self) -> Message:
        """Return one request with all batches that are not acknowledged."""
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for (topic, partition), batch in self._batches.items():
            topics[topic].append(PartitionProduceData(partition, batch))
        data = [
            TopicProduceData(name=topic, partition_data=partitions)
            for topic, partitions in topics.items()
        ]
        return ProduceRequest(self._id, -1, BROKER_TIMEOUT_MS, data)

    def _check_produced(self, reply: Any) -> Iterable[int]:  # noqa: ANN401 - a ProduceResponse
        """Yield the error of each partition, and forget the batches that are in the log."""
        for topic in reply.responses:
            for answer in topic.partition_responses:
                if answer.error_code in DONE:
                    del self._batches[topic.name, answer.index]
                yield answer.error_code

    # Attempts

    def _persist(self, timeout: float, request: Callable[[], Message], errors: Errors) -> Any:  # noqa: ANN401 - any response
        """Send requests until one succeeds; `request` makes the request for what remains to do."""
        deadline = time.monotonic() + timeout
        while True:
            reply = self._attempt(request())
            codes = {ErrorCode(code) for code in errors(reply)} if reply is not None else AGAIN
            failed = codes - DONE
            if not failed:
                self._perhaps_deliver_a_stray()
                return reply
            if failed - AGAIN:
                raise KafkaException(self._verdict(min(failed - AGAIN)))
            if time.monotonic() > deadline:
                raise KafkaException(_error(KafkaError._TIMED_OUT, "no answer", retriable=True))
            time.sleep(PAUSE_S)

    def _attempt(self, request: Message) -> Any:  # noqa: ANN401 - any response
        """Return the response to a request, or None if there was none."""
        self._link.patience_s = self._rng.choice(PATIENCE_S)
        try:
            return self._link.ask(request)
        except Refused as refused:
            kind = type(request).__name__
            self._recorder.note(self._name, "unanswered", request=kind, why=refused.error)
            if refused.error == "SILENT":
                self._unanswered.append(request)
            return None

    def _perhaps_deliver_a_stray(self) -> None:
        if self._known and self._strays and self._rng.random() < STRAYS:
            with contextlib.suppress(Refused):  # its response does not matter
                self._detour.ask(self._strays.pop())

    def _verdict(self, error: ErrorCode) -> KafkaError:
        """Return what an error means: abort the transaction, or give up the producer.

        An error that is neither abortable nor a fencing is recorded, since it is unexpected.
        """
        if error in ABORTABLE:
            return _error(error, error.name, abortable=True)
        if error not in FENCED:
            self._recorder.note(self._name, "client_fatal", error=error.name)
        return _error(error, error.name, fatal=True)


def _error(
    code: int, reason: str, *, fatal: bool = False, retriable: bool = False, abortable: bool = False
) -> KafkaError:
    """Return an error with the properties that librdkafka's errors have."""
    return KafkaError(
        int(code), reason, fatal=fatal, retriable=retriable, txn_requires_abort=abortable
    )
