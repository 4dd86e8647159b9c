"""The broker's settings that limit transactions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Times in ms, with Apache Kafka's defaults; each field names its setting."""

    transaction_max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: the longest timeout that a producer may set."""
    transactional_id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`: how long an id without an open transaction is kept."""
    abort_timed_out_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    remove_expired_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
