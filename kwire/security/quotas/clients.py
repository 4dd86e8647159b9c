"""The quota of each client on byte rates and request time, and the throttle times.

A quota can be set on a user, a client id, a pair of both, and on the default of each.  The first
one in this list that has a value applies, and all clients to which it applies share one measured
rate:

    users/U/clients/C, users/U/clients/<default>                   by user and client id
    users/U                                                        by user
    users/<default>/clients/C, users/<default>/clients/<default>   by user and client id
    users/<default>                                                by user
    clients/C, clients/<default>                                   by client id
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kwire.cluster.metadata.entities import CLIENT_ID, USER, Entity, entity_key
from kwire.cluster.metadata.image import ClusterImage, ResourceKey
from kwire.security.quotas.kinds import value_of
from kwire.security.quotas.rates import Rate, Windows, throttle_ms

IDLE_MS: Final = 3_600_000
"""A rate without requests is removed after an hour, like Kafka's sensors."""

RATES_MAX: Final = 10_000
"""Rates that are kept; beyond it the least recently used one is removed.

A client can send any number of client ids, so memory needs a limit: a rate with its twelve windows
takes about 1.5 kB.
"""

_FORGOTTEN_EVERY_MS: Final = 60_000


class Who(NamedTuple):
    """The clients that share a rate; None stands for any user or any client id."""

    user: str | None
    client_id: str | None


class Bound(NamedTuple):
    """The value of a quota, and the clients that share it."""

    value: float
    shared_by: Who


def candidates(user: str, client_id: str) -> Iterator[tuple[ResourceKey, Who]]:
    """Yield the entities whose quota may apply to a client, in the order of precedence."""
    both, of_user, of_client = Who(user, client_id), Who(user, None), Who(None, client_id)
    levels: tuple[tuple[Entity, Who], ...] = (
        ({USER: user, CLIENT_ID: client_id}, both),
        ({USER: user, CLIENT_ID: None}, both),
        ({USER: user}, of_user),
        ({USER: None, CLIENT_ID: client_id}, both),
        ({USER: None, CLIENT_ID: None}, both),
        ({USER: None}, of_user),
        ({CLIENT_ID: client_id}, of_client),
        ({CLIENT_ID: None}, of_client),
    )
    for entity, who in levels:
        yield entity_key(entity), who


def bound_of(image: ClusterImage, quota: str, user: str, client_id: str) -> Bound | None:
    """Return the quota that applies to a client, or None."""
    for key, who in candidates(user, client_id):
        text = image.configs_of(*key).get(quota)
        if text is not None and (value := value_of(text)) is not None:
            return Bound(value, who)
    return None


class UsedQuota(NamedTuple):
    """What the clients that share a quota use of it.

    `rate` is per second, in the unit of the quota's `limit`.  `throttle_ms` is the throttle time of
    a request that would come now.
    """

    shared_by: Who
    rate: float
    limit: float
    throttle_ms: int


class ClientRates:
    """The measured rates of one quota, and the throttle times that follow from them."""

    __slots__ = ("_bounds", "_forgotten_ms", "_image", "_quota", "_rates", "_windows")

    def __init__(self, quota: str, windows: Windows) -> None:
        """Measure one kind of `quota`, such as `producer_byte_rate`, for all clients."""
        self._quota = quota
        self._windows = windows
        self._image: ClusterImage | None = None
        self._bounds: dict[Who, Bound | None] = {}
        self._rates: dict[Who, tuple[Rate, float]] = {}
        self._forgotten_ms = 0.0

    def follow(self, image: ClusterImage) -> None:
        """Apply the quotas of `image`; measured rates stay."""
        self._image = image
        self._bounds.clear()

    def bound(self, user: str, client_id: str) -> Bound | None:
        """Return the quota that limits the client, None if it has none; results are cached.

        The cache is cleared when it is full, because clients choose their ids.
        """
        who = Who(user, client_id)
        if who not in self._bounds:
            if len(self._bounds) >= RATES_MAX:
                self._bounds.clear()
            assert self._image is not None
            self._bounds[who] = bound_of(self._image, self._quota, user, client_id)
        return self._bounds[who]

    def most_in_window(self, user: str, client_id: str) -> float | None:
        """The amount that fills all windows of the client's quota, or None without a quota."""
        bound = self.bound(user, client_id)
        if bound is None:
            return None
        return bound.value * (self._windows.count - 1) * self._windows.size_ms / 1000

    def record(self, user: str, client_id: str, amount: float, now_ms: float) -> int:
        """Count `amount`; return the throttle time in ms, 0 if the client is within its quota."""
        bound = self.bound(user, client_id)
        if bound is None:
            return 0
        rate = self._rate(bound.shared_by, now_ms)
        rate.record(amount, now_ms)
        return throttle_ms(rate, bound.value, now_ms)

    def measured(self, now_ms: float) -> Iterator[UsedQuota]:
        """Yield the measured rate of each quota that clients have used."""
        limits = {bound.shared_by: bound.value for bound in self._bounds.values() if bound}
        for who, (rate, _) in self._rates.items():
            if who in limits:
                limit = limits[who]
                throttled_ms = throttle_ms(rate, limit, now_ms)
                yield UsedQuota(who, rate.per_second(now_ms), limit, throttled_ms)

    def take_back(self, user: str, client_id: str, amount: float, now_ms: float) -> None:
        """Subtract an `amount` that was counted but not used."""
        bound = self.bound(user, client_id)
        if bound is not None:
            self._rate(bound.shared_by, now_ms).record(-amount, now_ms)

    def _rate(self, who: Who, now_ms: float) -> Rate:
        """Return the measured rate of a client, or of clients that share a quota.

        Rates without use for `IDLE_MS` are forgotten, and the longest unused beyond `RATES_MAX`.
        """
        if now_ms - self._forgotten_ms > _FORGOTTEN_EVERY_MS:
            self._forgotten_ms = now_ms
            self._rates = {
                clients: (rate, used_ms)
                for clients, (rate, used_ms) in self._rates.items()
                if now_ms - used_ms < IDLE_MS
            }
        # Popping and adding again keeps the dict in the order of last use.
        rate_and_time = self._rates.pop(who, None)
        rate = Rate(self._windows) if rate_and_time is None else rate_and_time[0]
        self._rates[who] = rate, now_ms
        if len(self._rates) > RATES_MAX:
            del self._rates[next(iter(self._rates))]
        return rate
