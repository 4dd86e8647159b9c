"""A machine of transactions without a broker: a clock in the test's hand, a list for the log.

For tests and experiments.  Does with effects what the broker's runtime does, writes markers as the
broker's sender does (into nothing), and can what those cannot: refuse appends, hold markers back,
and replay the log into a second machine at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.coordinator_errors import client_error
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kwire.codecs.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kwire.codecs.messages.describe_transactions import DescribeTransactionsResponse
from kwire.codecs.messages.end_txn import EndTxnResponse
from kwire.codecs.messages.init_producer_id import InitProducerIdResponse
from kwire.codecs.messages.list_transactions import ListTransactionsResponse
from kwire.txn.api_versions import client_transaction_version, told_error
from kwire.txn.effects import Effects, Markers, ProducerAnswer
from kwire.txn.end_txn import End
from kwire.txn.init_producer_id import Initialization
from kwire.txn.limits import TransactionLimits
from kwire.txn.listing import TransactionFilter
from kwire.txn.pattern_syntax import InvalidPattern
from kwire.txn.producer_ids import ProducerIds
from kwire.txn.records import TransactionRecord
from kwire.txn.shard import TransactionShard
from kwire.txn.timers import Timer, TimerKey
from kwire.txn.transaction import Partitions

AnyMessage = Any
"""A request or response of any kind."""

START_MS = 1_000_000
FIRST_PRODUCER_ID = 7_000
UNREACHABLE = "far"
"""The topic whose partitions no marker can be written to."""
OFFSETS_TOPIC = "__consumer_offsets"
BATCHED_SINCE = 4  # AddPartitionsToTxn


class Ticket:
    """A request that waits for its reply."""

    def __init__(self, refuse: Callable[[ErrorCode], object]) -> None:
        self.refuse = refuse
        self.replies: list[Any] = []

    def resolve(self, value: object) -> None:
        self.replies.append(value)


class Outbox:
    """Where the machine's markers go; writes all it can at once."""

    def __init__(self, machine: TransactionMachine) -> None:
        self._machine = machine
        self.held: list[Markers] = []
        """What waits for `release`, or for a partition that cannot be reached."""
        self.hold = False

    def refuse(self, error: ErrorCode) -> object:
        raise AssertionError(f"markers are never asked for: {error}")

    def resolve(self, markers: Markers) -> None:
        if self.hold or UNREACHABLE in markers.partitions:
            self.held.append(markers)
        else:
            self._write(markers)

    def release(self) -> None:
        """Write what was held back."""
        held, self.held = self.held, []
        for markers in held:
            self._write(markers)

    def _write(self, markers: Markers) -> None:
        """What is written and cannot be completed now is told again with the next release."""
        if not self._machine.written(markers):
            self.held.append(markers)


