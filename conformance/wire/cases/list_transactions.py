"""Cases of ListTransactions: all, and by each filter."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.txn import (
    CaseProducer,
    begin_transaction,
    create_producer,
    end_transaction,
)
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.LIST_TRANSACTIONS)


def access_request(version: int, topic_id: bytes) -> ListTransactionsRequest:
    return ListTransactionsRequest()


LONG_MS = 3_600_000


def _populate(stage: Stage) -> list[CaseProducer]:
    """Return producers whose transactions are empty, ongoing, committed and aborted."""
    topic = stage.topic()
    producers = [create_producer(stage, "empty"), begin_transaction(stage, "open", topic)]
    for commit in (True, False):
        producers.append(begin_transaction(stage, f"ended-{commit}", topic))
        end_transaction(stage, producers[-1], commit=commit)
    return producers


@case("by state")
def by_state(stage: Stage) -> None:
    """Transactions are filtered by state; unknown states are reported back."""
    _populate(stage)
    for states in (
        [],
        ["Ongoing"],
        ["CompleteCommit", "CompleteAbort", "Empty"],
        ["PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"],
        ["ongoing", "Ongoing", "", "nothing"],
        ["nothing"],
    ):
        stage.send(ListTransactionsRequest(states))


@case("by producer")
def by_producer(stage: Stage) -> None:
    """Transactions are filtered by producer id, also together with a state."""
    ids = [producer.producer_id for producer in _populate(stage)]
    stage.send(ListTransactionsRequest([], ids[:2]))
    stage.send(ListTransactionsRequest(["Ongoing"], ids))
    stage.send(ListTransactionsRequest([], [-1, 2**62]))


@case("by duration", since=1)
def by_duration(stage: Stage) -> None:
    """Transactions are filtered by their duration so far; negative values mean all."""
    _populate(stage)
    for duration_ms in (-1, -5, 0, LONG_MS):
        stage.send(ListTransactionsRequest([], [], duration_ms))
    stage.send(ListTransactionsRequest(["Ongoing"], [], LONG_MS))


@case("by pattern", since=2)
def by_pattern(stage: Stage) -> None:
    """Transactions are filtered by an RE2 pattern of the transactional id; others are refused.

    The second loop has patterns that RE2 does not accept, or that Java's expressions alone have.
    """
    _populate(stage)
    for pattern in ("open", "op.n", ".*(open|empty)", ".*-\\w+", "[^x]*", "", "(["):
        named = f"{stage.prefix}-{pattern}" if pattern else pattern
        stage.send(ListTransactionsRequest([], [], -1, named))
    for pattern in ("*", "a{2,1}", "(?<n>x)", "(?=x)", "(x)\\1", "x**", "a{1001}", "\\pL+.*"):
        stage.send(ListTransactionsRequest([], [], -1, pattern))
