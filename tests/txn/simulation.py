"""A transaction machine without a broker, and the work of the handlers around its requests.

Markers are handled as by the broker's sender, but written to no log; they can be held back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.codecs.api_keys import ApiKey
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
from kwire.coordinators.contract.pattern import InvalidRegex
from kwire.txn.api_versions import client_transaction_version, error_for_version
from kwire.txn.effects import Markers, ProducerAnswer, TransactionEffects
from kwire.txn.end_txn import EndTransaction
from kwire.txn.init_producer_id import ProducerInitialization
from kwire.txn.limits import TransactionLimits
from kwire.txn.listing import TransactionFilter
from kwire.txn.machine import TransactionMachine
from kwire.txn.producer_ids import ProducerIds
from kwire.txn.records import TransactionRecord
from kwire.txn.transaction import Partitions
from tests.coordinators.contract.simulation import Simulation

AnyMessage = Any
"""A request or response of any kind."""

FIRST_PRODUCER_ID = 7_000
UNREACHABLE = "far"
"""A topic to whose partitions no marker can be written."""
OFFSETS_TOPIC = "__consumer_offsets"
BATCHED_SINCE = 4  # AddPartitionsToTxn


class Parked:
    """A request that waits for its reply."""

    def __init__(self, refuse: Callable[[ErrorCode], object]) -> None:
        self.refuse = refuse
        self.replies: list[Any] = []

    def resolve(self, value: object) -> None:
        self.replies.append(value)


class Outbox:
    """The outbox of the machine's markers; it writes all that it can at once."""

    def __init__(self, simulation: TransactionSimulation) -> None:
        self._simulation = simulation
        self.held: list[Markers] = []
        """Markers that wait for `release`, or for an unreachable partition."""
        self.hold = False

    def refuse(self, error: ErrorCode) -> object:
        raise AssertionError(f"markers are never asked for: {error}")

    def resolve(self, markers: Markers) -> None:
        if self.hold or UNREACHABLE in markers.partitions:
            self.held.append(markers)
        else:
            self._write(markers)

    def release(self) -> None:
        """Write the markers that were held back."""
        held, self.held = self.held, []
        for markers in held:
            self._write(markers)

    def _write(self, markers: Markers) -> None:
        """Report written markers; if the completion fails, the next release reports them again."""
        if not self._simulation.written(markers):
            self.held.append(markers)


class TransactionSimulation(Simulation[TransactionMachine, TransactionRecord]):
    """Drives one TransactionMachine; a `conformance.txn_script.Target`."""

    def __init__(
        self,
        limits: TransactionLimits | None = None,
        kind: type[TransactionMachine] = TransactionMachine,
    ) -> None:
        self.limits = limits or TransactionLimits()
        self.producer_ids = ProducerIds()
        self.producer_ids.add(range(FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1_000_000))
        self._kind = kind
        super().__init__(self._new())

    def _new(self) -> TransactionMachine:
        self.outbox = Outbox(self)
        return self._kind(self.limits, self.producer_ids, self.outbox)

    def restart(self, records: int | None = None) -> None:
        """Kill the machine, and load a new one from the first `records` of the log."""
        if records is not None:
            del self.log[records:], self.records[records:]
        self.timers.clear()
        self.machine = self.replay_into(self._new())
        self.load()

    def written(self, markers: Markers) -> bool:
        """Report written markers to the machine.  Returns whether the transaction is complete."""
        self.carry_out(self.machine.markers_written(markers, self.now_ms))
        return not self.machine.markers_written(markers, self.now_ms).records

    # -- requests

    def ask(self, api: ApiKey, version: int, request: AnyMessage) -> AnyMessage:
        """Run one request, with the work of its handler."""
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

    def _decide(
        self, decide: Callable[[Parked], TransactionEffects], refuse: Callable[..., object]
    ) -> Any:  # noqa: ANN401 - any reply
        ticket = Parked(refuse)
        self.carry_out(decide(ticket), ticket)
        (reply,) = ticket.replies
        return reply

    def _init(self, request: AnyMessage) -> Callable[[Parked], TransactionEffects]:
        asked = ProducerInitialization(
            request.transactional_id,
            request.transaction_timeout_ms,
            request.producer_id,
            request.producer_epoch,
        )
        return lambda ticket: self.machine.init_producer_id(asked, ticket, self.now_ms)

    def _end(self, version: int, request: AnyMessage) -> Callable[[Parked], TransactionEffects]:
        asked = EndTransaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            client_transaction_version(ApiKey.END_TXN, version),
        )
        return lambda ticket: self.machine.end_txn(asked, ticket, self.now_ms)

    def _producer(
        self, api: ApiKey, version: int, decide: Callable[[Parked], TransactionEffects]
    ) -> ProducerAnswer:
        answer: ProducerAnswer = self._decide(decide, ProducerAnswer)
        return answer._replace(error=error_for_version(api, version, answer.error))

    def _add(self, api: ApiKey, version: int, asked: AnyMessage, added: Partitions) -> ErrorCode:
        error: ErrorCode = self._decide(
            lambda ticket: self.machine.add_partitions(
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
        return error_for_version(api, version, error)

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
                self.machine.verify(
                    asked.transactional_id, asked.producer_id, asked.producer_epoch, added
                )
            )
        error = self._add(ApiKey.ADD_PARTITIONS_TO_TXN, version, asked, added)
        return _results({(topic, index): error for topic in added for index in added[topic]})

    def _look(self, request: AnyMessage) -> AnyMessage:
        if hasattr(request, "transactional_ids"):
            states = [self.machine.describe(name) for name in request.transactional_ids]
            return DescribeTransactionsResponse(transaction_states=states)
        try:
            wanted = TransactionFilter.of(request)
        except InvalidRegex:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        return ListTransactionsResponse(
            unknown_state_filters=list(wanted.unknown_states),
            transaction_states=self.machine.list_transactions(wanted, self.now_ms),
        )


def _results(codes: dict[tuple[str, int], ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), code in codes.items():
        result = topics.setdefault(topic, AddPartitionsToTxnTopicResult(topic))
        result.results_by_partition.append(AddPartitionsToTxnPartitionResult(index, code))
    return list(topics.values())