class TransactionMachine:
    """Drives one TransactionShard; a `conformance.txn_script.Target`."""

    def __init__(
        self,
        limits: TransactionLimits | None = None,
        kind: type[TransactionShard] = TransactionShard,
    ) -> None:
        self.limits = limits or TransactionLimits()
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.records: list[TransactionRecord] = []
        """What was appended, not encoded."""
        self.notes: list[str] = []
        self.append_error: ErrorCode | None = None
        """Appends fail with it as long as it is set."""
        self.timers: dict[TimerKey, tuple[int, int, Timer]] = {}
        self.producer_ids = ProducerIds()
        self.producer_ids.add(range(FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1_000_000))
        self._kind = kind
        self._settings = 0
        self._start()

    def _start(self) -> None:
        self.timers.clear()
        self.outbox = Outbox(self)
        self.shard = self._kind(self.limits, self.producer_ids, self.outbox)

    def load(self) -> None:
        """What a broker does when it has replayed the partition; a new machine need not."""
        for effects in list(self.shard.loaded(self.now_ms)):
            self.happen(effects)

    def append(self, record: TransactionRecord) -> None:
        """Have a record in the log, whatever led to it."""
        self.log.append(record.encode())
        self.records.append(record)
        self.shard.apply(record)

    def restart(self, records: int | None = None) -> None:
        """Stop at once, with the first `records` of the log on disk, and start again."""
        if records is not None:
            del self.log[records:], self.records[records:]
        self._start()
        self.replay_into(self.shard)
        self.load()

    def replay_into(self, shard: TransactionShard) -> None:
        for key, value in self.log:
            record = shard.decode(key, value)
            assert record is not None
            shard.apply(record)

    # -- what a runtime does

    def happen(self, effects: Effects, ticket: Ticket | None = None) -> None:
        if effects.records and self.append_error is not None:
            error = client_error(self.append_error)
            if effects.refused is None:
                if ticket is not None:
                    ticket.resolve(ticket.refuse(error))
                return
            effects = effects.refused(error)
            assert not effects.records, "what happens instead of an append appends nothing"
        for record in effects.records:
            self.append(record)
        self.shard.settle(effects)
        self.notes += effects.notes
        for timer_key, timer, delay_ms in effects.timers:
            self.timers.pop(timer_key, None)
            if timer is not None:
                self._settings += 1
                self.timers[timer_key] = (self.now_ms + delay_ms, self._settings, timer)
        for who, response in effects.replies:
            who.resolve(response)

    def wait(self, time_ms: int) -> None:
        """Let time pass and timers fire in order."""
        until_ms = self.now_ms + time_ms
        while self.timers:
            key = min(self.timers, key=lambda k: self.timers[k][:2])
            due_ms, _, timer = self.timers[key]
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            del self.timers[key]
            self.happen(self.shard.timer(timer, self.now_ms))
        self.now_ms = until_ms

    def written(self, markers: Markers) -> bool:
        """Tell the machine that markers are written; whether it is done with them."""
        self.happen(self.shard.markers_written(markers, self.now_ms))
        return not self.shard.markers_written(markers, self.now_ms).records

    # -- requests

    def ask(self, api: ApiKey, version: int, request: AnyMessage) -> AnyMessage:
        """One request, with what its handler does around it."""
        match api:
            case ApiKey.INIT_PRODUCER_ID:
                answer = self._producer(api, version, self._init(request))
                return InitProducerIdResponse(
                    error_code=answer.error,
                    producer_id=answer.producer_id,
                    producer_epoch=answer.producer_epoch,
                )
            case ApiKey.END_TXN:
                answer = self._producer(api, version, self._end(version, request))
                return EndTxnResponse(
                    error_code=answer.error,
                    producer_id=answer.producer_id,
                    producer_epoch=answer.producer_epoch,
                )
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                return self._add_partitions(version, request)
            case ApiKey.ADD_OFFSETS_TO_TXN:
                partitions = {OFFSETS_TOPIC: frozenset({0})}
                error = self._add(api, version, request, partitions)
                return AddOffsetsToTxnResponse(error_code=error)
            case _:
                return self._look(request)

    def _decide(self, decide: Callable[[Ticket], Effects], refuse: Callable[..., object]) -> Any:  # noqa: ANN401 - any reply
        ticket = Ticket(refuse)
        self.happen(decide(ticket), ticket)
        (reply,) = ticket.replies
        return reply

    def _init(self, request: AnyMessage) -> Callable[[Ticket], Effects]:
        asked = Initialization(
            request.transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
        )
        return lambda ticket: self.shard.init_producer_id(asked, ticket, self.now_ms)

    def _end(self, version: int, request: AnyMessage) -> Callable[[Ticket], Effects]:
        asked = End(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            client_transaction_version(ApiKey.END_TXN, version),
        )
        return lambda ticket: self.shard.end_txn(asked, ticket, self.now_ms)

    def _producer(
        self, api: ApiKey, version: int, decide: Callable[[Ticket], Effects]
    ) -> ProducerAnswer:
        answer: ProducerAnswer = self._decide(decide, ProducerAnswer)
        return answer._replace(error=told_error(api, version, answer.error))

    def _add(self, api: ApiKey, version: int, asked: AnyMessage, added: Partitions) -> ErrorCode:
        error: ErrorCode = self._decide(
            lambda ticket: self.shard.add_partitions(
                asked.transactional_id,
                asked.producer_id,
                asked.producer_epoch,
                added,
                client_transaction_version(api, version),
                ticket,
                self.now_ms,
            ),
            lambda error: error,
        )
        return told_error(api, version, error)

    def _add_partitions(self, version: int, request: AnyMessage) -> AddPartitionsToTxnResponse:
        if version >= BATCHED_SINCE:
            results = [
                AddPartitionsToTxnResult(asked.transactional_id, self._added(version, asked))
                for asked in request.transactions
            ]
            return AddPartitionsToTxnResponse(results_by_transaction=results)
        asked = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=self._added(version, asked))

    def _added(
        self, version: int, asked: AddPartitionsToTxnTransaction
    ) -> list[AddPartitionsToTxnTopicResult]:
        added = {topic.name: frozenset(topic.partitions) for topic in asked.topics}
        if asked.verify_only:
            return _results(
                self.shard.verify(
                    asked.transactional_id, asked.producer_id, asked.producer_epoch, added
                )
            )
        error = self._add(ApiKey.ADD_PARTITIONS_TO_TXN, version, asked, added)
        return _results({(topic, index): error for topic in added for index in added[topic]})

    def _look(self, request: AnyMessage) -> AnyMessage:
        if hasattr(request, "transactional_ids"):
            states = [self.shard.describe(name) for name in request.transactional_ids]
            return DescribeTransactionsResponse(transaction_states=states)
        try:
            wanted = TransactionFilter.of(request)
        except InvalidPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        return ListTransactionsResponse(
            unknown_state_filters=list(wanted.unknown_states),
            transaction_states=self.shard.list_transactions(wanted, self.now_ms),
        )


def _results(codes: dict[tuple[str, int], ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), code in codes.items():
        result = topics.setdefault(topic, AddPartitionsToTxnTopicResult(topic))
        result.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, code))
    return list(topics.values())
