"""A transactional producer of KIP-890: transaction version 2, which librdkafka does not speak yet.

Produce (v12) and TxnOffsetCommit (v5) add partitions by themselves; each EndTxn (v5) bumps the
producer's epoch, and whoever is not answered asks again with the epoch before.

It is impatient on purpose: now and then it turns away from a request before the answer can come and
sends it again on another connection.  Some of these requests come once more in the middle of the
next transaction, as if the network had held them back.
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
from kwire.conformance.chaos.workloads.workload import Stage

PATIENCE_S = (0.0001, 0.01, 2.0, 2.0, 2.0, 2.0)
"""What it waits for an answer, at random; the first two are the impatient ones."""
PAUSE_S = 0.02
"""Between two attempts."""
STRAYS = 0.3
"""Of the answers in a transaction: the share after which a request of the one before arrives."""
STRAY_S = 0.05
"""How long its answer may take, which nobody reads."""
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
"""The same request may be sent again."""
ABORTABLE = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""The transaction is lost, its producer perhaps not: what EndTxn says decides."""
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED})

Target = tuple[str, int]
"""Topic and partition."""
Errors = Callable[[Any], Iterable[int]]
"""The error codes in a response, after it has been taken note of."""


class EpochProducer:
    """One producer; it is used as librdkafka's is, see `TransactionalProducer`.

    `produce` collects, `flush` sends a batch to each partition.  All requests raise KafkaException:
    retriable if nobody has answered in time, fatal if it is fenced.
    """

    def __init__(self, stage: Stage, transactional_id: str, name: str) -> None:
        self._recorder = stage.recorder
        self._name = name
        self._id = transactional_id
        self._timeout_ms = timeout_ms(stage.plan)
        self._rng = stream_of(stage.plan.seed, name)
        self._link, self._detour = Link(stage.address), Link(stage.address)
        self._detour.patience_s = STRAY_S
        self._unanswered: list[Message] = []
        self._strays: list[Message] = []  # what was not answered in the transaction before
        self._producer_id, self._epoch = -1, -1
        self._sequences: Counter[Target] = Counter()
        self._unsent: dict[Target, list[bytes]] = defaultdict(list)
        self._batches: dict[Target, bytes] = {}  # numbered, perhaps sent, not acknowledged
        self._known = False  # to the coordinator: something of the transaction was sent

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
        assert key is None
        self._unsent[topic, partition].append(value)

    def flush(self, timeout: float = CALL_S) -> int:
        for target, values in self._unsent.items():
            assert target not in self._batches, "one batch after the other"
            self._batches[target] = self._batch(target, values)
        self._unsent.clear()
        if self._batches:
            self._known = True
            self._persist(timeout, self._produce_request, self._produced)
        return 0

    def commit_offset(self, group: str, topic: str, offset: int, timeout: float = CALL_S) -> None:
        """Commit for a group without members, for the topic's first partition."""
        wanted = [TxnOffsetCommitRequestPartition(0, offset)]
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, wanted)],
        )
        self._known = True
        self._persist(
            timeout,
            lambda: request,
            lambda reply: [each.error_code for each in reply.topics[0].partitions],
        )

    def commit_transaction(self, timeout: float = CALL_S) -> None:
        self.flush(timeout)
        self._end(timeout, commit=True)

    def abort_transaction(self, timeout: float = CALL_S) -> None:
        self._end(timeout, commit=False)

    def _end(self, timeout: float, *, commit: bool) -> None:
        if not self._known:
            return
        request = EndTxnRequest(self._id, self._producer_id, self._epoch, commit)
        reply = self._persist(timeout, lambda: request, lambda reply: [reply.error_code])
        self._begin_epoch(reply.producer_id, reply.producer_epoch)

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) <= (self._producer_id, self._epoch):
            self._recorder.note(self._name, "client_fatal", error=f"epoch {epoch} is not newer")
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences.clear()
        self._known = False
        self._strays, self._unanswered = self._unanswered, []

    # -- batches

    def _batch(self, target: Target, values: list[bytes]) -> bytes:
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
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for (topic, partition), batch in self._batches.items():
            topics[topic].append(PartitionProduceData(partition, batch))
        data = [TopicProduceData(name=topic, partition_data=each) for topic, each in topics.items()]
        return ProduceRequest(self._id, -1, BROKER_TIMEOUT_MS, data)

    def _produced(self, reply: Any) -> Iterable[int]:  # noqa: ANN401 - a ProduceResponse
        for topic in reply.responses:
            for answer in topic.partition_responses:
                if answer.error_code in DONE:
                    del self._batches[topic.name, answer.index]
                yield answer.error_code

    # -- again and again

    def _persist(self, timeout: float, request: Callable[[], Message], errors: Errors) -> Any:  # noqa: ANN401 - any response
        """Ask until it is done; `request` makes what is left to ask for."""
        deadline = time.monotonic() + timeout
        while True:
            reply = self._attempt(request())
            found = {ErrorCode(code) for code in errors(reply)} if reply is not None else AGAIN
            failed = found - DONE
            if not failed:
                self._perhaps_deliver_a_stray()
                return reply
            if failed - AGAIN:
                raise KafkaException(self._verdict(min(failed - AGAIN)))
            if time.monotonic() > deadline:
                raise KafkaException(_error(KafkaError._TIMED_OUT, "no answer", retriable=True))
            time.sleep(PAUSE_S)

    def _attempt(self, request: Message) -> Any:  # noqa: ANN401 - any response
        """The answer to a request, None if there was none."""
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
            with contextlib.suppress(Refused):  # nobody waits for it
                self._detour.ask(self._strays.pop())

    def _verdict(self, error: ErrorCode) -> KafkaError:
        if error in ABORTABLE:
            return _error(error, error.name, abortable=True)
        if error not in FENCED:
            self._recorder.note(self._name, "client_fatal", error=error.name)
        return _error(error, error.name, fatal=True)


def _error(
    code: int, reason: str, *, fatal: bool = False, retriable: bool = False, abortable: bool = False
) -> KafkaError:
    return KafkaError(
        int(code), reason, fatal=fatal, retriable=retriable, txn_requires_abort=abortable
    )
