"""Who is held to which quota, and for how long: the byte rates and the time of requests.

A quota may be set on a user, a client id, both together, and on the default of each; the closest
one that has a value counts, and all whom it is meant for together share one measured rate:

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
"""A rate nobody adds to is forgotten after an hour, as Kafka's sensors are."""

RATES_MAX: Final = 10_000
"""A client can think up as many client ids as it likes; beyond these the one that was heard of
least lately is forgotten.  A rate and its twelve windows take some 1.5 kB."""

_FORGOTTEN_EVERY_MS: Final = 60_000


class Who(NamedTuple):
    """Whose requests are counted together; None where that does not matter."""

    user: str | None
    client_id: str | None


class Bound(NamedTuple):
    """A quota's value, and who shares it."""

    value: float
    shared_by: Who


def candidates(user: str, client_id: str) -> Iterator[tuple[ResourceKey, Who]]:
    """The entities that a client may have its quota of, the closest first."""
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
    """What a client is held to; None where nothing is set."""
    for key, who in candidates(user, client_id):
        text = image.configs_of(*key).get(quota)
        if text is not None and (value := value_of(text)) is not None:
            return Bound(value, who)
    return None


class ClientRates:
    """What each client was given of one quota, and how long it must rest for it."""

    __slots__ = ("_bounds", "_forgotten_ms", "_image", "_quota", "_rates", "_windows")

    def __init__(self, quota: str, windows: Windows) -> None:
        self._quota = quota
        self._windows = windows
        self._image: ClusterImage | None = None
        self._bounds: dict[Who, Bound | None] = {}
        self._rates: dict[Who, tuple[Rate, float]] = {}
        self._forgotten_ms = 0.0

    def follow(self, image: ClusterImage) -> None:
        """Live by the quotas of `image`; what was measured stays."""
        self._image = image
        self._bounds.clear()

    def bound(self, user: str, client_id: str) -> Bound | None:
        who = Who(user, client_id)
        if who not in self._bounds:
            if len(self._bounds) >= RATES_MAX:
                self._bounds.clear()
            assert self._image is not None
            self._bounds[who] = bound_of(self._image, self._quota, user, client_id)
        return self._bounds[who]

    def most_in_window(self, user: str, client_id: str) -> float | None:
        """What may be given at once so that all windows together are not above; None: anything."""
        bound = self.bound(user, client_id)
        if bound is None:
            return None
        return bound.value * (self._windows.count - 1) * self._windows.size_ms / 1000

    def record(self, user: str, client_id: str, amount: float, now_ms: float) -> int:
        """Count it; how many ms the client must rest, 0 if it need not."""
        bound = self.bound(user, client_id)
        if bound is None:
            return 0
        rate = self._rate(bound.shared_by, now_ms)
        rate.record(amount, now_ms)
        return throttle_ms(rate, bound.value, now_ms)

    def take_back(self, user: str, client_id: str, amount: float, now_ms: float) -> None:
        """What was counted is not given after all."""
        bound = self.bound(user, client_id)
        if bound is not None:
            self._rate(bound.shared_by, now_ms).record(-amount, now_ms)

    def _rate(self, who: Who, now_ms: float) -> Rate:
        if now_ms - self._forgotten_ms > _FORGOTTEN_EVERY_MS:
            self._forgotten_ms = now_ms
            self._rates = {
                key: each for key, each in self._rates.items() if now_ms - each[1] < IDLE_MS
            }
        known = self._rates.pop(who, None)
        rate = Rate(self._windows) if known is None else known[0]
        self._rates[who] = rate, now_ms
        if len(self._rates) > RATES_MAX:
            del self._rates[next(iter(self._rates))]
        return rate
