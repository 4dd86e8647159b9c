"""What a shard of transactions waits for.

A timer is known by its `key`: setting one with the key of another replaces it.  Each looks through
all transactional ids once an interval, and then does a slice at a time of what it has found.
"""

from __future__ import annotations

from dataclasses import dataclass

TimerKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AbortTimer:
    """Transactions that took longer than their timeout shall be aborted."""

    timed_out: tuple[str, ...] | None = None
    """Transactional ids that were found and not seen to yet; None: it is time to look."""

    key = ("abort",)


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """Transactional ids that were not used for `transactional.id.expiration.ms` shall go."""

    expired: tuple[str, ...] | None = None

    key = ("expiry",)


Timer = AbortTimer | ExpiryTimer
