"""The filters of ListTransactions."""

from __future__ import annotations

from dataclasses import dataclass

from kwire.codecs.messages.list_transactions import ListTransactionsRequest
from kwire.coordinators.contract.pattern import RegexPattern
from kwire.txn.transaction import Transaction, TransactionState

_STATES = {state.label: state for state in TransactionState}


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """A filter; a criterion that is None matches every transaction."""

    states: frozenset[TransactionState] | None = None
    producer_ids: frozenset[int] | None = None
    longer_than_ms: int | None = None
    pattern: RegexPattern | None = None
    """Must match the whole transactional id."""
    unknown_states: tuple[str, ...] = ()
    """Names in the request that are not states."""

    @classmethod
    def of(cls, request: ListTransactionsRequest) -> TransactionFilter:
        """Return the filter of a request.  Raises InvalidRegex."""
        names = request.state_filters
        pattern = request.transactional_id_pattern
        return cls(
            states=frozenset(_STATES[n] for n in names if n in _STATES) if names else None,
            producer_ids=frozenset(request.producer_id_filters) or None,
            longer_than_ms=request.duration_filter if request.duration_filter >= 0 else None,
            pattern=RegexPattern(pattern) if pattern else None,
            unknown_states=tuple(name for name in names if name not in _STATES),
        )

    def wants(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        """Return whether the transaction passes every filter; a filter that is None passes all."""
        if self.producer_ids is not None and transaction.producer_id not in self.producer_ids:
            return False
        if self.states is not None and transaction.state not in self.states:
            return False
        if self.longer_than_ms is not None:
            duration_ms = now_ms - transaction.start_timestamp_ms
            if duration_ms <= self.longer_than_ms:
                return False
        return self.pattern is None or self.pattern.matches(transactional_id)
