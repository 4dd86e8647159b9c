"""The timers of the transaction machine.

A timer is identified by its `key`: setting a timer replaces the one with the same key.  Once per
interval, each timer looks through all transactional ids in slices, between which others run.
"""

from __future__ import annotations

from dataclasses import dataclass

TimerKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AbortTimer:
    """Abort transactions that are open longer than their timeout."""

    unchecked: tuple[str, ...] | None = None
    """Transactional ids that are still to be looked at; None: all of them."""

    key = ("abort",)


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """Delete transactional ids that were unused for `transactional.id.expiration.ms`."""

    unchecked: tuple[str, ...] | None = None
    """Transactional ids that are still to be looked at; None: all of them."""

    key = ("expiry",)


Timer = AbortTimer | ExpiryTimer
